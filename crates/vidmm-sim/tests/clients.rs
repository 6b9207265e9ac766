//! The models of clients that exist, under pressure on the model GPU: every page that a kernel reads is judged.

use std::collections::BTreeSet;

use vidmm::contract::EngineKind;
use vidmm::{AdapterOptions, AllocationId, Event, Statistics};
use vidmm_runtime::{AllocationSegments, Content as KernelContent, Happening, Machine, Runtime};
use vidmm_sim::{ClientKind, Content, ModelProcess, ModelProcessDesc, Oracle, RandomTouches, Verdict};
use vidmm_soft::{CostModel, ModelGpuFaults, SoftAdapterConfig};
use vidmm_trace::Workload;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Buffers of each process, of 130 KiB on average: 12 MiB.
const BUFFERS: u32 = 96;

/// An access to memory where nothing is resident.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    /// Whose allocation is mapped there, by the process's number.
    process: usize,
    allocation: AllocationId,
    /// The manager has it resident.
    is_resident: bool,
    /// It is on its device's list.
    is_listed: bool,
}

/// What a run came to.
struct Outcome {
    ended: u64,
    verdict: Verdict,
    fault: Option<Fault>,
    /// The buffers' allocations, in order.
    allocations: Vec<AllocationId>,
    refused: u64,
    trims: u64,
    statistics: Statistics,
    seconds: u64,
}

fn machine(local_memory_bytes: u64, system_commit_limit_bytes: u64) -> Machine {
    let config = SoftAdapterConfig {
        local_memory_bytes,
        system_commit_limit_bytes: Some(system_commit_limit_bytes),
        ..SoftAdapterConfig::with_4kib_pages()
    };
    vidmm_soft::machine(&config, CostModel::default(), ModelGpuFaults::default(), None).into()
}

/// What the log says so far.
#[derive(Default)]
struct Log {
    resident: BTreeSet<AllocationId>,
    /// As often as it is on its device's list.
    listed: Vec<AllocationId>,
    refused: u64,
    trims: u64,
    /// What the last page fault touched.
    faulted: Option<AllocationId>,
}

impl Log {
    fn read(&mut self, runtime: &mut Runtime) {
        for event in runtime.drain_events() {
            match event.event {
                Event::Placed { allocation, .. } => _ = self.resident.insert(allocation),
                Event::Evicted { allocation, .. } => _ = self.resident.remove(&allocation),
                Event::MakeResident { allocations, .. } => self.listed.extend(allocations),
                Event::Evict { allocations, .. } => self.listed.retain(|listed| !allocations.contains(listed)),
                Event::MakeResidentRefused { .. } => self.refused += 1,
                Event::TrimNotified { .. } => self.trims += 1,
                Event::PageFault { allocation, .. } => self.faulted = allocation,
                _ => {}
            }
        }
    }
}

