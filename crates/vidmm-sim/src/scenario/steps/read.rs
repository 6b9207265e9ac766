//! Reading steps from the text of a scenario.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::Step;
use super::answer::Answer;
use super::call::{Action, Call, Look};
use super::check::Known;
use super::objects::OnDevice;
use super::tables::{
    CheckAdapterError, CheckContent, CheckFinding, CheckResidency, CheckSystem, CheckWaiting, CloseAllocation, CpuRead,
    CpuWrite, CreateFence, CreateProcess, Lock, NotifyBudget, OpenAllocation, Query, RegisterTrim, Resets,
    ResumeProcess, SetPower, SetTrimIntervals, Signal, SuspendProcess, Unlock, UnregisterTrim, Wait,
};
use crate::scenario::problem::Problem;

/// The verbs, each the key of a step's table that says what the step does.
const VERBS: [(&str, Read); 46] = [
    ("create-process", |step| call(Call::CreateProcess(read::<CreateProcess>(step)?.create_process))),
    ("create-device", |step| call(Call::CreateDevice(read(step)?))),
    ("create-fence", |step| call(Call::CreateFence(read::<CreateFence>(step)?.create_fence))),
    ("create-allocation", |step| call(Call::CreateAllocation(read(step)?))),
    ("open-allocation", |step| {
        let OpenAllocation { open_allocation: allocations, device } = read(step)?;
        call(Call::OpenAllocation(OnDevice { allocations, device }))
    }),
    ("close-allocation", |step| {
        let CloseAllocation { close_allocation: allocations, device } = read(step)?;
        call(Call::CloseAllocation(OnDevice { allocations, device }))
    }),
    ("map", |step| call(Call::Map(read(step)?))),
    ("make-resident", |step| call(Call::MakeResident(read(step)?))),
    ("evict", |step| call(Call::Evict(read(step)?))),
    ("offer", |step| call(Call::Offer(read(step)?))),
    ("reclaim", |step| call(Call::Reclaim(read(step)?))),
    ("lock", |step| call(Call::Lock(read::<Lock>(step)?.lock))),
    ("cpu-write", |step| look(Look::CpuWrite(read::<CpuWrite>(step)?.cpu_write))),
    ("cpu-read", |step| look(Look::CpuRead(read::<CpuRead>(step)?.cpu_read))),
    ("unlock", |step| call(Call::Unlock(read::<Unlock>(step)?.unlock))),
    ("set-priority", |step| call(Call::SetPriority(read(step)?))),
    ("update-property", |step| call(Call::UpdateProperty(read(step)?))),
    ("reserve-video-memory", |step| call(Call::ReserveVideoMemory(read(step)?))),
    ("process-priority", |step| call(Call::ProcessPriority(read(step)?))),
    ("notify-budget", |step| call(Call::NotifyBudget(read::<NotifyBudget>(step)?.notify_budget))),
    ("register-trim", |step| call(Call::RegisterTrim(read::<RegisterTrim>(step)?.register_trim))),
    ("unregister-trim", |step| call(Call::UnregisterTrim(read::<UnregisterTrim>(step)?.unregister_trim))),
    ("trim-intervals", |step| call(Call::TrimIntervals(read::<SetTrimIntervals>(step)?.trim_intervals))),
    ("suspend-process", |step| {
        let SuspendProcess { suspend_process, allow_wake_on_submission } = read(step)?;
        call(Call::SuspendProcess(suspend_process, allow_wake_on_submission))
    }),
    ("resume-process", |step| call(Call::ResumeProcess(read::<ResumeProcess>(step)?.resume_process))),
    ("kill-process", |step| call(Call::KillProcess(read(step)?))),
    ("power", |step| call(Call::Power(read::<SetPower>(step)?.power))),
    ("kernel", |step| call(Call::Kernel(read(step)?))),
    ("render", |step| call(Call::Render(read(step)?))),
    ("signal", |step| call(Call::Signal(read::<Signal>(step)?.signal))),
    ("destroy-allocation", |step| call(Call::DestroyAllocation(read(step)?))),
    ("free-va", |step| call(Call::FreeVa(read(step)?))),
    ("check-content", |step| call(Call::CheckContent(read::<CheckContent>(step)?.check_content))),
    ("forge-handle", |step| look(Look::ForgeHandle(read(step)?))),
    ("wait", |step| look(Look::Wait(read::<Wait>(step)?.wait.into()))),
    ("check-system", |step| look(Look::System(read::<CheckSystem>(step)?.check_system))),
    ("check-aperture", |step| look(Look::Aperture(read(step)?))),
    ("query-paging-va", |step| {
        read::<Query>(step).and_then(|query| look(Look::PagingVa(query.query_paging_va, query.size)))
    }),
    ("query-video-memory", |step| look(Look::VideoMemory(read(step)?))),
    ("expect-trim", |step| look(Look::Trim(read(step)?))),
    ("check-residency", |step| {
        let CheckResidency { check_residency, r#in: place } = read(step)?;
        look(Look::Residency(check_residency, place))
    }),
    ("check-error", |step| look(Look::DeviceError(read(step)?))),
    ("check-adapter-error", |step| look(Look::AdapterError(read::<CheckAdapterError>(step)?.check_adapter_error))),
    ("check-resets", |step| look(Look::Resets(read::<Resets>(step)?.check_resets))),
    ("check-finding", |step| look(Look::Finding(read::<CheckFinding>(step)?.check_finding))),
    ("check-waiting", |step| look(Look::Waiting(read::<CheckWaiting>(step)?.check_waiting))),
];

/// Reads what a step does from its table, for one verb.
type Read = fn(Spanned<DeValue<'_>>) -> Result<Action, toml::de::Error>;

fn call(call: Call) -> Result<Action, toml::de::Error> {
    Ok(Action::Call(call))
}

fn look(look: Look) -> Result<Action, toml::de::Error> {
    Ok(Action::Look(look))
}

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
