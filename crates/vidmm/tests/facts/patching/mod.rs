//! A world without GPU virtual addresses: a driver that writes addresses into DMA buffers, and a GPU that uses them. Each page
//! of memory holds a token. It shares nothing with the other test world.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

pub mod lister;
pub mod random;
pub mod splitter;

use crate::judge::Judge;
use crate::world::{Failing, Fallible};
use vidmm::contract::*;
use vidmm::*;

pub const LOCAL: SegmentId = SegmentId(1);
pub const APERTURE: SegmentId = SegmentId(2);
pub const PAGING: u32 = 0;
pub const RENDER: u32 = 1;
pub const COPY: u32 = 2;
/// The content of a page of the memory segment before anything was written there.
pub const GARBAGE: u64 = 0xBAD_BAD;

/// The private data of a packet whose addresses Patch has written.
pub const PATCHED: u8 = 0xFF;

/// The adapter of a world.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pages of local memory, and of the aperture.
    pub pages: u64,
    pub aperture_pages: u64,
    /// Pages of further memory segments, which come after the aperture.
    pub more_pages: Vec<u64>,
    pub wddm_version: WddmVersion,
    pub caps: VidMmCaps,
    pub slots: u32,
    pub preemption_aware: bool,
    pub no_dma_patching: bool,
    pub bank_range_table: Vec<u64>,
    /// Bytes of a paging buffer; each operation takes 64.
    pub paging_buffer: u32,
    pub knobs: PreparationKnobs,
    pub tdr: TdrOptions,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pages: 16,
            aperture_pages: 256,
            more_pages: Vec::new(),
            wddm_version: WddmVersion::WDDM3_2,
            caps: VidMmCaps::empty(),
            slots: 16,
            preemption_aware: false,
            no_dma_patching: false,
            bank_range_table: Vec::new(),
            paging_buffer: 4096,
            knobs: PreparationKnobs::default(),
            tdr: TdrOptions::default(),
        }
    }
}

impl Config {
    pub fn pages(pages: u64) -> Self {
        Self { pages, ..Self::default() }
    }
}

/// A command of the user-mode driver: 32 bytes in the DMA buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Says that the engine's state is programmed.
    SetState,
    /// Reads a page of an element of the allocation list.
    Read { element: u32, page: u64 },
    /// Writes a token to it.
    Write { element: u32, page: u64, token: u64 },
    /// Binds it to a slot, until another is bound there.
    Bind { slot: u32 },
    /// Reads a page of what is bound to a slot.
    ReadBound { slot: u32, page: u64 },
    /// Writes a token to it.
    WriteBound { slot: u32, page: u64, token: u64 },
}

pub const COMMAND_BYTES: u32 = 32;
const OPCODES: [u64; 6] = [1, 2, 3, 4, 5, 6];

impl Command {
    /// The command without its address, which lies 8 bytes behind its start.
    pub fn encode(self) -> [u8; COMMAND_BYTES as usize] {
        let words = match self {
            Command::SetState => [OPCODES[0], 0, 0, 0],
            Command::Read { page, .. } => [OPCODES[1], u64::MAX, page, 0],
            Command::Write { page, token, .. } => [OPCODES[2], u64::MAX, page, token],
            Command::Bind { slot } => [OPCODES[3], u64::MAX, slot.into(), 0],
            Command::ReadBound { slot, page } => [OPCODES[4], slot.into(), page, 0],
            Command::WriteBound { slot, page, token } => [OPCODES[5], slot.into(), page, token],
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.try_into().unwrap()
    }
}

/// Where a DMA buffer's address of a command lies.
pub fn address_at(command: u32) -> u32 {
    command * COMMAND_BYTES + 8
}

/// An address as the driver writes it: the segment in the high byte.
fn pack(address: PhysicalAddress, offset: u64) -> u64 {
    u64::from(address.segment.0) << 56 | (address.offset + offset)
}

fn unpack(address: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId((address >> 56) as u8), offset: address & ((1 << 56) - 1) }
}

