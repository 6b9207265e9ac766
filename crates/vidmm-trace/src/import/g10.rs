//! Training iterations as G10's memory analyser prints them.
//!
//! One line a kernel, in execution order: `NANOSECONDS | inputs | outputs`, each a list of
//! `TENSOR:IS_WEIGHT:BYTES`. The time was measured. A tensor whose `IS_WEIGHT` is 1 lives for the
//! whole run; any other is born at the first kernel that names it and dies after the last. Tensors
//! that are read first are inputs or weights, which the host uploads.

use std::collections::{BTreeMap, BTreeSet};

use super::ImportError;
use super::lines::{Change, Line, Lines};
use crate::{Buffer, Cost, Engine, Kernel, Lifetime, Workload};

/// Reads all lines.
pub(super) fn parse(lines: &Lines<'_>) -> Result<Workload, ImportError> {
    let mut tensors = Tensors::default();
    let mut kernels = Vec::new();
    for line in lines.iter() {
        kernels.push(kernel(&line, &mut tensors)?);
    }
    let name = lines.name.to_owned();
    let mut workload = Workload { name, buffers: tensors.buffers, kernels };
    workload.insert_uploads();
    Ok(workload)
}

/// Reads one line.
fn kernel(line: &Line<'_>, tensors: &mut Tensors) -> Result<Kernel, ImportError> {
    let parts: Vec<&str> = line.text.split('|').map(str::trim).collect();
    let [time, inputs, outputs] = parts[..] else {
        return Err(line.expected(line.text, "`NANOSECONDS | inputs | outputs`"));
    };
    if outputs.is_empty() {
        return Err(line.expected(outputs, "at least one output `TENSOR:IS_WEIGHT:BYTES`"));
    }
    let time = number(line, time, "the kernel's time in nanoseconds")?;
    Ok(Kernel {
        engine: Engine::Compute,
        reads: tensors.list(line, inputs)?,
        writes: tensors.list(line, outputs)?,
        cost: Cost::Nanoseconds(time),
        not_before_ns: 0,
        process: 0,
    })
}

/// Reads a whole number.
fn number(line: &Line<'_>, text: &str, expected: &str) -> Result<u64, ImportError> {
    text.parse().map_err(|_| line.expected(text, expected))
}

/// The tensors named so far.
#[derive(Default)]
pub(super) struct Tensors {
    pub(super) buffers: Vec<Buffer>,
    /// The place of each tensor in `buffers`, and the line that named it first.
    known: BTreeMap<u64, (u32, usize)>,
}

impl Tensors {
    /// Reads a list of tensors and returns their indices, each once.
    fn list(&mut self, line: &Line<'_>, text: &str) -> Result<Vec<u32>, ImportError> {
        let (mut indices, mut seen) = (Vec::new(), BTreeSet::new());
        for entry in text.split_ascii_whitespace() {
            let index = self.index(line, &tensor(line, entry)?)?;
            if seen.insert(index) {
                indices.push(index);
            }
        }
        Ok(indices)
    }

    /// Returns the tensor's index; a new tensor gets one, a known one must be unchanged.
    pub(super) fn index(&mut self, line: &Line<'_>, tensor: &Buffer) -> Result<u32, ImportError> {
        let Some(&(index, first_line)) = self.known.get(&tensor.name) else {
            // A trace is at most 256 MiB long, so that the count fits.
            let index = self.buffers.len() as u32;
            self.known.insert(tensor.name, (index, line.number));
            self.buffers.push(tensor.clone());
            return Ok(index);
        };
        let known = &self.buffers[index as usize];
        let change = |what, was, now| Change { tensor: tensor.name, what, was, now, first_line };
        if known.bytes != tensor.bytes {
            return Err(line.changed(change("bytes", known.bytes, tensor.bytes)));
        }
        if known.lifetime != tensor.lifetime {
            let (was, now) = (is_weight(known), is_weight(tensor));
            return Err(line.changed(change("the weight flag", was, now)));
        }
        Ok(index)
    }
}

/// Reads one `TENSOR:IS_WEIGHT:BYTES`.
fn tensor(line: &Line<'_>, entry: &str) -> Result<Buffer, ImportError> {
    let parts: Vec<&str> = entry.split(':').collect();
    let [name, weight, bytes] = parts[..] else {
        return Err(line.expected(entry, "`TENSOR:IS_WEIGHT:BYTES`"));
    };
    let name = number(line, name, "a tensor's number")?;
    let lifetime = match weight {
        "0" => Lifetime::Temporary,
        "1" => Lifetime::Whole,
        _ => return Err(line.expected(entry, "`TENSOR:IS_WEIGHT:BYTES` whose IS_WEIGHT is 0 or 1")),
    };
    let bytes = number(line, bytes, "a tensor's size in bytes")?;
    if bytes == 0 {
        return Err(line.expected(entry, "a tensor of at least 1 byte"));
    }
    Ok(Buffer { name, bytes, lifetime })
}

/// The tensor's `IS_WEIGHT`, as the trace writes it.
fn is_weight(tensor: &Buffer) -> u64 {
    u64::from(tensor.lifetime == Lifetime::Whole)
}
