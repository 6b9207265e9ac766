//! The findings of a run.

use serde::Serialize;

use crate::accounts::Touched;

/// A finding of a run: a check that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Finding {
    /// A kernel read a wrong page.
    WrongPage {
        /// The kernel.
        kernel: usize,
        /// Its process.
        process: String,
        /// The buffer, as the workload names it.
        buffer: u64,
        /// The allocation that holds it.
        allocation: Option<String>,
        /// The page, counted from 0.
        page: u64,
        /// The digest that it must have.
        expected: u64,
        /// The digest that it had.
        found: u64,
        /// Wrong pages in all inputs of the kernel.
        wrong: u64,
        /// The number of the event that recorded the finding.
        event: u64,
    },
    /// The CPU sees a wrong page of an evicted buffer.
    WrongSystemPage {
        /// The buffer, as the workload names it.
        buffer: u64,
        /// The allocation that holds it.
        allocation: String,
        /// The page, counted from 0.
        page: u64,
        /// Its address in system memory, in bytes.
        address: u64,
        /// The digest that it must have.
        expected: u64,
        /// The digest that it has.
        found: u64,
        /// Wrong pages of the allocation.
        wrong: u64,
        /// The number of the last event.
        event: u64,
    },
    /// Work accessed memory where nothing is resident.
    PageFault {
        /// The address.
        virtual_address: u64,
        /// Whether it was a write.
        write: bool,
        /// The engine.
        engine: u32,
        /// The allocation that the client has mapped there.
        allocation: Option<String>,
        /// Which page of it, counted from 0.
        page: u64,
        /// The owner of that allocation, and the event log's answer about it; none if the run kept no accounts.
        touched: Option<Touched>,
        /// The number of the last event.
        event: u64,
    },
    /// The driver or the GPU broke a rule.
    Violation {
        /// The rule, in words.
        rule: String,
        /// The number of the last event.
        event: u64,
    },
    /// Nothing runs, nothing is to come, and kernels are left: the manager is stuck.
    Stuck {
        /// Kernels that have ended.
        ended: usize,
        /// The number of the last event.
        event: u64,
    },
    /// The audit of the manager found a broken invariant.
    Audit {
        /// The broken invariants.
        broken: Vec<String>,
        /// The number of the last event.
        event: u64,
    },
}
