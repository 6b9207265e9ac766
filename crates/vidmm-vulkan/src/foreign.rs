//! Commands of an application's own, which run amid paging (D1).

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

/// The commands by their tokens.
#[derive(Default)]
pub(crate) struct ForeignCommands {
    last: u32,
    record: std::collections::BTreeMap<u32, RecordEviction>,
}

impl fmt::Debug for ForeignCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignCommands").field("count", &self.record.len()).finish_non_exhaustive()
    }
}

impl ForeignCommands {
    /// Takes commands, and gives them a token.
    pub(crate) fn insert(&mut self, record: RecordEviction) -> u32 {
        self.last += 1;
        self.record.insert(self.last, record);
        self.last
    }

    /// No paging names them any more.
    pub(crate) fn remove(&mut self, token: u32) {
        self.record.remove(&token);
    }

    /// Those of a token.
    pub(crate) fn get_mut(&mut self, token: u32) -> Option<&mut RecordEviction> {
        self.record.get_mut(&token)
    }
}
