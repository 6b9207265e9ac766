//! Traces of `vidmm exec --trace`: an unmodified program, watched by a layer of Vulkan.
//!
//! The first line is `vidmm-trace 1`, the last one `end`. Other lines are events behind a time in nanoseconds, or ranges of the
//! submission above. docs/guides/traces.md has the lines, and how a trace becomes a workload.

use std::collections::BTreeMap;
use std::ops::Range;

use super::ImportError;
use super::lines::{Line, Lines};
use super::pieces::{Access, Memory, Submission, Use, pieces};
use crate::Workload;

/// The first line of the version of this reader.
const HEADER: &str = "vidmm-trace 1";

/// How the first line of each version begins.
const NAME: &str = "vidmm-trace ";

/// Whether a line is the first of a trace, of any version.
pub(super) fn is_header(line: &str) -> bool {
    line.starts_with(NAME)
}

/// A buffer at a place in memory.
struct Buffer {
    memory: u64,
    range: Range<u64>,
    is_destroyed: bool,
}

/// The events so far.
#[derive(Default)]
struct History {
    memories: Vec<Memory>,
    submissions: Vec<Submission>,
    last: u64,
    devices: u64,
    buffers: Vec<Buffer>,
    queues: BTreeMap<(u64, u64), Queue>,
    /// The buffer and the end of the range on the line above, if the line belongs to a submission.
    above: Option<(u64, u64)>,
    is_ended: bool,
}

/// The submissions of a queue.
#[derive(Default)]
struct Queue {
    submitted: Vec<usize>,
    ended: u64,
}

/// Reads all lines.
pub(super) fn parse(lines: &Lines<'_>) -> Result<Workload, ImportError> {
    let header = lines.first();
    if header.text != HEADER {
        return Err(header.expected(header.text, &format!("`{HEADER}`, the version that this program reads")));
    }
    let mut history = History::default();
    let mut last = header;
    for line in lines.iter().skip(1) {
        history.line(&line)?;
        last = line;
    }
    if !history.is_ended {
        return Err(
            last.expected(last.text, "`end` behind this line, which `vidmm exec` writes when the program has ended")
        );
    }
    let mut workload = pieces(&history.memories, &history.submissions, history.last)?;
    lines.name.clone_into(&mut workload.name);
    workload.insert_uploads();
    Ok(workload)
}

impl History {
    fn line(&mut self, line: &Line<'_>) -> Result<(), ImportError> {
        let words = Vec::from_iter(line.text.split(' '));
        if self.is_ended {
            return Err(line.expected(line.text, "nothing behind `end`"));
        }
        let access = match words[0] {
            "read" => Some(Access::Read),
            "write" => Some(Access::Write),
            "update" => Some(Access::Update),
            _ => None,
        };
        if let Some(access) = access {
            let [buffer, offset, bytes] = numbers(line, &words[1..])?;
            return self.use_range(line, access, buffer, offset, bytes);
        }
        self.above = None;
        if line.text == "end" {
            self.is_ended = true;
            return Ok(());
        }
        let [time] = numbers(line, &words[..1])?;
        if time < self.last {
            return Err(line.expected(words[0], &format!("a time from {} on", self.last)));
        }
        self.last = time;
        let others = words.get(2..).unwrap_or_default();
        match words.get(1).copied().unwrap_or_default() {
            "device" => {
                let [device] = numbers(line, others)?;
                self.devices = next(line, self.devices, device)?;
            }
            "memory" => self.memory(line, others)?,
            "buffer" => {
                let [buffer, memory, offset, bytes] = numbers(line, others)?;
                next(line, self.buffers.len() as u64, buffer)?;
                let end = end(line, offset, bytes, self.memory_of(line, memory)?.bytes)?;
                self.buffers.push(Buffer { memory, range: offset..end, is_destroyed: false });
            }
            "destroy" => {
                let [buffer] = numbers(line, others)?;
                self.buffer(line, buffer)?.is_destroyed = true;
            }
            "free" => {
                let [memory] = numbers(line, others)?;
                self.memory_of(line, memory)?;
                self.memories[memory as usize - 1].freed = Some(self.submissions.len());
            }
            "submit" => self.submit(line, numbers(line, others)?)?,
            "done" => self.done(line, numbers(line, others)?)?,
            "uncovered" if matches!(others, [what] if is_word(what)) => {}
            other => return Err(line.expected(other, "an event of a trace, or a number of words that the event has")),
        }
        Ok(())
    }

    fn memory(&mut self, line: &Line<'_>, words: &[&str]) -> Result<(), ImportError> {
        let Some((kind, others)) = words.split_last() else {
            return Err(line.expected("", "`memory NUMBER DEVICE BYTES local` or `system`"));
        };
        let [memory, device, bytes] = numbers(line, others)?;
        next(line, self.memories.len() as u64, memory)?;
        if !(1..=self.devices).contains(&device) {
            return Err(line.expected(&device.to_string(), "the number of a device above"));
        }
        end(line, 0, bytes, 1 << 60)?;
        let is_local = match *kind {
            "local" => true,
            "system" => false,
            kind => return Err(line.expected(kind, "`local` or `system`")),
        };
        self.memories.push(Memory { bytes, is_local, device, freed: None });
        Ok(())
    }

