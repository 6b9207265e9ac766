//! Turns events into lines of text.

use std::collections::BTreeSet;

use vidmm::contract::{
    BuildStatus, DiscardContentFlags, KmdProcessHandle, MapApertureSegment, NotifyAlloc, PagingOperation, Pte,
    UpdatePageTableFlags, WddmVersion,
};
use vidmm::{Event, GpuVirtualAddress, NumberedEvent};
use vidmm_trace::ByteSize;

use super::entries::{Entries, LargePages};
use super::names::Names;
use super::portions::{Portions, portion};
use super::recovery::recovery;
use super::sentences::sentence;
use super::words::{addresses, chunk, notification, part, transfer_part};
use crate::exact::exact;

/// A line of the sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A finding of the adapter's start.
    Adapter {
        /// One word.
        verb: &'static str,
        /// The rest.
        text: String,
    },
    /// A step of the scenario.
    Step {
        /// The call.
        text: String,
        /// Its answer, if it has one.
        answer: Option<String>,
    },
    /// A request of the manager to driver, GPU or host, or their report.
    Asked {
        /// One word, or the operation's name.
        verb: &'static str,
        /// The rest.
        text: String,
    },
}

/// Turns events into lines, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    pub names: Names,
    pub portions: Portions,
    /// No reader wants the lines, so none are written.
    pub silent: bool,
    lines: Vec<Line>,
    started: bool,
    /// The entries that were written last; the next may continue them.
    entries: Option<Entries>,
    /// The large pages of which entries were written last.
    large_pages: Option<LargePages>,
    /// Where large pages are shown.
    shown_large: BTreeSet<(KmdProcessHandle, GpuVirtualAddress)>,
    /// Page tables that were initialised since the last line.
    tables: u64,
    /// A table was initialised last; the next entry is its parent's.
    is_linked_next: bool,
    /// Page tables were freed since the last line.
    frees_tables: bool,
    /// The operation that the driver has not ended.
    unfinished: Option<PagingOperation>,
}

impl Narrator {
    /// Takes the lines so far.
    pub fn take(&mut self) -> Vec<Line> {
        self.fold();
        std::mem::take(&mut self.lines)
    }

    /// Writes a line about a step of the scenario.
    pub fn step(&mut self, text: String, answer: Option<String>) {
        self.fold();
        self.started = true;
        self.lines.push(Line::Step { text, answer });
    }

    /// Writes a line about a look from outside.
    pub fn checked(&mut self, text: String) {
        self.say("check", text);
    }

    /// Writes a line about an action between two steps.
    pub fn said(&mut self, verb: &'static str, text: String) {
        self.say(verb, text);
    }

    /// Writes the lines of an event.
    pub fn event(&mut self, numbered: &NumberedEvent) {
        let event = &numbered.event;
        self.names.observe(event);
        if self.silent {
            return;
        }
        self.portions.observe(event, &self.names);
        match event {
            Event::AdapterStarted { .. } | Event::PagingVaQueried { .. } => self.adapter(event),
            Event::DriverFinding { finding } if finding.is_advice() => self.say("advice", finding.to_string()),
            Event::DriverFinding { finding } => self.say("finding", finding.to_string()),
            Event::PagingOperation { plan: 0, operation, status, .. } => self.start_operation(operation, *status),
            Event::PagingOperation { operation, status, multipass_offset, .. } => {
                self.operation(operation, *status, *multipass_offset);
            }
            Event::PagingBufferSubmitted { signal, .. } => {
                self.say("submit", format!("paging buffer {} (system context)", signal.fence_id));
            }
            Event::Dispatched { signal, .. } => {
                let bytes = self.names.portion_of(*signal).map(|(_, (start, end))| format!(", bytes {start} to {end}"));
                self.say("run", self.names.packet(*signal) + &bytes.unwrap_or_default());
            }
            Event::Completed { signal } => self.say("done", self.names.packet(*signal)),
            Event::PagingFenceSignaled { queue, value } => {
                self.say("fence", format!("paging fence of {} = {value}", self.names.queue(*queue)));
            }
            Event::MonitoredFenceSignaled { fence, value } => {
                if let Some(name) = self.names.fences.get(fence) {
                    self.say("fence", format!("{name} = {value}"));
                }
            }
            Event::AllocationReclaimed { allocation } => {
                self.say("gone", format!("{}: its backing store is returned", self.names.allocation(*allocation)));
            }
            Event::GpuVirtualAddressReclaimed { process, virtual_address, .. } => {
                let process = self.names.process(*process);
                self.say("gone", format!("{process} {virtual_address}: the addresses are free"));
            }
            Event::PurgeOperation { allocation, operation, .. } => {
                let verb = match operation {
                    PagingOperation::UnmapApertureSegment(_) => "UNMAP_APERTURE_SEGMENT",
                    _ => "TRANSFER",
                };
                self.say(verb, format!("{}: it is not resident any more", self.names.allocation(*allocation)));
            }
            _ => {
                let told = sentence(numbered, &self.names)
                    .or_else(|| recovery(numbered, &self.names))
                    .or_else(|| portion(event, &self.names));
                if let Some((verb, text)) = told {
                    self.say(verb, text);
                }
            }
        }
    }

