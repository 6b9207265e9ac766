//! A machine of one's own under the whole command line: a driver, its user-mode half and a GPU that share nothing with ours.
//!
//! One engine runs paging buffers and kernels. The GPU has page tables of three levels and no TLB. It does not report faults
//! and cannot be reset, so the factory says that it lacks both, and no world or scenario asks for them. The host is ours: it
//! is the operating system's part.
//!
//! `cargo run --release -p vidmm-cli --example own_machine -- sim --seeds 1..100`

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;

use vidmm::contract::*;
use vidmm::{Nanoseconds, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{
    AllocationDesc, AllocationSegments, CommandStep, Content, CpuAccess, FaultSwitch, Gpu, GpuEvent, KernelCommand,
    Machine, PageRange, Probe, Sees, TableEntry, Umd, UserCommands,
};
use vidmm_sim::{Features, MachineDesc, MachineFactory};
use vidmm_soft::{IoMmu, KernelState, PageContents, SoftHost, SparseMemory, SystemMemory};

/// The index bits of each level of the page tables.
const LEVEL_BITS: u32 = 9;

/// The levels of the page tables.
const LEVELS: u32 = 3;

const PAGE_SHIFT: u32 = PAGE_SIZE.trailing_zeros();

// The command encoding: an operation code and four arguments, in words of 64 bits.
const COMMAND_WORDS: usize = 5;
const COMMAND_BYTES: usize = COMMAND_WORDS * 8;
const SET_ROOT: u64 = 1;
const TRANSFER: u64 = 2;
const FILL: u64 = 3;
const WRITE_ENTRIES: u64 = 4;
const INPUT: u64 = 5;
const OUTPUT: u64 = 6;
const KERNEL: u64 = 7;

const NOT_SUPPORTED: BuildStatus = BuildStatus::Other(0xC000_00BB_u32 as i32);

/// An entry of the page tables: the offset of a page, its segment, and the flags.
fn entry(pte: Pte) -> u64 {
    pack(pte.address) | pte.flags.bits()
}

fn pack(address: PhysicalAddress) -> u64 {
    address.offset | u64::from(address.segment.0) << 4
}

fn unpack(packed: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId((packed >> 4 & 0xFF) as u8), offset: packed & !(PAGE_SIZE - 1) }
}

fn encode(commands: &[[u64; COMMAND_WORDS]]) -> Vec<u8> {
    commands.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
}

/// The kernel-mode half of the driver.
struct OwnKmd {
    desc: MachineDesc,
    last_handle: u64,
    roots: BTreeMap<KmdContextHandle, RootPageTable>,
}

impl OwnKmd {
    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    /// Local memory, if there is any, comes before the aperture.
    fn local_segment(&self) -> Option<SegmentId> {
        (self.desc.local_memory_bytes > 0).then_some(SegmentId(1))
    }

    fn aperture_segment(&self) -> SegmentId {
        SegmentId(if self.desc.local_memory_bytes > 0 { 2 } else { 1 })
    }

    fn command(operation: &PagingOperation) -> Option<[u64; COMMAND_WORDS]> {
        Some(match operation {
            PagingOperation::VirtualTransfer(op) => {
                let (source, destination) = (op.source_virtual_address.0, op.destination_virtual_address.0);
                [TRANSFER, source, destination, op.transfer_size_in_bytes, 0]
            }
            PagingOperation::VirtualFill(op) => {
                [FILL, op.destination_virtual_address.0, op.fill_size_in_bytes, op.fill_pattern.into(), 0]
            }
            PagingOperation::UpdatePageTable(op) => {
                let run = op.page_table_entries;
                let is_repeated = op.flags.contains(UpdatePageTableFlags::REPEAT);
                let next = if is_repeated { run.first } else { run.first.advanced(1, PageSize::Kib4) };
                let count = u64::from(op.start_index) << 32 | u64::from(run.num_page_table_entries);
                let step = entry(next) - entry(run.first);
                [WRITE_ENTRIES, pack(op.page_table_address), count, entry(run.first), step]
            }
            _ => return None,
        })
    }
}

