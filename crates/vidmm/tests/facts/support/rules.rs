//! What the documents require of the sequence in which an allocation becomes resident, and of the one in which it leaves.
//!
//! Written from the documents, and from nothing that the manager does: it accepts a sequence, or says what is wrong.

use vidmm::contract::*;
use vidmm::{NotificationRevision, PhysicalAddress};

use super::Step;
use crate::world::{PAGING_PROCESS, Place};

/// One range of addresses that shows a part of the allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub process: KmdProcessHandle,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub read_only: bool,
}

/// The allocation, and the adapter that it is on.
#[derive(Clone, Debug)]
pub struct Subject {
    pub model: AddressingModel,
    pub revision: NotificationRevision,
    /// The size of the paging process's address space, in bytes.
    pub paging_va_size: u64,
    /// Where it is resident; not [`Place::LocalOrSystem`].
    pub place: Place,
    pub flags2: AllocationFlags2,
    pub size: u64,
    pub backing_store: PhysicalAddress,
    pub mappings: Vec<Mapping>,
    /// Its content is wanted when it leaves: it was neither destroyed nor discarded.
    pub is_wanted: bool,
    /// Its content differs from that of the backing store.
    pub is_dirty: bool,
}

type Verdict = Result<(), String>;

fn require(holds: bool, rule: &str, step: impl std::fmt::Debug) -> Verdict {
    if holds { Ok(()) } else { Err(format!("{rule}: {step:?}")) }
}

impl Subject {
    fn has_page_tables(&self) -> bool {
        self.model == AddressingModel::GpuMmu
    }

    fn domain(&self, process: KmdProcessHandle) -> IoMmuDomain {
        match self.model {
            AddressingModel::GpuVaIoMmuGlobal => IoMmuDomain::Global,
            _ => IoMmuDomain::Process(process),
        }
    }

    fn mapping_at(&self, process: KmdProcessHandle, address: u64) -> Option<usize> {
        self.mappings.iter().position(|mapping| (mapping.process, mapping.address) == (process, address))
    }

    fn mapping_in(&self, domain: IoMmuDomain, address: u64) -> Option<usize> {
        self.mappings.iter().position(|mapping| (self.domain(mapping.process), mapping.address) == (domain, address))
    }

    /// NTF-03: who leaves the aperture or implicit system memory is told of, if the driver asked and the content is wanted.
    fn tells_eviction(&self) -> bool {
        let leaves_system = matches!(self.place, Place::Aperture | Place::System);
        self.flags2.contains(AllocationFlags2::NOTIFY_EVICTION) && leaves_system && self.is_wanted
    }

    /// NTF-05: once for each mapping, behind an IOMMU only.
    fn tells_io_mmu_unmap(&self) -> bool {
        let asked = self.flags2.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP);
        asked && self.revision == NotificationRevision::Current && !self.has_page_tables()
    }

    /// NTF-06: the earlier text tells of an IOMMU unmap as of an eviction, and so not of what is destroyed.
    fn tells_io_mmu_unmap_in_chunks(&self) -> bool {
        let asked = self.flags2.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP);
        let leaves_system = matches!(self.place, Place::Aperture | Place::System);
        asked && self.revision == NotificationRevision::August2024 && leaves_system && self.is_wanted
    }
}

/// A range that is mapped in the paging process's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    address: u64,
    size: u64,
    at: PhysicalAddress,
    read_only: bool,
}

/// The windows of the paging process: mapped for one chunk, and then unmapped.
#[derive(Default)]
struct Windows {
    open: Vec<Window>,
    /// A chunk was done through the open windows, and they are to be unmapped.
    is_used: bool,
    /// Its paging buffer has ended.
    is_ended: bool,
}

impl Windows {
    fn map(&mut self, subject: &Subject, window: Window) -> Verdict {
        require(!self.is_used, "I10: a window is mapped before the last chunk's is unmapped", window)?;
        require(window.size <= subject.paging_va_size, "PGV-05: larger than the paging process's addresses", window)?;
        let overlaps =
            |open: &Window| open.address < window.address + window.size && window.address < open.address + open.size;
        require(!self.open.iter().any(overlaps), "I14: two windows at the same addresses", window)?;
        // A transfer has a window on each side, and local memory may lie in pieces.
        let continues = self.open.last().is_some_and(|last| last.address + last.size == window.address);
        match self.open.last_mut() {
            Some(last) if continues && last.at.offset_by(last.size) == window.at => last.size += window.size,
            _ => self.open.push(window),
        }
        Ok(())
    }

