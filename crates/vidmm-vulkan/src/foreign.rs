//! Commands of an application's own, which run amid paging (D1).

use std::collections::BTreeMap;
use std::fmt;

use ash::vk;

/// A piece of a buffer that is about to leave the GPU's reach, in one piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct EvictedPart {
    /// The command buffer to record into. What was recorded before is done when it begins, and what comes later waits for it.
    pub commands: vk::CommandBuffer,
    /// The memory, as a buffer of the manager's own for transfers and storage. The application's buffer may be unbound by then.
    pub memory: vk::Buffer,
    /// Where the piece begins in `memory`, in bytes.
    pub memory_offset: u64,
    /// Its address in shaders.
    pub address: vk::DeviceAddress,
    /// Where it begins in the application's buffer, in bytes.
    pub offset: u64,
    /// Its bytes, a multiple of 4096.
    pub bytes: u64,
}

/// Records commands that access a piece, and no other memory of the manager's.
pub type RecordEviction = Box<dyn FnMut(&EvictedPart) + Send>;

/// The commands by their tokens. Each range of a buffer has a token, and they follow each other.
#[derive(Default)]
pub(crate) struct ForeignCommands {
    last: u32,
    /// By the first token.
    record: BTreeMap<u32, OfBuffer>,
}

/// The commands of a buffer, and its ranges.
struct OfBuffer {
    record: RecordEviction,
    ranges: u32,
    range_bytes: u64,
}

impl fmt::Debug for ForeignCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignCommands").field("count", &self.record.len()).finish_non_exhaustive()
    }
}

impl ForeignCommands {
    /// Takes the commands of a buffer of so many ranges. Returns the token of the first range.
    pub(crate) fn insert(&mut self, record: RecordEviction, ranges: u32, range_bytes: u64) -> u32 {
        let first = self.last + 1;
        self.last += ranges;
        self.record.insert(first, OfBuffer { record, ranges, range_bytes });
        first
    }

    /// No paging names them any more.
    pub(crate) fn remove(&mut self, first: u32) {
        self.record.remove(&first);
    }

    /// Those of a token, and where its range begins in the buffer, in bytes.
    pub(crate) fn get_mut(&mut self, token: u32) -> Option<(&mut RecordEviction, u64)> {
        let (&first, of) = self.record.range_mut(..=token).next_back()?;
        let index = token - first;
        (index < of.ranges).then_some((&mut of.record, u64::from(index) * of.range_bytes))
    }
}