pub struct Driver {
    pub config: Config,
    pub next_allocation: Option<AllocationInfo>,
    last_handle: u64,
    /// The list that the driver gives out instead of the one that it was given.
    pub patch_locations: Option<Vec<PatchLocation>>,
    pub operations: Vec<PagingOperation>,
    pub renders: u32,
    /// The addresses that it was told when the last command buffer was rendered.
    pub told: Vec<Option<PhysicalAddress>>,
    pub patches: Vec<(u32, u32, u32, u32)>,
    /// The contexts of user packets, and their submission offsets.
    pub submitted: Vec<(KmdContextHandle, u32, u32)>,
    /// Bytes of DMA buffer that one call of render fills at most.
    pub render_bytes_max: usize,
    /// Render translates the same commands again and again, each time into a DMA buffer more.
    pub render_never_ends: bool,
    /// The most room that it was given at once.
    pub render_room: usize,
    /// How many more bytes it says that it has written.
    pub render_claims_more: usize,
    /// Which call fails, of the driver's and the host's together.
    pub failing: Failing,
    /// How the call fails that builds a paging buffer, and the one that renders.
    pub build_failure: BuildStatus,
    pub render_failure: RenderStatus,
    /// Handles of objects that were created and not destroyed.
    pub live: BTreeSet<u64>,
}

