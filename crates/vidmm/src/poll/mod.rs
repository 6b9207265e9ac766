//! `poll` grants and builds, and hands out what is to be done; events retire.

mod build;
mod dispatch;
mod grant;
mod planner;
mod retire;
mod step;
