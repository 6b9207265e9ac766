//! The findings for a driver's author about a patch-location list that breaks no rule: errors SPL-01 and SPL-12, advice SPL-08 and
//! SPL-09. Nothing is refused for it.

use crate::patching::*;
use vidmm::*;

/// The findings about DMA buffers that `write` makes of three allocations of two pages and one of four, in a memory of sixteen.
fn findings(config: Config, write: impl Fn(Writer, [AllocationId; 4]) -> Writer) -> Vec<DriverFinding> {
    let mut world = World::new(config);
    let client = world.client();
    let allocations = [2, 2, 2, 4].map(|pages| world.local(client, pages));
    for _ in 0..2 {
        world.render(client.context, write(Writer::new().split(), allocations).finish());
    }
    world.run_all();
    assert!(world.vidmm.is_idle());
    assert_eq!(world.errors(), [], "nothing is refused");
    world.vidmm.driver_findings().to_vec()
}

#[test]
fn each_split_point_unbinds_or_reprograms() {
    let added = |writer: Writer, [a, b, ..]: [AllocationId; 4]| writer.read(0, a, 0).split().read(1, b, 0);
    let leak = DriverFinding::BindingLeak { position: 1 };
    assert_eq!(findings(Config::default(), added), [leak], "each kind is told once");
    assert!(!leak.is_advice());
    assert_eq!(findings(Config { no_dma_patching: true, ..Config::default() }, added), []);

    let reprogrammed = |writer: Writer, [a, b, ..]: [AllocationId; 4]| added(writer, [a, b, a, b]).read(0, a, 0);
    assert_eq!(findings(Config::default(), reprogrammed), []);
    let unbound = |writer: Writer, [a, b, ..]: [AllocationId; 4]| added(writer, [a, b, a, b]).unbind(0);
    assert_eq!(findings(Config::default(), unbound), []);
    let replaced = |writer: Writer, [a, b, ..]: [AllocationId; 4]| writer.read(0, a, 0).split().read(0, b, 0);
    assert_eq!(findings(Config::default(), replaced), []);
    let nothing_bound =
        |writer: Writer, [a, b, ..]: [AllocationId; 4]| writer.read(0, a, 0).split().unbind(0).split().read(1, b, 0);
    assert_eq!(findings(Config::default(), nothing_bound), []);
}

#[test]
fn a_bind_without_a_split_point_is_advised_against() {
    let written = |writer: Writer, [a, b, c, _]: [AllocationId; 4]| {
        writer.read(0, a, 0).read(1, b, 0).read(0, c, 0).split().read(0, a, 0).read(1, b, 0)
    };
    let advice = DriverFinding::MissingSplitPoint { position: 2, slot_id: 0 };
    assert_eq!(findings(Config::default(), written), [advice]);
    assert!(advice.is_advice());
    let unbound = |writer: Writer, [a, ..]: [AllocationId; 4]| writer.read(0, a, 0).split().read(0, a, 0).unbind(0);
    assert_eq!(findings(Config::default(), unbound), [DriverFinding::MissingSplitPoint { position: 2, slot_id: 0 }]);
    let same =
        |writer: Writer, [a, ..]: [AllocationId; 4]| writer.read(0, a, 0).write(0, a, 0, 1).split().read(0, a, 0);
    assert_eq!(findings(Config::default(), same), [], "it is the same allocation");
}

#[test]
fn a_driver_that_never_splits_is_in_error() {
    let written = |writer: Writer, [a, b, ..]: [AllocationId; 4]| writer.read(0, a, 0).read(0, b, 0);
    let error = DriverFinding::NoSplitPoint { position: 1, slot_id: 0 };
    assert_eq!(findings(Config::default(), written), [error]);
    assert!(!error.is_advice());
    let one_draw = |writer: Writer, [a, b, ..]: [AllocationId; 4]| writer.read(0, a, 0).read(1, b, 0);
    assert_eq!(findings(Config::default(), one_draw), [], "it may be one draw");
}

/// A quarter of the memory segment is large.
#[test]
fn large_allocations_that_stay_bound_are_advised_against() {
    let stays = |writer: Writer, [a, b, _, large]: [AllocationId; 4]| {
        writer.read(0, a, 0).read(1, large, 0).split().read(0, b, 0)
    };
    let advice = DriverFinding::LargeStaysBound { position: 2, slot_id: 1, size: 4 * PAGE_SIZE };
    assert_eq!(findings(Config::default(), stays), [advice]);
    assert!(advice.is_advice());
    assert_eq!(findings(Config::pages(17), stays), [], "that is less than a quarter");
    let reprogrammed = |writer: Writer, all: [AllocationId; 4]| stays(writer, all).read(1, all[3], 0);
    assert_eq!(findings(Config::default(), reprogrammed), []);
    let unbound = |writer: Writer, all: [AllocationId; 4]| stays(writer, all).unbind(1);
    assert_eq!(findings(Config::default(), unbound), []);
}
