//! LLM serving logs as Mooncake and Alibaba's Bailian publish them.
//!
//! JSON lines, one a request: `{"timestamp": 0, "input_length": 6758, "output_length": 500,
//! "hash_ids": [0, 1, 2]}`. `timestamp` is the arrival in milliseconds, and `hash_ids` names the
//! blocks of 512 tokens that the prompt consists of; equal ids are equal prefixes. Bailian's log has `chat_id` besides,
//! the arrival in seconds with a fraction, and blocks of 16 tokens. A request
//! becomes one kernel that reads the blocks that an earlier request made, and writes the others.
//! Every block is kept, because a server cannot know which will be asked for again.
//!
//! # The time of a request
//!
//! The log has no service times, so they are estimated:
//!
//! ```text
//! tokens to prefill = new blocks * 512 (or 16), at least 1
//! nanoseconds = tokens to prefill * 20 000 + output_length * 100 000
//! ```
//!
//! With this the hour of the conversation trace keeps its server busy for about two thirds of the
//! time: arrivals matter, bursts queue up, and paging has to fit into the rest.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Number;

use super::ImportError;
use super::lines::{Line, Lines};
use crate::{Buffer, Cost, Engine, Kernel, Lifetime, Workload};

/// The form of a log.
pub(super) struct Log {
    /// The tokens in a block.
    block_tokens: u64,
    /// The nanoseconds in the unit of `timestamp`, which may have a fraction if the unit is seconds.
    unit_ns: u64,
}

impl Log {
    /// The form of Mooncake's logs.
    pub(super) const MOONCAKE: Self = Self { block_tokens: 512, unit_ns: 1_000_000 };
    /// The form of Bailian's logs.
    pub(super) const BAILIAN: Self = Self { block_tokens: 16, unit_ns: NS_PER_SECOND };
}

/// The estimated time to prefill one token, in nanoseconds.
///
/// A 70B model does 2 x 70e9 = 140e9 operations a token. Two nodes of eight H100 GPUs, 989e12
/// operations a second each at 16 bits, reach 7.1e15 at a usual 45 %.
const PREFILL_NS_PER_TOKEN: u64 = 20_000;

/// The estimated time to generate one token, in nanoseconds.
///
/// A decode step reads the model's 140e9 bytes once for its whole batch. Eight H100 GPUs, 3.35e12
/// bytes a second each, take 6.4 ms at a usual 80 %; a batch of 64 shares that.
const DECODE_NS_PER_TOKEN: u64 = 100_000;

/// Nanoseconds in a second.
const NS_PER_SECOND: u64 = 1_000_000_000;

/// One line of the log. Other fields, which some versions of the log have, are passed over.
#[derive(Deserialize)]
struct Request {
    timestamp: Number,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// Reads all lines.
pub(super) fn parse(lines: &Lines<'_>, log: &Log, block_bytes: u64) -> Result<Workload, ImportError> {
    let mut blocks = Blocks { block_bytes, buffers: Vec::new(), known: BTreeMap::new() };
    let mut kernels = Vec::new();
    for line in lines.iter() {
        kernels.push(kernel(&line, log, &request(&line)?, &mut blocks)?);
    }
    Ok(Workload { name: lines.name.to_owned(), buffers: blocks.buffers, kernels })
}

/// Reads one line.
fn request(line: &Line<'_>) -> Result<Request, ImportError> {
    let request: Request = serde_json::from_str(line.text).map_err(|error| unreadable(line, &error))?;
    if request.input_length == 0 {
        return Err(line.expected("input_length 0", "a prompt of at least 1 token"));
    }
    if request.hash_ids.is_empty() {
        return Err(line.expected("hash_ids []", "at least one block"));
    }
    Ok(request)
}

/// The error that a line is not a request. `serde_json` sees one line only, so its column alone says where the error
/// is.
fn unreadable(line: &Line<'_>, error: &serde_json::Error) -> ImportError {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let found = format!("an unreadable request (column {}: {what})", error.column());
    let expected = "a JSON object with non-negative numbers `timestamp`, `input_length` and \
                    `output_length`, and a list of block numbers `hash_ids`";
    line.garbled(found, expected.to_owned())
}

/// Makes the kernel that serves a request.
fn kernel(line: &Line<'_>, log: &Log, request: &Request, blocks: &mut Blocks) -> Result<Kernel, ImportError> {
    let (reads, writes) = blocks.split(&request.hash_ids);
    let not_before_ns = arrival_ns(line, log, &request.timestamp)?;
    let new_tokens = (writes.len() as u64).checked_mul(log.block_tokens);
    let cost = new_tokens.and_then(|tokens| service_ns(tokens, request.output_length));
    let cost = cost.ok_or_else(|| too_large(line, "output_length"))?;
    Ok(Kernel { engine: Engine::Compute, reads, writes, cost: Cost::Nanoseconds(cost), not_before_ns, process: 0 })
}

/// The arrival in nanoseconds. A whole number is exact; a fraction is rounded to nanoseconds.
fn arrival_ns(line: &Line<'_>, log: &Log, timestamp: &Number) -> Result<u64, ImportError> {
    if let Some(whole) = timestamp.as_u64() {
        return whole.checked_mul(log.unit_ns).ok_or_else(|| too_large(line, "timestamp"));
    }
    let seconds = timestamp.as_f64().filter(|&seconds| seconds >= 0.0 && log.unit_ns == NS_PER_SECOND);
    let Some(seconds) = seconds else {
        let expected = "a whole, non-negative number of milliseconds; of seconds with a fraction, Bailian's log has a \
                        `chat_id` on each line, and `--format bailian` reads any other such log";
        return Err(line.expected(&format!("timestamp {timestamp}"), expected));
    };
    let nanoseconds = (seconds * 1e9).round();
    // Above 2^63 the rounded number could be out of range.
    if nanoseconds < 9e18 { Ok(nanoseconds as u64) } else { Err(too_large(line, "timestamp")) }
}

/// The error that a time does not fit 64 bits.
fn too_large(line: &Line<'_>, field: &str) -> ImportError {
    line.expected(&format!("a huge {field}"), "one whose time in nanoseconds fits 64 bits")
}

/// The estimated time to serve a request, in nanoseconds, where it fits 64 bits.
fn service_ns(new_tokens: u64, output_tokens: u64) -> Option<u64> {
    // Even a prompt that is cached as a whole needs its last token computed.
    let prefill = new_tokens.max(1).checked_mul(PREFILL_NS_PER_TOKEN)?;
    prefill.checked_add(output_tokens.checked_mul(DECODE_NS_PER_TOKEN)?)
}

/// The blocks named so far.
struct Blocks {
    block_bytes: u64,
    buffers: Vec<Buffer>,
    /// The place of each block in `buffers`.
    known: BTreeMap<u64, u32>,
}

impl Blocks {
    /// Splits a request's blocks into those made before and the new ones, each once.
    fn split(&mut self, ids: &[u64]) -> (Vec<u32>, Vec<u32>) {
        let mut seen = BTreeSet::new();
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for &id in ids.iter().filter(|&&id| seen.insert(id)) {
            match self.known.get(&id) {
                Some(&index) => old.push(index),
                None => new.push(self.add(id)),
            }
        }
        (old, new)
    }

    /// Adds a block that was not named before. A trace is at most 256 MiB long, so that the count of
    /// blocks fits.
    fn add(&mut self, id: u64) -> u32 {
        let index = self.buffers.len() as u32;
        self.known.insert(id, index);
        self.buffers.push(Buffer { name: id, bytes: self.block_bytes, lifetime: Lifetime::Kept });
        index
    }
}
