//! Pressure by request: faults, and another user of the manager.

use vidmm_kmt::{Call, FaultKind, FenceValue, Neighbour, Session, Settings, Status};

use crate::client::{CANT_TRIM_FURTHER, Client, MIB, parsed, small};

/// A process that works on 3 MiB for ever.
pub const SCENARIO: &str = r#"
    [[process]]
    name = "texture streamer"
    kind = "cyclic-layers"
    layers = 6
    layer-bytes = "512 KiB"
    hot-buffers = 1
    hot-bytes = "64 KiB"
    passes = 4000
    kernel-ns = 200_000
"#;

fn scenario(text: &str) -> Option<Neighbour> {
    Some(Neighbour::Scenario { name: "neighbour.toml".to_owned(), text: text.to_owned() })
}

#[test]
fn a_call_that_is_done_at_once_may_be_pending() {
    let mut client = Client::with_faults(&["pending@2"]);
    let (allocation, commands) = client.ready(MIB);
    client.call(Call::TimePasses { until: 10_000_000 });
    let made = client.make_resident(allocation, 0);
    assert_eq!(client.struck(FaultKind::Pending), 0, "both calls had a fence of their own");
    assert_eq!(made.status, Status::SUCCESS);
    let made = client.make_resident(allocation, 0);
    assert_eq!((made.status, client.struck(FaultKind::Pending)), (Status::PENDING, 1));
    let fences = vec![FenceValue { fence: client.paging_fence, value: made.value() }];
    let before = client.session.now();
    let wait = Call::WaitFromCpu { device: client.device, fences, any: false };
    assert_eq!(client.call(wait).status, Status::SUCCESS);
    assert!(client.session.now() > before, "the value comes later");
    client.submit(commands);
    assert_eq!(client.end(), []);
}

#[test]
fn work_before_the_late_value_of_a_call_that_was_done_is_named() {
    let mut client = Client::with_faults(&["pending@1/1"]);
    let (allocation, commands) = client.ready(MIB);
    client.finish();
    assert_eq!(client.make_resident(allocation, 0).status, Status::PENDING);
    client.submit(commands);
    assert_eq!(client.end(), [vidmm_kmt::Rule::SubmittedBeforeResident]);
}

/// Before, a reservation on the adapter was pending, and its caller had no fence to wait for.
#[test]
fn a_reservation_without_a_paging_queue_is_never_pending() {
    let mut client = Client::with_faults(&["pending"]);
    let (object, size) = (client.adapter, MIB);
    let reserve = Call::ReserveGpuVirtualAddress { object, base: 1 << 30, minimum: 0, maximum: 0, size };
    assert_eq!(client.call(reserve).status, Status::SUCCESS);
    assert_eq!(client.end(), []);
}

#[test]
fn paging_at_once_answers_a_fence_value_of_0() {
    let mut client = Client::with_faults(&["at-once"]);
    let allocation = client.create(8 * MIB);
    let made = client.make_resident(allocation, 0);
    assert_eq!((made.status, made.value()), (Status::SUCCESS, 0));
    assert!(client.session.now() > 0, "the call has lasted");
    assert_eq!(client.end(), []);
}

/// Work that waits for a paging fence runs when the client can see the value.
#[test]
fn a_late_value_holds_back_the_work_that_waits_for_it() {
    let late = |faults: &[&str]| {
        let mut client = Client::with_faults(faults);
        let (_, commands) = client.ready(MIB);
        client.submit(commands);
        assert_eq!(client.finish().status, Status::SUCCESS);
        let now = client.session.now();
        assert_eq!(client.end(), []);
        now
    };
    assert!(late(&["late"]) > late(&[]));
}

#[test]
fn a_suspended_process_makes_progress_later() {
    let mut client = Client::with_faults(&["suspend@1"]);
    let (_, commands) = client.ready(MIB);
    let before = client.session.now();
    client.submit(commands);
    assert_eq!(client.finish().status, Status::SUCCESS);
    assert!(client.session.now() >= before + 10_000_000);
    assert_eq!(client.end(), []);
}

