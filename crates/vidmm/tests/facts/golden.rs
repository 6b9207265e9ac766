//! The operations that are sent when an allocation becomes resident and leaves again, for every combination of
//! addressing model, place, flags, chunks, mappings and revision: as text beside this file (NTF-01..09, U-15, SEG-12,
//! SEG-13, PGV-05); and the auditor, which has judged each of them, misses no step and finds each one too many.
//!
//! `UPDATE_EXPECTED=1 cargo test -p vidmm --test facts golden` makes the text again.

use std::fmt::Write;

use crate::transcript::*;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;
use vidmm_trace::{Audit, Invariant};

const WINDOW_PAGES: u64 = 1024;
const FLAGS: [(&str, AllocationFlags2); 4] =
    [("no flags", SILENT), ("NotifyEviction", EVICTION), ("NotifyIoMmuUnmap", IO_MMU_UNMAP), ("both flags", BOTH)];
const PLACES: [(&str, Place); 3] =
    [("local memory", Place::Local), ("the aperture", Place::Aperture), ("implicit system memory", Place::System)];

/// An adapter whose paging process has 4 MiB of addresses: with local memory if an allocation is to be there.
fn config(model: AddressingModel, place: Place, revision: NotificationRevision) -> Config {
    let segment_bytes = if place == Place::Local { 16 << 20 } else { 0 };
    Config {
        segment_bytes,
        level_bits: vec![9, 9, 9],
        paging_va_mib: Some(4),
        revision,
        buffer_bytes: 64 << 10,
        ..Config::integrated(model, 4096)
    }
}

/// Maps all of the allocation, a part of it, and all of it read-only; or only the first. Where the first is.
fn map(world: &mut World, client: Client, allocation: AllocationId, pages: u64, count: usize) -> u64 {
    let whole = MapGpuVirtualAddress::whole(allocation);
    let part = MapGpuVirtualAddress { offset: pages / 4 * PAGE_SIZE, size: pages / 2 * PAGE_SIZE, ..whole };
    let descs = [whole, part, MapGpuVirtualAddress { write: false, ..whole }];
    let addresses = descs[..count].iter().map(|desc| world.try_map(client, desc).unwrap().virtual_address.0);
    addresses.collect::<Vec<_>>()[0]
}

struct Case {
    model: AddressingModel,
    place: Place,
    flags2: AllocationFlags2,
    pages: u64,
    mappings: usize,
    revision: NotificationRevision,
}

/// The operations of a case.
struct Run {
    entry: Vec<Step>,
    exit: Vec<Step>,
    events: Vec<Event>,
    /// How many of them were there before it became resident.
    since: usize,
}

/// Runs a case, or says why there is none.
fn run(case: &Case) -> Result<Run, String> {
    let config = config(case.model, case.place, case.revision);
    let report = VidMm::start_adapter(config.options(), &mut Driver::new(&config), &mut Ledger::default());
    if let Err(error) = report {
        return Err(error.broken_rules.iter().map(|rule| rule.to_string()).collect::<Vec<_>>().join("; "));
    }
    let mut world = World::new(config);
    let client = world.client();
    let allocation = world.create(client, case.place, case.pages, case.flags2);
    let known = world.machine.known[&world.handle(allocation)];
    let at = map(&mut world, client, allocation, case.pages, case.mappings);
    world.run_all();
    let (since_event, since) = (world.events.len(), world.journal.len());
    world.bring_in(client, &[allocation]);
    let entry = transcript(&world, since);

    // Its content is there, compressed where the driver is told in time.
    let touched = [0, 1, case.pages / 2, case.pages - 1];
    let told = case.flags2.contains(EVICTION) || case.place == Place::Local;
    let program = touched.map(|page| {
        let (address, token) = (at + page * PAGE_SIZE, page + 7);
        if told {
            Access::WriteSurface(address, known.info.allocation, page, token)
        } else {
            Access::Write(address, token)
        }
    });
    world.submit(client, &program);
    world.run_all();
    let since = world.journal.len();
    world.evict(client, &[allocation], SOON).unwrap();
    world.run_all();
    let exit = transcript(&world, since);
    let events = world.events.clone();
    for page in touched {
        let at = known.backing_store.offset_by(page * PAGE_SIZE);
        assert_eq!(world.machine.read(at, &world.host), page + 7, "I02: page {page} is not plain, or lost");
    }
    world.tear_down();

    Ok(Run { entry, exit, events, since: since_event })
}

