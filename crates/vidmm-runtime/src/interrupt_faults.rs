//! A driver that reports a page fault wrongly.

use vidmm::contract::{DmaPageFaulted, NotifyInterrupt, PageFaultFlags};

use crate::hook::{HookedKmd, KmdHook};
use crate::occasions::{Hits, Occasions};
use crate::runtime::Machine;

/// A mistake or an ignorance of a driver about a page fault. Its occasions are page faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterruptFault {
    /// The packet is not known; a reset of the engine helps: FENCE_INVALID and ENGINE_RESET_REQUIRED (FLT-11).
    HideFaultedFence,
    /// The packet is not known; only a reset of the adapter helps: FENCE_INVALID and ADAPTER_RESET_REQUIRED (FLT-11).
    RequireAdapterReset,
    /// The packet is not known, and no reset is said to help, which breaks a rule (FLT-11).
    RequireNoReset,
    /// The hardware is said to be broken: FATAL_HARDWARE_ERROR (FLT-10).
    ReportFatalError,
    /// A packet is named that was never submitted.
    GarbleFaultedFence,
    /// An engine is named that does not exist.
    GarbleFaultedEngine,
}

impl InterruptFault {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::HideFaultedFence,
        Self::RequireAdapterReset,
        Self::RequireNoReset,
        Self::ReportFatalError,
        Self::GarbleFaultedFence,
        Self::GarbleFaultedEngine,
    ];

    /// Its name in scenarios and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::HideFaultedFence => "hide-faulted-fence",
            Self::RequireAdapterReset => "require-adapter-reset",
            Self::RequireNoReset => "require-no-reset",
            Self::ReportFatalError => "report-fatal-error",
            Self::GarbleFaultedFence => "garble-faulted-fence",
            Self::GarbleFaultedEngine => "garble-faulted-engine",
        }
    }

    /// Turns a right report into the wrong one.
    fn garble(self, fault: DmaPageFaulted) -> DmaPageFaulted {
        let resets = PageFaultFlags::ENGINE_RESET_REQUIRED | PageFaultFlags::ADAPTER_RESET_REQUIRED;
        let hidden = |reset| DmaPageFaulted {
            faulted_fence_id: 0,
            page_fault_flags: (fault.page_fault_flags - resets) | PageFaultFlags::FENCE_INVALID | reset,
            ..fault
        };
        match self {
            Self::HideFaultedFence => hidden(PageFaultFlags::ENGINE_RESET_REQUIRED),
            Self::RequireAdapterReset => hidden(PageFaultFlags::ADAPTER_RESET_REQUIRED),
            Self::RequireNoReset => hidden(PageFaultFlags::empty()),
            Self::ReportFatalError => DmaPageFaulted {
                page_fault_flags: fault.page_fault_flags | PageFaultFlags::FATAL_HARDWARE_ERROR,
                ..fault
            },
            Self::GarbleFaultedFence => DmaPageFaulted { faulted_fence_id: u64::MAX, ..fault },
            Self::GarbleFaultedEngine => DmaPageFaulted { node_ordinal: u32::MAX, ..fault },
        }
    }
}

impl Machine {
    /// The machine with a driver that reports page faults wrongly.
    pub fn with_interrupt_fault(self, fault: InterruptFault, hits: Hits) -> Self {
        let occasions = Occasions::new(hits, &self.fault_switch);
        let kmd = Box::new(HookedKmd::new(self.kmd, WrongReport { fault, occasions }));
        Self { kmd, ..self }
    }
}

struct WrongReport {
    fault: InterruptFault,
    /// The page faults.
    occasions: Occasions,
}

impl KmdHook for WrongReport {
    fn interrupt_decoded(&mut self, interrupt: NotifyInterrupt) -> NotifyInterrupt {
        let NotifyInterrupt::DmaPageFaulted(fault) = interrupt else { return interrupt };
        NotifyInterrupt::DmaPageFaulted(if self.occasions.strike() { self.fault.garble(fault) } else { fault })
    }
}
