//! Bugs that are planted on purpose, and the hunt for them: an invariant that nobody can break on purpose is not tested.
//!
//! Each bug names the rule that must find it. A hunt plays seed after seed with the bug in it, until the first thing that is
//! found wrong in one is that rule; and the same seed without the bug must be right.

use std::collections::BTreeMap;
use std::fmt;

use vidmm::contract::AddressingModel;
use vidmm_runtime::DriverFault;
use vidmm_saboteur::{BUGS, Bug, IS_AT_WORK, World, plant};

use crate::machine::{Bench, Benched, MachineFactory};
use crate::run::Unobserved;
use crate::scenario::{ExplicitScenario, Fault, FaultKind, PageSize, PageTables, PagingVa, When};
use crate::simulate::{Outcome, Profile, SimDesc, machine_of, simulate_in};

/// A bug of the manager, or a mistake of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// In the manager: only in a build of the saboteur's copy.
    Manager(&'static Bug),
    /// In the driver, for the judges to find from what becomes of it.
    Driver(DriverFault),
    /// In the driver, for the verifier to name the operation.
    Effect(DriverFault),
}

/// Whether the machine that a seed draws can show what is shown in a world.
fn is_of(world: World, machine: &ExplicitScenario) -> bool {
    let model = machine.adapter.addressing_model;
    match world {
        World::PageTables => model == AddressingModel::GpuMmu,
        // Where all is in one kind of memory, the log says who demands how much of it.
        World::IoMmu | World::Pressure => {
            matches!(model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal)
        }
        World::Patching | World::PatchingFaults => model == AddressingModel::Physical,
        World::SmallWindows => model != AddressingModel::Physical,
        World::LittleMemory => model == AddressingModel::GpuMmu && machine.local_memory_bytes > 0,
        World::Sleepers | World::Rivals | World::Streams => {
            model != AddressingModel::Physical && machine.local_memory_bytes > 0
        }
        World::Any | World::PageFault | World::Hang | World::PagingFaults | World::FailedCommits => true,
    }
}

/// Makes the machine that a seed draws one that shows what is shown in a world.
fn make(world: World, machine: &mut ExplicitScenario) {
    let fault = |kind, when| vec![Fault { kind, when }];
    match world {
        World::PageFault => machine.faults = fault(FaultKind::ForgePageFault, When::Nth(5)),
        World::Hang => machine.faults = fault(FaultKind::HangPacket, When::Nth(5)),
        World::PagingFaults => machine.faults = fault(FaultKind::ForgePagingFault, When::Always),
        World::PatchingFaults => machine.faults = fault(FaultKind::ForgePagingFault, When::OneIn(20)),
        World::FailedCommits => machine.faults = fault(FaultKind::FailCommit, When::OneIn(3)),
        World::Pressure => machine.aperture_commit_limit_bytes = Some(128 << 10),
        World::LittleMemory => {
            let adapter = &mut machine.adapter;
            (adapter.page_size, adapter.dual_pte) = (PageSize::Kib4, None);
            adapter.page_tables = Some(PageTables::System);
            machine.local_memory_bytes = 512 << 10;
        }
        World::SmallWindows => {
            if machine.local_memory_bytes > 0 {
                machine.local_memory_bytes = 16 << 20;
            }
            (machine.aperture_bytes, machine.aperture_commit_limit_bytes) = (16 << 20, None);
            machine.adapter.paging_va_mib = PagingVa::Mib(1);
            machine.adapter.paging_va_without_local_memory = true;
        }
        World::Any
        | World::PageTables
        | World::IoMmu
        | World::Patching
        | World::Sleepers
        | World::Rivals
        | World::Streams => {}
    }
}

/// The worlds that a seed draws from.
fn profile_of(world: World) -> Profile {
    match world {
        World::Sleepers => Profile::Sleepers,
        World::Rivals => Profile::Rivals,
        World::Streams => Profile::Streams,
        _ => Profile::Any,
    }
}