impl Kmd for Driver {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        let segment = |flags, base_address, pages: u64| {
            let size = pages * PAGE_SIZE;
            SegmentDescriptor { flags, base_address, size, commit_limit: size }
        };
        let Config { pages, aperture_pages, ref more_pages, .. } = self.config;
        let mut segments = vec![segment(SegmentFlags::APPLICATION_TARGET, 0, pages)];
        if aperture_pages > 0 {
            segments.push(segment(SegmentFlags::APERTURE, pages * PAGE_SIZE, aperture_pages));
        }
        let mut behind = (pages + aperture_pages) * PAGE_SIZE;
        for &pages in more_pages {
            segments.push(segment(SegmentFlags::APPLICATION_TARGET, behind, pages));
            behind += pages * PAGE_SIZE;
        }
        AdapterInfo {
            wddm_version: self.config.wddm_version,
            addressing_model: AddressingModel::Physical,
            memory_management_caps: self.config.caps,
            segments,
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: None,
            engines: [EngineKind::Paging, EngineKind::Render3d, EngineKind::Copy]
                .map(|kind| EngineDesc { kind })
                .into(),
            gpu_mmu: GpuMmuCaps {
                flags: GpuMmuFlags::empty(),
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                legacy_behaviors: LegacyBehaviors::empty(),
                virtual_address_bit_count: 0,
                leaf_page_table_size_for_64k_pages_in_bytes: 0,
            },
            page_table_levels: Vec::new(),
            write_behind: false,
            paging_buffer: PagingBufferDesc { size: self.config.paging_buffer, private_data_size: 0 },
            patching: PatchingCaps {
                max_allocation_list_slot_id: self.config.slots,
                preemption_aware: self.config.preemption_aware,
                no_dma_patching: self.config.no_dma_patching,
                bank_range_table: self.config.bank_range_table.clone(),
            },
        }
    }

    fn create_process(&mut self, _: bool) -> Result<KmdProcessHandle, KmdError> {
        self.create(Fallible::CreateProcess).map(KmdProcessHandle).ok_or(KmdError)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.destroy(process.0);
    }

    fn create_context(&mut self, _: KmdProcessHandle, _: u32, _: bool) -> Result<KmdContextHandle, KmdError> {
        self.create(Fallible::CreateContext).map(KmdContextHandle).ok_or(KmdError)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.destroy(context.0);
    }

    fn create_allocation(&mut self, _: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let info = self.next_allocation.take().expect("a test says what it creates");
        let handle = self.create(Fallible::CreateAllocation).ok_or(CreateAllocationError::NoMemory)?;
        Ok(AllocationInfo { allocation: KmdAllocationHandle(handle), ..info })
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.destroy(allocation.0);
    }

    fn set_root_page_table(&mut self, _: KmdContextHandle, _: RootPageTable) {
        panic!("there are no page tables");
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let is_possible = match self.build_failure {
            BuildStatus::AllocationBusy => !build.allocation_is_idle,
            // A fresh buffer has room.
            _ => build.dma_buffer_write_offset > 0,
        };
        if is_possible && self.failing.fails(Fallible::BuildPagingBuffer) {
            return self.build_failure;
        }
        let Some(room) = build.dma_buffer.get_mut(..64) else { return BuildStatus::InsufficientDmaBuffer };
        room.fill(0);
        room[..8].copy_from_slice(&(self.operations.len() as u64).to_le_bytes());
        build.dma_bytes_written = 64;
        self.operations.push(*build.operation);
        BuildStatus::Success
    }

    fn submit_command(&mut self, submit: &SubmitCommand, _: &mut Vec<u8>) {
        if !submit.paging {
            // A packet without commands is no part of a DMA buffer.
            let (start, end) = submit.dma_buffer_submission_offsets.unwrap_or_default();
            self.submitted.push((submit.context, start, end));
        }
    }

    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.renders += 1;
        if self.failing.fails(Fallible::Render) {
            return Err(self.render_failure);
        }
        self.told = render.allocation_list.iter().map(|element| element.address).collect();
        let done = *render.multipass_offset as usize;
        let rest = &render.command[done..];
        self.render_room = self.render_room.max(render.dma_buffer.len());
        // A DMA buffer ends with a whole portion: each portion programs the state and binds the slots.
        let room = render.dma_buffer.len().min(self.render_bytes_max);
        let splits = render.patch_location_list_in.iter().map(|location| location.split_offset as usize);
        let ends = splits.filter_map(|split| split.checked_sub(done)).chain([rest.len()]);
        let bytes = ends.filter(|&bytes| bytes <= rest.len().min(room)).max().unwrap_or(0);
        render.dma_buffer[..bytes].copy_from_slice(&rest[..bytes]);
        render.dma_bytes_written = bytes + self.render_claims_more;
        for location in render.patch_location_list_in {
            // PAT-14: what is known already is written at once.
            let address =
                render.allocation_list.get(location.allocation_index as usize).and_then(|known| known.address);
            let at = (location.patch_offset as usize).checked_sub(done).filter(|at| at + 8 <= bytes);
            if let (Some(address), Some(at)) = (address, at) {
                let address = pack(address, location.allocation_offset.into());
                render.dma_buffer[at..at + 8].copy_from_slice(&address.to_le_bytes());
            }
        }
        *render.multipass_offset += bytes as u32;
        let commands = bytes / COMMAND_BYTES as usize;
        render.dma_buffer_private_data.push(commands.min(usize::from(PATCHED - 1)) as u8);
        let is_whole = bytes == rest.len() && !self.render_never_ends;
        let is_here = |location: &&PatchLocation| {
            let split = location.split_offset as usize;
            split >= done && (split < done + bytes || is_whole)
        };
        let moved = |location: &PatchLocation| PatchLocation {
            patch_offset: location.patch_offset - done as u32,
            split_offset: location.split_offset - done as u32,
            ..*location
        };
        let here = || render.patch_location_list_in.iter().filter(is_here).map(moved).collect();
        let locations = self.patch_locations.take_if(|_| is_whole).unwrap_or_else(here);
        render.patch_location_list_out.extend(locations);
        if self.render_never_ends {
            *render.multipass_offset = done as u32;
        }
        if is_whole { Ok(()) } else { Err(RenderStatus::InsufficientDmaBuffer) }
    }

    fn patch(&mut self, patch: &mut Patch<'_>) {
        let (start, end) = (patch.dma_buffer_submission_start_offset, patch.dma_buffer_submission_end_offset);
        let (first, count) = (patch.patch_location_list_submission_start, patch.patch_location_list_submission_length);
        self.patches.push((start, end, first, count));
        assert_eq!(patch.dma_buffer.len() as u32, end - start);
        assert!(!patch.dma_buffer_private_data.contains(&PATCHED), "a change by Patch is for one submission");
        patch.dma_buffer_private_data.fill(PATCHED);
        for location in &patch.patch_location_list[first as usize..(first + count) as usize] {
            let element = &patch.allocation_list[location.allocation_index as usize];
            if element.allocation.is_some() {
                let address =
                    pack(element.address.expect("PAT-10: its address is known"), location.allocation_offset.into());
                let at = (location.patch_offset - start) as usize;
                patch.dma_buffer[at..at + 8].copy_from_slice(&address.to_le_bytes());
            }
        }
    }
}

