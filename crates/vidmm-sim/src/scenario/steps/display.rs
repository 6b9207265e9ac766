//! How people read the calls.

use std::fmt;

use vidmm_runtime::AllocationSegments;

use super::call::{
    Action, ApertureShows, Call, CreateAllocation, EvictFlag, Kernel, KernelEngine, Look, MapAllocation, Until,
};
use crate::exact::exact;
use crate::scenario::memory::Notification;

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
        let list = |names: &[String]| names.join(", ");
        match self {
            Call::CreateProcess(process) => write!(f, "create-process {process}"),
            Call::CreateDevice(create) => write!(f, "create-device {}", create.device),
            Call::CreateFence(fence) => write!(f, "create-fence {fence}"),
            Call::CreateAllocation(create) => create_allocation(create, f),
            Call::Map(map) => map_allocation(map, f),
            Call::MakeResident(allocations) => write!(f, "make-resident {}", list(allocations)),
            Call::Evict(allocations, flags) => {
                write!(f, "evict {}", list(allocations))?;
                flags.iter().try_for_each(|flag| match flag {
                    EvictFlag::OnlyIfNecessary => f.write_str(", only if necessary"),
                    EvictFlag::NotWrittenTo => f.write_str(", not written to"),
                })
            }
            Call::Kernel(kernel) => write_kernel(kernel, f),
            Call::Signal(fence) => write!(f, "signal {fence}"),
            Call::DestroyAllocation(allocations) => write!(f, "destroy-allocation {}", list(allocations)),
            Call::FreeVa(mapping) => write!(f, "free-va {mapping}"),
            Call::CheckContent(mappings) => write!(f, "check-content {}", list(mappings)),
        }
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Look::Wait(Until::Idle) => f.write_str("wait until everything has ended"),
            Look::Wait(Until::Quiet) => f.write_str("wait until nothing more happens"),
            Look::Wait(Until::Kernel(kernel)) => write!(f, "wait for kernel {kernel}"),
            Look::System(allocations) => write!(f, "check-system {}", allocations.join(", ")),
            Look::Aperture(check) => {
                let shown = match check.shows {
                    ApertureShows::Allocation => "shows its bytes",
                    ApertureShows::DummyPage => "shows the dummy page",
                };
                write!(f, "check-aperture {} {shown}", check.allocations.join(", "))
            }
            Look::PagingVa(adapter, _) => write!(f, "query-paging-va of physical adapter {adapter}"),
        }
    }
}

fn create_allocation(create: &CreateAllocation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "create-allocation {}: ", create.name)?;
    if let Some(count) = create.count {
        write!(f, "{count} of ")?;
    }
    f.write_str(&exact(create.size.bytes()))?;
    match create.segments {
        None => {}
        Some(AllocationSegments::Local) => f.write_str(", local memory")?,
        Some(AllocationSegments::System) => f.write_str(", system memory")?,
        Some(AllocationSegments::LocalOrSystem) => f.write_str(", local or system memory")?,
    }
    if create.accessed_physically {
        f.write_str(", accessed physically")?;
    }
    if create.compression {
        f.write_str(", compressed")?;
    }
    create.notify.iter().try_for_each(|notification| match notification {
        Notification::Eviction => f.write_str(", NotifyEviction"),
        Notification::IoMmuUnmap => f.write_str(", NotifyIoMmuUnmap"),
    })
}

fn map_allocation(map: &MapAllocation, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "map {}", map.allocations.join(", "))?;
    if let Some(name) = &map.name {
        write!(f, " as {name}")?;
    }
    let (offset, size) = (map.offset.bytes(), map.size.bytes());
    match (offset, size) {
        (0, 0) => {}
        (_, 0) => write!(f, " from {} on", exact(offset))?,
        (_, _) => write!(f, " [{}, {})", exact(offset), exact(offset.saturating_add(size)))?,
    }
    if map.read_only { f.write_str(", read only") } else { Ok(()) }
}

fn write_kernel(kernel: &Kernel, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "kernel {}", kernel.name)?;
    let mut lead = ":";
    for (verb, names) in [("reads", &kernel.reads), ("writes", &kernel.writes), ("after", &kernel.after)] {
        if !names.is_empty() {
            write!(f, "{lead} {verb} {}", names.join(", "))?;
            lead = ",";
        }
    }
    if kernel.engine == KernelEngine::Copy { write!(f, "{lead} on the copy engine") } else { Ok(()) }
}
