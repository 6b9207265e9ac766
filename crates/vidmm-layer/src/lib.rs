//! A Vulkan layer under an unmodified program: it writes what the program does with memory into a trace, or pages the memory.
//!
//! `vidmm exec --trace FILE -- PROGRAM` puts the layer between a program and Vulkan's loader, and docs/guides/traces.md describes the trace.
//! `vidmm exec -- PROGRAM` gives the program more memory than the device has, and docs/explanation/layer.md has the design. Without the
//! variables [`TRACE_VARIABLE`] and [`RESIDENCY_VARIABLE`] the layer only hands calls on.
//!
//! The module `border` has the functions that the loader calls. The other modules have plain data: [`ranges`] joins uses of
//! bytes, `tables` knows the objects of a device, `descriptors` and `record` know what command buffers use, `trace` writes. `driver` and
//! `manager` are the core with a driver of the layer's, and `homes` says which copies and binds follow.

#![allow(non_snake_case, reason = "Vulkan's loader expects this name of the library")]

// A file imports only from those above it.
mod fault;
pub mod ranges;
mod settings;
mod types;
mod trace;
mod descriptors;
mod driver;
mod manager;
mod homes;
mod parts;
mod figures;
mod record;
mod submission;
mod tables;
mod border;

pub use fault::FAULT_VARIABLE;
pub use figures::{Figures, Pinned};
pub use settings::{EVENTS_VARIABLE, FIGURES_VARIABLE, Mode, RESIDENCY_VARIABLE, ResidencySettings};
pub use trace::{TRACE_VARIABLE, of_process};

/// The name of the layer.
pub const LAYER_NAME: &str = "VK_LAYER_VIDMM_residency";

/// The manifest that Vulkan's loader reads, for the library at a path.
pub fn manifest(library: &str) -> String {
    let path: String = library.chars().flat_map(escape).collect();
    format!(
        r#"{{"file_format_version": "1.2.0", "layer": {{"name": "{LAYER_NAME}", "type": "GLOBAL", "library_path": "{path}",
"api_version": "1.4.300", "implementation_version": "1", "description": "what a program does with video memory"}}}}"#
    )
}

/// A character in a string of JSON.
fn escape(c: char) -> Vec<char> {
    match c {
        '"' | '\\' => vec!['\\', c],
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)).chars().collect(),
        c => vec![c],
    }
}
