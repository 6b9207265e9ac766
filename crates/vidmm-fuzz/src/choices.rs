//! Bytes as a source of choices.

use std::cell::RefCell;
use std::rc::Rc;

use arbitrary::{Arbitrary, Unstructured};

/// Draws choices from bytes, in their order. After the last byte every choice is the first, and nothing rare happens
/// any more, so each sequence of choices ends. Clones draw from the same bytes, each in its turn.
#[derive(Clone)]
pub struct Choices<'d>(Rc<RefCell<Unstructured<'d>>>);

/// Numbers at the edges of ranges.
const EDGES: [u64; 20] = [
    0,
    1,
    2,
    8,
    4095,
    4096,
    4097,
    3 << 10,
    8192,
    65_535,
    65_536,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 4095,
    u64::MAX,
];

impl<'d> Choices<'d> {
    /// The choices that follow from `data`.
    pub fn new(data: &'d [u8]) -> Self {
        Self(Rc::new(RefCell::new(Unstructured::new(data))))
    }

    /// Whether no byte is left.
    pub fn is_over(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.borrow_mut().int_in_range(0..=bound - 1).unwrap_or(0)
    }

    /// An index below `len`, which is not 0.
    pub fn index(&self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of `all`, of which there is at least one.
    pub fn pick<T: Copy>(&self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    /// One of `all`, if there is one.
    pub fn pick_any<T: Copy>(&self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| self.pick(all))
    }

    /// Returns true about once in `chances`, which is at least 2.
    pub fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == chances - 1
    }

    /// Any value.
    pub fn any<T: Arbitrary<'d> + Default>(&self) -> T {
        self.0.borrow_mut().arbitrary().unwrap_or_default()
    }

    /// A number at the edge of a range, one beside it, or any.
    pub fn edge(&self) -> u64 {
        match self.below(4) {
            0 | 1 => self.pick(&EDGES),
            2 => self.pick(&EDGES).wrapping_add(self.below(9)).wrapping_sub(4),
            _ => self.any(),
        }
    }

    /// A number as [`edge`](Self::edge) draws it, with 32 bits.
    pub fn edge32(&self) -> u32 {
        u32::try_from(self.edge()).unwrap_or_else(|_| self.any())
    }
}
