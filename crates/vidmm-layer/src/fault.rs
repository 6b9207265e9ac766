//! Mistakes of the layer that tests plant, to see that the mistakes are found.

use std::env;
use std::sync::LazyLock;

use ash::vk::DescriptorType as Type;

/// The variable that names a planted mistake: `no-write-back`, or `no-KIND` for uses of a kind of buffer that are not seen. For tests.
pub const FAULT_VARIABLE: &str = "VIDMM_LAYER_FAULT";

static FAULT: LazyLock<String> = LazyLock::new(|| env::var(FAULT_VARIABLE).unwrap_or_default());

/// Whether a mistake is planted.
pub fn is(name: &str) -> bool {
    *FAULT == name
}

/// Whether the uses by descriptors of a type are not seen.
pub fn hides(of: Type) -> bool {
    !FAULT.is_empty()
        && is(match of {
            Type::UNIFORM_BUFFER => "no-uniform",
            Type::STORAGE_BUFFER => "no-storage",
            Type::UNIFORM_BUFFER_DYNAMIC => "no-uniform-dynamic",
            Type::STORAGE_BUFFER_DYNAMIC => "no-storage-dynamic",
            Type::UNIFORM_TEXEL_BUFFER => "no-uniform-texel",
            Type::STORAGE_TEXEL_BUFFER => "no-storage-texel",
            _ => "no-other",
        })
}
