//! A GPU that misbehaves on purpose, and a driver that reports a page fault wrongly.

use crate::common::times;
use vidmm::GpuVirtualAddress;
use vidmm::contract::*;
use vidmm_runtime::{GpuEvent, GpuFault, Hits, InterruptFault, KernelCommand, Machine, Umd};
use vidmm_soft::*;

const FREE: CostModel = CostModel { reset_nanoseconds: 100, ..crate::common::FREE };

/// The machine with `fault`.
fn machine_with(fault: GpuFault, hits: Hits) -> Machine {
    let machine = machine(&SoftAdapterConfig::default(), FREE, ModelGpuFaults::default(), None);
    let mut machine = Machine::from(machine).with_gpu_fault(fault, hits);
    machine.kmd.query_adapter_info();
    machine
}

fn fence(engine: u32, fence_id: u64) -> EngineFence {
    EngineFence { engine, fence_id }
}

fn submit(machine: &mut Machine, signal: EngineFence, buffer: DmaBuffer) {
    machine.gpu.submit(0, Packet { waits: vec![], signal, preamble: vec![], buffer });
}

/// Submits `count` packets that take 10 ns each to the render engine.
fn submit_kernels(machine: &mut Machine, count: u64) {
    for number in 1..=count {
        let kernel =
            KernelCommand { kernel: number, nanoseconds: 10, content: <_>::default(), inputs: vec![], outputs: vec![] };
        submit(machine, fence(RENDER_ENGINE, number), DmaBuffer::User(SoftUmd.encode_kernel(&kernel)));
    }
}

/// The GPU's reports until nothing is to come, but for those of what kernels read.
fn drain(machine: &mut Machine) -> Vec<GpuEvent> {
    let mut events = Vec::new();
    while let Some(at) = machine.gpu.next_event_at() {
        machine.gpu.advance(at, &mut events);
    }
    events.retain(|event| !matches!(event, GpuEvent::KernelRead { .. }));
    events
}

/// The fences of four packets in the order in which their completions are reported under `fault`.
fn reported(fault: GpuFault, hits: Hits) -> Vec<u64> {
    let mut machine = machine_with(fault, hits);
    submit_kernels(&mut machine, 4);
    times(&drain(&mut machine)).iter().map(|(signal, ..)| signal.fence_id).collect()
}

#[test]
fn a_completion_is_lost_late_repeated_forged_or_swapped() {
    assert_eq!(reported(GpuFault::IgnorePreempt, Hits::Always), [1, 2, 3, 4], "without an occasion nothing is wrong");
    assert_eq!(reported(GpuFault::LoseInterrupt, Hits::Nth(2)), [1, 3, 4]);
    assert_eq!(reported(GpuFault::LoseInterrupt, Hits::Always), []);
    assert_eq!(reported(GpuFault::DelayInterrupt, Hits::Nth(2)), [1, 3, 4, 2]);
    assert_eq!(reported(GpuFault::RepeatInterrupt, Hits::Nth(2)), [1, 2, 2, 3, 4]);
    assert_eq!(reported(GpuFault::ForgeInterrupt, Hits::Nth(2)), [1, 2, 5, 3, 4], "5 is submitted next");
    assert_eq!(reported(GpuFault::SwapInterrupts, Hits::Nth(2)), [1, 3, 2, 4]);
    assert_eq!(reported(GpuFault::SwapInterrupts, Hits::Always), [2, 1, 4, 3]);
}

#[test]
fn forged_events_are_neither_swapped_nor_late() {
    for fault in [GpuFault::SwapInterrupts, GpuFault::DelayInterrupt] {
        let machine = machine_with(GpuFault::ForgeInterrupt, Hits::Nth(2));
        // Its occasions are the completions of packets that were submitted.
        let mut machine = machine.with_gpu_fault(fault, Hits::Nth(3));
        submit_kernels(&mut machine, 4);
        let fences = times(&drain(&mut machine)).iter().map(|(signal, ..)| signal.fence_id).collect::<Vec<_>>();
        assert_eq!(fences, [1, 2, 5, 4, 3], "{fault:?}");
    }
}

