//! Random programs: frames, a list of the application's own, offers, releases and limits together. No word may change by itself.

use vidmm::{EvictFlags, MakeResidentFlags, OfferPriority, ReclaimResult, policy::PolicyChoice};
use vidmm_vulkan::{Buffer, BufferDesc, Error, Options, Unbinding, Validation};

use crate::{MIB, World, alone, open, options};

const BUFFERS: usize = 40;
const STEPS: usize = 150;

/// Numbers that follow from a seed (xorshift64).
pub struct Draws(pub u64);

impl Draws {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// A buffer, and the state by the calls so far.
struct Known {
    buffer: Buffer,
    /// The seed of the words; none after a loss.
    seed: Option<u32>,
    listed: u32,
    is_offered: bool,
}

/// One step. A refusal for want of room changes nothing.
fn step(world: &mut World, all: &mut [Known], draws: &mut Draws, number: u32) {
    let at = draws.below(all.len());
    match draws.below(10) {
        0..4 => {
            let mut used: Vec<usize> = (0..3).map(|_| draws.below(BUFFERS)).filter(|&at| !all[at].is_offered).collect();
            used.sort_unstable();
            used.dedup();
            let uses = used.iter().map(|&at| (&all[at].buffer, all[at].seed, Some(number * 100 + at as u32)));
            if !used.is_empty() {
                world.run_frame(&Vec::from_iter(uses));
            }
            used.into_iter().for_each(|at| all[at].seed = Some(number * 100 + at as u32));
        }
        4 | 5 if !all[at].is_offered => {
            let Known { buffer, seed, listed, .. } = &mut all[at];
            match world.device.make_resident(&[&*buffer], MakeResidentFlags::empty()) {
                Ok(_) => {
                    *listed += 1;
                    world.run(buffer, *seed, Some(number * 100));
                    *seed = Some(number * 100);
                }
                Err(Error::NoRoom(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        6 if all[at].listed > 0 => {
            let flags = [EvictFlags::empty(), EvictFlags::EVICT_ONLY_IF_NECESSARY][draws.below(2)];
            world.device.evict(&[&all[at].buffer], flags).expect("it is on the list");
            all[at].listed -= 1;
        }
        7 => {
            all[at].buffer.release().expect("the adapter works");
            all[at].listed = 0;
        }
        8 => {
            let Known { buffer, seed, is_offered, .. } = &mut all[at];
            if !*is_offered {
                world.device.offer(&[&*buffer], OfferPriority::Low).expect("it is not offered");
                *is_offered = true;
                return;
            }
            match world.device.reclaim(&[&*buffer]) {
                Ok((results, _)) => {
                    *is_offered = false;
                    *seed = seed.filter(|_| results == [ReclaimResult::Ok]);
                }
                Err(Error::NoRoom(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        _ => {
            let limit = [None, Some(8 * MIB), Some(16 * MIB), Some(24 * MIB)][draws.below(4)];
            world.adapter.restrict_local_memory(limit).expect("the adapter works");
        }
    }
}

#[test]
fn no_word_changes_by_itself_in_random_programs() {
    for seed in 1..=6 {
        let alone = alone();
        let unbinding = [Unbinding::Strict, Unbinding::Lazy][seed as usize % 2];
        let policy = PolicyChoice::ALL[seed as usize % PolicyChoice::ALL.len()];
        let options = Options { unbinding, policy, ..options(64 * MIB) };
        let Some((adapter, is_validated)) = open(options, Validation::On) else { return };
        let (mut world, mut draws) = (World::over(adapter, is_validated, alone), Draws(seed));
        let mut all = Vec::from_iter((0..BUFFERS).map(|at| {
            let desc = BufferDesc::new([64 << 10, MIB, 2 * MIB][at % 3]);
            let desc = BufferDesc { range_bytes: [64 << 10, 384 << 10, 2 * MIB][at % 5 % 3], ..desc };
            let buffer = world.device.create_buffer_with(desc).expect("there is memory");
            Known { buffer, seed: None, listed: 0, is_offered: false }
        }));
        for number in 1..=STEPS as u32 {
            step(&mut world, &mut all, &mut draws, number);
        }
        world.adapter.restrict_local_memory(None).expect("the adapter works");
        for Known { buffer, seed, is_offered, .. } in &all {
            if !is_offered {
                world.run_frame(&[(buffer, *seed, None)]);
            }
        }
        assert_eq!(world.wrong_words(), 0, "seed {seed}");
        drop(all);
        world.is_clean();
    }
}
