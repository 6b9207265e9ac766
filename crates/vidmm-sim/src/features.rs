//! The features of machines: a scenario needs some, and a machine lacks some.

use std::fmt;

use bitflags::bitflags;
use vidmm::contract::{AddressingModel, EngineKind};

bitflags! {
    /// Features that a scenario or a random world may need, and that a machine may lack.
    ///
    /// A machine that lacks a feature is never asked for it: the worlds of `vidmm sim` are drawn without it, and scenarios and
    /// faults that need it are skipped by its name.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Features: u64 {
        /// Page tables of the GPU's own ([`AddressingModel::GpuMmu`]).
        const GPU_MMU = 1 << 0;
        /// An IOMMU with a domain for each process ([`AddressingModel::GpuVaIoMmu`]).
        const GPU_VA_IO_MMU = 1 << 1;
        /// An IOMMU with one domain ([`AddressingModel::GpuVaIoMmuGlobal`]).
        const GPU_VA_IO_MMU_GLOBAL = 1 << 2;
        /// Physical addresses and patching ([`AddressingModel::Physical`]).
        const PHYSICAL = 1 << 3;
        /// Local memory.
        const LOCAL_MEMORY = 1 << 4;
        /// Local memory in pages of 4 KiB behind page tables.
        const PAGES_4KIB = 1 << 5;
        /// Local memory in pages of 64 KiB.
        const PAGES_64KIB = 1 << 6;
        /// An aperture segment.
        const APERTURE = 1 << 7;
        /// Further memory segments and apertures.
        const MORE_SEGMENTS = 1 << 8;
        /// Page tables in system memory, on a machine with local memory.
        const SYSTEM_PAGE_TABLES = 1 << 9;
        /// Further physical adapters of a link.
        const LINKED_ADAPTERS = 1 << 10;
        /// An engine for paging buffers alone. Without it one engine runs everything.
        const PAGING_ENGINE = 1 << 11;
        /// An engine that copies, beside the one that renders.
        const COPY_ENGINE = 1 << 12;
        /// Engines of which the reset of one harms others.
        const DEPENDENT_ENGINES = 1 << 13;
        /// A driver that can declare a version before WDDM 3.2.
        const OLDER_VERSIONS = 1 << 14;
        /// MAP_APERTURE_SEGMENT2.
        const MAP_APERTURE2 = 1 << 15;
        /// A driver that answers the size of the paging process's address space as it is told to.
        const PAGING_VA_SIZE = 1 << 16;
        /// A driver that answers *busy* as often as it is told to.
        const BUSY_ANSWERS = 1 << 17;
        /// Allocations that ask for notifications.
        const NOTIFICATIONS = 1 << 18;
        /// Compressed allocations.
        const COMPRESSION = 1 << 19;
        /// Allocations that say where they had better be, and allocations that engines address physically although they have
        /// GPU virtual addresses.
        const PLACEMENT = 1 << 20;
        /// Allocations that the CPU accesses: pages that it writes, and digests of the pages that it sees.
        const CPU_ACCESS = 1 << 21;
        /// Engines that yield when they are asked to. Without it no packet runs for too long. An adapter with several engines
        /// and GPU virtual addresses needs it: the manager asks an engine to yield for work that is ready.
        const PREEMPTION = 1 << 22;
        /// Engines that can be reset.
        const ENGINE_RESET = 1 << 23;
        /// A reset of the whole adapter.
        const ADAPTER_RESET = 1 << 24;
        /// Reports of page faults and of illegal commands.
        const FAULT_REPORTS = 1 << 25;
        /// Power that can be lost.
        const POWER = 1 << 26;
        /// Time as the scenario's costs say, which checks of times need.
        const COSTS = 1 << 27;
        /// The faults that a GPU and a host make inside, such as a bit that flips in a transfer.
        const INNER_FAULTS = 1 << 28;
        /// Kernels whose results are specified ([`vidmm_runtime::kernel`]). Without them no content is judged.
        const KERNELS = 1 << 29;
        /// The model GPU's occasions: steps that expect the effect of a fault at its n-th occasion count how often the
        /// driver of the model GPU is asked, and a process that is killed later counts moments at which the GPU reports.
        const MODEL_OCCASIONS = 1 << 30;
        /// A look into the GPU, for a verifier ([`vidmm_runtime::Probe`]).
        const PROBE = 1 << 31;
        /// A GPU that executes what the driver encodes. A semantic GPU executes operations as documented.
        const OWN_COMMANDS = 1 << 32;
        /// Page tables that the CPU writes.
        const CPU_TABLES = 1 << 33;
        /// Page tables that the paging engine writes at virtual addresses.
        const VIRTUAL_TABLES = 1 << 34;
        /// Allocations in the segments that a program names. Without it the driver chooses, and no scenario expects its answers.
        const NAMED_SEGMENTS = 1 << 35;
        /// Allocations that have a copy in system memory for as long as they live, or are the program's own memory.
        const SYSTEM_COPIES = 1 << 36;
        /// A user-mode driver that submits what no GPU knows as a command.
        const ILLEGAL_COMMANDS = 1 << 37;
        /// Page tables of the levels, and addresses of the bits, that are asked for.
        const TABLE_SHAPE = 1 << 38;
    }
}

