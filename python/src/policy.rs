//! A Python class as a policy.

use std::cell::Cell;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use vidmm::SegmentId;
use vidmm::policy::{Candidate, Candidates, MakePolicy, Parameter, Policy, PolicyKind, Recency, Subject};
use vidmm_sim::policies::{self, PolicyRule, report};

use crate::candidates::PyCandidates;

/// An exception that ends the call, such as KeyboardInterrupt: no mistake of a policy.
static INTERRUPT: Mutex<Option<PyErr>> = Mutex::new(None);

/// Takes the exception that ended the last call.
pub fn take_interrupt() -> Option<PyErr> {
    INTERRUPT.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Gives a class the name of a policy.
pub fn register(name: String, class: Py<PyAny>, has_seed: bool) -> Result<(), String> {
    let name: &'static str = Box::leak(name.into_boxed_str());
    let make: &'static MakePolicy = Box::leak(Box::new(move |values: &[u64]| -> Box<dyn Policy> {
        Python::attach(|py| match PyPolicy::new(py, name, &class, values.first().copied()) {
            Ok(policy) => Box::new(policy) as Box<dyn Policy>,
            Err(error) => {
                raised(py, name, "__init__", error);
                Box::<Recency>::default()
            }
        })
    }));
    let kind = PolicyKind::new(name, make).with(if has_seed { &[Parameter::SEED] } else { &[] });
    policies::register(&kind).map(drop).map_err(|error| error.to_string())
}

/// Reports an exception of a hook.
///
/// # Panics
///
/// If the exception ends the call.
fn raised(py: Python<'_>, name: &str, hook: &'static str, error: PyErr) {
    if !error.is_instance_of::<PyException>(py) {
        *INTERRUPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        panic!("interrupted");
    }
    report(name, hook, PolicyRule::HookReturns, || {
        format!("it raises {}; the least recently used goes from here on", said(py, &error))
    });
}

/// An exception with the line that raised it.
fn said(py: Python<'_>, error: &PyErr) -> String {
    let mut at = error.traceback(py);
    while let Some(next) = at.as_ref().and_then(|at| at.getattr("tb_next").ok()?.cast_into().ok()) {
        at = Some(next);
    }
    let line = at.and_then(|at| at.getattr("tb_lineno").ok()?.extract::<u32>().ok());
    line.map_or_else(|| error.to_string(), |line| format!("{error} (line {line})"))
}

/// The hooks of a policy. A class has those that it wants.
#[derive(Default)]
struct Hooks {
    used: Option<Py<PyAny>>,
    brought_in: Option<Py<PyAny>>,
    released: Option<Py<PyAny>>,
    rank: Option<Py<PyAny>>,
    victim: Option<Py<PyAny>>,
    left: Option<Py<PyAny>>,
    gone: Option<Py<PyAny>>,
    cleans: Option<Py<PyAny>>,
    announced: Option<Py<PyAny>>,
    prefetch: Option<Py<PyAny>>,
}

/// An object of the class.
struct PyPolicy {
    name: &'static str,
    hooks: Hooks,
    /// The order without `rank`, and after a mistake.
    recency: Recency,
    /// A hook has raised an exception, and no other is called.
    has_failed: Cell<bool>,
    candidates: Py<PyCandidates>,
}

impl Debug for PyPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "PyPolicy({})", self.name)
    }
}

impl PyPolicy {
    fn new(py: Python<'_>, name: &'static str, class: &Py<PyAny>, seed: Option<u64>) -> PyResult<Self> {
        let given = PyDict::new(py);
        seed.map(|seed| given.set_item("seed", seed)).transpose()?;
        let policy = class.bind(py).call((), Some(&given))?;
        let hook = |name| Ok::<_, PyErr>(policy.getattr_opt(name)?.map(Bound::unbind));
        let hooks = Hooks {
            used: hook("used")?,
            brought_in: hook("brought_in")?,
            released: hook("released")?,
            rank: hook("rank")?,
            victim: hook("victim")?,
            left: hook("left")?,
            gone: hook("gone")?,
            cleans: hook("cleans")?,
            announced: hook("announced")?,
            prefetch: hook("prefetch")?,
        };
        let candidates = Py::new(py, PyCandidates::new(name))?;
        Ok(Self { name, hooks, recency: Recency::default(), has_failed: Cell::new(false), candidates })
    }

