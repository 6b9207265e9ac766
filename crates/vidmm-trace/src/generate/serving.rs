//! Serving an LLM from a cache of blocks.
//!
//! Requests arrive at random times, wait for a free place in the batch, are prefilled, and then
//! generate their answer step by step. Their prompts start with one of a few shared prefixes,
//! whose cache blocks the first such request makes and the others read.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::builder::{Builder, Task};
use super::check;
use super::random::SplitMix64;
use crate::{ByteSize, Lifetime, Workload, WorkloadError};

/// The name of the generator and its workloads.
pub(super) const KIND: &str = "llm-serving";

/// The parameters of the generator `llm-serving`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ServingParams {
    /// The number of requests.
    pub requests: u32,
    /// The mean time between two arrivals, in nanoseconds; the draws are uniform from 0 to twice
    /// the mean.
    pub mean_gap_ns: u64,
    /// The most requests that are served at a time.
    pub batch: u32,
    /// The number of buffers that the model's weights are in; every kernel reads all of them.
    pub weight_buffers: u32,
    /// The size of one buffer of weights.
    pub weight_bytes: ByteSize,
    /// The size of one cache block.
    pub block_bytes: ByteSize,
    /// The number of shared prefixes.
    pub prefixes: u32,
    /// The number of blocks in a shared prefix; 0 turns sharing off.
    pub prefix_blocks: u32,
    /// The least number of blocks that a prompt has after its prefix.
    pub prompt_blocks_min: u32,
    /// The largest number of blocks that a prompt has after its prefix.
    pub prompt_blocks_max: u32,
    /// The least number of blocks that an answer fills.
    pub answer_blocks_min: u32,
    /// The largest number of blocks that an answer fills.
    pub answer_blocks_max: u32,
    /// The time to prefill one block of a prompt, in nanoseconds.
    pub prefill_block_ns: u64,
    /// The time to generate one block of an answer, in nanoseconds.
    pub decode_block_ns: u64,
}

impl Default for ServingParams {
    /// 64 requests on a model of 1 GiB with cache blocks of 2 MiB: 3.6 GiB and 500 kernels.
    fn default() -> Self {
        Self {
            requests: 64,
            mean_gap_ns: 40_000_000,
            batch: 8,
            weight_buffers: 8,
            weight_bytes: ByteSize::mib(128),
            block_bytes: ByteSize::mib(2),
            prefixes: 4,
            prefix_blocks: 16,
            prompt_blocks_min: 2,
            prompt_blocks_max: 24,
            answer_blocks_min: 2,
            answer_blocks_max: 12,
            prefill_block_ns: 1_000_000,
            decode_block_ns: 4_000_000,
        }
    }
}

/// Makes the workload. A prefill kernel reads the prefix blocks that exist and writes the rest of
/// the prompt; a decode kernel reads all blocks that the request has so far and writes one more.
/// The requests of the batch take turns. All blocks are kept, because the server cannot know which
/// of them a later prompt will share.
///
/// # Errors
///
/// Returns [`WorkloadError`] for parameters that are 0, in the wrong order, or absurdly large.
pub fn generate(params: &ServingParams, seed: u64) -> Result<Workload, WorkloadError> {
    validate(params)?;
    let mut server = Server::new(params)?;
    let mut waiting = requests(params, &mut SplitMix64::new(seed))?;
    let mut batch = Vec::new();
    while !(waiting.is_empty() && batch.is_empty()) {
        while let Some(request) = server.admit(batch.len(), &mut waiting) {
            batch.push(server.prefill(request)?);
        }
        for session in &mut batch {
            server.decode(session)?;
        }
        batch.retain(|session| session.steps_left > 0);
    }
    server.builder.finish()
}

/// Refuses parameters out of range.
fn validate(params: &ServingParams) -> Result<(), WorkloadError> {
    check::range("requests", params.requests, 1..=1_000_000)?;
    check::range("mean-gap-ns", params.mean_gap_ns, 0..=1_000_000_000_000)?;
    check::range("batch", params.batch, 1..=100_000)?;
    check::range("weight-buffers", params.weight_buffers, 1..=10_000)?;
    check::size("weight-bytes", params.weight_bytes)?;
    check::size("block-bytes", params.block_bytes)?;
    check::range("prefixes", params.prefixes, 1..=10_000)?;
    check::range("prefix-blocks", params.prefix_blocks, 0..=10_000)?;
    check::range("prompt-blocks-min", params.prompt_blocks_min, 1..=10_000)?;
    let prompt = u64::from(params.prompt_blocks_min);
    check::range("prompt-blocks-max", params.prompt_blocks_max, prompt..=10_000)?;
    check::range("answer-blocks-min", params.answer_blocks_min, 1..=10_000)?;
    let answer = u64::from(params.answer_blocks_min);
    check::range("answer-blocks-max", params.answer_blocks_max, answer..=10_000)?;
    check::range("prefill-block-ns", params.prefill_block_ns, 0..=1_000_000_000)?;
    check::range("decode-block-ns", params.decode_block_ns, 0..=1_000_000_000)
}