/// The name of each feature.
const NAMES: [(Features, &str); 39] = [
    (Features::GPU_MMU, "page tables"),
    (Features::GPU_VA_IO_MMU, "an IOMMU with a domain for each process"),
    (Features::GPU_VA_IO_MMU_GLOBAL, "an IOMMU with one domain"),
    (Features::PHYSICAL, "physical addresses"),
    (Features::LOCAL_MEMORY, "local memory"),
    (Features::PAGES_4KIB, "pages of 4 KiB"),
    (Features::PAGES_64KIB, "pages of 64 KiB"),
    (Features::APERTURE, "an aperture"),
    (Features::MORE_SEGMENTS, "further segments"),
    (Features::SYSTEM_PAGE_TABLES, "page tables in system memory"),
    (Features::LINKED_ADAPTERS, "linked adapters"),
    (Features::PAGING_ENGINE, "a paging engine of its own"),
    (Features::COPY_ENGINE, "a copy engine"),
    (Features::DEPENDENT_ENGINES, "dependent engines"),
    (Features::OLDER_VERSIONS, "versions before WDDM 3.2"),
    (Features::MAP_APERTURE2, "MAP_APERTURE_SEGMENT2"),
    (Features::PAGING_VA_SIZE, "a size of the paging process's address space"),
    (Features::BUSY_ANSWERS, "busy answers on request"),
    (Features::NOTIFICATIONS, "notifications"),
    (Features::COMPRESSION, "compression"),
    (Features::PLACEMENT, "placement of allocations"),
    (Features::CPU_ACCESS, "access by the CPU"),
    (Features::PREEMPTION, "preemption"),
    (Features::ENGINE_RESET, "a reset of engines"),
    (Features::ADAPTER_RESET, "a reset of the adapter"),
    (Features::FAULT_REPORTS, "fault reports"),
    (Features::POWER, "power"),
    (Features::COSTS, "costs"),
    (Features::INNER_FAULTS, "faults inside of GPU and host"),
    (Features::KERNELS, "kernels whose results are specified"),
    (Features::MODEL_OCCASIONS, "the model GPU's occasions for faults"),
    (Features::PROBE, "a probe"),
    (Features::OWN_COMMANDS, "a GPU for the driver's commands"),
    (Features::CPU_TABLES, "page tables that the CPU writes"),
    (Features::VIRTUAL_TABLES, "page tables that are written at virtual addresses"),
    (Features::NAMED_SEGMENTS, "segments that programs name"),
    (Features::SYSTEM_COPIES, "copies in system memory that stay"),
    (Features::ILLEGAL_COMMANDS, "work that is no command"),
    (Features::TABLE_SHAPE, "page tables of a shape that is asked for"),
];