impl Driver {
    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            next_allocation: None,
            last_handle: 0,
            patch_locations: None,
            operations: Vec::new(),
            renders: 0,
            told: Vec::new(),
            patches: Vec::new(),
            submitted: Vec::new(),
            render_bytes_max: usize::MAX,
            render_never_ends: false,
            render_room: 0,
            render_claims_more: 0,
            failing: Failing::default(),
            build_failure: BuildStatus::InsufficientDmaBuffer,
            render_failure: RenderStatus::NoMemory,
            live: BTreeSet::new(),
        }
    }

    fn create(&mut self, call: Fallible) -> Option<u64> {
        if self.failing.fails(call) {
            return None;
        }
        self.last_handle += 1;
        self.live.insert(self.last_handle);
        Some(self.last_handle)
    }

    fn destroy(&mut self, handle: u64) {
        assert!(self.live.remove(&handle), "handle {handle} was destroyed twice");
    }
}

/// System memory.
#[derive(Default)]
pub struct Memory {
    next: u64,
    committed: BTreeMap<u64, u64>,
    pages: BTreeMap<u64, u64>,
    /// Which call fails, of the driver's and the host's together.
    pub failing: Failing,
}

impl Memory {
    /// The committed ranges, by their address.
    pub fn committed(&self) -> &BTreeMap<u64, u64> {
        &self.committed
    }
}

impl Host for Memory {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        if self.failing.fails(Fallible::CommitBackingStore) {
            return Err(BackingStoreError { size });
        }
        let offset = self.next;
        self.next += size.next_multiple_of(PAGE_SIZE_64K) + PAGE_SIZE_64K;
        self.committed.insert(offset, size);
        Ok(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        assert_eq!(self.committed.remove(&address.offset), Some(size));
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.pages.retain(|page, _| !(address.offset..address.offset + size).contains(page));
    }

    fn total_system_memory(&self) -> u64 {
        1 << 40
    }
}

/// A step of the GPU, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    Paging,
    /// The portion of a context's DMA buffer.
    Portion {
        engine: u32,
        start: u32,
        end: u32,
    },
}

pub struct World {
    pub vidmm: VidMm,
    pub driver: Driver,
    pub host: Memory,
    pub engines: [VecDeque<Packet>; 3],
    pub completed: [u64; 3],
    /// The private data of the users' packets that have ended.
    pub private_data: Vec<Vec<u8>>,
    local: BTreeMap<PhysicalAddress, u64>,
    /// The memory that the pages of the aperture show.
    aperture: BTreeMap<u64, u64>,
    /// The addresses in the slots of each context.
    bound: BTreeMap<(u64, u32), u64>,
    /// Tokens that were read, in their order, and those of each context.
    pub read: Vec<u64>,
    pub read_by: BTreeMap<u64, Vec<u64>>,
    pub events: Vec<Event>,
    /// The judge of them.
    pub audit: Judge,
    pub outputs: Vec<Output>,
    pub ran: Vec<Ran>,
    /// Where allocations are, as the GPU was told (BPB-51).
    pub told: BTreeMap<KmdAllocationHandle, PhysicalAddress>,
    /// The portions that each engine has been given.
    given: [VecDeque<(KmdContextHandle, u32, u32)>; 3],
    seen: usize,
    /// An engine that does nothing with the commands that it is given.
    pub ignoring: Option<u32>,
    /// The driver's handles of contexts.
    handles: BTreeMap<ContextId, u64>,
    /// The time of the next poll, in nanoseconds.
    pub now: u64,
}

