//! The models of clients that exist, under pressure on the model GPU: every page that a kernel reads is judged.

use vidmm::contract::EngineKind;
use vidmm::{AdapterOptions, AllocationId};
use vidmm_runtime::{Content as KernelContent, Happening, Machine, Runtime};
use vidmm_sim::{ClientKind, Content, Finding, ModelProcess, ModelProcessDesc, Oracle, RandomTouches, Verdict};
use vidmm_soft::{CostModel, ModelGpuFaults, SoftAdapterConfig};
use vidmm_trace::Workload;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What a run came to.
struct Outcome {
    ended: u64,
    verdict: Verdict,
    findings: Vec<Finding>,
    /// The allocations of each process.
    allocations: Vec<AllocationId>,
    paged_in: u64,
    paged_out: u64,
    evictions: u64,
    refused: u64,
    suspensions: u64,
    now_ns: u64,
}

fn machine(local_memory_bytes: u64, system_bytes: u64) -> Machine {
    let config = SoftAdapterConfig {
        local_memory_bytes,
        aperture_bytes: 256 * MIB,
        system_commit_limit_bytes: Some(system_bytes),
        ..SoftAdapterConfig::with_4kib_pages()
    };
    vidmm_soft::machine(&config, CostModel::default(), ModelGpuFaults::default(), None).into()
}

/// Runs one client of each kind that `kinds` names on its part of `workload`, until all have ended or something is found.
fn run(workload: &Workload, kinds: &[ClientKind], machine: Machine) -> Outcome {
    let options = AdapterOptions { events: true, ..AdapterOptions::default() };
    let mut runtime = Runtime::start(options, machine).expect("the driver is sound");
    let engines: Vec<EngineKind> = runtime.vidmm().engines().to_vec();
    let mut processes: Vec<ModelProcess> = Vec::new();
    for (&kind, number) in kinds.iter().zip(0..) {
        let desc = ModelProcessDesc { kind, number, ahead: 8, content: KernelContent::Uniform };
        processes.push(ModelProcess::new(&mut runtime, &engines, workload, desc).expect("buffers fit somewhere"));
    }
    let mut oracle = Oracle::new(workload, Content::Uniform);
    let mut outcome = Outcome {
        ended: 0,
        verdict: Verdict::default(),
        findings: Vec::new(),
        allocations: Vec::new(),
        paged_in: 0,
        paged_out: 0,
        evictions: 0,
        refused: 0,
        suspensions: 0,
        now_ns: 0,
    };
    let buffers = 0..workload.buffers.len() as u32;
    let allocation_of = |buffer| processes.iter().find_map(|process| process.allocation_of(buffer));
    outcome.allocations = buffers.filter_map(allocation_of).collect();
    while outcome.findings.is_empty() && !processes.iter().all(ModelProcess::is_done) {
        for process in &mut processes {
            process.submit(&mut runtime).unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(runtime.advance(None), "nothing runs, and kernels are left");
        while let Some(happening) = runtime.next_happening() {
            match &happening {
                Happening::KernelRead { kernel, inputs } if outcome.findings.is_empty() => {
                    let verdict = oracle.judge(*kernel as usize, inputs);
                    outcome.verdict.add(&verdict);
                    assert!(verdict.is_right(), "kernel {kernel}: {verdict:?}");
                }
                &Happening::PageFault { signal, virtual_address, write } => {
                    let mapped = processes.iter().find_map(|process| process.mapping_at(virtual_address.0));
                    let (allocation, page) = mapped.expect("every address that a kernel uses is mapped");
                    let (engine, event) = (signal.engine, runtime.vidmm().events().number());
                    let (virtual_address, allocation) = (virtual_address.0, Some(allocation.to_string()));
                    outcome.findings.push(Finding::PageFault {
                        virtual_address,
                        write,
                        engine,
                        allocation,
                        page,
                        event,
                    });
                }
                Happening::AdapterInError(violation) => panic!("{violation}"),
                _ => {}
            }
            if outcome.findings.is_empty() {
                for process in &mut processes {
                    process.hear(&mut runtime, &happening).unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
        count(&mut runtime, &mut outcome);
    }
    outcome.ended = processes.iter().map(ModelProcess::ended).sum();
    outcome.now_ns = runtime.now();
    if outcome.findings.is_empty() {
        processes.into_iter().for_each(|process| process.close(&mut runtime).unwrap_or_else(|error| panic!("{error}")));
        runtime.vidmm().check().expect("the manager's books are right");
    }
    let statistics = runtime.statistics();
    (outcome.paged_in, outcome.paged_out) = (statistics.bytes_paged_in, statistics.bytes_paged_out);
    outcome.evictions = statistics.evictions;
    outcome
}

fn count(runtime: &mut Runtime, outcome: &mut Outcome) {
    for event in runtime.drain_events() {
        match event.event {
            vidmm::Event::MakeResidentRefused { .. } => outcome.refused += 1,
            vidmm::Event::DeviceSuspended { .. } => outcome.suspensions += 1,
            _ => {}
        }
    }
}

fn touches(processes: u32, kernels: u32) -> RandomTouches {
    RandomTouches {
        seed: 7,
        processes,
        buffers: 96,
        max_bytes: 256 * KIB,
        kernels,
        max_touches: 6,
        nanoseconds: 1_000_000,
    }
}

fn show(kind: ClientKind, outcome: &Outcome) {
    println!(
        "{kind:?}: {} kernels, {} pages read, {} wrong, {} MiB in, {} MiB out, {} evictions, {} refused, {} suspensions, {} s",
        outcome.ended,
        outcome.verdict.pages,
        outcome.verdict.wrong,
        outcome.paged_in / MIB,
        outcome.paged_out / MIB,
        outcome.evictions,
        outcome.refused,
        outcome.suspensions,
        outcome.now_ns / 1_000_000_000,
    );
}

#[test]
fn alone() {
    for kind in ClientKind::ALL {
        let workload = touches(1, 10_000).workload();
        let start = std::time::Instant::now();
        let outcome = run(&workload, &[kind], machine(4 * MIB, 2 * MIB));
        show(kind, &outcome);
        println!("{:?} {:?}", outcome.findings, start.elapsed());
    }
}
