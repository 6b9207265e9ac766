//! The parts of a run: steps, random ones, and adapters of every kind.

use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::policy::PolicyChoice;
use vidmm::*;

use super::{Trouble, trouble, trouble::below};
use crate::world::*;

#[derive(Clone, Debug)]
pub enum Step {
    MakeResident {
        device: usize,
        picks: Vec<usize>,
    },
    Evict {
        picks: Vec<usize>,
        flags: u32,
    },
    /// Reads what is on the device's list, and writes to some of it.
    Submit {
        device: usize,
        copy: bool,
        writes: bool,
        chain: bool,
        seed: u64,
    },
    Complete {
        engine: u32,
    },
    Poll,
    Map {
        pick: usize,
        part: bool,
    },
    Free {
        pick: usize,
    },
    Create {
        device: usize,
        pages: u64,
        priority: u32,
        kind: u32,
    },
    /// Destroys what the device owns, or closes what it has opened.
    Destroy {
        pick: usize,
    },
    /// Opens an allocation on a device of another process.
    Open {
        pick: usize,
        device: usize,
    },
    Offer {
        pick: usize,
        flags: u32,
    },
    Reclaim {
        pick: usize,
    },
    Suspend {
        device: usize,
        may_wake: bool,
    },
    Resume {
        device: usize,
    },
    PowerDown,
    PowerUp,
    Reserve {
        device: usize,
        pages: u64,
    },
    Prioritise {
        device: usize,
        band: PriorityBand,
        visibility: Visibility,
    },
    Wait {
        milliseconds: u64,
    },
    RunAll,
    /// In worlds where things go wrong.
    Suffer(Trouble),
}

pub fn step() -> impl Strategy<Value = Step> {
    let (device, pick) = (|| below(3), || below(u32::MAX));
    let picks =
        move || (prop::array::uniform3(below(u32::MAX)), below(3)).prop_map(|(picks, last)| picks[..=last].to_vec());
    prop_oneof![
        5 => (device(), picks()).prop_map(|(device, picks)| Step::MakeResident { device, picks }),
        5 => (picks(), 0..4u32).prop_map(|(picks, flags)| Step::Evict { picks, flags }),
        6 => (device(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), any::<u64>())
            .prop_map(|(device, copy, writes, chain, seed)| Step::Submit { device, copy, writes, chain, seed }),
        8 => (0..3u32).prop_map(|engine| Step::Complete { engine }),
        3 => Just(Step::Poll),
        1 => (pick(), any::<bool>()).prop_map(|(pick, part)| Step::Map { pick, part }),
        1 => pick().prop_map(|pick| Step::Free { pick }),
        2 => (device(), 1..41u64, 0..3u32, any::<u32>())
            .prop_map(|(device, pages, priority, kind)| Step::Create { device, pages, priority, kind }),
        1 => pick().prop_map(|pick| Step::Destroy { pick }),
        2 => (pick(), device()).prop_map(|(pick, device)| Step::Open { pick, device }),
        1 => (pick(), 0..4u32).prop_map(|(pick, flags)| Step::Offer { pick, flags }),
        1 => pick().prop_map(|pick| Step::Reclaim { pick }),
        1 => about_a_process(),
        1 => prop_oneof![Just(Step::PowerDown), Just(Step::PowerUp)],
        1 => (1..300u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::RunAll),
        4 => trouble().prop_map(Step::Suffer),
    ]
}

fn about_a_process() -> impl Strategy<Value = Step> {
    let device = || below(3);
    let bands = prop_oneof![Just(PriorityBand::Dwm), Just(PriorityBand::Focus), Just(PriorityBand::Normal)];
    let visibilities = prop_oneof![Just(Visibility::Minimized), Just(Visibility::Occluded), Just(Visibility::Visible)];
    prop_oneof![
        (device(), any::<bool>()).prop_map(|(device, may_wake)| Step::Suspend { device, may_wake }),
        device().prop_map(|device| Step::Resume { device }),
        (device(), 0..40u64).prop_map(|(device, pages)| Step::Reserve { device, pages }),
        (device(), bands, visibilities).prop_map(|(device, band, visibility)| Step::Prioritise {
            device,
            band,
            visibility
        }),
    ]
}

/// An adapter with local memory; of the aperture no allocation makes use.
fn local() -> impl Strategy<Value = Config> {
    let pool = prop_oneof![
        (40..96u64).prop_map(Config::pages),
        (4..12u64, any::<bool>()).prop_map(|(pages, dual)| Config::pages_64kb(pages, dual)),
    ];
    (pool, any::<bool>(), any::<bool>()).prop_map(|(pool, tables_in_system, invalid_not_cached)| Config {
        // In a pool of 64 KiB pages each table takes one: then they had better be few, and the pool large.
        segment_bytes: if tables_in_system { pool.segment_bytes } else { pool.segment_bytes * 4 },
        level_bits: if tables_in_system { pool.level_bits } else { vec![pool.level_bits[0] + 3, 4, 6] },
        tables_in_system,
        invalid_not_cached,
        ..pool
    })
}

/// An adapter with local memory, and an aperture that allocations make use of.
fn discrete() -> impl Strategy<Value = Config> {
    // A further segment is of as many pages as local memory.
    let more = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec((4..48u64, any::<bool>()), 1..3)];
    (local(), 40..200u64, limit(), more).prop_map(|(pool, pages, aperture_commit_limit, more)| Config {
        more_memory: more.into_iter().map(|(pages, seen)| (pages * pool.page_size.bytes(), seen)).collect(),
        aperture_bytes: pages * PAGE_SIZE,
        aperture_commit_limit,
        ..pool
    })
}

/// An adapter without local memory, of each addressing model.
fn integrated() -> impl Strategy<Value = Config> {
    let models = vec![AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];
    let revisions = vec![NotificationRevision::Current, NotificationRevision::August2024];
    let choices = (prop::sample::select(models), prop::sample::select(revisions));
    (choices, 40..200u64, limit(), any::<bool>()).prop_map(
        |((model, revision), pages, aperture_commit_limit, invalid_not_cached)| Config {
            aperture_commit_limit,
            revision,
            invalid_not_cached,
            ..Config::integrated(model, pages)
        },
    )
}

/// How much may be resident outside local memory, if that is not the aperture's size.
fn limit() -> impl Strategy<Value = Option<u64>> {
    prop::option::of((40..200u64).prop_map(|pages| pages * PAGE_SIZE))
}

/// An adapter, and whether allocations may be in local memory only.
pub fn adapter() -> impl Strategy<Value = (Config, bool)> {
    let operation_bytes = prop_oneof![Just(8usize), Just(64), Just(1000), Just(4096), Just(6000)];
    let adapter = prop_oneof![
        2 => local().prop_map(|config| (config, true)),
        3 => discrete().prop_map(|config| (config, false)),
        4 => integrated().prop_map(|config| (config, false)),
    ];
    let policy = prop::sample::select(&PolicyChoice::ALL[..]);
    let one_engine = prop::bool::weighted(0.2);
    (adapter, operation_bytes, 1..4u32, policy, one_engine).prop_map(
        |((adapter, only_local), operation_bytes, buffers, policy, one_engine)| {
            (Config { operation_bytes, buffer_bytes: buffers * 4096, policy, one_engine, ..adapter }, only_local)
        },
    )
}
