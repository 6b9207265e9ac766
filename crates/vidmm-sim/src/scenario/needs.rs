//! The features that a scenario needs of its machine.

use vidmm_runtime::{AllocationSegments, GpuFault};

use super::adapter::{AdapterSettings, PageTables, UpdateMode};
use super::contract::Wddm;
use super::definition::Scenario;
use super::explicit::ExplicitScenario;
use super::fault::{Fault, FaultKind, When};
use super::file::ScenarioFile;
use super::judged_by::JudgedBy;
use super::page_size::PageSize;
use super::paging_va::PagingVa;
use super::steps::{Action, Answer, Call, CpuAccess, CreateAllocation, KernelEngine, Look, Step};
use crate::features::Features;

impl ScenarioFile {
    /// The features that the scenario needs of its machine.
    pub fn needs(&self) -> Features {
        match self {
            Self::Workload(scenario) => scenario.needs(),
            Self::Explicit(scenario) => scenario.needs(),
        }
    }
}

impl Scenario {
    /// The features that the workload needs of its machine. Work for a copy engine runs on the engine that there is.
    pub fn needs(&self) -> Features {
        let misbehaves = self.processes.iter().any(|process| process.behaviour.misbehaves.is_some());
        let segments = self.segments();
        of_adapter(&self.adapter, self.adapter.has_local_memory())
            | of_faults(&self.faults)
            | if_so(Features::COMPRESSION, self.client.compression)
            | if_so(Features::NOTIFICATIONS, !self.client.notify.is_empty())
            | if_so(Features::APERTURE, segments != AllocationSegments::Local)
            | if_so(Features::RECOVERY, misbehaves)
            | if_so(Features::COSTS, !self.script.checks.is_empty())
            | if_so(Features::FAULT_REPORTS, self.shows.is_some())
    }
}

impl ExplicitScenario {
    /// The features that the steps need of their machine.
    pub fn needs(&self) -> Features {
        let steps = self.steps.iter().map(of_step).fold(Features::empty(), Features::union);
        let has_local_memory = self.adapter.has_local_memory() && self.local_memory_bytes > 0;
        let faults = self.all_faults();
        let is_later = |step: &Step| matches!(&step.action, Action::Call(Call::KillProcess(kill)) if kill.after > 0);
        let counts = faults.iter().any(|fault| matches!(fault.when, When::Nth(_))) || self.steps.iter().any(is_later);
        let counts = counts && self.judged_by != JudgedBy::Rules;
        let needed = of_adapter(&self.adapter, has_local_memory)
            | of_faults(&faults)
            | steps
            | if_so(Features::MODEL_OCCASIONS, counts);
        needed - self.spared()
    }

    /// The features that the scenario does without: where every reset of an engine is to fail, a machine without such resets does.
    pub fn spared(&self) -> Features {
        let fails = Fault { kind: FaultKind::Gpu(GpuFault::FailEngineReset), when: When::Always };
        if_so(Features::ENGINE_RESET, self.all_faults().contains(&fails))
    }
}

impl FaultKind {
    /// The features that the fault needs of its machine.
    pub fn needs(self) -> Features {
        match self {
            Self::FlipBitInTransfer | Self::FailCommit | Self::FailUserModeVaMapping => Features::INNER_FAULTS,
            Self::HangPacket
            | Self::HangPagingBuffer
            | Self::ForgePageFault
            | Self::ForgePagingFault
            | Self::LieAboutEngineReset => Features::INNER_FAULTS | Features::RECOVERY,
            Self::Driver(_) => Features::empty(),
            Self::Gpu(_) | Self::Interrupt(_) => Features::RECOVERY,
        }
    }
}

fn if_so(features: Features, is_so: bool) -> Features {
    if is_so { features } else { Features::empty() }
}

fn of_faults(faults: &[Fault]) -> Features {
    faults.iter().map(|fault| fault.kind.needs()).fold(Features::empty(), Features::union)
}

