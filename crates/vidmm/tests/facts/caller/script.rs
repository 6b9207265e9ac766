//! A script of calls, the same each time: numbers name slots, so that a step means the same whatever failed before it.

use vidmm::*;

use crate::world::Place;

pub const DEVICES: usize = 3;
pub const SLOTS: usize = 20;

/// One step. It goes without objects that it needs and that are not there.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The objects that the device lacks are created: process, device, queue, contexts, registration, fence.
    Begin(usize),
    /// All of the device is destroyed.
    Leave(usize),
    Create {
        slot: usize,
        device: usize,
        pages: u64,
        place: Place,
        shared: bool,
    },
    Destroy {
        slot: usize,
        flags: DestroyFlags,
    },
    Open {
        slot: usize,
        device: usize,
    },
    /// Of the first allocation from `slot` on that two devices have open.
    Close {
        slot: usize,
    },
    Map {
        slot: usize,
        device: usize,
        in_reservation: bool,
    },
    Free {
        slot: usize,
        device: usize,
    },
    MakeResident {
        slot: usize,
        device: usize,
        flags: MakeResidentFlags,
    },
    Evict {
        slot: usize,
        device: usize,
        flags: EvictFlags,
    },
    Offer {
        slot: usize,
        flags: OfferFlags,
    },
    /// The first from `slot` on that is offered.
    Reclaim {
        slot: usize,
    },
    Lock {
        slot: usize,
    },
    /// The first from `slot` on that is locked.
    Unlock {
        slot: usize,
    },
    Update {
        slot: usize,
        place: Place,
    },
    SetPriority {
        slot: usize,
        priority: u32,
    },
    Reserve {
        device: usize,
        pages: u64,
    },
    SetProcessPriority {
        device: usize,
        band: PriorityBand,
    },
    NotifyBudgetChanges {
        device: usize,
        wanted: bool,
    },
    SetTrimIntervals {
        milliseconds: u64,
    },
    SetContextPriority {
        device: usize,
        priority: i32,
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
    Write {
        slot: usize,
        device: usize,
    },
    Read {
        slot: usize,
        device: usize,
    },
    /// Work that waits for the fence.
    WaitForFence {
        device: usize,
    },
    Signal,
    Poll,
    RunPaging,
    RunAll,
    Wait {
        milliseconds: u64,
    },
}

/// A fixed sequence of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

const PLACES: [Place; 4] = [Place::Local, Place::LocalOrSystem, Place::System, Place::Aperture];

/// The beginning that makes each slot useful, and then `steps` steps of all kinds.
pub fn script(seed: u64, steps: usize) -> Vec<Step> {
    let mut numbers = Numbers(seed);
    let mut script: Vec<Step> = (0..DEVICES).map(Step::Begin).collect();
    for slot in 0..SLOTS {
        let (device, place) = (slot % DEVICES, PLACES[slot / 2 % 4]);
        let pages = numbers.below(4) + 1;
        script.push(Step::Create { slot, device, pages, place, shared: slot % 4 == 0 });
        script.push(Step::Map { slot, device, in_reservation: slot % 5 == 0 });
        if slot < SLOTS / 2 {
            script.push(Step::MakeResident { slot, device, flags: MakeResidentFlags::empty() });
            script.push(Step::Write { slot, device });
        }
    }
    script.extend(ALL_CALLS);
    script.extend((0..steps).map(|_| step(&mut numbers)));
    script
}