impl Kmd for OwnKmd {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        let desc = &self.desc;
        let mut local = SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP;
        local.set(SegmentFlags::USE_64KB_PAGES, desc.page_size == PageSize::Kib64);
        local.set(SegmentFlags::CPU_VISIBLE, desc.local_memory_cpu_visible);
        let aperture = SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP;
        let segment = |flags, base_address, size| SegmentDescriptor { flags, base_address, size, commit_limit: size };
        let memory = (desc.local_memory_bytes > 0).then(|| segment(local, 0, desc.local_memory_bytes));
        let aperture = segment(aperture, desc.local_memory_bytes, desc.aperture_bytes);
        let tables = match self.local_segment() {
            Some(local) if !desc.page_tables_in_system_memory => local,
            _ => SegmentId::SYSTEM,
        };
        let level = PageTableLevelDesc {
            page_table_index_bit_count: LEVEL_BITS,
            page_table_segment_id: tables,
            paging_process_page_table_segment_id: tables,
            page_table_size_in_bytes: 8 << LEVEL_BITS,
            page_table_alignment_in_bytes: 0,
        };
        AdapterInfo {
            wddm_version: desc.wddm_version,
            addressing_model: AddressingModel::GpuMmu,
            memory_management_caps: VidMmCaps::empty(),
            segments: memory.into_iter().chain([aperture]).collect(),
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: desc.aperture_commit_limit_bytes.unwrap_or(u64::MAX),
            scheduling_log_buffer_size: desc.scheduling_log_buffer_bytes,
            engines: vec![EngineDesc { kind: EngineKind::Paging }],
            gpu_mmu: GpuMmuCaps {
                flags: GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED,
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                virtual_address_bit_count: PAGE_SHIFT + LEVELS * LEVEL_BITS,
                leaf_page_table_size_for_64k_pages_in_bytes: 0,
                legacy_behaviors: LegacyBehaviors::empty(),
            },
            page_table_levels: vec![level; LEVELS as usize],
            paging_buffer: PagingBufferDesc { size: desc.paging_buffer_bytes, private_data_size: 0 },
            write_behind: false,
            patching: PatchingCaps::default(),
        }
    }

    fn create_process(&mut self, _: bool) -> Result<KmdProcessHandle, KmdError> {
        Ok(KmdProcessHandle(self.handle()))
    }

    fn destroy_process(&mut self, _: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _: u32, _: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(self.handle()))
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.roots.remove(&context);
    }

    fn create_allocation(&mut self, data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let word = |at: usize| data.get(at * 8..at * 8 + 8)?.try_into().ok().map(u64::from_le_bytes);
        let words = [word(0), word(1), word(2), word(3)];
        let [Some(size), Some(priority), Some(flags), Some(segments)] = words else {
            return Err(CreateAllocationError::InvalidParameter);
        };
        let local = self.local_segment().filter(|_| segments & 1 != 0);
        let system = Some(self.aperture_segment()).filter(|_| segments & 2 != 0);
        let allowed = Vec::from_iter(local.into_iter().chain(system));
        let mut preferred = [SegmentId::SYSTEM; 5];
        preferred[..allowed.len()].copy_from_slice(&allowed);
        let supported = SegmentSet(allowed.iter().map(|&segment| SegmentSet::of(segment).0).sum());
        let plain = AllocationInfo::new(KmdAllocationHandle(self.handle()), size, supported);
        Ok(AllocationInfo {
            alignment: if local.is_some() { self.desc.page_size.bytes() as u32 } else { 0 },
            preferred_segment: SegmentPreference::of(preferred),
            allocation_priority: if priority == 0 { plain.allocation_priority } else { priority as u32 },
            flags: AllocationFlags::from_bits_truncate(flags as u32),
            ..plain
        })
    }

    fn destroy_allocation(&mut self, _: KmdAllocationHandle) {}

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.roots.insert(context, root);
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        // The GPU walks the tables at each access: there is no TLB to flush.
        if let PagingOperation::FlushTlb(_) = build.operation {
            return BuildStatus::Success;
        }
        let Some(command) = Self::command(build.operation) else { return NOT_SUPPORTED };
        let Some(room) = build.dma_buffer.get_mut(..COMMAND_BYTES) else { return BuildStatus::InsufficientDmaBuffer };
        room.copy_from_slice(&encode(&[command]));
        build.dma_bytes_written = COMMAND_BYTES;
        BuildStatus::Success
    }

    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        if let Some(root) = self.roots.get(&submit.context) {
            preamble.extend(encode(&[[SET_ROOT, pack(root.address), root.num_entries.into(), 0, 0]]));
        }
    }
}

