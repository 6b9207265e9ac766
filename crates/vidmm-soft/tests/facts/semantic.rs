//! A semantic machine carries out what an author's driver is asked for, and gives the author's buffers back.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use vidmm::contract::*;
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_runtime::{AllocationDesc, GpuEvent, Machine, Umd, UserCommands, may_be_empty};
use vidmm_soft::encoding::{Command, Decoder};
use vidmm_soft::*;

use crate::common::FREE;

const PATTERN: u32 = 0x1234_5678;

/// The memory segment, behind the aperture.
const MEMORY: SegmentId = SegmentId(2);

const SUCCESS: BuildStatus = BuildStatus::Success;
const FULL: BuildStatus = BuildStatus::InsufficientDmaBuffer;

/// The next answers of the author's driver: a status, and how many bytes of nonsense.
type Answers = Rc<RefCell<VecDeque<(BuildStatus, usize)>>>;

/// A driver that answers as it is told to, and gives every object the same handle.
struct Author {
    info: AdapterInfo,
    answers: Answers,
}

impl Kmd for Author {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.info.clone()
    }

    fn create_process(&mut self, _: bool) -> Result<KmdProcessHandle, KmdError> {
        Ok(KmdProcessHandle(7))
    }

    fn destroy_process(&mut self, _: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _: u32, _: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(7))
    }

    fn destroy_context(&mut self, _: KmdContextHandle) {}

    fn create_allocation(&mut self, _: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        Err(CreateAllocationError::NoMemory)
    }

    fn destroy_allocation(&mut self, _: KmdAllocationHandle) {}

    fn set_root_page_table(&mut self, _: KmdContextHandle, _: RootPageTable) {}

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let (status, bytes) = self.answers.borrow_mut().pop_front().unwrap_or((SUCCESS, 3));
        build.dma_buffer.iter_mut().take(bytes).for_each(|byte| *byte = 0xEE);
        build.dma_bytes_written = bytes;
        status
    }

    fn submit_command(&mut self, _: &SubmitCommand, preamble: &mut Vec<u8>) {
        preamble.extend([0xEE; 5]);
    }
}

struct NoUmd;

impl Umd for NoUmd {
    fn encode_kernel(&self, _: &vidmm_runtime::KernelCommand) -> Vec<u8> {
        panic!("kernels are the model GPU's")
    }

    fn encode_command_buffer(&self, _: &[vidmm_runtime::CommandStep]) -> UserCommands {
        panic!("kernels are the model GPU's")
    }

    fn allocation_private_data(&self, _: &AllocationDesc) -> Vec<u8> {
        Vec::new()
    }
}

/// An adapter of physical addresses, whose aperture comes before its memory.
fn info() -> AdapterInfo {
    let mut info = SoftKmd::new(SoftAdapterConfig::with_patching()).query_adapter_info();
    info.segments.reverse();
    info
}

fn machine_of(info: AdapterInfo) -> Result<(Machine, Answers), SemanticError> {
    let answers = Answers::default();
    let author = Author { info, answers: answers.clone() };
    let cost = CostModel { packet_nanoseconds: 10, reset_nanoseconds: 10, ..FREE };
    let machine = semantic_machine(Box::new(author), Box::new(NoUmd), cost, ModelGpuFaults::default(), None)?;
    Ok((machine, answers))
}

struct Rig {
    machine: Machine,
    answers: Answers,
    /// The engine that runs paging buffers.
    engine: u32,
    now: u64,
    fences: u64,
}

impl Rig {
    fn new() -> Self {
        Self::on(info(), PAGING_ENGINE)
    }

    fn on(info: AdapterInfo, engine: u32) -> Self {
        let (mut machine, answers) = machine_of(info).expect("the model can be this");
        machine.kmd.query_adapter_info();
        let process = machine.kmd.create_process(true).expect("it has memory");
        machine.kmd.create_context(process, engine, true).expect("it has memory");
        Self { machine, answers, engine, now: 0, fences: 0 }
    }

