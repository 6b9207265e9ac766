//! Bytes around memory for the driver: the driver must not change the bytes, and a change names the distance.

use std::any::type_name;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// So many bytes behind the end of a buffer, and before the start, are guards.
pub(crate) const BEHIND: usize = 2048;
pub(crate) const BEFORE: usize = 256;

/// So many guards nearest to a buffer are looked at after each call, on each side.
const NEAR: usize = 64;

/// The guards that are looked at: all of them in a share of the checks, since that costs more than a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Reach {
    #[default]
    Near,
    Far,
}

impl Reach {
    /// The numbers of bytes before the start and behind the end.
    pub fn bytes(self) -> (usize, usize) {
        match self {
            Self::Near => (NEAR, NEAR),
            Self::Far => (BEFORE, BEHIND),
        }
    }
}

/// The bytes.
pub(crate) const GUARD: u8 = 0xC5;

/// So many bytes are on each side of a struct.
const SIDE: usize = 128;

/// A change of the bytes around memory, or a pointer that has left the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// The distance of the nearest changed byte, from 1.
    Before(usize),
    Behind(usize),
    /// The pointer that is to be behind the last byte.
    Pointer,
}

impl Damage {
    /// The nearest change in the bytes on both sides.
    pub fn find(before: &[u8], behind: &[u8]) -> Option<Self> {
        // Comparisons of whole arrays are fast, and mostly enough.
        if behind == &[GUARD; BEHIND][..behind.len()] && before == &[GUARD; BEHIND][..before.len()] {
            return None;
        }
        let is_changed = |&byte: &u8| byte != GUARD;
        let in_front = before.iter().rev().position(is_changed).map(|at| Self::Before(at + 1));
        behind.iter().position(is_changed).map(|at| Self::Behind(at + 1)).or(in_front)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |count: usize| if count == 1 { "byte".to_owned() } else { format!("{count} bytes") };
        match *self {
            Self::Before(1) => f.write_str("the byte before the start was written"),
            Self::Behind(1) => f.write_str("the byte behind the end was written"),
            Self::Before(distance) => write!(f, "a byte {} before the start was written", bytes(distance)),
            Self::Behind(distance) => write!(f, "a byte {} behind the end was written", bytes(distance)),
            Self::Pointer => f.write_str("the pointer that is to be behind the last byte is not within it"),
        }
    }
}

/// A struct for the driver between bytes that the driver must not change. A struct that is made in place is cheaper than a copy of a
/// struct: a copy costs more than the comparison of the bytes.
#[repr(C)]
pub(crate) struct Guarded<T> {
    before: [u8; SIDE],
    object: T,
    behind: [u8; SIDE],
}

impl<T> Guarded<T> {
    #[inline]
    pub fn new(object: T) -> Self {
        const { assert!(align_of::<T>() <= SIDE) };
        Self { before: [GUARD; SIDE], object, behind: [GUARD; SIDE] }
    }

    /// The struct. The pointer is of the whole, so the driver may find the way to the bytes around the struct.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        (&raw mut *self).wrapping_byte_add(std::mem::offset_of!(Self, object)).cast()
    }

    /// The damage, with the struct's name.
    #[inline]
    pub fn damage(&self) -> Option<String> {
        let changes = |side: &[u8; SIDE]| {
            let (words, _) = side.as_chunks::<8>();
            words.iter().fold(0, |changes, &word| changes | (u64::from_ne_bytes(word) ^ u64::from_ne_bytes([GUARD; 8])))
        };
        if changes(&self.before) | changes(&self.behind) == 0 { None } else { self.named_damage() }
    }

    #[cold]
    fn named_damage(&self) -> Option<String> {
        let name = type_name::<T>().rsplit("::").next().unwrap_or_default();
        Damage::find(&self.before, &self.behind).map(|damage| format!("{name}: {damage}"))
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.object
    }
}

/// Lets `call` use a struct with bytes around it. Returns the result, and the damage with the struct's name.
pub(crate) fn in_guards<T: Copy, R>(object: &mut T, call: impl FnOnce(*mut T) -> R) -> (R, Option<String>) {
    let mut guarded = Guarded::new(*object);
    let result = call(guarded.as_mut_ptr());
    *object = *guarded;
    (result, guarded.damage())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found_with_its_distance() {
        let whole = [GUARD; BEHIND];
        assert_eq!(Damage::find(&whole[..BEFORE], &whole), None);
        for distance in [1, 2, 1100, BEHIND] {
            let mut behind = whole;
            behind[distance - 1] = 0;
            behind[BEHIND - 1] = 0;
            assert_eq!(Damage::find(&whole[..BEFORE], &behind), Some(Damage::Behind(distance)));
        }
        let mut before = [GUARD; BEFORE];
        (before[0], before[BEFORE - 7]) = (0, 0);
        assert_eq!(Damage::find(&before, &whole), Some(Damage::Before(7)));
    }

    #[test]
    fn a_write_beside_a_struct_is_told() {
        let mut object = 5u64;
        let (result, damage) = in_guards(&mut object, |object| {
            // SAFETY: the bytes around the struct are there.
            unsafe { object.cast::<u8>().sub(1).write(0) };
            // SAFETY: the struct is there.
            unsafe { object.write(6) };
            7
        });
        assert_eq!((result, object, damage.as_deref()), (7, 6, Some("u64: the byte before the start was written")));
        assert_eq!(in_guards(&mut object, |_| ()).1, None);
    }
}
