//! Command buffers of steps, for adapters without GPU virtual addresses.

use std::fmt;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

use super::kernel::{KernelEngine, is_microsecond, is_ramp, microsecond, ramp};
use super::known::{Kind, Known};
use super::list::list;
use super::names::{self, check_name};
use super::verb::Verb;
use crate::prediction::Content;
use crate::scenario::keys::is_default;
use crate::scenario::number::within;

/// D3DKMTRender: a command buffer is translated and queued, kernels that find memory through slots.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Render {
    /// Its name.
    #[serde(rename = "render", with = "names")]
    pub name: String,
    /// Its commands, in order.
    #[serde(deserialize_with = "commands")]
    pub commands: Vec<RenderCommand>,
    /// The fill of the pages that its kernels write.
    #[serde(default = "ramp", skip_serializing_if = "is_ramp")]
    pub content: Content,
    /// The duration of each of its kernels in nanoseconds.
    #[serde(
        default = "microsecond",
        deserialize_with = "within::<_, _, 1, 0x1_0000_0000_0000>",
        skip_serializing_if = "is_microsecond"
    )]
    pub nanoseconds: u64,
    /// The engine that runs it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: KernelEngine,
    /// The work that must have ended, and the fences that must have been signalled, before it runs.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The device; none is that of the first allocation.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// A mistake in the list of patch locations that the user-mode driver hands in.
    #[serde(default)]
    pub hostile: Option<HostileList>,
}

/// A command of a command buffer: `"split"`, `"unbind 1"`, or a kernel as in `"read A@0 B@1 write C@2"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderCommand {
    /// The buffer may be split here (SPL-01).
    Split,
    /// The slot holds nothing from the last split point on (PAT-16).
    Unbind(u32),
    /// A kernel runs. The allocations that it names are bound first.
    Kernel {
        /// The pages that it reads, in order.
        reads: Vec<Bound>,
        /// The pages that it writes, in order.
        writes: Vec<Bound>,
    },
}

/// Pages of an allocation, found through a slot: `A@0`, or `A[2..5]@0` for pages 2 to 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The allocation.
    pub allocation: String,
    /// The slot.
    pub slot: u32,
    /// The first page and the one behind the last; none is all pages.
    pub pages: Option<(u64, u64)>,
}

/// A mistake in the list of patch locations that a user-mode driver hands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostileList {
    /// The split offsets decrease.
    DecreasingSplitOffsets,
    /// The last split offset is beyond the end of the commands.
    SplitOffsetBeyondTheEnd,
    /// An address in the commands is no patch location's: the user has chosen it.
    AddressWithoutPatchLocation,
}

impl Render {
    /// All ranges that its kernels name, in order.
    pub fn bound(&self) -> impl Iterator<Item = &Bound> {
        self.commands.iter().flat_map(|command| match command {
            RenderCommand::Kernel { reads, writes } => reads.iter().chain(writes),
            RenderCommand::Split | RenderCommand::Unbind(_) => [].iter().chain(&[]),
        })
    }

