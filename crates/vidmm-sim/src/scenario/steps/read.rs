//! Reading steps from the text of a scenario.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};
use vidmm_trace::ByteSize;

use super::Step;
use super::answer::Answer;
use super::call::{Action, Call, EvictFlag, Look, Until};
use super::check::Known;
use super::names::{name, names};
use crate::scenario::problem::Problem;

/// The verbs, each the key of a step's table that says what the step does.
const VERBS: [(&str, Read); 16] = [
    ("create-process", |step| call(Call::CreateProcess(read::<CreateProcess>(step)?.create_process))),
    ("create-device", |step| call(Call::CreateDevice(read(step)?))),
    ("create-fence", |step| call(Call::CreateFence(read::<CreateFence>(step)?.create_fence))),
    ("create-allocation", |step| call(Call::CreateAllocation(read(step)?))),
    ("map", |step| call(Call::Map(read(step)?))),
    ("make-resident", |step| call(Call::MakeResident(read::<MakeResident>(step)?.make_resident))),
    ("evict", |step| read::<Evict>(step).and_then(|evict| call(Call::Evict(evict.evict, evict.flags)))),
    ("kernel", |step| call(Call::Kernel(read(step)?))),
    ("signal", |step| call(Call::Signal(read::<Signal>(step)?.signal))),
    ("destroy-allocation", |step| call(Call::DestroyAllocation(read::<Destroy>(step)?.destroy_allocation))),
    ("free-va", |step| call(Call::FreeVa(read::<FreeVa>(step)?.free_va))),
    ("check-content", |step| call(Call::CheckContent(read::<CheckContent>(step)?.check_content))),
    ("wait", |step| look(Look::Wait(until(read::<Wait>(step)?.wait)))),
    ("check-system", |step| look(Look::System(read::<CheckSystem>(step)?.check_system))),
    ("check-aperture", |step| look(Look::Aperture(read(step)?))),
    ("query-paging-va", |step| {
        read::<Query>(step).and_then(|query| look(Look::PagingVa(query.query_paging_va, query.size)))
    }),
];

/// Reads what a step does from its table, for one verb.
type Read = fn(Spanned<DeValue<'_>>) -> Result<Action, toml::de::Error>;

fn call(call: Call) -> Result<Action, toml::de::Error> {
    Ok(Action::Call(call))
}

fn look(look: Look) -> Result<Action, toml::de::Error> {
    Ok(Action::Look(look))
}

/// Reads the array `[[step]]`. `line` says on which line a byte of the text is.
pub(in crate::scenario) fn read_steps(
    steps: Spanned<DeValue<'_>>,
    line: impl Fn(usize) -> usize,
) -> Result<Vec<Step>, Problem> {
    let start = steps.span().start;
    let DeValue::Array(steps) = steps.into_inner() else {
        return Err(Problem::At(start, "`step` is not a list of tables; write `[[step]]` before each".to_owned()));
    };
    let mut known = Known::default();
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
    let expect =
        table.remove("expect").map(|expect| Answer::deserialize(ValueDeserializer::from(expect))).transpose()?;
    let named: Vec<&(&str, Read)> = VERBS.iter().filter(|(verb, _)| table.contains_key(*verb)).collect();
    let &(verb, read) = match named[..] {
        [verb] => verb,
        [] => return Err(problem(format!("the step does nothing; write one of {}", verbs(&VERBS)))),
        [(first, _), (second, _), ..] => {
            return Err(problem(format!("the step has a `{first}` and a `{second}`; make two steps of it")));
        }
    };
    let mut action = read(step)?;
    known.check(&mut action).map_err(problem)?;
    if let (Some(expect), Action::Look(_)) = (expect, &action) {
        return Err(problem(format!("nobody answers `{verb}`; leave `expect = \"{expect}\"` out")));
    }
    Ok(Step { line: line(start), action, expect })
}

fn verbs(verbs: &[(&str, Read)]) -> String {
    verbs.iter().map(|(verb, _)| format!("`{verb}`")).collect::<Vec<_>>().join(", ")
}

fn read<T: DeserializeOwned>(step: Spanned<DeValue<'_>>) -> Result<T, toml::de::Error> {
    T::deserialize(ValueDeserializer::from(step))
}

fn until(text: String) -> Until {
    match text.as_str() {
        "idle" => Until::Idle,
        "quiet" => Until::Quiet,
        _ => Until::Kernel(text),
    }
}

/// The tables of calls that have few keys.
macro_rules! tables {
    ($($table:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* })*) => {
        $(#[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct $table { $($(#[$attribute])* $field: $kind,)* })*
    };
}

tables! {
    CreateProcess { #[serde(deserialize_with = "name")] create_process: String, }
    CreateFence { #[serde(deserialize_with = "name")] create_fence: String, }
    MakeResident { #[serde(deserialize_with = "names")] make_resident: Vec<String>, }
    Evict { #[serde(deserialize_with = "names")] evict: Vec<String>, #[serde(default)] flags: Vec<EvictFlag>, }
    Wait { #[serde(deserialize_with = "name")] wait: String, }
    Signal { #[serde(deserialize_with = "name")] signal: String, }
    Destroy { #[serde(deserialize_with = "names")] destroy_allocation: Vec<String>, }
    FreeVa { #[serde(deserialize_with = "name")] free_va: String, }
    CheckContent { #[serde(deserialize_with = "names")] check_content: Vec<String>, }
    CheckSystem { #[serde(deserialize_with = "names")] check_system: Vec<String>, }
    Query { query_paging_va: u32, #[serde(default)] size: Option<ByteSize>, }
}