impl Planted {
    /// All that this build has, those of the manager first: they are in a build of the saboteur's copy alone. Three mistakes of drivers are not among them, but in the tests of `vidmm-soft`: two
    /// behind an IOMMU only a program sees that uses what it has not made resident, and one needs large compressed allocations.
    /// Four more break no rule that is followed here: the manager refuses what they touch to the program that asked.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_manager = BUGS.iter().filter(|_| IS_AT_WORK).map(Self::Manager);
        let shows = |fault: &DriverFault| {
            !matches!(
                fault,
                DriverFault::SkipCacheFlush
                    | DriverFault::EarlyIoMmuUnmap
                    | DriverFault::IgnoreChunkOffset
                    | DriverFault::ReverseSplitOffsets
                    | DriverFault::SlotBeyondTable
                    | DriverFault::PatchAcrossSplit
                    | DriverFault::NoMemory
            )
        };
        let of_driver = DriverFault::ALL.into_iter().filter(shows).filter(|&fault| !has_effect_only(fault));
        let effects = DriverFault::ALL.into_iter().filter(|&fault| !facts_of(fault).is_empty());
        of_manager.chain(of_driver.map(Self::Driver)).chain(effects.map(Self::Effect))
    }

    /// Its number among those of its kind, from 1, with the kind's letter before it.
    pub fn number(self) -> String {
        match self {
            Self::Manager(bug) => format!("M{}", bug.number()),
            Self::Driver(fault) => format!("D{}", fault as usize + 1),
            Self::Effect(fault) => format!("E{}", fault as usize + 1),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manager(bug) => bug.name,
            Self::Driver(fault) | Self::Effect(fault) => fault.name(),
        }
    }

    /// The rule that must find it; of several by which it is named, depending on the adapter, the first.
    pub fn rule(self) -> &'static str {
        self.rules()[0]
    }

    fn rules(self) -> Vec<&'static str> {
        match self {
            Self::Manager(bug) => vec![bug.rule],
            Self::Driver(fault) => vec![rule_of(fault)],
            Self::Effect(fault) => facts_of(fault).to_vec(),
        }
    }

    /// The worlds that can show it.
    pub fn world(self) -> World {
        match self {
            Self::Manager(bug) => bug.shown_in,
            Self::Driver(fault) | Self::Effect(fault) => world_of_fault(fault),
        }
    }

    /// The bug, if it is one of the manager.
    fn in_manager(self) -> Option<&'static Bug> {
        match self {
            Self::Manager(bug) => Some(bug),
            Self::Driver(_) | Self::Effect(_) => None,
        }
    }

    /// The world without the bug.
    fn prepare(self, scenario: &mut ExplicitScenario) {
        // Nothing else goes wrong than a driver's mistake, so that what is found is the driver's.
        if let Self::Driver(_) | Self::Effect(_) = self {
            scenario.faults.clear();
        }
        make(self.world(), scenario);
    }

    /// Makes the mistake of a driver in a world; one of the manager is made wherever its code runs.
    fn add(self, scenario: &mut ExplicitScenario) {
        self.prepare(scenario);
        if let Self::Driver(fault) | Self::Effect(fault) = self {
            scenario.faults.push(Fault { kind: FaultKind::Driver(fault), when: When::Always });
        }
    }
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.number(), self.name()))
    }
}

/// The world of a mistake follows from the operation that it is about.
fn world_of_fault(fault: DriverFault) -> World {
    match facts_of(fault)[..] {
        _ if fault == DriverFault::EarlyIoMmuUnmap => World::IoMmu,
        // Only what is larger than a window is notified in parts.
        _ if fault == DriverFault::IgnoreChunkOffset => World::SmallWindows,
        ["NTF-04"] => World::IoMmu,
        ["GVA-30"] | ["GVA-34", ..] => World::PageTables,
        ["PAT-10"] | ["BPB-21"] | ["BPB-30", ..] | ["BPB-33"] => World::Patching,
        _ => World::Any,
    }
}

/// Whether a mistake is there for the verifier alone: what becomes of it is shown by others like it.
fn has_effect_only(fault: DriverFault) -> bool {
    fault as usize > DriverFault::NoMemory as usize
}