    /// Checks that each slot holds one allocation between two split points, and that only slots that hold one are
    /// unbound.
    ///
    /// # Errors
    ///
    /// Returns the problem, and what to write instead.
    fn check_slots(&self) -> Result<(), String> {
        let (mut bound_here, mut held) = (std::collections::BTreeMap::new(), std::collections::BTreeSet::new());
        for command in &self.commands {
            match command {
                RenderCommand::Split => bound_here.clear(),
                RenderCommand::Unbind(slot) => {
                    if !held.remove(slot) {
                        return Err(format!("slot {slot} holds nothing; leave `unbind {slot}` out"));
                    }
                }
                RenderCommand::Kernel { reads, writes } => {
                    for bound in reads.iter().chain(writes) {
                        held.insert(bound.slot);
                        let first = bound_here.entry(bound.slot).or_insert(&bound.allocation);
                        if **first != bound.allocation {
                            let Bound { allocation, slot, .. } = bound;
                            return Err(format!(
                                "slot {slot} holds `{first}` since the last split point; write `split` before `{allocation}@{slot}`"
                            ));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Verb for Render {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.name)?;
        if let Some(device) = &self.device {
            write!(f, " on {device}")?;
        }
        let mut lead = ": ";
        for command in &self.commands {
            match command {
                RenderCommand::Split if lead == ": " => continue,
                RenderCommand::Split => {
                    lead = " | ";
                    continue;
                }
                RenderCommand::Unbind(_) | RenderCommand::Kernel { .. } => write!(f, "{lead}{command}")?,
            }
            lead = "; ";
        }
        if !self.after.is_empty() {
            write!(f, ", after {}", list(&self.after))?;
        }
        f.write_str(self.engine.words())?;
        match self.hostile {
            None => Ok(()),
            Some(HostileList::DecreasingSplitOffsets) => f.write_str(", its split offsets decrease"),
            Some(HostileList::SplitOffsetBeyondTheEnd) => f.write_str(", a split offset is beyond its end"),
            Some(HostileList::AddressWithoutPatchLocation) => f.write_str(", an address is no patch location's"),
        }
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        for bound in self.bound() {
            known.single(Kind::Allocation, &bound.allocation, "a slot holds one allocation")?;
        }
        self.check_slots()?;
        known.optional(Kind::Device, &self.device)?;
        known.after(&mut self.after)?;
        known.add_work(&self.name)
    }
}

impl fmt::Display for RenderCommand {
    /// The spelling in scenarios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Split => f.write_str("split"),
            Self::Unbind(slot) => write!(f, "unbind {slot}"),
            Self::Kernel { reads, writes } => {
                let words = [("read", reads), ("write", writes)].map(|(verb, ranges)| in_words(verb, ranges));
                let words: Vec<String> = words.into_iter().flatten().collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}

impl Serialize for RenderCommand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn in_words(verb: &str, ranges: &[Bound]) -> Option<String> {
    let ranges: Vec<String> = ranges.iter().map(Bound::to_string).collect();
    (!ranges.is_empty()).then(|| format!("{verb} {}", ranges.join(" ")))
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pages {
            None => write!(f, "{}@{}", self.allocation, self.slot),
            Some((first, end)) => write!(f, "{}[{first}..{end}]@{}", self.allocation, self.slot),
        }
    }
}

/// Reads the commands of a buffer.
fn commands<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RenderCommand>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    if texts.is_empty() {
        return Err(D::Error::custom("a command buffer without commands; write at least a kernel"));
    }
    texts.iter().map(|text| command(text).map_err(D::Error::custom)).collect()
}

const COMMANDS: &str = "write `split`, `unbind 1`, or a kernel such as `read A@0 B@1 write C@2`";

fn command(text: &str) -> Result<RenderCommand, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["split"] => Ok(RenderCommand::Split),
        ["unbind", number] => slot(number).map(RenderCommand::Unbind),
        ["read" | "write", ..] => kernel(&words),
        _ => Err(format!("`{text}` is no command; {COMMANDS}")),
    }
}

fn kernel(words: &[&str]) -> Result<RenderCommand, String> {
    let (mut reads, mut writes, mut writing) = (Vec::new(), Vec::new(), false);
    for &word in words {
        match word {
            "read" | "write" => writing = word == "write",
            _ => if writing { &mut writes } else { &mut reads }.push(bound(word)?),
        }
    }
    if reads.is_empty() && writes.is_empty() {
        return Err(format!("the kernel `{}` names no memory; {COMMANDS}", words.join(" ")));
    }
    Ok(RenderCommand::Kernel { reads, writes })
}

fn bound(text: &str) -> Result<Bound, String> {
    let (what, number) = text.split_once('@').ok_or_else(|| format!("`{text}` names no slot; write `{text}@0`"))?;
    let (allocation, pages) = match what.strip_suffix(']').and_then(|what| what.split_once('[')) {
        Some((allocation, range)) => (allocation, Some(page_range(range)?)),
        None => (what, None),
    };
    let allocation = check_name::<serde::de::value::Error>(allocation.to_owned()).map_err(|error| error.to_string())?;
    Ok(Bound { allocation, slot: slot(number)?, pages })
}

fn page_range(text: &str) -> Result<(u64, u64), String> {
    let ends = text.split_once("..").and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    let is_range = |&(first, end): &(u64, u64)| first < end;
    ends.filter(is_range).ok_or_else(|| format!("`[{text}]` is no range of pages; write `[2..5]` for pages 2 to 4"))
}

fn slot(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|&slot: &u32| slot < 1 << 24);
    number.ok_or_else(|| format!("`{text}` is no slot; write a whole number below 16777216"))
}

#[cfg(test)]
mod tests {
    use super::{Bound, RenderCommand, command};

    fn whole(allocation: &str, slot: u32) -> Bound {
        Bound { allocation: allocation.to_owned(), slot, pages: None }
    }

    #[test]
    fn a_kernel_names_allocations_and_slots() {
        let reads = vec![whole("A", 0), Bound { pages: Some((2, 5)), ..whole("B", 1) }];
        let kernel = RenderCommand::Kernel { reads, writes: vec![whole("C", 2)] };
        assert_eq!(command("read A@0 B[2..5]@1 write C@2"), Ok(kernel));
        assert_eq!(command("split"), Ok(RenderCommand::Split));
        assert_eq!(command("unbind 3"), Ok(RenderCommand::Unbind(3)));
    }

    #[test]
    fn an_unknown_command_is_answered_with_what_to_write() {
        for (text, advice) in [
            ("copy A@0", "write `split`"),
            ("read A", "`A@0`"),
            ("read A@x", "whole number"),
            ("read A[5..2]@0", "`[2..5]`"),
            ("read", "names no memory"),
            ("unbind -1", "whole number"),
        ] {
            let error = command(text).expect_err(text);
            assert!(error.contains(advice), "{text}: {error}");
        }
    }
}
