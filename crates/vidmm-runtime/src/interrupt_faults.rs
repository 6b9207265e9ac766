//! A driver that reports a page fault wrongly.

use vidmm::contract::{DmaPageFaulted, NotifyInterrupt, PageFaultFlags};

use crate::hook::{HookedKmd, KmdHook};
use crate::named_faults::named_faults;
use crate::occasions::{Hits, Occasions};
use crate::runtime::Machine;

named_faults! {
    /// A mistake or an ignorance of a driver about a page fault. Its occasions are page faults.
    InterruptFault:
    /// The packet is not known; a reset of the engine helps: FENCE_INVALID and ENGINE_RESET_REQUIRED (FLT-11).
    HideFaultedFence, "hide-faulted-fence";
    /// The packet is not known; only a reset of the adapter helps: FENCE_INVALID and ADAPTER_RESET_REQUIRED (FLT-11).
    RequireAdapterReset, "require-adapter-reset";
    /// The packet is not known, and no reset is said to help, which breaks a rule (FLT-11).
    RequireNoReset, "require-no-reset";
    /// The hardware is said to be broken: FATAL_HARDWARE_ERROR (FLT-10).
    ReportFatalError, "report-fatal-error";
    /// A packet is named that was never submitted.
    GarbleFaultedFence, "garble-faulted-fence";
    /// An engine is named that does not exist.
    GarbleFaultedEngine, "garble-faulted-engine";
}

impl InterruptFault {
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