impl Run {
    fn text(&self) -> String {
        let mut text = String::new();
        for (title, steps) in [("becomes resident", &self.entry), ("leaves", &self.exit)] {
            writeln!(text, "  {title}:").unwrap();
            steps.iter().for_each(|step| writeln!(text, "    {step}").unwrap());
        }
        text
    }
}

/// All cases of a model. The earlier revision is written where it differs.
fn all(model: AddressingModel) -> String {
    let mut text = String::new();
    for [now, before] in cases(model) {
        let (now, before) = (block(&now), block(&before));
        writeln!(text, "{now}").unwrap();
        if now != before {
            let (title, lines) = before.split_once('\n').unwrap();
            writeln!(text, "{title}, revision 2024-08\n{lines}").unwrap();
        }
    }
    text
}

/// All cases of a model, in both revisions.
fn cases(model: AddressingModel) -> impl Iterator<Item = [Case; 2]> {
    let places = PLACES.into_iter().flat_map(|(_, place)| FLAGS.map(|(_, flags2)| (place, flags2)));
    let sizes = places
        .flat_map(|(place, flags2)| [16, 2 * WINDOW_PAGES + WINDOW_PAGES / 2].map(|pages| (place, flags2, pages)));
    let numbers = sizes.flat_map(|(place, flags2, pages)| [1, 3].map(|mappings| (place, flags2, pages, mappings)));
    numbers.map(move |(place, flags2, pages, mappings)| {
        [NotificationRevision::Current, NotificationRevision::August2024].map(|revision| Case {
            model,
            place,
            flags2,
            pages,
            mappings,
            revision,
        })
    })
}

/// The title of a case and its lines.
fn block(case: &Case) -> String {
    let place = PLACES.iter().find(|&&(_, place)| place == case.place).unwrap().0;
    let flags = FLAGS.iter().find(|&&(_, flags2)| flags2 == case.flags2).unwrap().0;
    let Case { pages, mappings, .. } = case;
    let plural = if *mappings == 1 { "" } else { "s" };
    let lines = run(case).map_or_else(|rules| format!("  refused: {rules}\n"), |run| run.text());
    format!("{place}, {flags}, {pages} pages, {mappings} mapping{plural}\n{lines}")
}

fn matches_file(name: &str, text: &str) {
    let path = format!("{}/tests/facts/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).expect("UPDATE_EXPECTED=1 makes the file");
    let differs = text.lines().zip(expected.lines()).enumerate().find(|(_, (now, before))| now != before);
    assert!(text == expected, "{path} says something else, first at {differs:?}; UPDATE_EXPECTED=1 makes it again");
}

#[test]
fn gpu_mmu_sends_what_the_documents_say() {
    matches_file("gpu_mmu", &all(AddressingModel::GpuMmu));
}

#[test]
fn gpu_va_io_mmu_sends_what_the_documents_say() {
    matches_file("gpu_va_io_mmu", &all(AddressingModel::GpuVaIoMmu));
}

#[test]
fn gpu_va_io_mmu_global_sends_what_the_documents_say() {
    matches_file("gpu_va_io_mmu_global", &all(AddressingModel::GpuVaIoMmuGlobal));
}

/// Whether two steps may come in either order: entries of different tables that become valid, or invalid, one after
/// another, windows of different tables, and what the aperture and the IOMMU begin to show; nor does the end of a window,
/// which the host takes away when its packet has ended, say when the aperture's operation after it is built.
fn may_swap(first: &Event, second: &Event) -> bool {
    let are_valid = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
            Some(op.page_table_entries.first.flags.contains(PteFlags::VALID))
        }
        _ => None,
    };
    let appears = |event: &Event| match event {
        Event::PagingOperation { operation, .. } => matches!(operation, PagingOperation::MapApertureSegment(_)),
        event => matches!(event, Event::IoMmuMapped { window: false, .. }),
    };
    let unmaps_aperture = |event: &Event| match event {
        Event::PagingOperation { operation, .. } => matches!(operation, PagingOperation::UnmapApertureSegment(_)),
        _ => false,
    };
    let window = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
            (op.process == PAGING_PROCESS).then_some(op.page_table_address)
        }
        _ => None,
    };
    let are_other_windows = window(first).zip(window(second)).is_some_and(|(first, second)| first != second);
    let ends_window = matches!(first, Event::IoMmuUnmapped { window: true, .. });
    are_valid(first).is_some() && are_valid(first) == are_valid(second)
        || are_other_windows
        || appears(first) && appears(second)
        || ends_window && unmaps_aperture(second)
}