    fn adapter(&mut self, event: &Event) {
        match *event {
            Event::AdapterStarted {
                wddm_version,
                addressing_model,
                ref memory,
                ref apertures,
                system_commit_limit,
                ..
            } => {
                let version = match WddmVersion(wddm_version) {
                    WddmVersion::WDDM3_2 => "3.2".to_owned(),
                    WddmVersion::WDDM2_9 => "2.9".to_owned(),
                    WddmVersion::WDDM2_0 => "2.0".to_owned(),
                    WddmVersion::WDDM1_3 => "1.3".to_owned(),
                    WddmVersion(other) => format!("{other:#x}"),
                };
                let named = memory.iter().enumerate().map(|(at, memory)| match at {
                    0 => format!("local memory {}", exact(memory.size)),
                    _ => format!("memory-{} {}", at + 1, exact(memory.size)),
                });
                let memory = match memory.is_empty() {
                    true => "no local memory".to_owned(),
                    false => named.collect::<Vec<_>>().join(", "),
                };
                let named = apertures.iter().enumerate().map(|(at, aperture)| match at {
                    0 => format!("aperture {}", exact(aperture.size)),
                    _ => format!("aperture-{} {}", at + 1, exact(aperture.size)),
                });
                let apertures = match apertures.is_empty() {
                    true => "no aperture".to_owned(),
                    false => named.collect::<Vec<_>>().join(", "),
                };
                let limit = ByteSize(system_commit_limit);
                let text = format!(
                    "{addressing_model:?}, WDDM {version}; {memory}, {apertures}, at most {limit} resident in system memory"
                );
                self.lines.push(Line::Adapter { verb: "adapter", text });
            }
            Event::PagingVaQueried {
                query_type,
                physical_adapter_index,
                input_data_size,
                output_data_size,
                answer_mib,
                paging_va_size,
            } => {
                let answer =
                    answer_mib.map_or_else(|| "the driver fails it".to_owned(), |mib| format!("answer {mib} MiB"));
                let size = match paging_va_size {
                    0 => "no paging VA".to_owned(),
                    size => format!("paging VA {}", exact(size)),
                };
                let text = format!(
                    "type {query_type} PAGINGPROCESSGPUVASIZE: input {input_data_size} bytes, physical adapter \
                     {physical_adapter_index}; output {output_data_size} bytes, {answer} -> {size}"
                );
                self.lines.push(Line::Adapter { verb: "query", text });
            }
            _ => {}
        }
    }