/// A user of the adapter: a device with a context on the render engine.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub process: ProcessId,
    pub device: DeviceId,
    pub context: ContextId,
}

pub fn info(pages: u64, segments: SegmentSet) -> AllocationInfo {
    AllocationInfo::new(KmdAllocationHandle(0), pages * PAGE_SIZE, segments)
}

impl World {
    pub fn new(config: Config) -> Self {
        Self::try_new(config).unwrap()
    }

    pub fn try_new(config: Config) -> Result<Self, StartAdapterError> {
        let (mut driver, mut host) = (Driver::new(&config), Memory::default());
        host.failing = driver.failing.clone();
        let options =
            AdapterOptions { events: true, preparation: config.knobs, tdr: config.tdr, ..AdapterOptions::default() };
        let vidmm = VidMm::start_adapter(options, &mut driver, &mut host)?;
        Ok(Self {
            vidmm,
            driver,
            host,
            engines: Default::default(),
            completed: [0; 3],
            private_data: Vec::new(),
            local: BTreeMap::new(),
            aperture: BTreeMap::new(),
            bound: BTreeMap::new(),
            read: Vec::new(),
            read_by: BTreeMap::new(),
            events: Vec::new(),
            audit: Judge::default(),
            outputs: Vec::new(),
            ran: Vec::new(),
            told: BTreeMap::new(),
            given: Default::default(),
            seen: 0,
            ignoring: None,
            handles: BTreeMap::new(),
            now: 0,
        })
    }

    pub fn call<T>(&mut self, call: impl FnOnce(&mut VidMm, &mut Driver, &mut Memory) -> T) -> T {
        let answer = call(&mut self.vidmm, &mut self.driver, &mut self.host);
        self.vidmm.check().unwrap();
        self.events.extend(self.audit.drain(&mut self.vidmm));
        answer
    }

    pub fn client(&mut self) -> Client {
        let process = self.call(|vidmm, driver, host| vidmm.create_process(driver, host)).unwrap();
        let device = self.call(|vidmm, _, _| vidmm.create_device(process)).unwrap();
        let context = self.context(device, RENDER);
        Client { process, device, context }
    }

    pub fn context(&mut self, device: DeviceId, engine: u32) -> ContextId {
        let context = self.call(|vidmm, driver, _| vidmm.create_context(driver, device, engine)).unwrap();
        self.handles.insert(context, self.driver.last_handle);
        context
    }

    /// The tokens that a context has read, in their order.
    pub fn read_in(&self, context: ContextId) -> &[u64] {
        self.read_by.get(&self.handles[&context]).map_or(&[], |read| read)
    }

