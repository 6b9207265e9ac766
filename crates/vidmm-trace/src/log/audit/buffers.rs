//! Paging buffers: operations are packed into them without gaps (I21).

use super::finding::{Findings, Invariant};

/// The buffer that is being built.
#[derive(Debug, Default)]
pub(super) struct OpenBuffer {
    /// Bytes of a whole buffer.
    pub capacity: u64,
    filled: u64,
}

impl OpenBuffer {
    /// The driver wrote `bytes` at `offset`.
    pub fn write(&mut self, offset: u32, bytes: u32, findings: &mut Findings) {
        let (offset, bytes) = (u64::from(offset), u64::from(bytes));
        findings.check(offset == self.filled, Invariant::I21, || {
            format!("commands are written at {offset} of a buffer that holds {} bytes", self.filled)
        });
        self.filled = offset + bytes;
        findings.check(self.filled <= self.capacity, Invariant::I21, || {
            format!("a buffer of {} bytes holds {} bytes of commands", self.capacity, self.filled)
        });
    }

    /// Nothing is built that is not submitted.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Operations were built and not submitted.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// The buffer is handed to the paging engine.
    pub fn submit(&mut self, bytes: u32, findings: &mut Findings) {
        let filled = std::mem::take(&mut self.filled);
        findings.check(filled == u64::from(bytes), Invariant::I21, || {
            format!("a buffer is submitted with {bytes} bytes of commands, but {filled} were written")
        });
    }
}
