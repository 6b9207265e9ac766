//! The native half of the package: command lines, with policies that are Python classes.

mod candidates;
mod policy;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use vidmm_cli::{Called, ModelGpu};
use vidmm_sim::policies;

/// Carries out a command line. `own` policies are names, what makes a policy of the name, and whether that takes a seed. Returns whether
/// all that was checked held, and for each broken rule of a policy the name, the hook, the rule, the deed and the number of deeds.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn call(
    py: Python<'_>,
    words: Vec<String>,
    own: Vec<(String, Py<PyAny>, bool)>,
) -> PyResult<(bool, Vec<(String, String, String, String, u64)>)> {
    let words = Vec::from_iter(words.iter().map(String::as_str));
    let is_called_back = !own.is_empty();
    for (name, class, has_seed) in own {
        policy::register(name, class, has_seed).map_err(PyValueError::new_err)?;
    }
    if is_called_back {
        // A question about candidates between two calls is no mistake of this call.
        policies::take_reports();
    }
    // With policies in Python the thread keeps the interpreter, so that a hook costs no lock; one thread does all.
    let called = match is_called_back {
        true => vidmm_cli::call(&words, &ModelGpu),
        false => py.detach(|| vidmm_cli::call(&words, &ModelGpu)),
    };
    if let Some(interrupt) = policy::take_interrupt() {
        return Err(interrupt);
    }
    let Called { holds, broken } = called.map_err(PyValueError::new_err)?;
    let broken = broken.into_iter().map(|report| {
        (report.policy, report.hook.to_owned(), report.rule.name().to_owned(), report.deed, report.times)
    });
    Ok((holds, broken.collect()))
}

/// The native half of the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<candidates::PyCandidates>()?;
    module.add_function(wrap_pyfunction!(call, module)?)
}
