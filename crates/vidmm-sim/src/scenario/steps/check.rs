//! The check that steps name existing objects.

use super::Step;
use super::known::Known;

/// Checks steps that were made in memory. Groups may be named as in a file.
///
/// # Errors
///
/// Returns the index of the first step that names an object which does not exist, and the problem with it.
pub(in crate::scenario) fn check_steps(steps: &[Step], is_physical: bool) -> Result<(), (usize, String)> {
    let mut known = Known::new(is_physical);
    let check = |(at, step): (usize, &Step)| step.action.clone().check(&mut known).map_err(|problem| (at, problem));
    steps.iter().enumerate().try_for_each(check)
}

/// Takes the names of objects that do not exist out of lists, and drops the steps that do not make sense even then.
pub(in crate::scenario) fn drop_orphans(steps: &mut Vec<Step>, is_physical: bool) {
    let mut known = Known::new(is_physical);
    steps.retain_mut(|step| {
        (known.prunes, known.is_orphan) = (true, false);
        // The check that follows finds steps that make no sense without the names that this one took out.
        let _ = step.action.check(&mut known);
        known.prunes = false;
        !known.is_orphan && step.action.clone().check(&mut known).is_ok()
    });
}
