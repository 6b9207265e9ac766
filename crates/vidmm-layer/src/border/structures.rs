//! The structures of the program's calls, which are in chains.

use std::ffi::c_void;

use ash::vk;

/// The program's own functions for memory, which the layer does not touch.
pub type Allocator<'a> = *const vk::AllocationCallbacks<'a>;

/// A structure of a chain.
///
/// # Safety
///
/// `next` is null or the first of a chain of Vulkan's structures, which live as long as the result.
pub unsafe fn find<'a, T: vk::TaggedStructure>(next: *const c_void) -> Option<&'a T> {
    // SAFETY: the caller's; the type says what the structure is.
    unsafe { position::<T>(next).as_ref() }
}

/// The address of a structure of a chain, or null.
///
/// # Safety
///
/// As for [`find`].
unsafe fn position<T: vk::TaggedStructure>(mut next: *const c_void) -> *const T {
    // SAFETY: each structure of a chain begins with its type and the next.
    while let Some(structure) = unsafe { next.cast::<vk::BaseInStructure<'_>>().as_ref() } {
        if structure.s_type == T::STRUCTURE_TYPE {
            return next.cast();
        }
        next = structure.p_next.cast();
    }
    std::ptr::null()
}

/// The same, of a structure that is the layer's to change.
///
/// # Safety
///
/// As for [`find`], and nobody else uses the structure meanwhile.
pub unsafe fn find_mut<'a, T: vk::TaggedStructure>(next: *mut c_void) -> Option<&'a mut T> {
    // SAFETY: the caller's; the type says what the structure is.
    unsafe { position::<T>(next).cast_mut().as_mut() }
}
