//! The candidates of a hook, as Python sees them.

use std::cell::Cell;
use std::ptr;

use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use vidmm::policy::{Candidate, Candidates};
use vidmm_sim::policies::{PolicyRule, report};

/// The allocations of one memory that may go now. They are asked during `victim` alone.
#[pyclass(name = "Candidates", module = "vidmm", frozen)]
pub struct PyCandidates {
    policy: &'static str,
    present: Present,
}

/// The candidates of the present hook; none outside of `victim`.
struct Present(Cell<Option<*mut dyn Candidates>>);

// SAFETY: whoever reads or writes the cell holds the lock of the interpreter (abi3 has no build without it).
unsafe impl Send for Present {}
// SAFETY: as above.
unsafe impl Sync for Present {}

impl PyCandidates {
    pub fn new(policy: &'static str) -> Self {
        Self { policy, present: Present(Cell::new(None)) }
    }

    /// Shows `candidates` until `hook` returns.
    pub fn during<T>(&self, candidates: &mut dyn Candidates, hook: impl FnOnce() -> T) -> T {
        /// Also a panic forgets the candidates.
        struct Forget<'a>(&'a Present);
        impl Drop for Forget<'_> {
            fn drop(&mut self) {
                self.0.0.set(None);
            }
        }
        // SAFETY: only the lifetime changes; the pointer is forgotten before the reference ends.
        let present =
            unsafe { std::mem::transmute::<*mut dyn Candidates, *mut dyn Candidates>(ptr::from_mut(candidates)) };
        self.present.0.set(Some(present));
        let _forget = Forget(&self.present);
        hook()
    }

    fn ask<T>(&self, question: &'static str, ask: impl FnOnce(&mut dyn Candidates) -> T) -> PyResult<T> {
        let Some(present) = self.present.0.get() else {
            report(self.policy, question, PolicyRule::NothingIsKept, || {
                "candidates of a `victim` that has returned are asked; nothing is shown".to_owned()
            });
            return Err(PyRuntimeError::new_err(
                "candidates are asked during `victim` alone; keep slots, not candidates",
            ));
        };
        // SAFETY: `during` set it and has not returned, so the reference lives. The lock of the interpreter lets one thread ask at a
        // time, and no answer calls Python.
        Ok(ask(unsafe { &mut *present }))
    }

    fn candidate(&self, question: &'static str, slot: usize) -> PyResult<Candidate> {
        let candidate = self.ask(question, |candidates| candidates.get(slot))?;
        candidate.ok_or_else(|| PyKeyError::new_err(format!("slot {slot} is no candidate")))
    }
}

#[pymethods]
impl PyCandidates {
    /// The number of the memory's segment; 0 is system memory.
    #[getter]
    fn memory(&self) -> PyResult<u8> {
        self.ask("memory", |candidates| candidates.memory().0)
    }

    /// The slot of the candidate with the lowest rank from `rank` on; of several, the one that has it for longest.
    #[pyo3(signature = (rank=0))]
    fn first_from(&self, rank: u64) -> PyResult<Option<usize>> {
        self.ask("first_from", |candidates| candidates.first_from(rank).map(|first| first.slot))
    }

    fn __contains__(&self, slot: usize) -> PyResult<bool> {
        self.ask("in", |candidates| candidates.get(slot).is_some())
    }

    /// The size of a candidate in bytes.
    fn size(&self, slot: usize) -> PyResult<u64> {
        Ok(self.candidate("size", slot)?.size)
    }

    /// The rank of a candidate.
    fn rank(&self, slot: usize) -> PyResult<u64> {
        Ok(self.candidate("rank", slot)?.rank)
    }

    /// Gives a candidate another rank. Does nothing if the slot has none.
    fn set_rank(&self, slot: usize, rank: u64) -> PyResult<()> {
        self.ask("set_rank", |candidates| candidates.set_rank(slot, rank))
    }
}