#[test]
fn a_late_completion_comes_when_its_engine_may_have_been_reset() {
    let mut machine = machine_with(GpuFault::DelayInterrupt, Hits::Nth(1));
    submit_kernels(&mut machine, 1);
    assert!(!drain(&mut machine).is_empty());
    let mut machine = machine_with(GpuFault::DelayInterrupt, Hits::Nth(1));
    submit_kernels(&mut machine, 1);
    let mut events = Vec::new();
    machine.gpu.advance(10, &mut events);
    assert_eq!(times(&events), []);
    assert_eq!(machine.gpu.next_event_at(), Some(10 + GpuFault::INTERRUPT_DELAY));
}

#[test]
fn a_repeated_completion_has_a_buffer_of_the_same_kind() {
    for paging in [false, true] {
        let mut machine = machine_with(GpuFault::RepeatInterrupt, Hits::Always);
        let buffer = if paging { DmaBuffer::Paging(PagingBuffer::new(64, 0)) } else { DmaBuffer::User(vec![]) };
        submit(&mut machine, fence(PAGING_ENGINE, 1), buffer);
        let events = drain(&mut machine);
        let is_paging = |event: &GpuEvent| match event {
            GpuEvent::Completed { buffer, .. } => matches!(buffer, DmaBuffer::Paging(_)),
            other => panic!("{other:?}"),
        };
        assert_eq!(events.iter().map(is_paging).collect::<Vec<_>>(), [paging; 2]);
    }
}