    /// The paging process's tables are initialised when the adapter starts.
    fn start_operation(&mut self, operation: &PagingOperation, status: BuildStatus) {
        if let PagingOperation::UpdatePageTable(update) = operation {
            let initial = update.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE);
            self.tables += u64::from(initial && status == BuildStatus::Success);
        }
    }

    fn operation(&mut self, operation: &PagingOperation, status: BuildStatus, multipass_offset: u32) {
        let again = self.unfinished.take().is_some_and(|unfinished| unfinished == *operation);
        match operation {
            PagingOperation::UpdatePageTable(update) if !again => match Entries::of(update) {
                Some(entries) => self.write_entries(entries),
                None if update.page_table_entries.has_large_pages() => {
                    self.shown_large.insert((update.process, update.first_pte_virtual_address));
                    self.write_large_pages(LargePages::of(update, true));
                }
                None if self.shown_large.remove(&(update.process, update.first_pte_virtual_address)) => {
                    self.write_large_pages(LargePages::of(update, false));
                }
                None if update.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) => {
                    if self.entries.is_some() {
                        self.fold();
                    }
                    self.tables += 1;
                    self.is_linked_next = true;
                }
                // The zeros of a new table come before the entry of its parent.
                None if update.flags.contains(UpdatePageTableFlags::REPEAT) => {
                    if !self.is_linked_next {
                        let reads_zero = update.page_table_entries.first == Pte::ZERO;
                        let says = if reads_zero { "as zero" } else { "as zero no longer" };
                        let whose = self.names.addresses_of(update.process);
                        let start = update.first_pte_virtual_address;
                        self.say("tables", format!("{whose} {start} and what follows read {says}"));
                    }
                }
                // The entry of a new table's parent comes right after it; other entries belong to tables that are
                // freed.
                None => {
                    if !std::mem::take(&mut self.is_linked_next) && !self.frees_tables {
                        self.fold();
                        self.frees_tables = true;
                    }
                }
            },
            PagingOperation::UpdatePageTable(_) | PagingOperation::FlushTlb(_) if again => {}
            _ if again => self.say("again", operation.kind().to_string()),
            _ => self.first_call(operation),
        }
        let kind = operation.kind();
        match status {
            BuildStatus::Success => return,
            BuildStatus::InsufficientDmaBuffer => self.say(
                "full",
                format!(
                    "the paging buffer is full; {kind} goes on in a new one, from multipass offset {multipass_offset}"
                ),
            ),
            BuildStatus::AllocationBusy => self.say(
                "busy",
                format!("the driver wants the allocation idle; {kind} is asked for again when the GPU is"),
            ),
            BuildStatus::Other(status) => {
                self.say("illegal", format!("the driver answers {status:#010x} to {kind}, which it must not"));
            }
        }
        self.unfinished = Some(*operation);
    }

    fn write_entries(&mut self, entries: Entries) {
        let is_next = self.tables == 0 && self.large_pages.is_none();
        let before = self.entries.as_mut().filter(|_| is_next);
        let Some(entries) = not_joined(before, entries, Entries::join) else { return };
        self.fold();
        self.entries = Some(entries);
    }

    fn write_large_pages(&mut self, next: LargePages) {
        let Some(next) = not_joined(self.large_pages.as_mut(), next, LargePages::join) else { return };
        self.fold();
        self.large_pages = Some(next);
    }

    /// Writes the line of an operation when the driver is asked for it the first time.
    fn first_call(&mut self, operation: &PagingOperation) {
        let names = &self.names;
        let of = |allocation, offset, size| part(&names.handle(allocation), offset, size);
        let nth = |allocation, offset| chunk(offset, names.size_of_handle(allocation), names.paging_va_size);
        let aperture = |segment, pages: u64, first: u64| {
            let name = names.segments.name(segment);
            let range = addresses(first * vidmm::PAGE_SIZE, pages * vidmm::PAGE_SIZE);
            format!("{} {range}", name.trim_start_matches("the "))
        };
        let mapped = |map: MapApertureSegment| {
            let range = aperture(map.segment_id, map.number_of_pages, map.offset_in_pages);
            format!("{range} <- {}", names.handle(map.allocation))
        };
        let (verb, text) = match *operation {
            PagingOperation::VirtualTransfer(transfer) => {
                let (allocation, offset) = (transfer.allocation, transfer.allocation_offset_in_bytes);
                let text = format!(
                    "{:?} {}, paging VA {} -> {}{}",
                    transfer.transfer_direction,
                    of(allocation, offset, transfer.transfer_size_in_bytes),
                    transfer.source_virtual_address,
                    transfer.destination_virtual_address,
                    nth(allocation, offset)
                );
                ("VIRTUAL_TRANSFER", text)
            }
            PagingOperation::VirtualFill(fill) => {
                let (allocation, offset) = (fill.allocation, fill.allocation_offset_in_bytes);
                let filled = of(allocation, offset, fill.fill_size_in_bytes);
                let at = fill.destination_virtual_address;
                ("VIRTUAL_FILL", format!("{filled} at paging VA {at}{}", nth(allocation, offset)))
            }
            PagingOperation::FlushTlb(flush) => {
                let (GpuVirtualAddress(start), GpuVirtualAddress(end)) =
                    (flush.start_virtual_address, flush.end_virtual_address);
                let whose = names.addresses_of(flush.process);
                let range = if end == 0 { "all of it".to_owned() } else { addresses(start, end - start) };
                ("flush", format!("{whose} {range}"))
            }
            PagingOperation::MapApertureSegment(map) => ("MAP_APERTURE_SEGMENT", mapped(map)),
            PagingOperation::MapApertureSegment2(map) => ("MAP_APERTURE_SEGMENT2", mapped(map.into())),
            PagingOperation::UnmapApertureSegment(unmap) => {
                let gone = names.handle(unmap.allocation);
                let range = aperture(unmap.segment_id, unmap.number_of_pages, unmap.offset_in_pages);
                ("UNMAP_APERTURE_SEGMENT", format!("{range} of {gone} <- dummy page"))
            }
            PagingOperation::NotifyAlloc(notify) => {
                let NotifyAlloc { allocation, process, flags, offset_in_bytes: offset, size_in_bytes: size, .. } =
                    notify;
                let whose = process.map_or_else(|| "paging VA".to_owned(), |process| names.addresses_of(process));
                let nth = if process.is_none() { nth(allocation, offset) } else { String::new() };
                let at = notify.gpu_virtual_address_at_offset;
                let of = of(allocation, offset, size);
                ("NOTIFY_ALLOC", format!("{} {of} at {whose} {at}{nth}", notification(flags)))
            }
            PagingOperation::Transfer(transfer) => {
                let offset = transfer.transfer_offset;
                let text = format!(
                    "{} from {} to {}{}",
                    of(transfer.allocation, offset, transfer.transfer_size),
                    names.address(transfer.first_source()),
                    names.address(transfer.first_destination()),
                    transfer_part(transfer.flags)
                );
                ("TRANSFER", text)
            }
            PagingOperation::Fill(fill) => {
                let filled = of(fill.allocation, 0, fill.fill_size);
                ("FILL", format!("{filled} at {} with {:#x}", names.address(fill.destination), fill.fill_pattern))
            }
            PagingOperation::DiscardContent(discard) => {
                let gone = names.handle(discard.allocation);
                let is_idle = discard.flags.contains(DiscardContentFlags::ALLOCATION_IS_IDLE);
                let idle = if is_idle { ", AllocationIsIdle" } else { "" };
                ("DISCARD_CONTENT", format!("{gone} at {}{idle}", names.address(discard.address)))
            }
            PagingOperation::NotifyResidency(notice) => {
                let told = names.handle(notice.allocation);
                let text = match notice.resident {
                    true => format!("{told} has come to {}", names.address(notice.physical_address)),
                    false => format!("{told} leaves"),
                };
                ("NOTIFY_RESIDENCY", text)
            }
            // Entries of page tables are folded.
            PagingOperation::UpdatePageTable(_) => return,
        };
        self.say(verb, text);
    }

    /// Writes out the folded entries and tables.
    fn fold(&mut self) {
        if std::mem::take(&mut self.tables) > 0 {
            // The number of tables depends on the levels, which are not the reader's question here.
            self.push("tables", "new page tables are initialised".to_owned());
        }
        if let Some(entries) = self.entries.take() {
            let (verb, text) = entries.in_words(&self.names);
            self.push(verb, text);
        }
        if let Some(large_pages) = self.large_pages.take() {
            let text = large_pages.in_words(&self.names);
            self.push("tables", text);
        }
        if std::mem::take(&mut self.frees_tables) {
            self.push("tables", "empty page tables are freed".to_owned());
        }
    }

    fn say(&mut self, verb: &'static str, text: String) {
        self.fold();
        self.push(verb, text);
    }

    fn push(&mut self, verb: &'static str, text: String) {
        if self.silent {
            return;
        }
        self.lines.push(if self.started { Line::Asked { verb, text } } else { Line::Adapter { verb, text } });
    }
}

/// The next text, unless it continues the one before.
fn not_joined<T>(before: Option<&mut T>, next: T, join: impl FnOnce(&mut T, T) -> Result<(), T>) -> Option<T> {
    match before {
        Some(before) => join(before, next).err(),
        None => Some(next),
    }
}