    pub fn create(&mut self, client: Client, info: AllocationInfo) -> AllocationId {
        self.driver.next_allocation = Some(info);
        self.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, client.device, &[0u8; 0][..])).unwrap()
    }

    /// An allocation of `pages` pages in local memory.
    pub fn local(&mut self, client: Client, pages: u64) -> AllocationId {
        self.create(client, info(pages, SegmentSet::of(LOCAL)))
    }

    pub fn try_render(&mut self, context: ContextId, desc: RenderDesc) -> Result<RangeInclusive<u64>, RenderError> {
        self.call(|vidmm, driver, _| vidmm.render(driver, context, desc))
    }

    pub fn render(&mut self, context: ContextId, desc: RenderDesc) -> RangeInclusive<u64> {
        self.try_render(context, desc).unwrap()
    }

    pub fn poll(&mut self) {
        let now = self.now;
        while let Some(output) = self.call(|vidmm, driver, host| vidmm.poll(now, driver, host)) {
            match output {
                Output::Submit(packet) => {
                    if packet.signal.engine != PAGING {
                        self.given[packet.signal.engine as usize].push_back(self.driver.submitted[self.seen]);
                        self.seen += 1;
                    }
                    self.engines[packet.signal.engine as usize].push_back(packet);
                }
                output => self.outputs.push(output),
            }
        }
    }

    /// Lets an engine end its next packet, if it can. The manager is not polled.
    pub fn complete(&mut self, engine: u32) -> bool {
        let is_over = |wait: &EngineFence| wait.fence_id <= self.completed[wait.engine as usize];
        let next = self.engines[engine as usize].front();
        if !next.is_some_and(|packet| packet.waits.iter().all(is_over)) {
            return false;
        }
        let packet = self.engines[engine as usize].pop_front().unwrap();
        if engine == PAGING {
            self.run_paging(packet.buffer.commands());
        } else {
            self.private_data.push(packet.buffer.private_data().to_vec());
            self.run_user(engine, packet.buffer.commands());
        }
        self.completed[engine as usize] = packet.signal.fence_id;
        self.call(|vidmm, _, _| vidmm.handle_completed(packet.signal, packet.buffer));
        true
    }

    /// The packets that an engine has not run go back.
    pub fn give_back(&mut self, engine: u32) -> ReturnedBuffers {
        let left = std::mem::take(&mut self.engines[engine as usize]);
        self.given[engine as usize].clear();
        left.into_iter().map(|packet| (packet.signal.fence_id, packet.buffer)).collect()
    }

    /// The GPU has been reset: what was in the memory segment is gone.
    pub fn forget_memory(&mut self) {
        self.local.clear();
        self.told.clear();
    }

    /// Lets everything end.
    pub fn run_all(&mut self) {
        loop {
            self.poll();
            if !(0..3).any(|engine| self.complete(engine)) {
                break;
            }
        }
    }

    /// Whether state is left from what ran before is left open: every portion programs its own.
    fn run_user(&mut self, engine: u32, commands: &[u8]) {
        let (context, start, end) = self.given[engine as usize].pop_front().unwrap();
        assert_eq!(commands.len() as u32, end - start, "PAT-01");
        if commands.is_empty() {
            return;
        }
        self.ran.push(Ran::Portion { engine, start, end });
        if self.ignoring == Some(engine) {
            return;
        }
        let mut is_programmed = false;
        for command in commands.chunks_exact(COMMAND_BYTES as usize) {
            let word = |at: usize| u64::from_le_bytes(command[at * 8..at * 8 + 8].try_into().unwrap());
            assert!(is_programmed || word(0) == OPCODES[0], "SPL-06: a portion begins at a split point");
            assert_ne!(word(1), u64::MAX, "PAT-10: an address was never written");
            let at_address = || unpack(word(1) + word(2) * PAGE_SIZE);
            let at_slot = || unpack(self.bound[&(context.0, word(1) as u32)] + word(2) * PAGE_SIZE);
            match OPCODES.iter().position(|&opcode| opcode == word(0)).unwrap() {
                0 => is_programmed = true,
                1 => self.note_read(context, self.token(at_address())),
                2 => self.set_token(at_address(), word(3)),
                3 => drop(self.bound.insert((context.0, word(2) as u32), word(1))),
                4 => self.note_read(context, self.token(at_slot())),
                _ => self.set_token(at_slot(), word(3)),
            }
        }
    }

    fn note_read(&mut self, context: KmdContextHandle, token: u64) {
        self.read.push(token);
        self.read_by.entry(context.0).or_default().push(token);
    }

    fn run_paging(&mut self, commands: &[u8]) {
        self.ran.push(Ran::Paging);
        for command in commands.chunks_exact(64) {
            let number = u64::from_le_bytes(command[..8].try_into().unwrap());
            match self.driver.operations[number as usize] {
                PagingOperation::Transfer(op) => {
                    for page in 0..op.transfer_size / PAGE_SIZE {
                        let token = self.token(op.first_source().offset_by(page * PAGE_SIZE));
                        self.set_token(op.first_destination().offset_by(page * PAGE_SIZE), token);
                    }
                }
                PagingOperation::Fill(op) => {
                    let filled = op.destination.segment;
                    assert!(self.is_memory(filled), "BPB-24: only memory segments are filled");
                    for page in 0..op.fill_size / PAGE_SIZE {
                        self.set_token(op.destination.offset_by(page * PAGE_SIZE), u64::from(op.fill_pattern));
                    }
                }
                PagingOperation::DiscardContent(op) => self.set_token(op.address, GARBAGE),
                PagingOperation::MapApertureSegment(op) => self.map_aperture(&op),
                PagingOperation::MapApertureSegment2(op) => self.map_aperture(&op.into()),
                PagingOperation::UnmapApertureSegment(op) => {
                    for page in 0..op.number_of_pages {
                        self.aperture.insert(op.offset_in_pages + page, op.dummy_page.offset);
                    }
                }
                PagingOperation::NotifyResidency(op) => {
                    let before = match op.resident {
                        true => self.told.insert(op.allocation, op.physical_address),
                        false => self.told.remove(&op.allocation),
                    };
                    assert_ne!(before.is_some(), op.resident, "BPB-51: the GPU is told twice: {op:?}");
                }
                PagingOperation::VirtualTransfer(_)
                | PagingOperation::VirtualFill(_)
                | PagingOperation::UpdatePageTable(_)
                | PagingOperation::FlushTlb(_)
                | PagingOperation::NotifyAlloc(_) => panic!("an adapter without GPU virtual addresses is asked for it"),
            }
        }
    }

    fn map_aperture(&mut self, op: &MapApertureSegment) {
        for page in 0..op.number_of_pages {
            self.aperture.insert(op.offset_in_pages + page, op.mdl.offset + page * PAGE_SIZE);
        }
    }

    /// Whether a segment is one of memory.
    fn is_memory(&self, segment: SegmentId) -> bool {
        segment == LOCAL || segment > self.aperture_segment()
    }

    /// The aperture, which follows local memory; system memory where there is none.
    fn aperture_segment(&self) -> SegmentId {
        if self.driver.config.aperture_pages > 0 { APERTURE } else { LOCAL }
    }

    pub fn token(&self, at: PhysicalAddress) -> u64 {
        match at.segment {
            segment if self.is_memory(segment) => self.local.get(&at).copied().unwrap_or(GARBAGE),
            APERTURE => self.host.pages.get(&self.aperture[&(at.offset / PAGE_SIZE)]).copied().unwrap_or(0),
            _ => self.host.pages.get(&at.offset).copied().unwrap_or(0),
        }
    }

    fn set_token(&mut self, at: PhysicalAddress, token: u64) {
        match at.segment {
            segment if self.is_memory(segment) => drop(self.local.insert(at, token)),
            APERTURE => drop(self.host.pages.insert(self.aperture[&(at.offset / PAGE_SIZE)], token)),
            _ => drop(self.host.pages.insert(at.offset, token)),
        }
    }

    /// The portions so far, by their first byte and their end.
    pub fn portions(&self) -> Vec<(u32, u32)> {
        let portion = |event: &Event| match *event {
            Event::Portion { start_offset, end_offset, .. } => Some((start_offset, end_offset)),
            _ => None,
        };
        self.events.iter().filter_map(portion).collect()
    }

    /// Forgets what happened so far. Nothing is under way.
    pub fn forget(&mut self) {
        self.driver.operations.clear();
        self.driver.patches.clear();
        self.driver.submitted.clear();
        self.seen = 0;
        self.events.clear();
        self.outputs.clear();
        self.ran.clear();
        self.read.clear();
    }

    /// Where a portion has what is bound to a slot, in pages from the start of its segment, and whether it had to stay there.
    pub fn place(&self, portion: usize, slot: u32) -> Option<(AllocationId, u64, bool)> {
        let bindings = self.events.iter().filter_map(|event| match event {
            Event::Portion { bindings, .. } => Some(bindings),
            _ => None,
        });
        let bound = bindings.into_iter().nth(portion)?.iter().rfind(|binding| binding.slot_id == slot)?;
        Some((bound.allocation?, bound.address.offset / PAGE_SIZE, bound.fixed))
    }

    /// Which allocations were evicted, in their order, and how many portions were handed out before.
    pub fn evicted(&self) -> Vec<(usize, AllocationId)> {
        let mut portions = 0;
        let mut evicted = Vec::new();
        for event in &self.events {
            match *event {
                Event::Portion { .. } => portions += 1,
                Event::Evicted { allocation, .. } => evicted.push((portions, allocation)),
                _ => {}
            }
        }
        evicted
    }

    /// The operations of a kind that the driver was asked for.
    pub fn operations(&self, kind: PagingOperationKind) -> Vec<PagingOperation> {
        self.driver.operations.iter().filter(|operation| operation.kind() == kind).copied().collect()
    }

    /// The reasons for which devices are in error.
    pub fn errors(&self) -> Vec<DeviceErrorReason> {
        let reason = |output: &Output| match output {
            Output::DeviceInError(error) => Some(error.reason),
            _ => None,
        };
        self.outputs.iter().filter_map(reason).collect()
    }
}

