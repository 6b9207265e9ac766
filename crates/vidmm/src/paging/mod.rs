//! Paging: what is to be done (plan), in what order (stream), where the paging process sees it (window), and how that is
//! expanded into steps (expand).

mod step;
mod plan;
mod window;
mod table;
mod expand;
mod stream;

pub(crate) use expand::{BuildEnv, Cursor, expand};
pub(crate) use plan::{
    ApertureRange, Coming, Leaving, Notice, PageIn, PageOut, Plan, PlannedTable, PteRange, Retire, Rotation,
    UnlinkedTable, UnmapNotice,
};
pub(crate) use step::{IoMmuRange, Step};
pub(crate) use stream::{Abandoned, Stream};
pub(crate) use table::{initialise_table, root_page_table};
pub(crate) use window::{PteTarget, PteWriter, Windows};