#[test]
fn a_trim_by_request_that_is_ignored_is_named() {
    let mut client = Client::with_faults(&["trim@1"]);
    client.call(Call::RegisterTrimNotification { device: client.device });
    let (allocation, commands) = client.ready(8 * MIB);
    client.submit(commands);
    (0..40).for_each(|_| _ = client.call(Call::GetDeviceState { device: client.device }));
    client.submit(commands);
    assert_eq!(client.session.findings()[0].rule, vidmm_kmt::Rule::TrimIgnored);
    client.evict(allocation);
    assert_eq!(client.end(), [vidmm_kmt::Rule::TrimIgnored]);
}

#[test]
fn a_page_fault_is_a_state_of_the_device() {
    let mut client = Client::with_faults(&["page-fault@1"]);
    let (_, commands) = client.ready(MIB);
    client.submit(commands);
    client.finish();
    assert_eq!(client.call(Call::GetDeviceState { device: client.device }).value(), 7);
}

#[test]
fn a_fault_that_is_not_known_is_refused_with_the_names() {
    let error = |text: &str| text.parse::<vidmm_kmt::Fault>().expect_err("that is no fault");
    assert!(error("refuses").contains("refuse-final, pending, at-once, late, trim, suspend"));
    assert!(error("refuse@0").contains("write `refuse@3`, or `refuse@1/3`"));
    assert_eq!("late@1/4".parse::<vidmm_kmt::Fault>().map(String::from), Ok("late@1/4".to_owned()));
}

#[test]
fn a_scenario_plays_beside_the_client() {
    let settings = Settings { local_memory: 8 * MIB, neighbour: scenario(SCENARIO), ..Settings::default() };
    let mut client = Client::start(settings);
    let statistics = Call::QueryStatistics { local: true, of_process: false };
    client.call(Call::TimePasses { until: 20_000_000 });
    let resident = client.call(statistics.clone()).values[2];
    assert!(resident >= 3 * MIB, "the neighbour has {resident} bytes resident");
    // The client takes so much that the neighbour has to page.
    let (_, commands) = client.ready(6 * MIB);
    for _ in 0..20 {
        client.submit(commands);
        assert_eq!(client.finish().status, Status::SUCCESS);
    }
    assert_eq!(client.session.neighbour_error(), None);
    assert_eq!(client.end(), []);
}

#[test]
fn a_scenario_that_cannot_be_a_neighbour_is_refused() {
    let error = |text: &str| {
        let settings = Settings { neighbour: scenario(text), ..small() };
        Session::start(settings).err().expect("that is no neighbour")
    };
    assert!(error("colour = 1").starts_with("neighbour.toml"));
    assert!(error("[[process]]\ntrace = \"a.csv\"").contains("another file"));
    assert!(error("faults = [\"hang-packet@3\"]").contains("a run of its own"));
    assert!(error("[[process]]\nkind = \"cyclic-layers\"\nlayer-bytes = \"1 GiB\"").contains("local memory has"));
}

/// A good client has no finding under any pressure.
#[test]
fn a_good_client_under_every_pressure_has_no_finding() {
    let faults = ["refuse@1/3", "pending@1/3", "late@1/2", "at-once@1/5", "suspend@1/9"];
    for seed in 0..20 {
        let faults = parsed(&faults);
        let mut client = Client::start(Settings { seed, faults, neighbour: scenario(SCENARIO), ..small() });
        let mut listed: Vec<u32> = Vec::new();
        for _ in 0..30 {
            let allocation = client.create(4 * MIB);
            let mapped = client.map(allocation);
            client.wait(mapped.value());
            let mut made = client.make_resident(allocation, 0);
            while made.status == Status::NO_MEMORY && !listed.is_empty() {
                client.finish();
                let oldest = listed.remove(0);
                client.evict(oldest);
                client.destroy(oldest, 0);
                made = client.make_resident(allocation, 0);
            }
            if made.status == Status::NO_MEMORY {
                made = client.make_resident(allocation, CANT_TRIM_FURTHER);
            }
            assert!(made.status.is_success(), "{made:?}");
            client.wait(made.value());
            listed.push(allocation);
            client.submit(mapped.address);
        }
        assert_eq!(client.finish().status, Status::SUCCESS);
        assert_eq!(client.end(), [], "seed {seed}");
    }
}