/// A request that has not been served yet.
struct Request {
    arrival_ns: u64,
    prefix: usize,
    prompt_blocks: u64,
    answer_blocks: u64,
}

/// Draws all requests, in the order of their arrival.
fn requests(params: &ServingParams, random: &mut SplitMix64) -> Result<VecDeque<Request>, WorkloadError> {
    let (prompt_min, prompt_max) = (params.prompt_blocks_min, params.prompt_blocks_max);
    let (answer_min, answer_max) = (params.answer_blocks_min, params.answer_blocks_max);
    let widest_gap = check::product("the gap between requests", &[params.mean_gap_ns, 2])?;
    let mut arrival_ns = 0_u64;
    let draw = |_| {
        arrival_ns += random.within(0, widest_gap);
        Request {
            arrival_ns,
            prefix: random.below(u64::from(params.prefixes)) as usize,
            prompt_blocks: random.within(u64::from(prompt_min), u64::from(prompt_max)),
            answer_blocks: random.within(u64::from(answer_min), u64::from(answer_max)),
        }
    };
    Ok((0..params.requests).map(draw).collect())
}

/// A request that is being served.
struct Session {
    arrival_ns: u64,
    blocks: Vec<u32>,
    steps_left: u64,
}

/// The server: the blocks in its memory, and its estimate of the time, which decides the order of requests.
struct Server<'a> {
    params: &'a ServingParams,
    builder: Builder,
    weights: Vec<u32>,
    /// The blocks of each prefix; none until the first request with it.
    prefixes: Vec<Vec<u32>>,
    now_ns: u64,
}

impl<'a> Server<'a> {
    /// Starts the server with its weights.
    fn new(params: &'a ServingParams) -> Result<Self, WorkloadError> {
        let mut builder = Builder::new(KIND);
        let bytes = params.weight_bytes.bytes();
        let weights =
            (0..params.weight_buffers).map(|_| builder.buffer(bytes, Lifetime::Whole)).collect::<Result<_, _>>()?;
        let prefixes = vec![Vec::new(); params.prefixes as usize];
        Ok(Self { params, builder, weights, prefixes, now_ns: 0 })
    }

    /// Takes the next request if it has arrived and there is a place for it. An idle server waits
    /// for the next one.
    fn admit(&mut self, active: usize, waiting: &mut VecDeque<Request>) -> Option<Request> {
        let next = waiting.front()?;
        if active == 0 {
            self.now_ns = self.now_ns.max(next.arrival_ns);
        }
        let free = active < self.params.batch as usize;
        if free && next.arrival_ns <= self.now_ns { waiting.pop_front() } else { None }
    }

    /// Fills the cache with a request's prompt.
    fn prefill(&mut self, request: Request) -> Result<Session, WorkloadError> {
        let mut prefix = self.prefixes[request.prefix].clone();
        let mut reads = self.weights.clone();
        reads.extend(&prefix);
        let mut writes = Vec::new();
        if prefix.is_empty() {
            prefix = self.blocks(u64::from(self.params.prefix_blocks))?;
            writes.extend(&prefix);
            self.prefixes[request.prefix].clone_from(&prefix);
        }
        let prompt = self.blocks(request.prompt_blocks)?;
        writes.extend(&prompt);
        let (new, each) = (writes.len() as u64, self.params.prefill_block_ns);
        self.run(reads, writes, new * each, request.arrival_ns)?;
        let blocks = [prefix, prompt].concat();
        let (arrival_ns, steps_left) = (request.arrival_ns, request.answer_blocks);
        Ok(Session { arrival_ns, blocks, steps_left })
    }

    /// Generates one block of a request's answer.
    fn decode(&mut self, session: &mut Session) -> Result<(), WorkloadError> {
        let reads = [&self.weights[..], &session.blocks].concat();
        let written = self.blocks(1)?;
        session.blocks.extend(&written);
        session.steps_left -= 1;
        self.run(reads, written, self.params.decode_block_ns, session.arrival_ns)
    }

    /// Adds cache blocks.
    fn blocks(&mut self, count: u64) -> Result<Vec<u32>, WorkloadError> {
        let bytes = self.params.block_bytes.bytes();
        (0..count).map(|_| self.builder.buffer(bytes, Lifetime::Kept)).collect()
    }

    /// Adds a kernel and lets its time pass.
    fn run(
        &mut self,
        reads: Vec<u32>,
        writes: Vec<u32>,
        nanoseconds: u64,
        not_before_ns: u64,
    ) -> Result<(), WorkloadError> {
        self.now_ns = self.now_ns.saturating_add(nanoseconds);
        self.builder.kernel(Task { reads, writes, nanoseconds, not_before_ns, process: 0 })
    }
}
