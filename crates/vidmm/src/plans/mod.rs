//! Plans: what is to be done (plan), in what order (stream), where the paging process sees it (window), and how the driver encodes it
//! (expand, build). The planner alone writes plans.

pub(crate) mod bring_in;
pub(crate) mod build;
pub(crate) mod builder;
pub(crate) mod cleaning;
pub(crate) mod content;
pub(crate) mod discard;
pub(crate) mod draft;
pub(crate) mod initialise;
mod large_pages;
pub(crate) mod mappings;
pub(crate) mod planner;
pub(crate) mod reservations;
pub(crate) mod retire;
pub(crate) mod tables;
pub(crate) mod unmapping;
pub(crate) mod victims;
pub(crate) mod views;

use crate::{contract::KmdContextHandle, plans::builder::Builder};
pub(crate) use expand::{BuildEnv, Cursor, expand, lent};
pub(crate) use plan::{
    ApertureRange, CleanPart, Coming, InMemory, Leaving, Notice, PageIn, PageOut, Plan, ProcessTable, PteRange, Retire,
    Rotation, UnmapNotice, ZeroRange,
};
pub(crate) use step::{Step, Steps};
pub(crate) use stream::{Abandoned, Stream};
pub(crate) use table::root_page_table;
pub(crate) use victims::exceeds_limits;
pub(crate) use window::Windows;

/// Plans from their decision to their end.
pub(crate) struct Plans {
    /// The driver's context of paging.
    pub system_context: KmdContextHandle,
    pub stream: Stream,
    pub builder: Builder,
    pub windows: Windows,
}

pub(crate) mod step;
pub(crate) mod plan;
pub(crate) mod window;
pub(crate) mod table;
pub(crate) mod table_views;
pub(crate) mod expand;
pub(crate) mod stream;