/// The user-mode half of the driver.
struct OwnUmd;

impl Umd for OwnUmd {
    fn encode_kernel(&self, kernel: &KernelCommand) -> Vec<u8> {
        let range = |code| move |range: &PageRange| [code, range.virtual_address.0, range.num_pages, 0, 0];
        let inputs = kernel.inputs.iter().map(range(INPUT));
        let outputs = kernel.outputs.iter().map(range(OUTPUT));
        let is_ramp = u64::from(kernel.content == Content::Ramp);
        let run = [KERNEL, kernel.kernel, kernel.nanoseconds, is_ramp, 0];
        encode(&inputs.chain(outputs).chain([run]).collect::<Vec<_>>())
    }

    fn encode_command_buffer(&self, _: &[CommandStep]) -> UserCommands {
        unreachable!("the engine has GPU virtual addresses")
    }

    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8> {
        let flags = match desc.cpu {
            CpuAccess::None => AllocationFlags::empty(),
            CpuAccess::Visible => AllocationFlags::CPU_VISIBLE,
            CpuAccess::PermanentSysMem => AllocationFlags::CPU_VISIBLE | AllocationFlags::PERMANENT_SYS_MEM,
            CpuAccess::ExistingSysMem => AllocationFlags::CPU_VISIBLE | AllocationFlags::EXISTING_SYS_MEM,
        };
        let segments = match desc.segments {
            AllocationSegments::Local => 1,
            AllocationSegments::System => 2,
            AllocationSegments::LocalOrSystem | AllocationSegments::Ordered(_) => 3,
        };
        let words = [desc.size, desc.priority.into(), flags.bits().into(), segments];
        words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
    }
}

/// The GPU: its memory, and the packets that its engine has.
struct OwnGpu {
    local: SparseMemory,
    system: SystemMemory,
    /// The packets, and when each was submitted.
    queue: VecDeque<(Nanoseconds, Packet)>,
    free_since: Nanoseconds,
    /// The packed address of the root table, and the number of its entries.
    root: (u64, u64),
}

