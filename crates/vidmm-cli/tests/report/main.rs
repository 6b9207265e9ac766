//! The page that `vidmm report` writes, in a browser. Where there is none the tests say that they are skipped, unless
//! `VIDMM_REQUIRE_CHROMIUM=1` says that there must be one.

mod browser;
mod guide;
mod page;
mod pictures;
mod size;