    fn unmap(&mut self, subject: &Subject, address: u64, size: u64) -> Verdict {
        require(self.is_used, "NTF-02: a window is unmapped before it was used", address)?;
        // Behind an IOMMU the host does it, and the host's step needs the end of what used it.
        require(
            subject.has_page_tables() || self.is_ended,
            "NTF-02: a window is unmapped under a running chunk",
            address,
        )?;
        // The entries of a window may be in several tables, and become invalid one table after the other.
        let (start, end) = (address, address + size);
        let mut removed = 0;
        for window in &mut self.open {
            let (first, last) = (window.address.max(start), (window.address + window.size).min(end));
            if first < last {
                require(first == window.address, "I14: a window is unmapped from its start", address)?;
                removed += last - first;
                (window.address, window.size) = (last, window.size - (last - first));
            }
        }
        require(removed == size, "I14: only what is mapped is unmapped", address)?;
        self.open.retain(|window| window.size > 0);
        if self.open.is_empty() {
            (self.is_used, self.is_ended) = (false, false);
        }
        Ok(())
    }

    /// A chunk is done that needs the allocation's memory at `address`.
    fn uses(&mut self, address: u64, size: u64, at: PhysicalAddress) -> Verdict {
        let shows = |window: &Window| (window.address, window.size, window.at) == (address, size, at);
        require(self.open.iter().any(shows), "NTF-02: no window shows the chunk", (address, size, at, &self.open))?;
        self.is_used = true;
        Ok(())
    }

    /// A chunk is done that needs local memory at `address`, in however many pieces.
    fn uses_local(&mut self, address: u64, size: u64) -> Verdict {
        let mut end = address;
        for window in &self.open {
            if window.address == end && !window.at.segment.is_system() {
                end += window.size;
            }
        }
        require(end == address + size, "BPB-40: no window shows the chunk", (address, size, &self.open))?;
        self.is_used = true;
        Ok(())
    }
}

/// I10: chunks follow each other without gap or overlap, each as large as it can be.
fn tile(done: &mut u64, subject: &Subject, offset: u64, size: u64) -> Verdict {
    require(offset == *done, "I10: chunks follow each other", (offset, size))?;
    let expected = (subject.size - *done).min(subject.paging_va_size);
    require(
        size == expected,
        "PGV-05: a chunk is as large as the paging process's addresses, or the rest",
        (offset, size),
    )?;
    *done += size;
    Ok(())
}