/// Writes a DMA buffer with its references: every split point begins with the engine's state.
#[derive(Default, Clone, Debug)]
pub struct Writer {
    commands: Vec<Command>,
    pub allocations: Vec<AllocationListDesc>,
    pub patch_locations: Vec<PatchLocation>,
    split: u32,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    fn here(&self) -> u32 {
        self.commands.len() as u32 * COMMAND_BYTES
    }

    /// A split point: what follows can run later than what came before.
    pub fn split(mut self) -> Self {
        self.split = self.here();
        self.commands.push(Command::SetState);
        self
    }

    fn bind(&mut self, slot: u32, allocation: Option<AllocationId>, write: bool) -> u32 {
        let element = self.allocations.len() as u32;
        self.allocations.push(AllocationListDesc { allocation, write_operation: write });
        self.patch_locations.push(PatchLocation {
            allocation_index: element,
            slot_id: slot,
            patch_offset: address_at(self.commands.len() as u32),
            split_offset: self.split,
            ..PatchLocation::default()
        });
        element
    }

    /// Reads a page of an allocation through a slot.
    pub fn read(mut self, slot: u32, allocation: AllocationId, page: u64) -> Self {
        let element = self.bind(slot, Some(allocation), false);
        self.commands.push(Command::Read { element, page });
        self
    }

