//! The commands as a user runs them: a file for each subject, in one program, which is built much faster than one for each.

mod common;

mod c_driver;
mod c_driver_bugs;
mod clients;
mod dependencies;
mod determinism;
mod docs;
mod english;
mod event_log;
mod exit_status;
mod explain;
mod export;
mod fact_numbers;
mod faults;
mod found;
mod hostile;
mod install;
mod lifetimes;
mod no_gpu_model;
mod notification;
mod own_machine;
mod packages;
mod panics;
mod pressure;
mod replay;
mod residency;
mod scenarios;
mod splitting;
mod splitting_audit;
mod sweep;
mod strict;
mod timeline;
mod traces;
mod verifier;
mod vulkan;
