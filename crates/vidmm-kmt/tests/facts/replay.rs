//! A log of calls gives the same answers, at the same times, without the client.

use vidmm_kmt::{
    AllocationInfo, Call, CallLog, FenceValue, Memory, Neighbour, Reply, Session, Settings, UpdateOperation, replay,
};

use crate::client::{MIB, parsed};
use crate::pressure::SCENARIO;

/// Makes calls by a seed: legal and illegal calls, in any order.
fn play(session: &mut Session, seed: u64, mut log: impl FnMut(&Session, &Call, &Reply)) {
    let mut draws = 0;
    let mut draw = |below: u64| {
        draws += 1;
        vidmm_runtime::mixed(seed.wrapping_mul(1 << 20) + draws) % below
    };
    let mut handles: Vec<u32> = vec![0, 1];
    for at in 0..400 {
        let mut any = || handles[draw(handles.len() as u64) as usize];
        let (one, other) = (any(), any());
        let size = (1 + draw(64)) << 16;
        let flags = draw(4) as u32;
        let call = match if at < 12 { at % 6 } else { draw(25) } {
            0 => Call::OpenAdapter,
            1 => Call::CreateDevice { adapter: one },
            2 => Call::CreatePagingQueue { device: one, priority: 0 },
            3 => Call::CreateContext { device: one, node_ordinal: flags & 1, flags: (flags & 2) << 3 },
            4 => Call::CreateMonitoredFence { device: one, initial_value: 0, is_shared: flags > 1 },
            5 | 6 => {
                let memory = [Memory::Local, Memory::System, Memory::LocalOrSystem][draw(3) as usize];
                let allocations = vec![AllocationInfo { size, memory, lockable: true }];
                let (creates_resource, is_shared) = (flags > 0, flags > 1);
                Call::CreateAllocation { device: one, resource: 0, creates_resource, is_shared, allocations }
            }
            7 | 8 => Call::MakeResident { paging_queue: one, allocations: vec![other], flags },
            9 => Call::Evict { device: one, allocations: vec![other], flags },
            10 => Call::MapGpuVirtualAddress {
                paging_queue: one,
                allocation: other,
                base: 0,
                minimum: 1 << 20,
                maximum: 0,
                offset: 0,
                size: 0,
                protection: 1,
                driver_protection: 0,
            },
            11 => Call::SubmitCommand { context: one, commands: size, length: 64, fence_address: 0, fence_value: 0 },
            12 => Call::DestroyAllocation { device: one, resource: 0, allocations: vec![other], flags },
            13 => Call::Lock { device: one, allocation: other },
            14 => Call::OpenResource { device: one, resource: other },
            15 => Call::OpenSyncObject { device: one, fence: other },
            16 => Call::WaitFromGpu { context: one, fences: vec![FenceValue { fence: other, value: flags.into() }] },
            17 if draw(8) == 0 => Call::DestroySynchronizationObject { fence: one },
            18 if draw(8) == 0 => Call::DestroyDevice { device: one },
            19 => Call::CreateHwQueue { context: one },
            20 => Call::SubmitCommandToHwQueue { hw_queue: one, commands: size, progress_fence_value: at },
            21 => {
                let fences = vec![FenceValue { fence: other, value: flags.into() }];
                Call::SubmitWaitForSyncObjectsToHwQueue { hw_queue: one, fences }
            }
            22 => Call::UpdateAllocationProperty {
                paging_queue: one,
                allocation: other,
                supported_segment_set: Some(flags),
                preferred_segments: None,
            },
            23 => {
                let base = draw(8) << 16;
                let operation = match flags {
                    0 => UpdateOperation::Unmap { base, size },
                    1 => UpdateOperation::Copy { source: size, base, size: 1 << 16 },
                    _ => UpdateOperation::Map {
                        base,
                        size,
                        allocation: other,
                        offset: 0,
                        allocation_size: 0,
                        protection: 1,
                        driver_protection: 0,
                    },
                };
                let fence = FenceValue { fence: other, value: 0 };
                Call::UpdateGpuVirtualAddress {
                    context: one,
                    fence,
                    does_not_wait: flags > 1,
                    operations: vec![operation],
                }
            }
            24 => Call::ReserveGpuVirtualAddress { object: one, base: 0, minimum: 0, maximum: 0, size },
            _ => {
                let until = session.now() + draw(4) * 100_000;
                Call::TimePasses { until }
            }
        };
        let reply = session.call(&call);
        handles.extend(reply.handles.iter().filter(|&&handle| handle != 0));
        log(session, &call, &reply);
    }
}

#[test]
fn a_hundred_logs_of_random_calls_give_the_same_answers() {
    let folder = tempfile::tempdir().expect("there is a folder");
    for seed in 0..100 {
        let path = folder.path().join(format!("{seed}.jsonl"));
        let faults = parsed(&["refuse@1/5", "pending@1/7", "late@1/3", "at-once@1/9", "suspend@1/9", "trim@1/5"]);
        let scenario = Neighbour::Scenario { name: "neighbour".to_owned(), text: SCENARIO.to_owned() };
        let neighbour = [None, Some(Neighbour::Size(MIB)), Some(scenario)][seed as usize % 3].clone();
        let settings = Settings { local_memory: 4 << 20, seed, faults, neighbour, ..Settings::default() };
        let mut session = Session::start(settings.clone()).expect("the adapter starts");
        let mut log = CallLog::create(&path, &settings).expect("the file is made");
        play(&mut session, seed, |session, call, reply| log.line(session, call, reply));
        log.flush().expect("the file is written");
        let played = replay(&path, false, |_| ()).expect("the log is read");
        assert_eq!((played.difference, &played.findings[..]), (None, session.findings()), "seed {seed}");
    }
}

#[test]
fn a_file_that_is_no_log_is_refused_with_the_line() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let path = folder.path().join("calls.jsonl");
    let error = |text: &str| {
        std::fs::write(&path, text).expect("the file is written");
        replay(&path, false, |_| ()).expect_err("that is no log").to_string()
    };
    assert!(error("").starts_with("line 0 is no call"));
    assert!(error("{\"vidmm_calls\":9,\"settings\":{}}").contains("version 9"));
    assert!(error("{\"vidmm_calls\":3,\"settings\":{}}\n{\"n\":1}").starts_with("line 2 is no call"));
    assert!(error("{\"vidmm_calls\":3,\"settings\":{\"local_memory\":5}}").contains("does not start"));
}