    /// The answer of a hook; none if the class has no such hook, or the hook raises an exception.
    fn ask<'py, A>(
        &self,
        py: Python<'py>,
        name: &'static str,
        hook: Option<&Py<PyAny>>,
        arguments: A,
    ) -> Option<Bound<'py, PyAny>>
    where
        A: IntoPyObject<'py, Target = PyTuple>,
        A: pyo3::call::PyCallArgs<'py>,
    {
        let hook = hook.filter(|_| !self.has_failed.get())?;
        match hook.bind(py).call1(arguments) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.has_failed.set(true);
                raised(py, self.name, name, error);
                None
            }
        }
    }

    /// The whole number that a hook answers; none if the answer is something else.
    fn number(&self, name: &'static str, answer: Option<Bound<'_, PyAny>>) -> Option<u64> {
        self.extracted(name, &answer?, "no number of 64 bits")
    }

    /// The answer of a hook as a value of the promised kind; `wrong` says what other answers are.
    fn extracted<'py, T: for<'a> FromPyObject<'a, 'py>>(
        &self,
        name: &'static str,
        answer: &Bound<'py, PyAny>,
        wrong: &str,
    ) -> Option<T> {
        let value = answer.extract().ok();
        if value.is_none() {
            report(self.name, name, PolicyRule::HookReturns, || {
                format!("it returns {answer}, which is {wrong}; the documented order stands in its place")
            });
        }
        value
    }

    fn tell(&self, name: &'static str, hook: &Option<Py<PyAny>>, subject: Subject, more: u64) {
        if let Some(hook) = hook {
            Python::attach(|py| self.ask(py, name, Some(hook), (subject.slot, subject.size, more)).map(drop));
        }
    }
}

impl Policy for PyPolicy {
    fn used(&mut self, subject: Subject, time: u64) {
        self.tell("used", &self.hooks.used, subject, time);
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        self.tell("brought_in", &self.hooks.brought_in, subject, memory.0.into());
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        self.recency.released(subject, last_use);
        self.tell("released", &self.hooks.released, subject, last_use);
    }

    fn rank(&self, slot: usize) -> u64 {
        let of_hook = |hook| Python::attach(|py| self.number("rank", self.ask(py, "rank", Some(hook), (slot,))));
        self.hooks.rank.as_ref().and_then(of_hook).unwrap_or_else(|| self.recency.rank(slot))
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let of_hook = |hook: &Py<PyAny>| {
            Python::attach(|py| {
                let shown = self.candidates.bind(py);
                let answer = shown.get().during(candidates, || self.ask(py, "victim", Some(hook), (shown.clone(),)));
                self.number("victim", answer)
            })
        };
        match self.hooks.victim.as_ref().and_then(of_hook) {
            Some(slot) => usize::try_from(slot).unwrap_or(usize::MAX),
            None => self.recency.victim(candidates),
        }
    }

    fn cleans(&self, Candidate { slot, rank, size }: Candidate) -> bool {
        let Some(hook) = &self.hooks.cleans else { return true };
        Python::attach(|py| {
            let answer = self.ask(py, "cleans", Some(hook), (slot, rank, size));
            answer.is_none_or(|answer| self.extracted("cleans", &answer, "neither True nor False").unwrap_or(true))
        })
    }

    fn announced(&mut self, subject: Subject, time: u64) {
        self.recency.announced(subject, time);
        self.tell("announced", &self.hooks.announced, subject, time);
    }

    fn prefetches(&self) -> bool {
        self.hooks.prefetch.is_some()
    }

    fn prefetch(&mut self, memory: SegmentId, free: u64) -> Option<usize> {
        let hook = self.hooks.prefetch.as_ref()?;
        Python::attach(|py| {
            let answer = self.ask(py, "prefetch", Some(hook), (memory.0, free)).filter(|answer| !answer.is_none())?;
            self.extracted("prefetch", &answer, "neither a slot nor None")
        })
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        self.tell("left", &self.hooks.left, subject, memory.0.into());
    }

    fn gone(&mut self, subject: Subject) {
        self.recency.gone(subject);
        if let Some(hook) = &self.hooks.gone {
            Python::attach(|py| self.ask(py, "gone", Some(hook), (subject.slot, subject.size)).map(drop));
        }
    }
}