/// Whether the auditor finds something in a log, besides how its numbers and its bytes follow each other.
fn is_found<'a>(events: impl Iterator<Item = &'a Event>) -> bool {
    let mut audit = Audit::new();
    for (number, event) in (1..).zip(events) {
        audit.event(&NumberedEvent { number, at: 0, occurred_at: None, event: event.clone() });
    }
    audit.findings().iter().any(|finding| !matches!(finding.invariant, Invariant::I21 | Invariant::Log))
}

/// The requests to the driver and the host, but flushes of windows: only where the next operation uses them is one missing.
fn is_step(event: &Event) -> bool {
    match event {
        Event::PagingOperation { operation, .. } => !matches!(operation, PagingOperation::FlushTlb(_)),
        Event::IoMmuMapped { .. } | Event::IoMmuUnmapped { .. } => true,
        _ => false,
    }
}

impl Run {
    /// Where the steps are among the events.
    fn steps(&self) -> impl Iterator<Item = usize> {
        (self.since..self.events.len()).filter(|&number| is_step(&self.events[number]))
    }
}

/// The auditor finds what is left out, and what is done twice.
#[test]
fn the_auditor_rejects_a_log_with_one_step_more_or_less() {
    let models = [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];
    let mut rejected = 0;
    let cases = models.into_iter().flat_map(cases).flatten();
    for case in cases.filter(|case| case.pages > WINDOW_PAGES) {
        let Ok(run) = run(&case) else { continue };
        let events = &run.events;
        assert!(!is_found(events.iter()), "{}", block(&case));
        for number in run.steps() {
            let less = events[..number].iter().chain(&events[number + 1..]);
            let more = events[..=number].iter().chain(&events[number..]);
            assert!(is_found(less), "without {:?}\n{}", events[number], block(&case));
            assert!(is_found(more), "twice {:?}\n{}", events[number], block(&case));
            rejected += 2;
        }
    }
    assert!(rejected > 1000, "{rejected}");
}

/// The auditor finds steps in another order.
#[test]
fn the_auditor_rejects_a_log_in_another_order() {
    let case = |model, place| Case {
        model,
        place,
        flags2: BOTH,
        pages: 2 * WINDOW_PAGES,
        mappings: 1,
        revision: NotificationRevision::Current,
    };
    let places = [
        (AddressingModel::GpuMmu, Place::Local),
        (AddressingModel::GpuMmu, Place::Aperture),
        (AddressingModel::GpuVaIoMmu, Place::Aperture),
    ];
    for (model, place) in places {
        let Ok(mut run) = run(&case(model, place)) else { unreachable!() };
        for number in run.steps().collect::<Vec<_>>() {
            let is_fixed = |next: &Event| is_step(next) && !may_swap(&run.events[number], next);
            if !run.events.get(number + 1).is_some_and(is_fixed) {
                continue;
            }
            run.events.swap(number, number + 1);
            assert!(is_found(run.events.iter()), "after {:#?}", &run.events[number..number + 2]);
            run.events.swap(number, number + 1);
        }
    }
}
