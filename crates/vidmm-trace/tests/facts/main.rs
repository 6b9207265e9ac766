//! Traces, workloads and event logs: a file for each subject, in one program, which is built much faster than one for each.

mod log_support;
mod support;

mod combine;
mod fault_reports;
mod footprint;
mod generators;
mod import_files;
mod import_formats;
mod import_g10;
mod import_mooncake;
mod log_audit;
mod log_audit_budgets;
mod log_audit_cleaning;
mod log_audit_fences;
mod log_audit_io_mmu;
mod log_audit_names;
mod log_audit_notifications;
mod log_audit_offers;
mod log_audit_paging_va;
mod log_audit_places;
mod log_audit_references;
mod log_audit_resets;
mod log_audit_suspension;
mod log_audit_tables;
mod log_audit_windows;
mod log_explain;
mod log_extremes;
mod log_files;
mod log_levels;
mod log_schema;
mod real_traces;
mod rights;
mod sizes;
mod uploads;
mod workload_validation;
