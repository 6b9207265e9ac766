//! What the two halves of the driver tell each other about an allocation.

use vidmm::contract::{AllocationFlags, AllocationFlags2, CreateAllocationError};
use vidmm_runtime::AllocationSegments;

const MAGIC: u32 = u32::from_le_bytes(*b"vmSD");
const VERSION: u32 = 2;
const WORDS: usize = 10;

/// The private data of an allocation (CRE-03): 40 bytes, little-endian.
///
/// `{ magic u32, version u32, size u64, priority u32, flags u32, flags2 u32, segments u32, has_surface u32, surface u32 }`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationPrivateData {
    /// Size in bytes, never 0.
    pub size: u64,
    /// Initial priority; 0 is the default, NORMAL (CRE-30).
    pub allocation_priority: u32,
    /// Its flags.
    pub flags: AllocationFlags,
    /// Its newer flags: the notifications that it wants.
    pub flags2: AllocationFlags2,
    /// Where it may be resident.
    pub segments: AllocationSegments,
    /// Its compression surface, if it has one.
    pub surface: Option<u32>,
}

impl AllocationPrivateData {
    /// The private data as bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let words = [
            MAGIC,
            VERSION,
            self.size as u32,
            (self.size >> 32) as u32,
            self.allocation_priority,
            self.flags.bits(),
            self.flags2.bits(),
            segments_code(self.segments),
            self.surface.is_some().into(),
            self.surface.unwrap_or(0),
        ];
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Reads private data.
    ///
    /// # Errors
    ///
    /// [`DriverMismatch`](CreateAllocationError::DriverMismatch) for another version,
    /// [`InvalidParameter`](CreateAllocationError::InvalidParameter) for anything else that is not private data.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CreateAllocationError> {
        let invalid = CreateAllocationError::InvalidParameter;
        let (words, rest) = bytes.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
        if words.first() != Some(&MAGIC) {
            return Err(invalid);
        }
        if words.get(1).is_some_and(|&version| version != VERSION) {
            return Err(CreateAllocationError::DriverMismatch);
        }
        let words: [u32; WORDS] = words.try_into().map_err(|_| invalid)?;
        let [_, _, low, high, allocation_priority, flags, flags2, segments, has_surface, surface] = words;
        let size = u64::from(high) << 32 | u64::from(low);
        if !rest.is_empty() || size == 0 {
            return Err(invalid);
        }
        Ok(Self {
            size,
            allocation_priority,
            flags: AllocationFlags::from_bits(flags).ok_or(invalid)?,
            flags2: AllocationFlags2::from_bits(flags2).ok_or(invalid)?,
            segments: segments_of(segments).ok_or(invalid)?,
            surface: match (has_surface, surface) {
                (0, 0) => None,
                (1, surface) => Some(surface),
                _ => return Err(invalid),
            },
        })
    }
}

fn segments_code(segments: AllocationSegments) -> u32 {
    match segments {
        AllocationSegments::Local => 0,
        AllocationSegments::System => 1,
        AllocationSegments::LocalOrSystem => 2,
    }
}

fn segments_of(code: u32) -> Option<AllocationSegments> {
    match code {
        0 => Some(AllocationSegments::Local),
        1 => Some(AllocationSegments::System),
        2 => Some(AllocationSegments::LocalOrSystem),
        _ => None,
    }
}