    /// Asks for an operation once, in a buffer of so many bytes of which none is written yet: the answer and the bytes.
    fn build(&mut self, operation: &PagingOperation) -> (BuildStatus, usize) {
        let mut build = BuildPagingBuffer {
            operation,
            dma_buffer: &mut [0; 64],
            dma_buffer_write_offset: 0,
            dma_buffer_private_data: &mut [],
            dma_bytes_written: 0,
            private_bytes_written: 0,
            multipass_offset: &mut 0,
            allocation_is_idle: false,
            system_context: KmdContextHandle(7),
        };
        let status = self.machine.kmd.build_paging_buffer(&mut build);
        (status, build.dma_bytes_written)
    }

    fn answer(&mut self, answers: &[(BuildStatus, usize)]) {
        self.answers.borrow_mut().extend(answers);
    }

    /// Hands a paging buffer out, with the next fence: where its bytes are.
    fn submit(&mut self) -> *const u8 {
        self.fences += 1;
        let buffer = PagingBuffer::new(64, 0);
        let place = buffer.commands().as_ptr();
        self.submit_again(self.fences, DmaBuffer::Paging(buffer));
        place
    }

    fn submit_again(&mut self, fence_id: u64, buffer: DmaBuffer) {
        let submit = SubmitCommand {
            context: KmdContextHandle(7),
            node_ordinal: self.engine,
            submission_fence_id: fence_id,
            paging: true,
            dma_buffer_submission_offsets: None,
        };
        let mut preamble = Vec::new();
        self.machine.kmd.submit_command(&submit, &mut preamble);
        let signal = EngineFence { engine: self.engine, fence_id };
        self.machine.gpu.submit(self.now, Packet { waits: Vec::new(), signal, preamble, buffer });
    }

    fn drain(&mut self) -> Vec<GpuEvent> {
        let mut events = Vec::new();
        while let Some(at) = self.machine.gpu.next_event_at() {
            self.now = self.now.max(at);
            self.machine.gpu.advance(self.now, &mut events);
        }
        events
    }

    fn page(&self, number: u64) -> Option<u64> {
        self.machine.gpu.page_digest(in_memory(number))
    }

    fn is_filled(&self, number: u64) -> bool {
        self.page(number) == Some(uniform_digest(u64::from(PATTERN) << 32 | u64::from(PATTERN)))
    }
}

fn in_memory(page: u64) -> PhysicalAddress {
    PhysicalAddress { segment: MEMORY, offset: page * PAGE_SIZE }
}

/// A fill of one page.
fn fill(page: u64) -> PagingOperation {
    PagingOperation::Fill(Fill {
        allocation: KmdAllocationHandle(7),
        fill_size: PAGE_SIZE,
        fill_pattern: PATTERN,
        destination: in_memory(page),
    })
}

fn place_of(buffer: &DmaBuffer) -> *const u8 {
    buffer.commands().as_ptr()
}

