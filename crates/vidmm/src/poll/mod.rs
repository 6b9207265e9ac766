//! `poll` grants and builds, and hands out what is to be done; events retire.

mod draft;
mod mappings;
mod planner;
mod victims;
mod discard;
mod views;
mod grant;
mod build;
mod dispatch;
mod retire;
mod device_error;
mod faults;
mod engine_reset;
mod watch;
mod adapter_reset;
mod portions;
mod prepare;
mod list_room;
mod purge;
mod power;
mod replacement;
mod step;
mod tables;
mod trial;
mod trims;
mod turns;
mod unmapping;

pub(crate) use draft::Draft;
