//! The time to give a range back and to take another (P1, P5).

use std::{hint::black_box, time::Instant};

use super::{game_mix, placers::Placer};
use crate::{clock::nanoseconds, draws::SplitMix64};

/// How many ranges there are.
#[derive(Clone, Copy)]
pub struct Population {
    pub ranges: usize,
    /// Bytes of a unit.
    pub unit: u64,
}

/// So much of the segment is taken, on the average, in percent.
const LOAD: u64 = 75;

/// Ranges to fill the segment with, and pairs: in each, the range of a slot goes and another comes into the slot.
pub struct Trace {
    population: Population,
    size: u32,
    fill: Vec<u32>,
    rounds: Vec<Vec<(u32, u32)>>,
}

impl Trace {
    pub fn draw(population: Population, rounds: usize, pairs: usize) -> Self {
        let random = &mut SplitMix64(1);
        let fill: Vec<u32> = (0..population.ranges).map(|_| game_mix::draw(random)).collect();
        let taken: u64 = fill.iter().map(|&units| u64::from(units)).sum();
        let mut by_age: Vec<u32> = (0..population.ranges as u32).collect();
        let mut pair = || {
            // A swap blurs the order of ages, and costs no more with more ranges.
            let (victim, newest) = (game_mix::draw_victim(by_age.len(), random), by_age.len() - 1);
            by_age.swap(victim, newest);
            (by_age[newest], game_mix::draw(random))
        };
        let rounds = (0..rounds).map(|_| (0..pairs).map(|_| pair()).collect()).collect();
        Self { population, size: (taken * 100 / LOAD) as u32, fill, rounds }
    }
}

/// A placer on its way through a trace.
pub struct Run<P: Placer> {
    placer: P,
    slots: Vec<Option<P::Range>>,
}

impl<P: Placer> Run<P> {
    pub fn new(trace: &Trace) -> Self {
        let mut placer = P::new(trace.size, trace.population.unit, trace.population.ranges);
        let slots = trace.fill.iter().map(|&units| placer.take(units)).collect();
        Self { placer, slots }
    }

    /// Nanoseconds that a pair of this round takes.
    pub fn round(&mut self, trace: &Trace, round: usize) -> f64 {
        let pairs = &trace.rounds[round];
        nanoseconds(|| pairs.iter().for_each(|&pair| self.pair(pair))) / pairs.len() as f64
    }

    fn pair(&mut self, (slot, units): (u32, u32)) {
        let slot = &mut self.slots[slot as usize];
        if let Some(range) = slot.take() {
            self.placer.give(range);
        }
        *slot = black_box(self.placer.take(units));
    }
}

/// p99.9 and p50 of pairs of the first round, each timed by the wall's clock. The first half only warms up.
pub fn tail<P: Placer>(trace: &Trace) -> (f64, f64) {
    let mut run = Run::<P>::new(trace);
    let (before, timed) = trace.rounds[0].split_at(trace.rounds[0].len() / 2);
    before.iter().for_each(|&pair| run.pair(pair));
    let time = |&pair: &(u32, u32)| {
        let start = Instant::now();
        run.pair(pair);
        start.elapsed().as_nanos() as u64
    };
    let mut times: Vec<u64> = timed.iter().map(time).collect();
    times.sort_unstable();
    (times[times.len() * 999 / 1000] as f64, times[times.len() / 2] as f64)
}