fn of_adapter(adapter: &AdapterSettings, has_local_memory: bool) -> Features {
    let has_page_tables = Features::of_model(adapter.addressing_model) == Features::GPU_MMU;
    let pages = match adapter.page_size {
        PageSize::Kib4 => Features::PAGES_4KIB,
        PageSize::Kib64 => Features::PAGES_64KIB,
    };
    let has_system_tables = has_page_tables && has_local_memory && adapter.page_tables() == PageTables::System;
    let has_more_segments = !adapter.more_memory.is_empty() || !adapter.more_apertures.is_empty();
    Features::of_model(adapter.addressing_model)
        | if_so(Features::LOCAL_MEMORY, has_local_memory)
        | if_so(pages, has_local_memory && has_page_tables)
        | if_so(Features::APERTURE, !has_local_memory)
        | if_so(Features::MORE_SEGMENTS, has_more_segments)
        | if_so(Features::SYSTEM_PAGE_TABLES, has_system_tables)
        | if_so(Features::CPU_TABLES, adapter.update_mode == UpdateMode::CpuVirtual || adapter.paging_tables_by_cpu)
        | if_so(Features::VIRTUAL_TABLES, adapter.update_mode == UpdateMode::GpuVirtual)
        | if_so(Features::LINKED_ADAPTERS, !adapter.linked_adapters.is_empty())
        | if_so(Features::DEPENDENT_ENGINES, !adapter.dependent_engines.is_empty())
        | if_so(Features::OLDER_VERSIONS, adapter.wddm != Wddm::V3_2)
        | if_so(Features::MAP_APERTURE2, adapter.map_aperture2)
        | if_so(Features::PAGING_VA_SIZE, !matches!(adapter.paging_va_mib, PagingVa::Fails | PagingVa::Mib(0)))
        | if_so(Features::BUSY_ANSWERS, adapter.busy_every.is_some() || adapter.busy_notify_every.is_some())
        | if_so(Features::PLACEMENT, !adapter.banks.is_empty())
        | if_so(Features::TABLE_SHAPE, adapter.page_table_bits.is_some() || adapter.virtual_address_bits.is_some())
}

fn of_step(step: &Step) -> Features {
    let of_engine = |engine: KernelEngine| if_so(Features::COPY_ENGINE, engine == KernelEngine::Copy);
    let of_action = match &step.action {
        Action::Call(Call::CreateAllocation(create)) => of_allocation(create),
        Action::Call(Call::Kernel(kernel)) => {
            of_engine(kernel.engine)
                | if_so(Features::RECOVERY, kernel.hangs)
                | if_so(Features::RECOVERY | Features::ILLEGAL_COMMANDS, kernel.illegal)
        }
        Action::Call(Call::Render(render)) => of_engine(render.engine),
        Action::Call(Call::Power(_)) => Features::POWER,
        Action::Call(Call::SetContextPriority(_)) => Features::PREEMPTION,
        Action::Look(Look::CheckResets(_)) => Features::RECOVERY,
        // The size is one of whole leaf tables.
        Action::Look(Look::QueryPagingVa(query)) => if_so(Features::TABLE_SHAPE, query.size.is_some()),
        Action::Call(_) | Action::Look(_) => Features::empty(),
    };
    of_action | if_so(Features::RECOVERY, step.expect == Some(Answer::PageFault))
}

fn of_allocation(create: &CreateAllocation) -> Features {
    let is_local = create.segments.is_none_or(|segments| segments == AllocationSegments::Local);
    let is_told = create.explicit_residency_notification || !create.notify.is_empty();
    let keeps_copy = matches!(create.cpu, Some(CpuAccess::PermanentSysMem | CpuAccess::ExistingSysMem));
    let is_placed = create.accessed_physically
        || create.alignment.is_some()
        || create.direction.is_some()
        || !create.banks.is_empty()
        || create.evict_through_aperture;
    Features::NAMED_SEGMENTS
        | if_so(Features::APERTURE, !is_local)
        | if_so(Features::NOTIFICATIONS, is_told)
        | if_so(Features::COMPRESSION, create.compression)
        | if_so(Features::CPU_ACCESS, create.cpu.is_some())
        | if_so(Features::SYSTEM_COPIES, keeps_copy)
        | if_so(Features::PLACEMENT, is_placed)
}