impl OwnGpu {
    fn commands(packet: &Packet) -> Vec<[u64; COMMAND_WORDS]> {
        let bytes = packet.preamble.chunks_exact(COMMAND_BYTES);
        let bytes = bytes.chain(packet.buffer.commands().chunks_exact(COMMAND_BYTES));
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("it is eight bytes"));
        bytes.map(|command| std::array::from_fn(|at| word(&command[at * 8..at * 8 + 8]))).collect()
    }

    /// How long a command takes, in nanoseconds.
    fn duration(command: &[u64; COMMAND_WORDS]) -> Nanoseconds {
        match command[0] {
            KERNEL => command[2],
            TRANSFER => 500 + command[3] / 16,
            FILL => 500 + command[2] / 64,
            _ => 50,
        }
    }

    /// When the first packet begins and when it ends.
    fn times(&self) -> Option<(Nanoseconds, Nanoseconds)> {
        let (submitted_at, packet) = self.queue.front()?;
        let begins = self.free_since.max(*submitted_at);
        Some((begins, begins + Self::commands(packet).iter().map(Self::duration).sum::<Nanoseconds>()))
    }

    /// Lets `action` work on the memory of a segment.
    fn with_memory<T>(&mut self, segment: SegmentId, action: impl FnOnce(&mut SparseMemory) -> T) -> T {
        if segment.is_system() { action(&mut self.system.lock()) } else { action(&mut self.local) }
    }

    /// The place of the page at `virtual_address`; none is a page of zeros.
    ///
    /// # Panics
    ///
    /// If nothing is mapped there: this GPU has no way to report it.
    fn walk(&mut self, virtual_address: u64) -> Option<PhysicalAddress> {
        let (mut table, num_entries) = self.root;
        let indices = (0..LEVELS).rev().map(|level| virtual_address >> (PAGE_SHIFT + level * LEVEL_BITS));
        assert!(indices.clone().next() < Some(num_entries), "{virtual_address:#x} is beyond the root table");
        for index in indices {
            let PhysicalAddress { segment, offset } = unpack(table);
            let at = offset + index % (1 << LEVEL_BITS) * 8;
            table = self.with_memory(segment, |memory| memory.read_word(at));
            if table & PteFlags::ZERO.bits() != 0 {
                return None;
            }
            assert!(table & PteFlags::VALID.bits() != 0, "nothing is mapped at {virtual_address:#x}");
        }
        Some(unpack(table))
    }

    fn pages(virtual_address: u64, count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |page| virtual_address + page * PAGE_SIZE)
    }

    fn write_page_at(&mut self, virtual_address: u64, write: impl FnOnce(&mut SparseMemory, u64)) {
        if let Some(PhysicalAddress { segment, offset }) = self.walk(virtual_address) {
            self.with_memory(segment, |memory| write(memory, offset / PAGE_SIZE));
        }
    }

    fn execute(&mut self, packet: &Packet, events: &mut Vec<GpuEvent>) {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for command in Self::commands(packet) {
            match command {
                [SET_ROOT, table, num_entries, ..] => self.root = (table, num_entries),
                [TRANSFER, source, destination, size, _] => self.transfer(source, destination, size / PAGE_SIZE),
                [FILL, destination, size, pattern, _] => {
                    for address in Self::pages(destination, size / PAGE_SIZE) {
                        self.write_page_at(address, |memory, page| memory.fill(page, 1, pattern as u32));
                    }
                }
                [WRITE_ENTRIES, table, count, first, step] => {
                    let PhysicalAddress { segment, offset } = unpack(table);
                    let (start, count) = (offset + (count >> 32) * 8, count & u64::from(u32::MAX));
                    self.with_memory(segment, |memory| {
                        (0..count).for_each(|at| memory.write_word(start + at * 8, first + at * step));
                    });
                }
                [INPUT, address, count, ..] => inputs.push((address, count)),
                [OUTPUT, address, count, ..] => outputs.push((address, count)),
                [KERNEL, kernel, _, is_ramp, _] => {
                    let content = if is_ramp == 1 { Content::Ramp } else { Content::Uniform };
                    self.kernel(kernel, content, &inputs, &outputs, events);
                }
                _ => unreachable!("the driver encodes no such command: {command:?}"),
            }
        }
    }

    fn transfer(&mut self, source: u64, destination: u64, count: u64) {
        for (from, to) in Self::pages(source, count).zip(Self::pages(destination, count)) {
            let mut page = PageContents::default();
            match self.walk(from) {
                Some(from) => self.with_memory(from.segment, |memory| {
                    memory.read_contents(from.offset / PAGE_SIZE, 1, &mut page);
                }),
                None => page.push_zeros(1),
            }
            self.write_page_at(to, |memory, at| memory.write_contents(at, 1, &page, 0));
        }
    }

    /// Computes what `vidmm_runtime::kernel` specifies.
    fn kernel(
        &mut self,
        kernel: u64,
        content: Content,
        inputs: &[(u64, u64)],
        outputs: &[(u64, u64)],
        events: &mut Vec<GpuEvent>,
    ) {
        let mut state = KernelState::new(kernel);
        let mut digest = |address: u64| {
            let digest = match self.walk(address) {
                Some(at) => self.with_memory(at.segment, |memory| memory.page_digest(at.offset / PAGE_SIZE)),
                None => 0,
            };
            state.absorb(digest);
            digest
        };
        let read = |&(address, count)| Self::pages(address, count).map(&mut digest).collect();
        let inputs = inputs.iter().map(read).collect();
        for (output, &(address, count)) in (0..).zip(outputs) {
            for (number, address) in (0..).zip(Self::pages(address, count)) {
                let seed = state.seed(output, number);
                self.write_page_at(address, |memory, page| memory.write_pages(page, 1, content, |_| seed));
            }
        }
        events.push(GpuEvent::KernelRead { kernel, inputs });
    }
}