    /// Writes a token to it.
    pub fn write(mut self, slot: u32, allocation: AllocationId, page: u64, token: u64) -> Self {
        let element = self.bind(slot, Some(allocation), true);
        self.commands.push(Command::Write { element, page, token });
        self
    }

    /// Binds an allocation to a slot of the GPU, to be read and written there until another is.
    pub fn program(mut self, slot: u32, allocation: AllocationId) -> Self {
        self.bind(slot, Some(allocation), true);
        self.commands.push(Command::Bind { slot });
        self
    }

    /// Reads a page of what is bound to a slot.
    pub fn read_bound(mut self, slot: u32, page: u64) -> Self {
        self.commands.push(Command::ReadBound { slot, page });
        self
    }

    /// Writes a token to it.
    pub fn write_bound(mut self, slot: u32, page: u64, token: u64) -> Self {
        self.commands.push(Command::WriteBound { slot, page, token });
        self
    }

    /// Nothing is bound to a slot any more.
    pub fn unbind(mut self, slot: u32) -> Self {
        self.bind(slot, None, false);
        self
    }

    pub fn finish(self) -> RenderDesc {
        RenderDesc {
            command: self.commands.iter().flat_map(|command| command.encode()).collect(),
            allocations: self.allocations,
            patch_locations: self.patch_locations,
            ..RenderDesc::default()
        }
    }
}
