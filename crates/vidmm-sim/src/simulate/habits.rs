//! The habits of a world's programs: what they do often, and what they never do.
//!
//! Programs that do a little of everything seldom get far in anything: a device that is to wait for longer than a limit needs others
//! that keep their lists, and a range that is to move needs some that stay. So half of the worlds have habits of their own. A move
//! that is left out in one world leaves room for the others.

use super::dice::Dice;
use super::profile::Profile;

/// The next move of a player.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    Work,
    List,
    Create,
    Destroy,
    Offer,
    Cpu,
    Budget,
    Properties,
    Share,
    Look,
    Time,
    Upheaval,
    Unusual,
    Exit,
}

/// The moves, and how often each is made where programs have no habits.
const MOVES: [(u32, Move); 13] = [
    (30, Move::Work),
    (22, Move::List),
    (8, Move::Create),
    (3, Move::Destroy),
    (6, Move::Offer),
    (5, Move::Cpu),
    (4, Move::Budget),
    (2, Move::Properties),
    (2, Move::Share),
    (2, Move::Look),
    (15, Move::Time),
    (1, Move::Upheaval),
    (6, Move::Unusual),
];

/// The moves in a lull. Now and then memory becomes free.
pub(super) const MOVES_IN_A_LULL: [(u32, Move); 4] =
    [(60, Move::Work), (30, Move::Time), (4, Move::Destroy), (6, Move::Exit)];

/// The habits of a world's programs.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    /// The moves, and how often each is made.
    pub moves: [(u32, Move); 13],
    /// In percent, how many allocations are shared.
    pub shares: u64,
    /// In percent, how much work waits for a person.
    pub blocks: u64,
    /// In percent, how many new devices are of a process that has one.
    pub more_devices: u64,
    /// The part of the memory that the largest allocation takes: 1 of so many.
    pub largest_part: u64,
    /// The nanoseconds of the shortest kernel and of the longest.
    pub kernel: (u64, u64),
    /// The nanoseconds of the shortest usual wait and of the longest.
    pub wait: (u64, u64),
    /// In percent, how many reservations of memory are near the one before.
    pub adjusts: u64,
    /// Whether programs ask for a lock until they have it, and keep it.
    pub keeps_locks: bool,
    /// In percent, the evictions that wait until memory is wanted.
    pub lazy_evictions: u64,
    /// Whether a few allocations fill the memory.
    pub fills_memory: bool,
    /// The steps for which one process after the other sleeps; 0 if no process sleeps.
    pub nap: usize,
    /// The length of a lull in steps; programs hardly do anything but work then. 0 without lulls.
    pub lull: usize,
    /// Whether allocations fill local memory, and there is room for more in system memory.
    pub spills: bool,
}

impl Habits {
    /// Those of a world.
    pub fn draw(seed: u64, profile: Profile) -> Self {
        let habits = Self::draw_all_but_lazy(seed, profile);
        // Copies ahead of evictions need evictions with a delay.
        let is_lazy = profile != Profile::Speed && Dice::of_laziness(seed).chance(25);
        Self { lazy_evictions: if is_lazy { 85 } else { habits.lazy_evictions }, ..habits }
    }