impl Features {
    /// All that a machine needs to go on after work that faults or hangs.
    pub const RECOVERY: Self =
        Self::ENGINE_RESET.union(Self::ADAPTER_RESET).union(Self::FAULT_REPORTS).union(Self::PREEMPTION);

    /// The feature of an addressing model.
    pub const fn of_model(model: AddressingModel) -> Self {
        match model {
            AddressingModel::GpuMmu => Self::GPU_MMU,
            AddressingModel::GpuVaIoMmu => Self::GPU_VA_IO_MMU,
            AddressingModel::GpuVaIoMmuGlobal => Self::GPU_VA_IO_MMU_GLOBAL,
            AddressingModel::Physical => Self::PHYSICAL,
        }
    }

    /// The features of every addressing model but `model`: a machine with that model alone lacks them.
    pub const fn models_except(model: AddressingModel) -> Self {
        let models = Self::GPU_MMU.union(Self::GPU_VA_IO_MMU).union(Self::GPU_VA_IO_MMU_GLOBAL).union(Self::PHYSICAL);
        models.difference(Self::of_model(model))
    }

    /// The most engines of a machine that lacks these: those of paging, of kernels and of copies, in this order.
    pub(crate) fn engines_max(self) -> u32 {
        match () {
            () if self.contains(Self::PAGING_ENGINE) => 1,
            () if self.contains(Self::COPY_ENGINE) => 2,
            () => 3,
        }
    }

    /// The subjects that no run of a machine which lacks these judges, in words.
    pub fn not_judged(self) -> Vec<&'static str> {
        let subjects = [
            (Self::KERNELS, "content (the machine has no kernels whose results are specified)"),
            (Self::CPU_ACCESS, "what the CPU sees (the machine has no access by the CPU)"),
            (Self::FAULT_REPORTS, "page faults (the machine does not report them)"),
            (Self::ENGINE_RESET, "resets of engines (the machine has none)"),
            (Self::ADAPTER_RESET, "resets of the adapter (the machine has none)"),
            (Self::POWER, "losses of power (the machine has none)"),
            (Self::NAMED_SEGMENTS, "scenarios (the driver chooses the segments of allocations)"),
            (Self::PROBE, "effects that content does not show (the machine has no probe)"),
            (Self::OWN_COMMANDS, "driver effects unchecked (the machine executes operations as documented)"),
        ];
        subjects.into_iter().filter(|&(lacks, _)| self.contains(lacks)).map(|(_, subject)| subject).collect()
    }
}

impl fmt::Display for Features {
    /// The names of the features, with a comma between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|&&(feature, _)| self.contains(feature)).map(|&(_, name)| name);
        f.write_str(&names.collect::<Vec<_>>().join(", "))
    }
}

/// The engine that runs work of `kind`: one of that kind, or else the one that renders, or else the only one.
pub(crate) fn engine_for(engines: &[EngineKind], kind: EngineKind) -> Option<u32> {
    let ordinal = |kind| engines.iter().position(|&engine| engine == kind).map(|at| at as u32);
    ordinal(kind).or_else(|| ordinal(EngineKind::Render3d)).or((engines.len() == 1).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_name() {
        let named = NAMES.iter().fold(Features::empty(), |all, &(feature, _)| all | feature);
        assert_eq!(named, Features::all());
    }

    #[test]
    fn work_runs_on_the_engines_that_there_are() {
        use EngineKind::{Copy, Paging, Render3d};
        let of = |engines: &[EngineKind]| [Render3d, Copy].map(|kind| engine_for(engines, kind));
        assert_eq!(of(&[Paging, Render3d, Copy]), [Some(1), Some(2)]);
        assert_eq!(of(&[Paging, Render3d]), [Some(1); 2]);
        assert_eq!(of(&[Paging]), [Some(0); 2]);
        assert_eq!(of(&[Paging, Copy]), [None, Some(1)]);
    }
}