/// Whether this is how `subject` becomes resident.
pub fn check_entry(subject: &Subject, steps: &[Step]) -> Verdict {
    let mut windows = Windows::default();
    let mut moved = 0;
    let mut aperture = None;
    let mut shown = vec![0u64; subject.mappings.len()];
    for step in steps {
        match *step {
            Step::Validate { process: PAGING_PROCESS, address, size, at, read_only } => {
                windows.map(subject, Window { address, size, at, read_only })?;
            }
            Step::Invalidate { process: PAGING_PROCESS, address, size } => windows.unmap(subject, address, size)?,
            Step::Flush { .. } => require(subject.has_page_tables(), "PGV-20: there is nothing to flush", step)?,
            Step::PagingEnded => windows.is_ended = true,
            Step::Fill { address, offset, size } => {
                require(subject.place == Place::Local, "I24: only local memory is filled", step)?;
                windows.uses_local(address, size)?;
                tile(&mut moved, subject, offset, size)?;
            }
            Step::TransferIn { from, to, offset, size } => {
                require(subject.place == Place::Local, "U-15: nothing moves outside local memory", step)?;
                windows.uses(from, size, subject.backing_store.offset_by(offset))?;
                windows.uses_local(to, size)?;
                tile(&mut moved, subject, offset, size)?;
            }
            Step::MapAperture { offset, size, at } => {
                require(subject.place == Place::Aperture, "BPB-35: only what is accessed physically", step)?;
                require(aperture.is_none(), "SEG-13: it is mapped in the aperture once", step)?;
                require((size, at) == (subject.size, subject.backing_store), "BPB-30: whole, its own memory", step)?;
                aperture = Some(offset);
            }
            Step::Validate { process, address, size, at, read_only } => {
                require(subject.has_page_tables(), "PGV-20: there are no page tables", step)?;
                require(windows.open.is_empty(), "I14: a window is open between chunks", step)?;
                let is_in = match subject.place {
                    Place::Local => moved == subject.size,
                    Place::Aperture => aperture.is_some(),
                    _ => true,
                };
                require(is_in, "U-14: entries are valid before what they show is there", step)?;
                // One run of entries may belong to mappings that adjoin.
                let mut done = 0;
                while done < size {
                    let address = address + done;
                    let found = subject.mappings.iter().zip(&mut shown).find(|(mapping, shown)| {
                        let goes_on = mapping.address + **shown == address && **shown < mapping.size;
                        mapping.process == process && goes_on
                    });
                    let Some((mapping, shown)) = found else {
                        return Err(format!("I04: no mapping is there: {step:?}"));
                    };
                    let (at, part) = (at.offset_by(done), mapping.offset + *shown);
                    let is_right = match subject.place {
                        Place::Local => at.segment == crate::world::LOCAL,
                        Place::Aperture => {
                            !at.segment.is_system() && aperture.is_some_and(|first| first + part == at.offset)
                        }
                        _ => at == subject.backing_store.offset_by(part),
                    };
                    require(is_right && read_only == mapping.read_only, "I04: the entry shows something else", step)?;
                    let more = (size - done).min(mapping.size - *shown);
                    *shown += more;
                    done += more;
                }
            }
            Step::HostMap { domain, address, size, at, read_only } => {
                require(!subject.has_page_tables(), "PGV-20: the GPU has page tables", step)?;
                let Some(number) = subject.mapping_in(domain, address) else {
                    return Err(format!("I29: no mapping is there: {step:?}"));
                };
                let mapping = &subject.mappings[number];
                let expected = (mapping.size, subject.backing_store.offset_by(mapping.offset), mapping.read_only);
                require((size, at, read_only) == expected, "I29: the IOMMU shows something else", step)?;
                require(shown[number] == 0, "I29: it is mapped once", step)?;
                shown[number] = size;
            }
            Step::NotifyEviction { .. } | Step::NotifyIoMmuUnmap { .. } => {
                return Err(format!("NTF-07: nobody is told of what comes in: {step:?}"));
            }
            Step::Invalidate { .. }
            | Step::TransferOut { .. }
            | Step::UnmapAperture { .. }
            | Step::HostUnmap { .. } => {
                return Err(format!("this takes something out: {step:?}"));
            }
        }
    }
    require(windows.open.is_empty(), "I14: a window stays open", &windows.open)?;
    require(subject.place != Place::Local || moved == subject.size, "I10: a part has no content", moved)?;
    require(aperture.is_some() == (subject.place == Place::Aperture), "SEG-13: it is not in the aperture", aperture)?;
    let is_whole = shown.iter().zip(&subject.mappings).all(|(&shown, mapping)| shown == mapping.size);
    require(is_whole, "P04: a mapping shows nothing", shown)
}

/// How far an allocation has left. The order of its variants is the order of U-15.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Eviction,
    /// The chunks of the text of August 2024.
    IoMmuUnmapChunks,
    Invalidate,
    Flush,
    Out,
    UnmapAperture,
    IoMmuUnmap,
    HostUnmap,
}

/// An allocation on its way out.
struct Exit<'a> {
    subject: &'a Subject,
    phase: Phase,
    windows: Windows,
    /// Bytes of which an eviction, and an IOMMU unmap in chunks, was told; and that were copied out.
    evicted: u64,
    unmapped_in_chunks: u64,
    copied: u64,
    hidden: Vec<u64>,
    flushed: Vec<bool>,
    told: Vec<bool>,
    is_in_aperture: bool,
    gone: Vec<bool>,
    /// A paging buffer has ended since the last operation.
    is_ended: bool,
}

/// Whether this is how `subject` leaves.
pub fn check_exit(subject: &Subject, steps: &[Step]) -> Verdict {
    let count = subject.mappings.len();
    let mut exit = Exit {
        subject,
        phase: Phase::Eviction,
        windows: Windows::default(),
        evicted: 0,
        unmapped_in_chunks: 0,
        copied: 0,
        hidden: vec![0; count],
        flushed: vec![false; count],
        told: vec![false; count],
        is_in_aperture: subject.place == Place::Aperture,
        gone: vec![false; count],
        is_ended: true,
    };
    steps.iter().try_for_each(|step| exit.step(step))?;
    exit.end()
}