    fn draw_all_but_lazy(seed: u64, profile: Profile) -> Self {
        let mut dice = Dice::of_habits(seed);
        let usual = Self {
            moves: MOVES,
            shares: 15,
            blocks: 2,
            more_devices: 25,
            largest_part: 3,
            kernel: (100, 1_000_000),
            wait: (100, 3_000_000),
            adjusts: 10,
            keeps_locks: false,
            lazy_evictions: 10,
            fills_memory: false,
            nap: 0,
            lull: 0,
            spills: false,
        };
        let is_usual = dice.chance(50);
        let kind = Dice::of_kinds(seed).below(100);
        match (profile, kind) {
            (Profile::Speed, _) => return usual,
            (Profile::Sleepers, _) => return Self::of_sleepers(&mut dice, usual),
            (Profile::Rivals, _) | (Profile::Any, 0..5) => return Self::of_rivals(&mut dice, usual),
            (Profile::Streams, _) | (Profile::Any, 5..15) => return Self::of_streams(&mut dice, usual),
            (Profile::Any | Profile::Calm, _) if is_usual => return usual,
            (Profile::Any | Profile::Calm, _) => {}
        }
        if dice.chance(30) {
            return Self::of_sleepers(&mut dice, usual);
        }
        Self {
            moves: usual.moves.map(|(weight, what)| (weight * dice.weighted(&factors(what)), what)),
            shares: dice.weighted(&[(1, 0), (1, 15), (1, 70)]),
            blocks: dice.weighted(&[(1, 0), (1, 2), (1, 15)]),
            more_devices: dice.weighted(&[(1, 0), (1, 25), (1, 70)]),
            largest_part: dice.weighted(&[(1, 2), (2, 3), (1, 8)]),
            kernel: (100, dice.weighted(&[(1, 100_000), (2, 1_000_000), (1, 30_000_000)])),
            wait: (100, dice.weighted(&[(1, 300_000), (2, 3_000_000), (1, 100_000_000), (1, 1_000_000_000)])),
            adjusts: dice.weighted(&[(1, 10), (1, 60)]),
            keeps_locks: dice.chance(50),
            lazy_evictions: dice.weighted(&[(2, 10), (1, 60), (1, 100)]),
            fills_memory: dice.chance(40),
            ..usual
        }
    }

    /// Processes sleep in turns for long, and leave little memory to the processes that are awake.
    fn of_sleepers(dice: &mut Dice, usual: Self) -> Self {
        let moves = usual.moves.map(|(_, what)| match what {
            Move::Time => (30, what),
            Move::Work | Move::List => (20, what),
            Move::Create => (8, what),
            _ => (dice.chance(25).into(), what),
        });
        Self {
            moves,
            wait: (100, dice.weighted(&[(1, 1_000_000_000), (1, 4_000_000_000)])),
            fills_memory: dice.chance(50),
            nap: dice.weighted(&[(1, 200), (1, 500)]),
            spills: true,
            ..usual
        }
    }

    /// Processes reserve memory, change their bands, and evict allocations only if necessary.
    fn of_rivals(dice: &mut Dice, usual: Self) -> Self {
        let moves = usual.moves.map(|(_, what)| match what {
            Move::List => (40, what),
            Move::Budget | Move::Work => (20, what),
            Move::Create | Move::Time => (10, what),
            _ => (dice.chance(25).into(), what),
        });
        Self { moves, shares: 0, blocks: 0, more_devices: 0, largest_part: 8, lazy_evictions: 100, ..usual }
    }

    /// Programs submit work without a pause or in turn. In between memory becomes free and is reserved.
    fn of_streams(dice: &mut Dice, usual: Self) -> Self {
        let moves = usual.moves.map(|(_, what)| match what {
            Move::Work | Move::List | Move::Create => (20, what),
            Move::Time => (8, what),
            Move::Budget | Move::Destroy => (4, what),
            _ => (dice.chance(25).into(), what),
        });
        // Programs without a pause are judged after ten seconds.
        let wait = dice.weighted(&[(1, 30_000_000), (1, 200_000_000), (2, 1_000_000_000)]);
        let kernel = dice.weighted(&[(1, wait / 16), (3, wait)]);
        Self {
            moves,
            lull: dice.weighted(&[(1, 60), (2, 200)]),
            shares: 0,
            blocks: 0,
            kernel: (kernel / 4, kernel),
            wait: (wait / 4, wait),
            largest_part: dice.weighted(&[(1, 3), (2, 8)]),
            fills_memory: dice.chance(70),
            nap: dice.weighted(&[(2, 0), (1, 60), (1, 300)]),
            spills: true,
            ..usual
        }
    }
}

/// By how much a move is made more often than usual, and how likely that is. Without some moves a world stands still.
const fn factors(what: Move) -> [(u32, u32); 4] {
    match what {
        Move::Work | Move::List | Move::Create | Move::Time => [(0, 0), (3, 2), (4, 4), (2, 12)],
        _ => [(3, 0), (3, 2), (3, 4), (3, 20)],
    }
}
