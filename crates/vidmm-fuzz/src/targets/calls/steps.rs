//! Steps of the model, and adapters, drawn from bytes.

use vidmm::contract::AddressingModel;
use vidmm::{NotificationRevision, PAGE_SIZE, PriorityBand, Visibility};

use crate::choices::Choices;
use crate::model::{Mishap, Step, Trouble};
use crate::world::{Config, Ending, PAGING};

/// An adapter, and whether allocations may be in local memory only.
pub fn adapter(choices: &Choices<'_>) -> (Config, bool) {
    let aperture_pages = 40 + choices.below(80);
    let limit = choices.one_in(2).then(|| PAGE_SIZE * (40 + choices.below(80)));
    let local = || match choices.below(3) {
        0 => Config::pages(40 + choices.below(56)),
        1 => Config::pages_64kb(4 + choices.below(8), choices.one_in(2)),
        _ => {
            let pages = 4 * (40 + choices.below(56));
            Config { tables_in_system: false, level_bits: vec![7, 4, 6], ..Config::pages(pages) }
        }
    };
    let (config, only_local) = match choices.below(6) {
        0 => (local(), true),
        1 | 2 => {
            let config = Config { aperture_bytes: aperture_pages * PAGE_SIZE, aperture_commit_limit: limit, ..local() };
            (config, false)
        }
        model => {
            use AddressingModel::*;
            let model = [GpuMmu, GpuVaIoMmu, GpuVaIoMmuGlobal][model as usize % 3];
            let revision = choices.pick(&[NotificationRevision::Current, NotificationRevision::August2024]);
            let config = Config::integrated(model, aperture_pages);
            (Config { aperture_commit_limit: limit, revision, ..config }, false)
        }
    };
    let operation_bytes = choices.pick(&[64, 8, 1000, 4096]);
    let buffer_bytes = choices.pick(&[4096, 8192]);
    let invalid_not_cached = choices.one_in(2);
    (Config { operation_bytes, buffer_bytes, invalid_not_cached, ..config }, only_local)
}

/// The next step.
pub fn step(choices: &Choices<'_>) -> Step {
    let device = choices.index(3);
    match choices.below(32) {
        0..=4 => Step::MakeResident { device, picks: picks(choices) },
        5..=8 => Step::Evict { picks: picks(choices), flags: choices.below(4) as u32 },
        9..=13 => {
            let (copy, writes, chain) = (choices.one_in(2), choices.one_in(2), choices.one_in(5));
            Step::Submit { device, copy, writes, chain, seed: choices.any() }
        }
        14..=17 => Step::Complete { engine: choices.below(3) as u32 },
        18 | 19 => Step::Poll,
        20 => Step::Map { pick: pick(choices), part: choices.one_in(2) },
        21 => Step::Free { pick: pick(choices) },
        22 => {
            let (pages, priority) = (1 + choices.below(40), choices.below(3) as u32);
            Step::Create { device, pages, priority, kind: choices.any::<u8>().into() }
        }
        23 => Step::Destroy { pick: pick(choices) },
        24 => Step::Open { pick: pick(choices), device },
        25 => Step::Offer { pick: pick(choices), flags: choices.below(4) as u32 },
        26 => Step::Reclaim { pick: pick(choices) },
        27 => about_a_process(device, choices),
        28 => {
            if choices.one_in(2) {
                Step::PowerUp
            } else {
                Step::PowerDown
            }
        }
        29 => Step::Wait { milliseconds: 1 + choices.below(255) },
        30 => Step::Suffer(trouble(choices)),
        _ => Step::RunAll,
    }
}

fn pick(choices: &Choices<'_>) -> usize {
    choices.index(256)
}

fn picks(choices: &Choices<'_>) -> Vec<usize> {
    (0..1 + choices.below(3)).map(|_| pick(choices)).collect()
}

fn about_a_process(device: usize, choices: &Choices<'_>) -> Step {
    match choices.below(4) {
        0 => Step::Suspend { device, may_wake: choices.one_in(2) },
        1 => Step::Resume { device },
        2 => Step::Reserve { device, pages: choices.below(40) },
        _ => {
            let band = choices.pick(&[PriorityBand::Dwm, PriorityBand::Focus, PriorityBand::Normal]);
            let visibility = choices.pick(&[Visibility::Minimized, Visibility::Occluded, Visibility::Visible]);
            Step::Prioritise { device, band, visibility }
        }
    }
}

fn trouble(choices: &Choices<'_>) -> Trouble {
    let (engine, any_engine) = (1 + choices.below(2) as u32, choices.below(3) as u32);
    let steps = choices.index(8);
    let ahead = choices.below(3);
    let befalls = |engine, mishap| Trouble::Mishap { engine, steps, mishap };
    match choices.below(16) {
        0 | 1 => befalls(engine, if choices.one_in(4) { Mishap::UnknownFault } else { Mishap::Fault }),
        2 => befalls(engine, Mishap::FaultForAdapter),
        3 => befalls(engine, Mishap::IllegalCommand),
        4 => Trouble::FaultOfNothing { engine: any_engine, ahead },
        5 => befalls(engine, Mishap::Hang),
        6 => befalls(engine, Mishap::ResetLies),
        7 => befalls(engine, Mishap::ResetFails),
        8 => befalls(PAGING, Mishap::Fault),
        9 => befalls(PAGING, Mishap::Hang),
        10 => Trouble::Interrupt {
            engine: any_engine,
            ending: choices.pick(&[Ending::Lost, Ending::Late, Ending::Twice]),
        },
        11 => Trouble::Deliver,
        12 => Trouble::ForeignInterrupt { engine: any_engine + ahead as u32, ahead },
        13 if choices.one_in(2) => Trouble::YieldAgain { engine: any_engine },
        13 => Trouble::Yield { engine: any_engine },
        14 => Trouble::Wait { milliseconds: 1 << choices.below(12), answers: choices.one_in(2) },
        _ => Trouble::Answer,
    }
}