impl Exit<'_> {
    fn enter(&mut self, phase: Phase, step: &Step) -> Verdict {
        require(self.phase <= phase, "U-15: too late, the allocation has left further", (self.phase, step))?;
        let has_windows = matches!(phase, Phase::Eviction | Phase::IoMmuUnmapChunks | Phase::Out);
        require(has_windows || self.windows.open.is_empty(), "I14: a window is open between chunks", step)?;
        self.phase = phase;
        Ok(())
    }

    fn is_told_of_eviction(&self) -> bool {
        !self.subject.tells_eviction() || self.evicted == self.subject.size
    }

    fn is_hidden(&self) -> bool {
        let subject = self.subject;
        let is_whole = |(&hidden, mapping): (&u64, &Mapping)| hidden == mapping.size;
        !subject.has_page_tables()
            || (self.hidden.iter().zip(&subject.mappings).all(is_whole) && self.flushed.iter().all(|&flushed| flushed))
    }

    fn step(&mut self, step: &Step) -> Verdict {
        let subject = self.subject;
        let is_operation = !matches!(step, Step::HostMap { .. } | Step::HostUnmap { .. } | Step::PagingEnded);
        if is_operation {
            self.is_ended = false;
        }
        match *step {
            Step::PagingEnded => {
                (self.is_ended, self.windows.is_ended) = (true, true);
                Ok(())
            }
            Step::Validate { process: PAGING_PROCESS, address, size, at, read_only } => {
                self.windows.map(subject, Window { address, size, at, read_only })
            }
            Step::Invalidate { process: PAGING_PROCESS, address, size } => self.windows.unmap(subject, address, size),
            Step::Flush { process: PAGING_PROCESS, .. } => {
                require(subject.has_page_tables(), "PGV-20: there is nothing to flush", step)
            }
            Step::HostMap { domain, address, size, at, read_only } => {
                let is_window = subject.mapping_in(domain, address).is_none();
                require(is_window && !subject.has_page_tables(), "I29: it is mapped while it leaves", step)?;
                require(domain == subject.domain(PAGING_PROCESS), "NTF-02: not the paging process's addresses", step)?;
                self.windows.map(subject, Window { address, size, at, read_only })
            }
            Step::HostUnmap { domain, address, size } => match subject.mapping_in(domain, address) {
                None => self.windows.unmap(subject, address, size),
                Some(number) => self.host_unmap(number, size, step),
            },
            Step::NotifyEviction { process, address, offset, size } => {
                self.enter(Phase::Eviction, step)?;
                require(subject.tells_eviction(), "NTF-03: nobody is to be told of this eviction", step)?;
                require(process.is_none(), "NTF-02: an eviction names no process", step)?;
                self.windows.uses(address, size, subject.backing_store.offset_by(offset))?;
                tile(&mut self.evicted, subject, offset, size)
            }
            Step::NotifyIoMmuUnmap { process: None, address, offset, size } => {
                self.enter(Phase::IoMmuUnmapChunks, step)?;
                require(subject.tells_io_mmu_unmap_in_chunks(), "NTF-04: an IOMMU unmap names a process", step)?;
                require(self.is_told_of_eviction(), "U-15: the eviction comes first", step)?;
                self.windows.uses(address, size, subject.backing_store.offset_by(offset))?;
                tile(&mut self.unmapped_in_chunks, subject, offset, size)
            }
            Step::NotifyIoMmuUnmap { process: Some(process), address, offset, size } => {
                self.enter(Phase::IoMmuUnmap, step)?;
                require(subject.tells_io_mmu_unmap(), "NTF-05: nobody is to be told of this", step)?;
                let Some(number) = subject.mapping_at(process, address) else {
                    return Err(format!("NTF-04: no mapping is there: {step:?}"));
                };
                let mapping = &subject.mappings[number];
                require((mapping.offset, mapping.size) == (offset, size), "NTF-04: a mapping is told of whole", step)?;
                require(!std::mem::replace(&mut self.told[number], true), "NTF-04: once for each mapping", step)
            }
            Step::Invalidate { process, address, size } => self.invalidate(process, address, size, step),
            Step::Flush { process, start, end } => {
                self.enter(Phase::Flush, step)?;
                for (flushed, mapping) in self.flushed.iter_mut().zip(&subject.mappings) {
                    let covers = start == end || (start <= mapping.address && mapping.address + mapping.size <= end);
                    *flushed |= mapping.process == process && covers;
                }
                Ok(())
            }
            Step::TransferOut { from, to, offset, size } => {
                self.enter(Phase::Out, step)?;
                let moves = subject.place == Place::Local && subject.is_wanted && subject.is_dirty;
                require(moves, "U-15: nothing is to be copied", step)?;
                require(self.is_hidden(), "I05: bytes move while they are shown", step)?;
                self.windows.uses_local(from, size)?;
                self.windows.uses(to, size, subject.backing_store.offset_by(offset))?;
                tile(&mut self.copied, subject, offset, size)
            }
            Step::UnmapAperture { size, .. } => {
                self.enter(Phase::UnmapAperture, step)?;
                require(self.is_in_aperture && size == subject.size, "BPB-33: whole and once", step)?;
                require(self.is_hidden() && self.is_told_of_eviction(), "U-15: it is still shown, or not told", step)?;
                self.is_in_aperture = false;
                Ok(())
            }
            Step::Validate { .. } | Step::Fill { .. } | Step::TransferIn { .. } | Step::MapAperture { .. } => {
                Err(format!("this brings something in: {step:?}"))
            }
        }
    }

    fn invalidate(&mut self, process: KmdProcessHandle, address: u64, size: u64, step: &Step) -> Verdict {
        self.enter(Phase::Invalidate, step)?;
        require(self.subject.has_page_tables(), "PGV-20: there are no page tables", step)?;
        require(self.is_told_of_eviction(), "U-15: the driver is told before entries become invalid", step)?;
        // One run of entries may belong to mappings that adjoin.
        let (mut address, mut size) = (address, size);
        while size > 0 {
            let mut mappings = self.subject.mappings.iter().zip(&mut self.hidden);
            let next = mappings.find(|(mapping, hidden)| {
                let goes_on = mapping.address + **hidden == address && **hidden < mapping.size;
                mapping.process == process && goes_on
            });
            let Some((mapping, hidden)) = next else { return Err(format!("I04: no mapping is there: {step:?}")) };
            let part = size.min(mapping.size - *hidden);
            *hidden += part;
            (address, size) = (address + part, size - part);
        }
        Ok(())
    }

    fn host_unmap(&mut self, number: usize, size: u64, step: &Step) -> Verdict {
        self.enter(Phase::HostUnmap, step)?;
        let subject = self.subject;
        require(self.is_ended, "NTF-04: paging operations have not ended", step)?;
        require(self.is_told_of_eviction(), "U-15: the eviction was not told", step)?;
        require(!subject.tells_io_mmu_unmap() || self.told[number], "NTF-04: it was not told of", step)?;
        let in_chunks = !subject.tells_io_mmu_unmap_in_chunks() || self.unmapped_in_chunks == subject.size;
        require(in_chunks, "NTF-06: it was not told of", step)?;
        require(!self.is_in_aperture, "U-15: the aperture still shows it", step)?;
        require(subject.mappings[number].size == size, "I29: a mapping is unmapped whole", step)?;
        require(!std::mem::replace(&mut self.gone[number], true), "I29: it is unmapped once", step)
    }

    fn end(self) -> Verdict {
        let subject = self.subject;
        require(self.windows.open.is_empty(), "I14: a window stays open", &self.windows.open)?;
        require(self.is_told_of_eviction(), "NTF-02: a part was not told of", self.evicted)?;
        let in_chunks = !subject.tells_io_mmu_unmap_in_chunks() || self.unmapped_in_chunks == subject.size;
        require(in_chunks, "NTF-06: a part was not told of", self.unmapped_in_chunks)?;
        require(self.is_hidden(), "I05: something still shows it", self.hidden.clone())?;
        let copies = subject.place == Place::Local && subject.is_wanted && subject.is_dirty;
        require(self.copied == if copies { subject.size } else { 0 }, "I02: content was not copied", self.copied)?;
        require(!self.is_in_aperture, "SEG-13: it stays in the aperture", subject.place)?;
        let all_told = !subject.tells_io_mmu_unmap() || self.told.iter().all(|&told| told);
        require(all_told, "NTF-04: a mapping was not told of", &self.told)?;
        require(subject.has_page_tables() || self.gone.iter().all(|&gone| gone), "I29: it stays mapped", &self.gone)
    }
}
