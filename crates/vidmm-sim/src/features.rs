//! The features of machines: a scenario needs some, and a machine lacks some.

use std::fmt;

use bitflags::bitflags;
use vidmm::contract::{AddressingModel, EngineKind};

/// Declares the features, each with its bit and its name.
macro_rules! features {
    ($($(#[$($doc:tt)*])* $flag:ident = $bit:literal, $name:literal;)*) => {
        bitflags! {
            /// Features that a scenario or a random world may need, and that a machine may lack.
            ///
            /// A machine that lacks a feature is never asked for it: the worlds of `vidmm sim` are drawn without it, and scenarios and
            /// faults that need it are skipped by its name.
            #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
            pub struct Features: u64 {
                $($(#[$($doc)*])* const $flag = 1 << $bit;)*
            }
        }

        /// The name of each feature.
        const NAMES: &[(Features, &str)] = &[$((Features::$flag, $name)),*];
    };
}

features! {
    /// Page tables of the GPU's own ([`AddressingModel::GpuMmu`]).
    GPU_MMU = 0, "page tables";
    /// An IOMMU with a domain for each process ([`AddressingModel::GpuVaIoMmu`]).
    GPU_VA_IO_MMU = 1, "an IOMMU with a domain for each process";
    /// An IOMMU with one domain ([`AddressingModel::GpuVaIoMmuGlobal`]).
    GPU_VA_IO_MMU_GLOBAL = 2, "an IOMMU with one domain";
    /// Physical addresses and patching ([`AddressingModel::Physical`]).
    PHYSICAL = 3, "physical addresses";
    /// Local memory.
    LOCAL_MEMORY = 4, "local memory";
    /// Local memory in pages of 4 KiB behind page tables.
    PAGES_4KIB = 5, "pages of 4 KiB";
    /// Local memory in pages of 64 KiB.
    PAGES_64KIB = 6, "pages of 64 KiB";
    /// An aperture segment.
    APERTURE = 7, "an aperture";
    /// Further memory segments and apertures.
    MORE_SEGMENTS = 8, "further segments";
    /// Page tables in system memory, on a machine with local memory.
    SYSTEM_PAGE_TABLES = 9, "page tables in system memory";
    /// Further physical adapters of a link.
    LINKED_ADAPTERS = 10, "linked adapters";
    /// An engine for paging buffers alone. Without it one engine runs everything.
    PAGING_ENGINE = 11, "a paging engine of its own";
    /// An engine that copies, beside the one that renders.
    COPY_ENGINE = 12, "a copy engine";
    /// Engines of which the reset of one harms others.
    DEPENDENT_ENGINES = 13, "dependent engines";
    /// A driver that can declare a version before WDDM 3.2.
    OLDER_VERSIONS = 14, "versions before WDDM 3.2";
    /// MAP_APERTURE_SEGMENT2.
    MAP_APERTURE2 = 15, "MAP_APERTURE_SEGMENT2";
    /// A driver that answers the size of the paging process's address space as it is told to.
    PAGING_VA_SIZE = 16, "a size of the paging process's address space";
    /// A driver that answers *busy* as often as it is told to.
    BUSY_ANSWERS = 17, "busy answers on request";
    /// Allocations that ask for notifications.
    NOTIFICATIONS = 18, "notifications";
    /// Compressed allocations.
    COMPRESSION = 19, "compression";
    /// Allocations that say where they had better be, and allocations that engines address physically although they have
    /// GPU virtual addresses.
    PLACEMENT = 20, "placement of allocations";
    /// Allocations that the CPU accesses: pages that it writes, and digests of the pages that it sees.
    CPU_ACCESS = 21, "access by the CPU";
    /// Engines that yield when they are asked to. Without it no packet runs for too long. An adapter with several engines
    /// and GPU virtual addresses needs it: the manager asks an engine to yield for work that is ready.
    PREEMPTION = 22, "preemption";
    /// Engines that can be reset.
    ENGINE_RESET = 23, "a reset of engines";
    /// A reset of the whole adapter.
    ADAPTER_RESET = 24, "a reset of the adapter";
    /// Reports of page faults and of illegal commands.
    FAULT_REPORTS = 25, "fault reports";
    /// Power that can be lost.
    POWER = 26, "power";
    /// Time as the scenario's costs say, which checks of times need.
    COSTS = 27, "costs";
    /// The faults that a GPU and a host make inside, such as a bit that flips in a transfer.
    INNER_FAULTS = 28, "faults inside of GPU and host";
    /// Kernels whose results are specified ([`vidmm_runtime::kernel`]). Without them no content is judged.
    KERNELS = 29, "kernels whose results are specified";
    /// The model GPU's occasions: steps that expect the effect of a fault at its n-th occasion count how often the
    /// driver of the model GPU is asked, and a process that is killed later counts moments at which the GPU reports.
    MODEL_OCCASIONS = 30, "the model GPU's occasions for faults";
    /// A look into the GPU, for a verifier ([`vidmm_runtime::Probe`]).
    PROBE = 31, "a probe";
    /// A GPU that executes what the driver encodes. A semantic GPU executes operations as documented.
    OWN_COMMANDS = 32, "a GPU for the driver's commands";
    /// Page tables that the CPU writes.
    CPU_TABLES = 33, "page tables that the CPU writes";
    /// Page tables that the paging engine writes at virtual addresses.
    VIRTUAL_TABLES = 34, "page tables that are written at virtual addresses";
    /// Allocations in the segments that a program names. Without it the driver chooses, and no scenario expects its answers.
    NAMED_SEGMENTS = 35, "segments that programs name";
    /// Allocations that have a copy in system memory for as long as they live, or are the program's own memory.
    SYSTEM_COPIES = 36, "copies in system memory that stay";
    /// A user-mode driver that submits what no GPU knows as a command.
    ILLEGAL_COMMANDS = 37, "work that is no command";
    /// Page tables of the levels, and addresses of the bits, that are asked for.
    TABLE_SHAPE = 38, "page tables of a shape that is asked for";
}

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
    fn work_runs_on_the_engines_that_there_are() {
        use EngineKind::{Copy, Paging, Render3d};
        let of = |engines: &[EngineKind]| [Render3d, Copy].map(|kind| engine_for(engines, kind));
        assert_eq!(of(&[Paging, Render3d, Copy]), [Some(1), Some(2)]);
        assert_eq!(of(&[Paging, Render3d]), [Some(1); 2]);
        assert_eq!(of(&[Paging]), [Some(0); 2]);
        assert_eq!(of(&[Paging, Copy]), [None, Some(1)]);
    }
}
