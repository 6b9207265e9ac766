//! Training iterations in the file `kernels.config` of G10's analyser.
//!
//! Each kernel is a block of lines, with a rule of `-` or `_` before or behind the block:
//!
//! ```text
//! ------------------------------------------------------------------------------
//! Kernel ID: 4, Name: Conv2d_Forward
//! Parent Layer ID:3; Name:Conv2d
//! Execution Time: 16564224
//! Input Tensors:
//! tensor21 Is weight (global)?: 1, Size in byte: 36864, Range:16384--53248
//! Output Tensors:
//! tensor20 Is weight (global)?: 0, Size in byte: 1416167424, Range:9828384768--11244552192
//! ```
//!
//! The range is absent in some versions. Other lines may stand before `Input Tensors:`, such as the layer and the shape.
//! The time is a number of cycles at 1.2 GHz, the frequency in each of G10's configurations.

use std::collections::BTreeSet;

use super::ImportError;
use super::g10::Tensors;
use super::lines::{Line, Lines};
use crate::{Buffer, Cost, Engine, Kernel, Lifetime, Workload};

/// Cycles of the GPU in ten nanoseconds, at 1.2 GHz.
const CYCLES_PER_10_NS: f64 = 12.0;

/// The most cycles of a kernel, so that nanoseconds are exact integers of a floating-point number.
const MAX_CYCLES: f64 = 9e15;

/// Whether a line is a rule between two kernels.
pub(super) fn is_rule(line: &str) -> bool {
    line.len() >= 4 && (line.bytes().all(|byte| byte == b'-') || line.bytes().all(|byte| byte == b'_'))
}

/// The part of a block in which a line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Inputs,
    Outputs,
}

/// Reads all lines.
pub(super) fn parse(lines: &Lines<'_>) -> Result<Workload, ImportError> {
    let mut tensors = Tensors::default();
    let mut kernels = Vec::new();
    let mut block: Option<Block<'_>> = None;
    for line in lines.iter() {
        if line.text.starts_with("Kernel ID:") || is_rule(line.text) {
            kernels.extend(block.take().map(Block::finish).transpose()?);
        }
        match &mut block {
            _ if is_rule(line.text) => {}
            None if line.text.starts_with("Kernel ID:") => block = Some(Block::new(line)),
            None => return Err(line.expected(line.text, "`Kernel ID: NUMBER, Name: ..`")),
            Some(block) => block.add(&line, &mut tensors)?,
        }
    }
    kernels.extend(block.take().map(Block::finish).transpose()?);
    if kernels.is_empty() {
        return Err(lines.first().expected(lines.first().text, "at least one `Kernel ID: NUMBER, Name: ..`"));
    }
    let mut workload = Workload { name: lines.name.to_owned(), buffers: tensors.buffers, kernels };
    workload.insert_uploads();
    Ok(workload)
}

/// The lines of a kernel.
struct Block<'a> {
    head: Line<'a>,
    nanoseconds: Option<u64>,
    part: Part,
    reads: BTreeSet<u32>,
    writes: BTreeSet<u32>,
}

impl<'a> Block<'a> {
    fn new(head: Line<'a>) -> Self {
        Self { head, nanoseconds: None, part: Part::Head, reads: BTreeSet::new(), writes: BTreeSet::new() }
    }

    fn add(&mut self, line: &Line<'_>, tensors: &mut Tensors) -> Result<(), ImportError> {
        if let Some(time) = line.text.strip_prefix("Execution Time:") {
            self.nanoseconds = Some(nanoseconds(line, time.trim())?);
            return Ok(());
        }
        match (self.part, line.text) {
            (Part::Head, "Input Tensors:") => self.part = Part::Inputs,
            (Part::Head | Part::Inputs, "Output Tensors:") => self.part = Part::Outputs,
            (Part::Head, text) if text.starts_with("tensor") => {
                return Err(line.expected(text, "`Input Tensors:` or `Output Tensors:` before the first tensor"));
            }
            (Part::Head, _) => {}
            (Part::Inputs | Part::Outputs, text) => {
                // A workspace of 0 bytes needs no memory.
                if let Some(tensor) = tensor(line, text)? {
                    let index = tensors.index(line, &tensor)?;
                    if self.part == Part::Inputs { &mut self.reads } else { &mut self.writes }.insert(index);
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Kernel, ImportError> {
        let Some(nanoseconds) = self.nanoseconds else {
            return Err(self.head.expected("no time of the kernel", "`Execution Time: CYCLES` below"));
        };
        if self.reads.is_empty() && self.writes.is_empty() {
            return Err(self.head.expected("no tensor of the kernel", "`Input Tensors:` and `Output Tensors:` below"));
        }
        Ok(Kernel {
            engine: Engine::Compute,
            reads: self.reads.into_iter().collect(),
            writes: self.writes.into_iter().collect(),
            cost: Cost::Nanoseconds(nanoseconds),
            not_before_ns: 0,
            process: 0,
        })
    }
}

fn nanoseconds(line: &Line<'_>, text: &str) -> Result<u64, ImportError> {
    let cycles = text.parse::<f64>().ok().filter(|cycles| (0.0..MAX_CYCLES).contains(cycles));
    let cycles = cycles.ok_or_else(|| line.expected(text, "the kernel's time in cycles"))?;
    Ok((cycles * 10.0 / CYCLES_PER_10_NS).round() as u64)
}

/// Reads `tensorNUMBER Is weight (global)?: 0|1, Size in byte: BYTES`, and the range that may follow; none for 0 bytes.
fn tensor(line: &Line<'_>, text: &str) -> Result<Option<Buffer>, ImportError> {
    let expected = "`tensorNUMBER Is weight (global)?: 0|1, Size in byte: BYTES`";
    let wrong = || line.expected(text, expected);
    let mut parts = text.split(", ").map(str::trim);
    let (name, weight) = parts.next().and_then(|part| part.split_once(" Is weight (global)?:")).ok_or_else(wrong)?;
    let bytes = parts.next().and_then(|part| part.strip_prefix("Size in byte:")).ok_or_else(wrong)?;
    if parts.any(|part| !part.starts_with("Range:")) {
        return Err(wrong());
    }
    let name = name.strip_prefix("tensor").and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    let lifetime = match weight.trim() {
        "0" => Lifetime::Temporary,
        "1" => Lifetime::Whole,
        _ => return Err(wrong()),
    };
    let bytes: u64 = bytes.trim().parse().map_err(|_| wrong())?;
    Ok((bytes > 0).then_some(Buffer { name, bytes, lifetime }))
}