/// The facts by which the verifier names a mistake, depending on how the adapter finds memory; none if the mistake changes no
/// effect: the manager itself sees it.
fn facts_of(fault: DriverFault) -> &'static [&'static str] {
    match fault {
        DriverFault::DropPageOut
        | DriverFault::DropPageIn
        | DriverFault::ShortTransfer
        | DriverFault::TransferNextPage
        | DriverFault::SwapTransfer
        | DriverFault::TransferToNextPage
        | DriverFault::HalfTransfer => &["BPB-40", "BPB-20"],
        DriverFault::AddNoTransferOffset => &["BPB-21"],
        DriverFault::SkipFill
        | DriverFault::ShortFill
        | DriverFault::WrongFillPattern
        | DriverFault::FillFromNextPage
        | DriverFault::HalfFill => &["BPB-42", "BPB-24"],
        DriverFault::SkipEntries
        | DriverFault::ShortEntries
        | DriverFault::WrongEntries
        | DriverFault::ReadOnlyEntries
        | DriverFault::KeepEntries
        | DriverFault::SkipTableLink
        | DriverFault::LongEntries
        | DriverFault::EntriesAtNextIndex
        | DriverFault::EntriesOfSystemMemory
        | DriverFault::ZeroEntries
        | DriverFault::WritableEntries
        | DriverFault::IncoherentEntries
        | DriverFault::RepeatEntries
        | DriverFault::LinkNextTable
        | DriverFault::LargePageAsTable
        | DriverFault::SkipLargeLink
        | DriverFault::SkipInitialUpdate
        | DriverFault::KeepTableLink => &["GVA-30"],
        DriverFault::SkipTlbFlush
        | DriverFault::FlushOtherProcess
        | DriverFault::ShortFlush
        | DriverFault::FlushFromNextPage => &["GVA-34"],
        DriverFault::ReusePagingVa => &["GVA-34", "NTF-02"],
        DriverFault::SkipMapAperture
        | DriverFault::MapNextPages
        | DriverFault::ShortMapAperture
        | DriverFault::MapAtNextPage => &["BPB-30", "BPB-34"],
        DriverFault::SkipUnmapAperture | DriverFault::ShortUnmapAperture | DriverFault::UnmapToNextPage => &["BPB-33"],
        DriverFault::SkipDecompression | DriverFault::IgnoreChunkOffset => &["NTF-02"],
        DriverFault::SkipCacheFlush => &["NTF-04"],
        DriverFault::LateNotification
        | DriverFault::EarlyIoMmuUnmap
        | DriverFault::ShortNotification
        | DriverFault::NotifyFromNextPage => &["NTF-02", "NTF-04"],
        DriverFault::SkipPartAfterFull => {
            &["BPB-40", "BPB-20", "BPB-42", "BPB-24", "GVA-30", "BPB-30", "BPB-34", "BPB-33", "NTF-02"]
        }
        DriverFault::SkipPatch
        | DriverFault::PatchNextElement
        | DriverFault::SkipLastPatch
        | DriverFault::IgnorePatchOffset => &["PAT-10"],
        DriverFault::OverrunDmaBuffer
        | DriverFault::OverrunPrivateData
        | DriverFault::AdvanceLess
        | DriverFault::StandStill
        | DriverFault::StayBusy
        | DriverFault::AnswerNotSupported
        | DriverFault::ReverseSplitOffsets
        | DriverFault::SlotBeyondTable
        | DriverFault::PatchAcrossSplit
        | DriverFault::NoMemory => &[],
    }
}

/// The rule that finds a mistake of a driver.
fn rule_of(fault: DriverFault) -> &'static str {
    match fault {
        DriverFault::OverrunDmaBuffer | DriverFault::OverrunPrivateData => "I21",
        DriverFault::StandStill | DriverFault::StayBusy | DriverFault::AnswerNotSupported => "I20",
        DriverFault::LateNotification
        | DriverFault::SkipMapAperture
        | DriverFault::SkipEntries
        | DriverFault::ShortEntries
        | DriverFault::ReadOnlyEntries
        | DriverFault::SkipTableLink
        | DriverFault::SkipPatch
        | DriverFault::PatchNextElement
        | DriverFault::SkipLastPatch => "I04",
        DriverFault::SkipUnmapAperture => "I24",
        DriverFault::AdvanceLess => "I31",
        _ => "I02",
    }
}

