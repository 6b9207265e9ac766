//! Frames rendered from textures of very different popularity.
//!
//! A game uses a few textures in every frame and most of them rarely; a zipf distribution says so.
//! Several processes, each with its own textures and render target, take turns by the frame.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::builder::{Builder, Task};
use super::check;
use super::random::SplitMix64;
use crate::{ByteSize, Lifetime, Workload, WorkloadError};

/// The name of the generator and its workloads.
pub(super) const KIND: &str = "zipf-textures";

/// The most draws of a whole run, which bounds the time to make the workload.
const MAX_DRAWS: u64 = 100_000_000;

/// The weight of the most popular texture; the others have integer shares of it.
const TOP_WEIGHT: f64 = 4_294_967_296.0;

/// The parameters of the generator `zipf-textures`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct TexturesParams {
    /// The number of processes, each with its own textures and render target.
    pub processes: u32,
    /// The number of textures that each process has to draw from.
    pub textures: u32,
    /// The size of a texture.
    pub texture_bytes: ByteSize,
    /// The size of a render target.
    pub target_bytes: ByteSize,
    /// The number of textures drawn for a frame; equal draws count once.
    pub draws_per_frame: u32,
    /// The number of frames that each process renders.
    pub frames: u32,
    /// The exponent of the zipf distribution: 0 makes all textures equally popular, and a larger one makes a few of
    /// them more popular than the rest.
    pub exponent: f64,
    /// The time that a frame's kernel runs, in nanoseconds.
    pub frame_ns: u64,
    /// The time between the arrivals of two frames of a process, in nanoseconds.
    pub interval_ns: u64,
}

impl Default for TexturesParams {
    /// One process that draws 32 of 512 textures of 8 MiB, 200 frames at 60 frames a second.
    fn default() -> Self {
        Self {
            processes: 1,
            textures: 512,
            texture_bytes: ByteSize::mib(8),
            target_bytes: ByteSize::mib(32),
            draws_per_frame: 32,
            frames: 200,
            exponent: 1.0,
            frame_ns: 4_000_000,
            interval_ns: 16_666_667,
        }
    }
}

/// Makes the workload. The host uploads a texture when it is drawn for the first time, and the
/// game keeps it; textures never drawn are left out. A buffer's name is its process's first number
/// plus the texture's rank; the render target comes after the textures.
///
/// # Errors
///
/// Returns [`WorkloadError`] for parameters that are 0, not finite, or absurdly large.
pub fn generate(params: &TexturesParams, seed: u64) -> Result<Workload, WorkloadError> {
    validate(params)?;
    let zipf = Zipf::new(params.textures, params.exponent);
    let mut builder = Builder::new(KIND);
    let mut games = (0..params.processes)
        .map(|process| Game::new(params, seed, process, &mut builder))
        .collect::<Result<Vec<_>, _>>()?;
    for frame in 0..params.frames {
        let arrival = check::product("the time", &[u64::from(frame), params.interval_ns])?;
        for game in &mut games {
            let task = game.frame(params, &zipf, &mut builder)?;
            builder.kernel(Task { not_before_ns: arrival, ..task })?;
        }
    }
    builder.finish()
}

/// Refuses parameters out of range.
fn validate(params: &TexturesParams) -> Result<(), WorkloadError> {
    check::range("processes", params.processes, 1..=1_000)?;
    check::range("textures", params.textures, 1..=1_000_000)?;
    check::size("texture-bytes", params.texture_bytes)?;
    check::size("target-bytes", params.target_bytes)?;
    check::range("draws-per-frame", params.draws_per_frame, 1..=100_000)?;
    check::range("frames", params.frames, 1..=1_000_000)?;
    let (frames, draws) = (u64::from(params.frames), u64::from(params.draws_per_frame));
    if frames * draws * u64::from(params.processes) > MAX_DRAWS {
        return Err(WorkloadError::TooMany { what: "texture draws", limit: MAX_DRAWS });
    }
    if (0.0..=10.0).contains(&params.exponent) {
        return Ok(());
    }
    let (field, value) = ("exponent", params.exponent.to_string());
    Err(WorkloadError::Parameter { field, value, expected: "from 0 to 10".to_owned() })
}

/// One process.
struct Game {
    process: u32,
    random: SplitMix64,
    /// The name of its first texture.
    first_name: u64,
    /// The render target's buffer.
    target: u32,
    /// The buffer of each texture that was drawn already, by rank.
    loaded: BTreeMap<u32, u32>,
}

impl Game {
    /// Starts a process.
    fn new(params: &TexturesParams, seed: u64, process: u32, builder: &mut Builder) -> Result<Self, WorkloadError> {
        let textures = u64::from(params.textures);
        let first_name = u64::from(process) * (textures + 1);
        let name = first_name + textures;
        let target = builder.named(name, params.target_bytes.bytes(), Lifetime::Whole)?;
        let random = SplitMix64::stream(seed, process);
        Ok(Self { process, random, first_name, target, loaded: BTreeMap::new() })
    }

    /// Draws the textures of a frame, and returns the kernel that renders it.
    fn frame(&mut self, params: &TexturesParams, zipf: &Zipf, builder: &mut Builder) -> Result<Task, WorkloadError> {
        let mut reads = Vec::new();
        for _ in 0..params.draws_per_frame {
            let rank = zipf.draw(&mut self.random);
            reads.push(self.texture(rank, params.texture_bytes, builder)?);
        }
        reads.sort_unstable();
        reads.dedup();
        let (writes, nanoseconds) = (vec![self.target], params.frame_ns);
        Ok(Task { reads, writes, nanoseconds, process: self.process, ..Task::default() })
    }

    /// Returns the buffer of the texture of that rank, which exists from its first draw on.
    fn texture(&mut self, rank: u32, size: ByteSize, builder: &mut Builder) -> Result<u32, WorkloadError> {
        if let Some(&buffer) = self.loaded.get(&rank) {
            return Ok(buffer);
        }
        let name = self.first_name + u64::from(rank);
        let buffer = builder.named(name, size.bytes(), Lifetime::Kept)?;
        self.loaded.insert(rank, buffer);
        Ok(buffer)
    }
}

/// A zipf distribution over ranks from 0 on.
struct Zipf {
    /// The sum of the weights up to and including each rank.
    sums: Vec<u64>,
    total: u64,
}

impl Zipf {
    /// Tabulates the distribution: rank `r` has the weight 1 / (r + 1) ^ `exponent`.
    fn new(ranks: u32, exponent: f64) -> Self {
        let mut total = 0;
        let mut add = |rank| {
            // Whole weights make the draws themselves exact on every machine.
            let weight = TOP_WEIGHT / (f64::from(rank) + 1.0).powf(exponent);
            total += (weight as u64).max(1);
            total
        };
        let sums = (0..ranks).map(&mut add).collect();
        Self { sums, total }
    }

    /// Draws a rank.
    fn draw(&self, random: &mut SplitMix64) -> u32 {
        let at = random.below(self.total);
        self.sums.partition_point(|&sum| sum <= at) as u32
    }
}
