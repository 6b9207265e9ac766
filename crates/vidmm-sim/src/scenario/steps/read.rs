//! Reading steps from the text of a scenario.

use toml::Spanned;
use toml::de::DeValue;

use super::Step;
use super::answer::Answer;
use super::call::{Action, Call, Look, Read};
use super::known::Known;
use crate::scenario::problem::Problem;
use crate::scenario::value::{nearest, read};

/// Reads the array `[[step]]`, for an adapter with GPU virtual addresses or without. `line` says on which line a byte of the text is.
pub(in crate::scenario) fn read_steps(
    steps: Spanned<DeValue<'_>>,
    is_physical: bool,
    line: impl Fn(usize) -> usize,
) -> Result<Vec<Step>, Problem> {
    let start = steps.span().start;
    let DeValue::Array(steps) = steps.into_inner() else {
        return Err(Problem::At(start, "`step` is not a list of tables; write `[[step]]` before each".to_owned()));
    };
    let mut known = Known::new(is_physical);
    steps.into_iter().map(|step| read_step(step, &mut known, &line)).collect()
}

fn read_step(
    mut step: Spanned<DeValue<'_>>,
    known: &mut Known,
    line: impl Fn(usize) -> usize,
) -> Result<Step, Problem> {
    let start = step.span().start;
    let problem = |message| Problem::At(start, message);
    let DeValue::Table(table) = step.get_mut() else {
        return Err(problem("a step is a table; write `[[step]]` before it".to_owned()));
    };
    let expect = table.remove("expect").map(read::<Answer>).transpose()?;
    let verbs = || Call::VERBS.iter().chain(Look::VERBS);
    let named: Vec<&(&str, Read)> = verbs().filter(|(verb, _)| table.contains_key(*verb)).collect();
    let &(verb, read_action) = match named[..] {
        [verb] => verb,
        [] => {
            let names: Vec<&str> = verbs().map(|&(verb, _)| verb).collect();
            let first = table.iter().min_by_key(|(key, _)| key.span().start).map(|(key, _)| key.get_ref().to_string());
            return Err(problem(no_step(first.as_deref(), &names)));
        }
        [(first, _), (second, _), ..] => {
            return Err(problem(format!("the step has a `{first}` and a `{second}`; make two steps of it")));
        }
    };
    let mut action = read_action(step)?;
    action.check(known).map_err(problem)?;
    if let (Some(expect), Action::Look(_)) = (expect, &action) {
        return Err(problem(format!("nobody answers `{verb}`; leave `expect = \"{expect}\"` out")));
    }
    Ok(Step { line: line(start), action, expect })
}

/// The mistake in a step that has none of the verbs. Its first key is likely meant to be one.
fn no_step(first: Option<&str>, verbs: &[&str]) -> String {
    let all = || verbs.iter().map(|verb| format!("`{verb}`")).collect::<Vec<_>>().join(", ");
    match first.map(|first| (first, nearest(first, verbs))) {
        None => format!("the step does nothing; write one of {}", all()),
        Some((first, Some(verb))) => format!("`{first}` is no step; write `{verb}`"),
        Some((first, None)) => format!("`{first}` is no step; write one of {}", all()),
    }
}