#[test]
fn a_forged_interrupt_means_nothing_to_the_driver() {
    let mut machine = machine_with(GpuFault::ForgeStatus, Hits::Nth(1));
    submit_kernels(&mut machine, 2);
    let events = drain(&mut machine);
    let [GpuEvent::Completed { .. }, GpuEvent::Interrupt { status, .. }, GpuEvent::Completed { .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(machine.kmd.interrupt_routine(status), None);
}

#[test]
fn a_preemption_is_ignored() {
    let mut machine = machine_with(GpuFault::IgnorePreempt, Hits::Nth(1));
    machine.gpu.preempt(0, RENDER_ENGINE, 1);
    assert_eq!(drain(&mut machine).len(), 0);
    machine.gpu.preempt(0, RENDER_ENGINE, 2);
    let events = drain(&mut machine);
    assert!(matches!(events[..], [GpuEvent::Preempted { preemption_fence_id: 2, .. }]), "{events:?}");
}

#[test]
fn an_engine_that_was_not_reset_keeps_what_it_runs() {
    for (fault, answers) in [(GpuFault::FailEngineReset, 1), (GpuFault::IgnoreEngineReset, 0)] {
        let mut machine = machine_with(fault, Hits::Nth(1));
        submit_kernels(&mut machine, 1);
        machine.gpu.advance(5, &mut Vec::new());
        machine.gpu.reset_engine(5, RENDER_ENGINE);
        let events = drain(&mut machine);
        assert_eq!(times(&events), [(fence(RENDER_ENGINE, 1), 0, 10)]);
        let failed = |event: &&GpuEvent| matches!(event, GpuEvent::EngineReset { result: Err(_), at: 5, .. });
        assert_eq!(events.iter().filter(failed).count(), answers);
        machine.gpu.reset_engine(10, RENDER_ENGINE);
        let events = drain(&mut machine);
        assert!(matches!(events[..], [GpuEvent::EngineReset { result: Ok(1), at: 110, .. }]), "{events:?}");
    }
}

#[test]
fn a_reset_is_said_to_abort_what_has_ended() {
    let mut machine = machine_with(GpuFault::AbortEndedPacket, Hits::Nth(1));
    submit_kernels(&mut machine, 3);
    machine.gpu.advance(25, &mut Vec::new());
    machine.gpu.reset_engine(25, RENDER_ENGINE);
    let events = drain(&mut machine);
    assert!(matches!(events[..], [GpuEvent::EngineReset { result: Ok(1), .. }]), "2 has ended: {events:?}");
}

#[test]
fn an_adapter_that_was_not_restarted_runs_nothing() {
    let mut machine = machine_with(GpuFault::FailRestart, Hits::Nth(1));
    machine.gpu.reset_from_timeout(0);
    assert!(matches!(drain(&mut machine)[..], [GpuEvent::ResetFromTimeout { at: 100, .. }]));
    machine.gpu.restart_from_timeout(100);
    let events = drain(&mut machine);
    assert!(matches!(events[..], [GpuEvent::RestartedFromTimeout { result: Err(_), .. }]), "{events:?}");
    submit_kernels(&mut machine, 1);
    assert_eq!(drain(&mut machine).len(), 0);
}

#[test]
fn the_driver_reports_the_chosen_page_fault_wrongly() {
    let kind = StatusKind::PageFault {
        virtual_address: GpuVirtualAddress(0x5000),
        write: true,
        io_mmu: false,
        page_table_level: 1,
        process: Some(KmdProcessHandle(4)),
    };
    let registers = StatusRegisters { kind, engine: RENDER_ENGINE, fence_id: 9 };
    let report = |machine: &mut Machine| match machine.kmd.interrupt_routine(&registers.to_bytes()) {
        Some(NotifyInterrupt::DmaPageFaulted(fault)) => {
            (fault.faulted_fence_id, fault.node_ordinal, fault.page_fault_flags - PageFaultFlags::WRITE)
        }
        other => panic!("{other:?}"),
    };
    let right = (9, RENDER_ENGINE, PageFaultFlags::ENGINE_RESET_REQUIRED);
    let hidden = PageFaultFlags::FENCE_INVALID;
    for (fault, wrong) in [
        (InterruptFault::HideFaultedFence, (0, RENDER_ENGINE, hidden | PageFaultFlags::ENGINE_RESET_REQUIRED)),
        (InterruptFault::RequireAdapterReset, (0, RENDER_ENGINE, hidden | PageFaultFlags::ADAPTER_RESET_REQUIRED)),
        (InterruptFault::RequireNoReset, (0, RENDER_ENGINE, hidden)),
        (InterruptFault::ReportFatalError, (9, RENDER_ENGINE, right.2 | PageFaultFlags::FATAL_HARDWARE_ERROR)),
        (InterruptFault::GarbleFaultedFence, (u64::MAX, RENDER_ENGINE, right.2)),
        (InterruptFault::GarbleFaultedEngine, (9, u32::MAX, right.2)),
    ] {
        let machine = machine(&SoftAdapterConfig::default(), FREE, ModelGpuFaults::default(), None);
        let mut machine = Machine::from(machine).with_interrupt_fault(fault, Hits::Nth(2));
        assert_eq!([(); 3].map(|()| report(&mut machine)), [right, wrong, right], "{fault:?}");
    }
}

#[test]
fn dependent_engines_are_those_of_the_groups() {
    let groups = vec![vec![RENDER_ENGINE, COPY_ENGINE]];
    let mut kmd = SoftKmd::new(SoftAdapterConfig { dependent_engines: groups, ..Default::default() });
    let masks = [PAGING_ENGINE, RENDER_ENGINE, COPY_ENGINE].map(|engine| kmd.query_dependent_engine_group(engine));
    assert_eq!(masks, [0b001, 0b110, 0b110]);
    let config = SoftAdapterConfig { dependent_engines: vec![vec![0, 3]], ..Default::default() };
    assert_eq!(config.check(), Err(ConfigError::NoSuchEngine { engine: 3, engines: 3 }));
}