/// Steps that chance may not come to, or not with success.
const ALL_CALLS: [Step; 26] = [
    Step::Open { slot: 0, device: 2 },
    Step::Map { slot: 0, device: 2, in_reservation: true },
    Step::MakeResident { slot: 0, device: 2, flags: MakeResidentFlags::empty() },
    Step::RunAll,
    Step::Read { slot: 0, device: 2 },
    Step::RunAll,
    Step::Evict { slot: 0, device: 2, flags: EvictFlags::empty() },
    Step::Close { slot: 0 },
    Step::Lock { slot: 13 },
    Step::Unlock { slot: 13 },
    Step::MakeResident { slot: 13, device: 1, flags: MakeResidentFlags::empty() },
    Step::Read { slot: 13, device: 1 },
    Step::Offer { slot: 2, flags: OfferFlags::empty() },
    Step::Offer { slot: 14, flags: OfferFlags::all() },
    Step::RunAll,
    Step::Reclaim { slot: 2 },
    Step::Reclaim { slot: 14 },
    Step::Update { slot: 11, place: Place::System },
    Step::Free { slot: 15, device: 0 },
    Step::RunAll,
    Step::Create { slot: 19, device: 1, pages: 3, place: Place::Local, shared: false },
    Step::PowerDown,
    Step::RunAll,
    Step::PowerUp,
    Step::RunAll,
    Step::Read { slot: 2, device: 2 },
];

fn step(numbers: &mut Numbers) -> Step {
    let slot = numbers.below(SLOTS as u64) as usize;
    // Mostly the device that creates what is in the slot.
    let device = (slot + usize::from(numbers.below(6) == 0)) % DEVICES;
    match numbers.below(100) {
        0..3 => Step::Begin(device),
        3 => Step::Leave(device),
        4..9 => Step::Create {
            slot,
            device,
            pages: numbers.below(6) + 1,
            place: numbers.one_of(&PLACES),
            shared: numbers.below(3) == 0,
        },
        9..12 => {
            let flags = [DestroyFlags::empty(), DestroyFlags::SYNCHRONOUS_DESTROY];
            Step::Destroy { slot, flags: numbers.one_of(&flags) }
        }
        12..15 => Step::Open { slot, device: (slot + 1 + numbers.below(2) as usize) % DEVICES },
        15 => Step::Close { slot },
        16..21 => Step::Map { slot, device, in_reservation: numbers.below(3) == 0 },
        21..23 => Step::Free { slot, device },
        23..35 => {
            let flags = [MakeResidentFlags::empty(), MakeResidentFlags::CANT_TRIM_FURTHER];
            Step::MakeResident { slot, device, flags: numbers.one_of(&flags) }
        }
        35..40 => {
            let flags = [EvictFlags::empty(), EvictFlags::EVICT_ONLY_IF_NECESSARY];
            Step::Evict { slot, device, flags: numbers.one_of(&flags) }
        }
        40..46 => Step::Offer { slot, flags: OfferFlags::from_bits_truncate(numbers.below(4) as u32) },
        46..51 => Step::Reclaim { slot },
        51..55 => Step::Lock { slot },
        55..57 => Step::Unlock { slot },
        57..60 => Step::Update { slot, place: numbers.one_of(&PLACES) },
        60 => Step::SetPriority { slot, priority: numbers.one_of(&[1, 0x7800_0000, 0xC000_0000]) },
        61 => Step::Reserve { device, pages: numbers.below(12) },
        62 => {
            let bands = [PriorityBand::Dwm, PriorityBand::Focus, PriorityBand::Normal];
            Step::SetProcessPriority { device, band: numbers.one_of(&bands) }
        }
        63 => Step::NotifyBudgetChanges { device, wanted: numbers.below(2) == 0 },
        64 => Step::SetTrimIntervals { milliseconds: numbers.below(50) + 1 },
        65 => Step::SetContextPriority { device, priority: numbers.below(15) as i32 - 7 },
        66 => Step::Suspend { device, may_wake: numbers.below(2) == 0 },
        67..70 => Step::Resume { device },
        70 => Step::PowerDown,
        71..74 => Step::PowerUp,
        74..83 => Step::Write { slot, device },
        83..89 => Step::Read { slot, device },
        89 => Step::WaitForFence { device },
        90..92 => Step::Signal,
        92 => Step::Poll,
        93..96 => Step::RunPaging,
        96..99 => Step::RunAll,
        _ => Step::Wait { milliseconds: numbers.below(30) + 1 },
    }
}
