//! What the two halves of the driver tell each other about an allocation.

use vidmm::contract::{AllocationFlags, CreateAllocationError};

const MAGIC: u32 = u32::from_le_bytes(*b"vmSD");
const VERSION: u32 = 1;
const BYTES: usize = 24;

/// The private data of an allocation (CRE-03): 24 bytes, little-endian.
///
/// `{ magic u32, version u32, size u64, priority u32, flags u32 }`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationPrivateData {
    /// Size in bytes, never 0.
    pub size: u64,
    /// Initial priority; 0 is the default, NORMAL (CRE-30).
    pub allocation_priority: u32,
    /// Its flags.
    pub flags: AllocationFlags,
}

impl AllocationPrivateData {
    /// The private data as bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(self.allocation_priority.to_le_bytes());
        bytes.extend(self.flags.bits().to_le_bytes());
        bytes
    }

    /// Reads private data.
    ///
    /// # Errors
    ///
    /// [`DriverMismatch`](CreateAllocationError::DriverMismatch) for another version,
    /// [`InvalidParameter`](CreateAllocationError::InvalidParameter) for anything else that is not private data.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CreateAllocationError> {
        let word =
            |at: usize| bytes.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
        let invalid = CreateAllocationError::InvalidParameter;
        if word(0) != Some(MAGIC) {
            return Err(invalid);
        }
        if word(4) != Some(VERSION) {
            return Err(CreateAllocationError::DriverMismatch);
        }
        let (Some(low), Some(high), Some(allocation_priority), Some(flags)) = (word(8), word(12), word(16), word(20))
        else {
            return Err(invalid);
        };
        let size = u64::from(high) << 32 | u64::from(low);
        let flags = AllocationFlags::from_bits(flags).ok_or(invalid)?;
        if bytes.len() != BYTES || size == 0 {
            return Err(invalid);
        }
        Ok(Self { size, allocation_priority, flags })
    }
}