/// How long is hunted.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    /// Seeds that are played at most, from 1.
    pub seeds: u64,
    /// Steps of each.
    pub steps: u64,
}

/// The result of a hunt.
#[derive(Clone, Debug, Default)]
pub struct Quarry {
    /// The seed in which the bug's rule was broken first; none if it was in none.
    pub seed: Option<u64>,
    /// Steps that were played with the bug, in all seeds that are right without it.
    pub steps: u64,
    /// The problem, in the words of that rule.
    pub problem: String,
    /// How often other rules came first.
    pub others: BTreeMap<String, u32>,
    /// Seeds that are wrong without the bug.
    pub wrong: u32,
}

impl Hunt {
    /// Hunts a bug. Seeds whose machine does not start are passed over.
    pub fn run(self, planted: Planted, factory: &dyn MachineFactory) -> Quarry {
        let mut quarry = Quarry::default();
        // Other judges are to find a bug from what becomes of it.
        let bench = Bench { verify: matches!(planted, Planted::Effect(_)), ..factory.bench() };
        let factory: &dyn MachineFactory = &Benched { factory, bench };
        let profile = profile_of(planted.world());
        let machine = |seed| machine_of(seed, profile, factory.lacks());
        let fits = |seed: &u64| machine(*seed).is_some_and(|scenario| is_of(planted.world(), &scenario));
        for seed in (1..=self.seeds).filter(fits) {
            let play = |change: &dyn Fn(&mut ExplicitScenario)| {
                let (policy, digest) = (None, planted.rule() == "I33");
                let desc = SimDesc { seed, steps: self.steps, profile, policy, digest };
                simulate_in(desc, factory, &mut Unobserved, |scenario| change(scenario))
            };
            let play_with_it = || {
                let _planted = planted.in_manager().map(plant);
                play(&|scenario| planted.add(scenario))
            };
            let Ok(outcome) = play_with_it() else { continue };
            let mut broken = first_broken(planted, &outcome);
            if broken.is_none() && planted.rule() == "I33" {
                let is_same = play_with_it().is_ok_and(|again| again.digest == outcome.digest);
                broken = (!is_same).then(|| ("I33".to_owned(), "played again, the seed is another story".to_owned()));
            }
            let is_right =
                || play(&|scenario| planted.prepare(scenario)).is_ok_and(|outcome| outcome.failure.is_none());
            if broken.is_some() && !is_right() {
                quarry.wrong += 1;
                continue;
            }
            quarry.steps += outcome.machine_steps;
            match broken {
                None => {}
                Some((rule, problem)) if planted.rules().contains(&rule.as_str()) => {
                    (quarry.seed, quarry.problem) = (Some(seed), problem);
                    return quarry;
                }
                Some((rule, _)) => *quarry.others.entry(rule).or_default() += 1,
            }
        }
        quarry
    }
}

/// The first rule that was found broken, and what is said of it.
fn first_broken(planted: Planted, outcome: &Outcome) -> Option<(String, String)> {
    if let Some(failure) = &outcome.failure {
        let (rule, problem) = (failure.finding.rule.unwrap_or_default(), &failure.finding.problem);
        // The manager's own audit names the rule in each line.
        let of_books = problem.split_once("together: ").and_then(|(_, lines)| lines.split_once(": "));
        let rule = of_books.filter(|_| rule == "BOOKS").map_or(rule, |(first, _)| first);
        return Some((rule.to_owned(), problem.clone()));
    }
    // The manager refuses to go on with a driver that breaks a rule of paging buffers, and says which; or with a GPU that hangs
    // again and again.
    let refused = outcome.adapter_error.as_ref().filter(|_| matches!(planted, Planted::Driver(_)))?;
    let rule = match () {
        () if refused.starts_with("BPB-02") => "I21",
        () if refused.starts_with("BPB-") => "I20",
        () if refused.starts_with("FLT-31") => "I31",
        () => "",
    };
    Some((rule.to_owned(), refused.clone()))
}
