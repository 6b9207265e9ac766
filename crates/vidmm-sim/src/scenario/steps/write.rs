//! Writing steps as the tables that they are read from.

use serde::ser::{Serialize, Serializer};

use super::Step;
use super::answer::Answer;
use super::call::{Action, Call, Look};
use super::objects::OnDevice;
use super::tables::{
    CheckAdapterError, CheckContent, CheckFinding, CheckResidency, CheckSystem, CheckWaiting, CloseAllocation, CpuRead,
    CpuWrite, CreateFence, CreateProcess, Lock, NotifyBudget, OpenAllocation, Query, RegisterTrim, Resets,
    ResumeProcess, SetPower, SetTrimIntervals, Signal, SuspendProcess, Unlock, UnregisterTrim, Wait,
};

impl Serialize for Step {
    /// Writes the table of what it does, and what is expected.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Table<'a> {
            #[serde(flatten)]
            action: &'a Action,
            #[serde(skip_serializing_if = "Option::is_none")]
            expect: Option<Answer>,
        }
        Table { action: &self.action, expect: self.expect }.serialize(serializer)
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Call(call) => call.serialize(serializer),
            Self::Look(look) => look.serialize(serializer),
        }
    }
}

impl Serialize for Call {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Self::CreateProcess(create_process) => CreateProcess { create_process }.serialize(s),
            Self::CreateDevice(create) => create.serialize(s),
            Self::CreateFence(create_fence) => CreateFence { create_fence }.serialize(s),
            Self::CreateAllocation(create) => create.serialize(s),
            Self::OpenAllocation(OnDevice { allocations: open_allocation, device }) => {
                OpenAllocation { open_allocation, device }.serialize(s)
            }
            Self::CloseAllocation(OnDevice { allocations: close_allocation, device }) => {
                CloseAllocation { close_allocation, device }.serialize(s)
            }
            Self::Map(map) => map.serialize(s),
            Self::MakeResident(make_resident) => make_resident.serialize(s),
            Self::Evict(evict) => evict.serialize(s),
            Self::Offer(offer) => offer.serialize(s),
            Self::Reclaim(reclaim) => reclaim.serialize(s),
            Self::Lock(lock) => Lock { lock }.serialize(s),
            Self::Unlock(unlock) => Unlock { unlock }.serialize(s),
            Self::SetPriority(set) => set.serialize(s),
            Self::UpdateProperty(update) => update.serialize(s),
            Self::ReserveVideoMemory(reserve) => reserve.serialize(s),
            Self::ProcessPriority(priority) => priority.serialize(s),
            Self::NotifyBudget(notify_budget) => NotifyBudget { notify_budget }.serialize(s),
            Self::RegisterTrim(register_trim) => RegisterTrim { register_trim }.serialize(s),
            Self::UnregisterTrim(unregister_trim) => UnregisterTrim { unregister_trim }.serialize(s),
            Self::TrimIntervals(trim_intervals) => SetTrimIntervals { trim_intervals }.serialize(s),
            Self::SuspendProcess(suspend_process, allow_wake_on_submission) => {
                SuspendProcess { suspend_process, allow_wake_on_submission }.serialize(s)
            }
            Self::ResumeProcess(resume_process) => ResumeProcess { resume_process }.serialize(s),
            Self::KillProcess(kill) => kill.serialize(s),
            Self::Power(power) => SetPower { power }.serialize(s),
            Self::Kernel(kernel) => kernel.serialize(s),
            Self::Render(render) => render.serialize(s),
            Self::Signal(signal) => Signal { signal }.serialize(s),
            Self::DestroyAllocation(destroy) => destroy.serialize(s),
            Self::FreeVa(free) => free.serialize(s),
            Self::CheckContent(check_content) => CheckContent { check_content }.serialize(s),
        }
    }
}

impl Serialize for Look {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Self::Wait(until) => Wait { wait: until.to_string() }.serialize(s),
            Self::ForgeHandle(forge) => forge.serialize(s),
            Self::System(check_system) => CheckSystem { check_system }.serialize(s),
            Self::CpuWrite(cpu_write) => CpuWrite { cpu_write }.serialize(s),
            Self::CpuRead(cpu_read) => CpuRead { cpu_read }.serialize(s),
            Self::Aperture(check) => check.serialize(s),
            Self::PagingVa(query_paging_va, size) => Query { query_paging_va, size }.serialize(s),
            Self::VideoMemory(query) => query.serialize(s),
            Self::Trim(trim) => trim.serialize(s),
            Self::Residency(check_residency, place) => CheckResidency { check_residency, r#in: place }.serialize(s),
            Self::Waiting(check_waiting) => CheckWaiting { check_waiting }.serialize(s),
            Self::DeviceError(check) => check.serialize(s),
            Self::AdapterError(check_adapter_error) => CheckAdapterError { check_adapter_error }.serialize(s),
            Self::Resets(check_resets) => Resets { check_resets }.serialize(s),
            Self::Finding(check_finding) => CheckFinding { check_finding }.serialize(s),
        }
    }
}