/// Runs a client of each of `kinds` on its part of `workload`, until all have ended or one touches what is not there.
fn run(workload: &Workload, kinds: &[ClientKind], machine: Machine) -> Outcome {
    let options = AdapterOptions { events: true, ..AdapterOptions::default() };
    let mut runtime = Runtime::start(options, machine).expect("the driver is sound");
    let engines: Vec<EngineKind> = runtime.vidmm().engines().to_vec();
    let mut processes: Vec<ModelProcess> = Vec::new();
    for (&kind, number) in kinds.iter().zip(0..) {
        let desc = ModelProcessDesc { kind, number, ahead: 8, content: KernelContent::Uniform };
        processes.push(ModelProcess::new(&mut runtime, &engines, workload, desc).expect("buffers fit somewhere"));
    }
    let buffers = 0..workload.buffers.len() as u32;
    let allocation_of = |buffer| processes.iter().find_map(|process| process.allocation_of(buffer));
    let allocations = buffers.filter_map(allocation_of).collect();
    let mut oracle = Oracle::new(workload, Content::Uniform);
    let (mut log, mut verdict, mut fault) = (Log::default(), Verdict::default(), None);
    while fault.is_none() && !processes.iter().all(ModelProcess::is_done) {
        for process in &mut processes {
            process.submit(&mut runtime).unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(runtime.advance(None), "nothing runs, and kernels are left");
        log.read(&mut runtime);
        while let Some(happening) = runtime.next_happening().filter(|_| fault.is_none()) {
            match &happening {
                Happening::KernelRead { kernel, inputs } => verdict.add(&oracle.judge(*kernel as usize, inputs)),
                Happening::PageFault { .. } => {
                    // Addresses are each process's own: the manager knows whose it was.
                    let allocation = log.faulted.expect("every address that a kernel uses is mapped");
                    let buffers = 0..workload.buffers.len() as u32;
                    let has = |process: &ModelProcess| {
                        buffers.clone().any(|buffer| process.allocation_of(buffer) == Some(allocation))
                    };
                    let process = processes.iter().position(has).expect("the allocation is a process's");
                    let is_resident = log.resident.contains(&allocation);
                    let is_listed = log.listed.contains(&allocation);
                    fault = Some(Fault { process, allocation, is_resident, is_listed });
                    continue;
                }
                Happening::AdapterInError(violation) => panic!("{violation}"),
                _ => {}
            }
            for process in &mut processes {
                process.hear(&mut runtime, &happening).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
    let ended = processes.iter().map(ModelProcess::ended).sum();
    let seconds = runtime.now() / 1_000_000_000;
    if fault.is_none() {
        for process in processes {
            process.close(&mut runtime).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    runtime.vidmm().check().expect("the manager's books are right");
    let (Log { refused, trims, .. }, statistics) = (log, runtime.statistics());
    Outcome { ended, verdict, fault, allocations, refused, trims, statistics, seconds }
}

/// Kernels of a millisecond that use up to six buffers of up to 256 KiB.
fn touches(seed: u64, processes: u32, kernels: u32) -> Workload {
    let (max_bytes, max_touches, nanoseconds) = (256 * KIB, 6, 1_000_000);
    RandomTouches { seed, processes, buffers: BUFFERS, max_bytes, kernels, max_touches, nanoseconds }.workload()
}

/// 100,000 submissions of three such clients, each of which alone has at least twice as many bytes as there is memory, end
/// with every page right.
#[track_caller]
fn assert_survives(kind: ClientKind, local: u64, system: u64) -> Outcome {
    let workload = touches(7, 3, 33_334);
    let outcome = run(&workload, &[kind; 3], machine(local, system));
    let Outcome { ended, verdict, refused, trims, ref statistics, seconds, .. } = outcome;
    println!(
        "{kind:?}: {ended} kernels in {seconds} s, {} pages read, {} wrong, {} MiB in, {} MiB out, {} evictions, \
         {refused} refused, {trims} trims, {} yields",
        verdict.pages,
        verdict.wrong,
        statistics.bytes_paged_in / MIB,
        statistics.bytes_paged_out / MIB,
        statistics.evictions,
        statistics.yields,
    );
    assert_eq!(outcome.fault, None);
    assert_eq!((ended, verdict.wrong), (100_002, 0));
    assert!(verdict.pages > 1_000_000 && statistics.evictions > 10_000, "there was no pressure");
    outcome
}

#[test]
fn a_sync_point_lru_survives_100_000_submissions_under_pressure() {
    assert_survives(ClientKind::SyncPointLru, 4 * MIB, MIB);
}

#[test]
fn a_drivers_controller_survives_100_000_submissions_under_pressure() {
    let outcome = assert_survives(ClientKind::Controller, 4 * MIB, MIB);
    assert!(outcome.refused > 0, "its ladder was not tried");
}

#[test]
fn a_mixed_manager_without_its_mistake_survives_100_000_submissions_under_pressure() {
    assert_survives(ClientKind::MixedFixed, 6 * MIB, 5 * MIB);
}

/// The mistake: when a submission needs evicted allocations of both groups, only the local ones are made resident.
#[test]
fn a_mixed_manager_with_its_mistake_touches_a_system_allocation_that_it_never_made_resident() {
    for seed in 1..6 {
        let workload = touches(seed, 1, 5_000);
        let outcome = run(&workload, &[ClientKind::Mixed], machine(4 * MIB, 2 * MIB));
        let fault = outcome.fault.expect("the mistake shows");
        let buffer = outcome.allocations.iter().position(|&allocation| allocation == fault.allocation);
        let segments = ClientKind::Mixed.segments(buffer.expect("it is a buffer's") as u32);
        assert_eq!(segments, AllocationSegments::System, "seed {seed}: the fault names the one that was forgotten");
        assert!(!fault.is_resident && !fault.is_listed, "seed {seed}: {fault:?}");
        assert_eq!(outcome.verdict.wrong, 0, "seed {seed}: it is found before a wrong page is read");

        let fixed = run(&workload, &[ClientKind::MixedFixed], machine(4 * MIB, 2 * MIB));
        assert_eq!((fixed.fault, fixed.ended, fixed.verdict.wrong), (None, 5_000, 0), "seed {seed}");
    }
}

/// Clients of all kinds share a memory that is too small for any of them.
#[test]
fn clients_of_different_kinds_get_along() {
    let kinds = [ClientKind::SyncPointLru, ClientKind::Controller, ClientKind::MixedFixed];
    let outcome = run(&touches(11, 3, 5_000), &kinds, machine(6 * MIB, 4 * MIB));
    assert_eq!((outcome.fault, outcome.ended, outcome.verdict.wrong), (None, 15_000, 0));
}

/// A client with a mistake harms nobody else.
#[test]
fn a_fault_of_one_client_names_that_client() {
    let kinds = [ClientKind::MixedFixed, ClientKind::Mixed];
    let outcome = run(&touches(3, 2, 5_000), &kinds, machine(6 * MIB, 4 * MIB));
    assert_eq!(outcome.fault.map(|fault| fault.process), Some(1));
    assert_eq!(outcome.verdict.wrong, 0);
}