    fn submit(&mut self, line: &Line<'_>, [device, queue, number]: [u64; 3]) -> Result<(), ImportError> {
        if !(1..=self.devices).contains(&device) {
            return Err(line.expected(&device.to_string(), "the number of a device above"));
        }
        let of = self.queues.entry((device, queue)).or_default();
        next(line, of.submitted.len() as u64, number)?;
        if let Some(&before) = of.submitted.last() {
            self.submissions[before].until.get_or_insert(self.last);
        }
        of.submitted.push(self.submissions.len());
        self.submissions.push(Submission { device, at: self.last, until: None, uses: Vec::new() });
        self.above = Some((0, 0));
        Ok(())
    }

    fn done(&mut self, line: &Line<'_>, [device, queue, number]: [u64; 3]) -> Result<(), ImportError> {
        let of = self.queues.get_mut(&(device, queue));
        let known = of.filter(|of| (of.ended + 1..=of.submitted.len() as u64).contains(&number));
        let Some(of) = known else {
            return Err(line.expected(&number.to_string(), "a submission above that has not ended"));
        };
        for &ended in &of.submitted[of.ended as usize..number as usize] {
            self.submissions[ended].until.get_or_insert(self.last);
        }
        of.ended = number;
        Ok(())
    }

    fn use_range(
        &mut self,
        line: &Line<'_>,
        access: Access,
        buffer: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<(), ImportError> {
        let (Some(above), Some(submission)) = (self.above, self.submissions.last()) else {
            return Err(line.expected(line.text, "a range only below a submission"));
        };
        let device = submission.device;
        if (buffer, offset) < above {
            return Err(line.expected(line.text, "ranges in ascending order, without a byte in common"));
        }
        let Buffer { memory, range, .. } = self.buffer(line, buffer)?;
        let (memory, range) = (*memory, range.clone());
        let end = end(line, offset, bytes, range.end - range.start)?;
        self.above = Some((buffer, end));
        if self.memory_of(line, memory)?.device != device {
            return Err(line.expected(&buffer.to_string(), "a buffer of the submission's device"));
        }
        let range = range.start + offset..range.start + end;
        let submission = self.submissions.last_mut().expect("it is there");
        submission.uses.push(Use { memory: memory as usize - 1, range, access });
        Ok(())
    }

    /// An allocation that is not freed.
    fn memory_of(&self, line: &Line<'_>, number: u64) -> Result<&Memory, ImportError> {
        let known = place(number).and_then(|at| self.memories.get(at));
        let alive = known.filter(|memory| memory.freed.is_none());
        alive.ok_or_else(|| line.expected(&number.to_string(), "the number of a memory that is not freed"))
    }

    /// A buffer that is not destroyed.
    fn buffer(&mut self, line: &Line<'_>, number: u64) -> Result<&mut Buffer, ImportError> {
        let known = place(number).and_then(|at| self.buffers.get_mut(at));
        let alive = known.filter(|buffer| !buffer.is_destroyed);
        alive.ok_or_else(|| line.expected(&number.to_string(), "the number of a buffer that is not destroyed"))
    }
}

/// The place of an object in the list of the objects, which are numbered from 1.
fn place(number: u64) -> Option<usize> {
    number.checked_sub(1).and_then(|at| usize::try_from(at).ok())
}

/// Takes this many whole numbers.
fn numbers<const N: usize>(line: &Line<'_>, words: &[&str]) -> Result<[u64; N], ImportError> {
    let words: [&str; N] =
        words.try_into().map_err(|_| line.expected(line.text, &format!("{N} numbers in this place")))?;
    let mut numbers = [0; N];
    for (number, word) in numbers.iter_mut().zip(words) {
        let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let read = word.parse().ok().filter(|_| is_plain);
        *number = read.ok_or_else(|| line.expected(word, "a whole number of 64 bits"))?;
    }
    Ok(numbers)
}

/// Objects are numbered from 1, one by one.
fn next(line: &Line<'_>, last: u64, number: u64) -> Result<u64, ImportError> {
    match number == last + 1 {
        true => Ok(number),
        false => Err(line.expected(&number.to_string(), &format!("the number {}", last + 1))),
    }
}

/// The end of a range that is not empty, in something of a size.
fn end(line: &Line<'_>, offset: u64, bytes: u64, within: u64) -> Result<u64, ImportError> {
    let end = offset.checked_add(bytes).filter(|end| bytes > 0 && *end <= within);
    end.ok_or_else(|| {
        line.expected(&format!("{offset} {bytes}"), &format!("a range of 1 to {within} bytes that ends there"))
    })
}

/// A word of small letters and hyphens.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}
