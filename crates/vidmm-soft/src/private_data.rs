//! The private data by which the two halves of the driver tell each other about an allocation.

use vidmm::contract::{AllocationFlags, AllocationFlags2, CreateAllocationError, Direction, SegmentBankPreference};
use vidmm_runtime::{AllocationSegments, Placement, SegmentOrder};

const MAGIC: u32 = u32::from_le_bytes(*b"vmSD");
const VERSION: u32 = 4;
const WORDS: usize = 15;

/// The private data of an allocation (CRE-03): 60 bytes, little-endian.
///
/// `{ magic u32, version u32, size u64, priority u32, flags u32, flags2 u32, segments u32, has_surface u32, surface u32,
/// has_foreign u32, foreign u32, alignment u32, banks u32, placement u32 }`
///
/// The banks are a byte each, the first the lowest. Bits of the placement: 0 to 4 are the directions of the preferred segments,
/// 8 to 11 those of the hinted banks, 16 is from the end of a segment, 17 eviction through the aperture.
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
    /// The token of commands of the user's own that run before it is evicted, in place of decompression (D1).
    pub foreign: Option<u32>,
    /// Where in a segment it had better be.
    pub placement: Placement,
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
            self.foreign.is_some().into(),
            self.foreign.unwrap_or(0),
            self.placement.alignment,
            u32::from_le_bytes(self.placement.hinted_bank.banks),
            placement_code(&self.placement),
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
        let [_, _, low, high, allocation_priority, flags, flags2, segments, ..] = words;
        let [.., has_surface, surface, has_foreign, foreign, alignment, banks, placement] = words;
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
            surface: optional(has_surface, surface).ok_or(invalid)?,
            foreign: optional(has_foreign, foreign).ok_or(invalid)?,
            placement: placement_of([alignment, banks, placement]).ok_or(invalid)?,
        })
    }
}

/// A number that may be there; none in it if its two words mean nothing.
fn optional(is_there: u32, number: u32) -> Option<Option<u32>> {
    match (is_there, number) {
        (0, 0) => Some(None),
        (1, number) => Some(Some(number)),
        _ => None,
    }
}

/// An order of segments follows.
const ORDERED: u32 = 1 << 31;

fn segments_code(segments: AllocationSegments) -> u32 {
    match segments {
        AllocationSegments::Local => 0,
        AllocationSegments::System => 1,
        AllocationSegments::LocalOrSystem => 2,
        AllocationSegments::Ordered(order) => ORDERED | order.code(),
    }
}

fn segments_of(code: u32) -> Option<AllocationSegments> {
    match code {
        0 => Some(AllocationSegments::Local),
        1 => Some(AllocationSegments::System),
        2 => Some(AllocationSegments::LocalOrSystem),
        ordered if ordered & ORDERED != 0 => {
            SegmentOrder::from_code(ordered & !ORDERED).map(AllocationSegments::Ordered)
        }
        _ => None,
    }
}

const FROM_END_OF_SEGMENT: u32 = 1 << 16;
const EVICT_THROUGH_APERTURE: u32 = 1 << 17;

fn placement_code(placement: &Placement) -> u32 {
    let from_end = if placement.from_end_of_segment { FROM_END_OF_SEGMENT } else { 0 };
    let evict = if placement.evict_through_aperture { EVICT_THROUGH_APERTURE } else { 0 };
    direction_bits(&placement.directions) | direction_bits(&placement.hinted_bank.directions) << 8 | from_end | evict
}

/// A bit for each direction that is from the end.
fn direction_bits(directions: &[Direction]) -> u32 {
    (0..).zip(directions).map(|(bit, &direction)| u32::from(direction == Direction::FromEnd) << bit).sum()
}

fn placement_of([alignment, banks, code]: [u32; 3]) -> Option<Placement> {
    let direction = |bit: usize| if code >> bit & 1 == 1 { Direction::FromEnd } else { Direction::FromStart };
    let placement = Placement {
        alignment,
        from_end_of_segment: code & FROM_END_OF_SEGMENT != 0,
        directions: std::array::from_fn(direction),
        hinted_bank: SegmentBankPreference {
            banks: banks.to_le_bytes(),
            directions: std::array::from_fn(|bank| direction(8 + bank)),
        },
        evict_through_aperture: code & EVICT_THROUGH_APERTURE != 0,
    };
    let is_alignment = alignment == 0 || alignment.is_power_of_two();
    (is_alignment && placement_code(&placement) == code).then_some(placement)
}