#[test]
fn nonsense_is_carried_out_as_documented_and_the_buffer_comes_back() {
    let mut rig = Rig::new();
    assert_eq!(rig.build(&fill(1)), (SUCCESS, 3));
    assert!(!rig.is_filled(1), "nothing happens before the packet runs");
    let submitted = rig.submit();
    let events = rig.drain();
    let [GpuEvent::Completed { buffer, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(place_of(buffer), submitted);
    assert!(rig.is_filled(1) && !rig.is_filled(2));
}

#[test]
fn the_machine_says_that_the_drivers_effects_are_unchecked() {
    let rig = Rig::new();
    assert!(!rig.machine.gpu.executes_commands());
    assert!(rig.machine.gpu.probe().is_none());
    let soft = machine(&SoftAdapterConfig::default(), FREE, ModelGpuFaults::default(), None);
    assert!(Machine::from(soft).gpu.executes_commands());
}

#[test]
fn an_operation_of_several_passes_belongs_to_the_packet_of_its_last() {
    let mut rig = Rig::new();
    rig.answer(&[(SUCCESS, 3), (FULL, 3), (SUCCESS, 3)]);
    assert_eq!((rig.build(&fill(1)), rig.build(&fill(2))), ((SUCCESS, 3), (FULL, 3)));
    rig.submit();
    rig.drain();
    assert!(rig.is_filled(1) && !rig.is_filled(2));
    assert_eq!(rig.build(&fill(2)), (SUCCESS, 3));
    rig.submit();
    rig.drain();
    assert!(rig.is_filled(2));
}

#[test]
fn an_operation_whose_last_pass_is_empty_gets_a_packet() {
    let mut rig = Rig::new();
    rig.answer(&[(FULL, 3), (SUCCESS, 0)]);
    rig.build(&fill(1));
    rig.submit();
    assert_eq!(rig.build(&fill(1)), (SUCCESS, 1), "an empty buffer would not be submitted");
    rig.submit();
    rig.drain();
    assert!(rig.is_filled(1));
}

#[test]
fn an_operation_that_needs_commands_and_has_none_is_not_carried_out() {
    let mut rig = Rig::new();
    rig.answer(&[(SUCCESS, 0), (SUCCESS, 3)]);
    assert_eq!((rig.build(&fill(1)), rig.build(&fill(2))), ((SUCCESS, 0), (SUCCESS, 3)));
    rig.submit();
    rig.drain();
    assert!(!rig.is_filled(1) && rig.is_filled(2));
}

#[test]
fn an_operation_that_may_be_without_commands_is_carried_out() {
    let mut rig = Rig::new();
    rig.answer(&[(SUCCESS, 0)]);
    let map = PagingOperation::MapApertureSegment(MapApertureSegment {
        allocation: KmdAllocationHandle(7),
        segment_id: SegmentId(1),
        offset_in_pages: 5,
        number_of_pages: 1,
        mdl: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 1 << 16 },
        flags: MapApertureFlags::empty(),
    });
    assert!(may_be_empty(&map, false, true) && !may_be_empty(&fill(1), false, true));
    assert_eq!(rig.build(&map), (SUCCESS, 1));
    rig.submit();
    rig.drain();
    let shown = PhysicalAddress { segment: SegmentId(1), offset: 5 * PAGE_SIZE };
    assert!(rig.machine.gpu.page_digest(shown).is_some());
}

#[test]
fn refused_and_busy_operations_are_not_carried_out() {
    let mut rig = Rig::new();
    rig.answer(&[(BuildStatus::AllocationBusy, 0), (BuildStatus::Other(-1), 3), (SUCCESS, 3)]);
    let answers = [1, 2, 3].map(|page| rig.build(&fill(page)).0);
    assert_eq!(answers, [BuildStatus::AllocationBusy, BuildStatus::Other(-1), SUCCESS]);
    rig.submit();
    rig.drain();
    assert_eq!([1, 2, 3].map(|page| rig.is_filled(page)), [false, false, true]);
}

#[test]
fn a_driver_that_claims_more_than_the_buffer_harms_nothing() {
    let mut rig = Rig::new();
    rig.answer(&[(FULL, usize::MAX), (SUCCESS, usize::MAX)]);
    assert_eq!((rig.build(&fill(1)), rig.build(&fill(1))), ((FULL, usize::MAX), (SUCCESS, usize::MAX)));
}

#[test]
fn packets_that_are_handed_out_again_do_the_same_again() {
    let mut rig = Rig::new();
    rig.build(&fill(1));
    let first = rig.submit();
    rig.build(&fill(2));
    let second = rig.submit();
    rig.machine.gpu.reset_engine(rig.now, PAGING_ENGINE);
    let events = rig.drain();
    let mut returned = events.into_iter().find_map(|event| match event {
        GpuEvent::EngineReset { returned, .. } => Some(returned),
        _ => None,
    });
    let returned = returned.take().expect("the engine was reset");
    let places: Vec<_> = returned.iter().map(|(fence_id, buffer)| (*fence_id, place_of(buffer))).collect();
    assert_eq!(places, [(1, first), (2, second)]);
    assert!(!rig.is_filled(1) && !rig.is_filled(2));
    rig.build(&fill(3));
    returned.into_iter().for_each(|(fence_id, buffer)| rig.submit_again(fence_id, buffer));
    rig.drain();
    assert_eq!([1, 2, 3].map(|page| rig.is_filled(page)), [true, true, false]);
}

#[test]
fn preempted_packets_come_back_with_their_buffers() {
    let mut rig = Rig::new();
    let places = [rig.submit(), rig.submit()];
    rig.machine.gpu.preempt(rig.now, PAGING_ENGINE, 9);
    let returned = rig.drain().into_iter().find_map(|event| match event {
        GpuEvent::Preempted { returned, .. } => Some(returned),
        _ => None,
    });
    let returned = returned.expect("the engine yields");
    assert_eq!(returned.iter().map(|(_, buffer)| place_of(buffer)).collect::<Vec<_>>(), places);
}

#[test]
fn commands_that_are_encoded_while_the_adapter_is_reset_are_not_run() {
    let mut rig = Rig::new();
    rig.build(&fill(1));
    let submitted = rig.submit();
    rig.machine.gpu.reset_from_timeout(rig.now);
    let events = rig.drain();
    let [GpuEvent::ResetFromTimeout { returned, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(returned.iter().map(|(_, buffer)| place_of(buffer)).collect::<Vec<_>>(), [submitted]);
    assert_eq!(rig.build(&fill(2)), (SUCCESS, 3));
    rig.machine.gpu.restart_from_timeout(rig.now);
    rig.drain();
    rig.build(&fill(3));
    rig.submit();
    rig.drain();
    assert_eq!([1, 2, 3].map(|page| rig.is_filled(page)), [false, false, true]);
}

#[test]
fn a_process_with_the_handle_of_an_old_one_has_none_of_its_translations() {
    let mut rig = Rig::new();
    let flushes = |rig: &mut Rig| {
        let mut preamble = Vec::new();
        let submit = SubmitCommand {
            context: KmdContextHandle(7),
            node_ordinal: RENDER_ENGINE,
            submission_fence_id: 1,
            paging: false,
            dma_buffer_submission_offsets: None,
        };
        rig.machine.kmd.submit_command(&submit, &mut preamble);
        Decoder::new(&preamble).filter(|command| matches!(command, Ok(Command::FlushTlb(_)))).count()
    };
    assert_eq!(flushes(&mut rig), 0);
    rig.machine.kmd.destroy_context(KmdContextHandle(7));
    rig.machine.kmd.destroy_process(KmdProcessHandle(7));
    let process = rig.machine.kmd.create_process(false).expect("it has memory");
    rig.machine.kmd.create_context(process, RENDER_ENGINE, false).expect("it has memory");
    assert_eq!((flushes(&mut rig), flushes(&mut rig)), (1, 0), "once is enough");
}

#[test]
fn each_of_many_engines_can_run_paging_buffers() {
    for engine in [3, 63] {
        let mut info = info();
        info.engines = vec![info.engines[1]; 64];
        info.engines[engine].kind = EngineKind::Paging;
        let mut rig = Rig::on(info, engine as u32);
        rig.answer(&[(SUCCESS, 8)]);
        rig.build(&fill(1));
        rig.submit();
        rig.drain();
        assert!(rig.is_filled(1), "engine {engine}");
    }
}

#[test]
fn adapters_that_the_model_cannot_be_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut AdapterInfo)| {
        let mut info = SoftKmd::new(SoftAdapterConfig::default()).query_adapter_info();
        change(&mut info);
        machine_of(info).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refused(&|_| ()), Ok(()));
    let says = |change: &dyn Fn(&mut AdapterInfo), part: &str| {
        let error = refused(change).expect_err("the model cannot be this");
        assert!(error.contains(part), "{error}");
    };
    says(&|info| info.segments[1].size = 0, "segment 2 has a size of 0");
    says(&|info| info.segments.clear(), "at least one segment");
    says(&|info| info.segments = vec![info.segments[1]; 32], "at most 31 segments, and the adapter has 32");
    says(&|info| info.engines.clear(), "engines is 0");
    says(&|info| info.engines = vec![info.engines[1]; 65], "engines is 65: an adapter has from 1 to 64");
    says(&|info| info.page_table_levels[1].page_table_size_in_bytes = 4096, "page tables of level 1 have 4096 bytes");
    says(&|info| info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes = 1, "for 64 KiB pages have 1 bytes");
    says(&|info| info.page_table_levels.truncate(1), "1 levels of page tables");
    says(&|info| info.gpu_mmu.virtual_address_bit_count = 64, "an address of at most 63");
    says(&|info| info.addressing_model = AddressingModel::GpuVaIoMmu, "reach system memory only");
}
