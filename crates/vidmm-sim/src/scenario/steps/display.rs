//! How people read the steps.

use std::fmt;

use super::call::{Action, ApertureShows, Call, Look, Power, Until, Whereabouts};
use super::list::list;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Call(call) => call.fmt(f),
            Action::Look(look) => look.fmt(f),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::CreateProcess(process) => write!(f, "create-process {process}"),
            Call::CreateDevice(create) => create.fmt(f),
            Call::CreateFence(fence) => write!(f, "create-fence {fence}"),
            Call::CreateAllocation(create) => create.fmt(f),
            Call::OpenAllocation(open) => write!(f, "open-allocation {open}"),
            Call::CloseAllocation(close) => write!(f, "close-allocation {close}"),
            Call::Map(map) => map.fmt(f),
            Call::MakeResident(make_resident) => make_resident.fmt(f),
            Call::Evict(evict) => evict.fmt(f),
            Call::Offer(offer) => offer.fmt(f),
            Call::Reclaim(reclaim) => write!(f, "reclaim {}", list(&reclaim.allocations)),
            Call::Lock(allocations) => write!(f, "lock {}", list(allocations)),
            Call::Unlock(allocations) => write!(f, "unlock {}", list(allocations)),
            Call::SetPriority(set) => write!(f, "set-priority {}: {}", list(&set.allocations), set.priority),
            Call::UpdateProperty(update) => update.fmt(f),
            Call::ReserveVideoMemory(reserve) => reserve.fmt(f),
            Call::ProcessPriority(priority) => priority.fmt(f),
            Call::NotifyBudget(process) => write!(f, "notify-budget {process}"),
            Call::RegisterTrim(device) => write!(f, "register-trim {device}"),
            Call::UnregisterTrim(device) => write!(f, "unregister-trim {device}"),
            Call::TrimIntervals(intervals) => intervals.fmt(f),
            Call::SuspendProcess(process, false) => write!(f, "suspend-process {process}"),
            Call::SuspendProcess(process, true) => write!(f, "suspend-process {process} until it submits"),
            Call::ResumeProcess(process) => write!(f, "resume-process {process}"),
            Call::KillProcess(kill) => match kill.after {
                0 => write!(f, "kill-process {}", kill.process),
                after => write!(f, "kill-process {} after {after} more steps of the GPU", kill.process),
            },
            Call::Power(Power::Down) => f.write_str("power down"),
            Call::Power(Power::Up) => f.write_str("power up"),
            Call::Kernel(kernel) => kernel.fmt(f),
            Call::Render(render) => render.fmt(f),
            Call::Signal(fence) => write!(f, "signal {fence}"),
            Call::DestroyAllocation(destroy) => destroy.fmt(f),
            Call::FreeVa(free) => free.fmt(f),
            Call::CheckContent(mappings) => write!(f, "check-content {}", list(mappings)),
        }
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Look::Wait(Until::Idle) => f.write_str("wait until everything has ended"),
            Look::Wait(Until::Quiet) => f.write_str("wait until nothing more happens"),
            Look::Wait(Until::PoweredDown) => f.write_str("wait until the adapter may lose power"),
            Look::Wait(Until::For(duration)) => write!(f, "wait {duration}"),
            Look::Wait(Until::Kernel(kernel)) => write!(f, "wait for kernel {kernel}"),
            Look::System(allocations) => write!(f, "check-system {}", list(allocations)),
            Look::CpuWrite(allocations) => write!(f, "cpu-write {}", list(allocations)),
            Look::CpuRead(allocations) => write!(f, "cpu-read {}", list(allocations)),
            Look::ForgeHandle(forge) => forge.fmt(f),
            Look::Aperture(check) => {
                let shown = match check.shows {
                    ApertureShows::Allocation => "shows its bytes",
                    ApertureShows::DummyPage => "shows the dummy page",
                };
                write!(f, "check-aperture {} {shown}", list(&check.allocations))
            }
            Look::PagingVa(adapter, _) => write!(f, "query-paging-va of physical adapter {adapter}"),
            Look::VideoMemory(query) => query.fmt(f),
            Look::Trim(trim) => trim.fmt(f),
            Look::Residency(allocations, place) => write!(f, "check-residency {}: {place}", list(allocations)),
            Look::DeviceError(check) => check.fmt(f),
            Look::AdapterError(words) => write!(f, "check-adapter-error: {words}"),
            Look::Resets(resets) => resets.fmt(f),
            Look::Finding(words) => write!(f, "check-finding: {words}"),
            Look::Waiting(kernels) => write!(f, "check-waiting {}", list(kernels)),
        }
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "in local memory",
            Self::System => "in implicit system memory",
            Self::Aperture => "in the aperture",
            Self::Nowhere => "not resident",
        })
    }
}