impl Gpu for OwnGpu {
    fn submit(&mut self, now: Nanoseconds, packet: Packet) {
        self.queue.push_back((now, packet));
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        self.times().map(|(_, ends)| ends)
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        if let Some((started_at, ended_at)) = self.times().filter(|&(_, ends)| ends <= now) {
            let (_, packet) = self.queue.pop_front().expect("it has times");
            self.execute(&packet, events);
            self.free_since = ended_at;
            let Packet { signal, buffer, .. } = packet;
            events.push(GpuEvent::Completed { signal, started_at, ended_at, buffer });
        }
    }

    fn caches_translations(&self) -> bool {
        false
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        let page = address.offset / PAGE_SIZE;
        let digest = |memory: &SparseMemory| memory.contains(page, 1).then(|| memory.page_digest(page));
        if address.segment.is_system() { digest(&self.system.lock()) } else { digest(&self.local) }
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        let page = address.offset / PAGE_SIZE;
        self.with_memory(address.segment, |memory| {
            let is_there = memory.contains(page, 1);
            if is_there {
                memory.write_pages(page, 1, content, |_| seed);
            }
            is_there
        })
    }

    fn lose_power(&mut self) {
        self.local.spoil();
    }
}

/// A verifier sees the entries of page tables.
impl Probe for OwnGpu {
    fn sees(&self) -> Sees {
        Sees::ENTRIES
    }

    fn page_table_entry(&self, table: PhysicalAddress, _: u32, _: PageSize, index: u32) -> Option<TableEntry> {
        let at = table.offset + u64::from(index) * 8;
        let word = |memory: &SparseMemory| memory.contains(at / PAGE_SIZE, 1).then(|| memory.read_word(at));
        let system = || word(&self.system.lock());
        let word = if table.segment.is_system() { system() } else { word(&self.local) };
        let word = word.filter(|_| index < 1 << LEVEL_BITS)?;
        let flags = PteFlags::from_bits_truncate(word & 0xF);
        Some(TableEntry { pte: Pte { flags, address: unpack(word) }, pte_64kb: None })
    }
}

/// The factory of these machines.
pub struct OwnMachines;

impl MachineFactory for OwnMachines {
    fn name(&self) -> &str {
        "own"
    }

    fn lacks(&self) -> Features {
        Features::models_except(AddressingModel::GpuMmu)
            | Features::RECOVERY
            | Features::PAGING_ENGINE
            | Features::COPY_ENGINE
            | Features::DEPENDENT_ENGINES
            | Features::MORE_SEGMENTS
            | Features::CPU_TABLES
            | Features::VIRTUAL_TABLES
            | Features::LINKED_ADAPTERS
            | Features::MAP_APERTURE2
            | Features::PAGING_VA_SIZE
            | Features::BUSY_ANSWERS
            | Features::NOTIFICATIONS
            | Features::COMPRESSION
            | Features::PLACEMENT
            | Features::COSTS
            | Features::INNER_FAULTS
            | Features::MODEL_OCCASIONS
            | Features::TABLE_SHAPE
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        let (system, io_mmu) = (SystemMemory::new(), IoMmu::new());
        let host = SoftHost::new(system.clone(), io_mmu, None);
        Ok(Machine {
            kmd: Box::new(OwnKmd { desc: desc.clone(), last_handle: 0, roots: BTreeMap::new() }),
            umd: Box::new(OwnUmd),
            gpu: Box::new(OwnGpu {
                local: SparseMemory::new(desc.local_memory_bytes),
                system,
                queue: VecDeque::new(),
                free_since: 0,
                root: (0, 0),
            }),
            cpu: Box::new(host.cpu_addresses().clone()),
            host: Box::new(host),
            fault_switch: FaultSwitch::default(),
        })
    }
}

fn main() -> ExitCode {
    vidmm_cli::main(&OwnMachines, &[])
}
