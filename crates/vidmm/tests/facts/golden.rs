//! The operations that are sent when an allocation becomes resident and leaves again, for every combination of
//! addressing model, place, flags, chunks, mappings and revision: as text beside this file, and each checked against
//! the rules of the documents (NTF-01..09, U-15, SEG-12, SEG-13, PGV-05).
//!
//! `UPDATE_EXPECTED=1 cargo test -p vidmm --test facts golden` makes the text again.

use std::fmt::Write;

use crate::support::*;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

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

/// Maps all of the allocation, a part of it, and all of it read-only; or only the first.
fn mappings(world: &mut World, client: Client, allocation: AllocationId, pages: u64, count: usize) -> Vec<Mapping> {
    let whole = MapGpuVirtualAddress::whole(allocation);
    let part = MapGpuVirtualAddress { offset: pages / 4 * PAGE_SIZE, size: pages / 2 * PAGE_SIZE, ..whole };
    let descs = [whole, part, MapGpuVirtualAddress { write: false, ..whole }];
    let map = |desc: &MapGpuVirtualAddress| {
        let address = world.try_map(client, desc).unwrap().virtual_address.0;
        let size = if desc.size == part.size { desc.size } else { pages * PAGE_SIZE };
        Mapping { process: client.kmd_process, address, offset: desc.offset, size, read_only: !desc.write }
    };
    descs[..count].iter().map(map).collect()
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
    subject: Subject,
    entry: Vec<Step>,
    exit: Vec<Step>,
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
    let mappings = mappings(&mut world, client, allocation, case.pages, case.mappings);
    world.run_all();
    let subject = Subject {
        model: case.model,
        revision: case.revision,
        paging_va_size: WINDOW_PAGES * PAGE_SIZE,
        place: case.place,
        flags2: case.flags2,
        size: known.size,
        backing_store: known.backing_store,
        mappings,
        is_wanted: true,
        is_dirty: true,
    };
    let since = world.journal.len();
    world.bring_in(client, &[allocation]);
    let entry = transcript(&world, since);
    let check = |verdict: Result<(), String>, steps: &[Step]| {
        verdict.unwrap_or_else(|error| {
            panic!("{} pages in {:?}, {:?}: {error}\n{steps:#?}", case.pages, case.place, case.flags2)
        });
    };
    check(check_entry(&subject, &entry), &entry);

    // Its content is there, compressed where the driver is told in time.
    let at = subject.mappings[0].address;
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
    check(check_exit(&subject, &exit), &exit);
    for page in touched {
        let at = known.backing_store.offset_by(page * PAGE_SIZE);
        assert_eq!(world.machine.read(at, &world.host), page + 7, "I02: page {page} is not plain, or lost");
    }
    world.tear_down();

    Ok(Run { subject, entry, exit })
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

/// The rules find what is left out, and what is done twice.
#[test]
fn the_rules_reject_a_sequence_with_one_step_more_or_less() {
    let models = [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];
    let mut rejected = 0;
    for case in models.into_iter().flat_map(cases).flatten() {
        let Ok(Run { subject, entry, exit }) = run(&case) else { continue };
        for (is_entry, steps) in [(true, entry), (false, exit)] {
            let check = if is_entry { check_entry } else { check_exit };
            for number in 0..steps.len() {
                // The findings of the machine's strict TLB: the documents leave the flushes of windows open.
                if matches!(steps[number], Step::Flush { .. } | Step::PagingEnded) {
                    continue;
                }
                let mut less = steps.clone();
                less.remove(number);
                let mut more = steps.clone();
                more.insert(number, steps[number]);
                for wrong in [less, more] {
                    assert!(check(&subject, &wrong).is_err(), "step {number} of {steps:#?}");
                    rejected += 1;
                }
            }
        }
    }
    assert!(rejected > 1000, "{rejected}");
}

/// The rules find steps in another order.
#[test]
fn the_rules_reject_another_order() {
    let case = |model, place| Case {
        model,
        place,
        flags2: BOTH,
        pages: 2 * WINDOW_PAGES,
        mappings: 1,
        revision: NotificationRevision::Current,
    };
    for model in [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu] {
        let Ok(Run { subject, exit, .. }) = run(&case(model, Place::Aperture)) else { unreachable!() };
        for number in 1..exit.len() {
            let is_free = |step: &Step| matches!(step, Step::Flush { process: PAGING_PROCESS, .. } | Step::PagingEnded);
            if is_free(&exit[number - 1]) || is_free(&exit[number]) {
                continue;
            }
            let mut swapped = exit.clone();
            swapped.swap(number - 1, number);
            assert!(check_exit(&subject, &swapped).is_err(), "steps {} and {number} of {exit:#?}", number - 1);
        }
    }
}
