//! Paging: what is to be done (plan), in what order (stream), where the paging process sees it (window).

mod plan;
mod stream;
mod window;

pub(crate) use plan::{
    BuildEnv, Cursor, PageIn, PageOut, Plan, PlannedTable, PteRange, Retire, expand, initialise_table, root_page_table,
};
pub(crate) use stream::Stream;
pub(crate) use window::{PteTarget, PteWriter, Windows};
