//! Page faults: the kernel that each is of, and whether a step expects it.
//!
//! A driver may report a fault without its packet (FLT-11). Then the manager says which packet it was: at once if the
//! adapter must be reset, and otherwise when the reset of the engine has shown which packets had ended.

use vidmm::contract::{EngineFence, PageFaultFlags};
use vidmm::{DeviceErrorReason, Event, GpuVirtualAddress};

use super::in_error::UnnamedFault;
use super::objects::KernelState;
use super::rules::known::Rules;
use super::session::Session;

fn in_words(virtual_address: GpuVirtualAddress, write: bool) -> String {
    let access = if write { "wrote to" } else { "read" };
    format!("{access} {virtual_address}, where nothing is resident")
}

impl Session<'_> {
    /// An engine has stopped at a page fault, and the driver has reported it, rightly or not.
    pub(super) fn page_fault_reported(&mut self, signal: EngineFence, virtual_address: GpuVirtualAddress, write: bool) {
        let (name, access) = (self.narrator.names.kernel_of(signal), in_words(virtual_address, write));
        self.kernel_faulted(name.as_deref());
        let is_promised = match &name {
            Some(name) => self.blame(name, signal, &access),
            None => true,
        };
        let may_fault = self.rules.as_ref().is_none_or(|rules| rules.may_fault);
        if !may_fault && is_promised {
            let who = name.map_or_else(|| "a paging buffer".to_owned(), |name| format!("kernel {name}"));
            self.broke("I04", format!("{who} {access}, although its device has made all of it resident"));
        }
    }

    /// A kernel has accessed memory where nothing is resident. Returns whether that breaks a promise. If no step expects it, it
    /// is found.
    fn blame(&mut self, name: &str, signal: EngineFence, access: &str) -> bool {
        let Some(kernel) = self.objects.last_kernel(name) else { return true };
        let kernel = &mut self.objects.kernels[kernel];
        let (was_known, is_expected, is_promised) = (kernel.faulted, kernel.fault_is_expected, kernel.is_covered);
        kernel.faulted = true;
        if self.rules.is_none() && !is_expected && !was_known {
            let packet = self.narrator.names.packet(signal);
            self.found(format!("{packet} {access}"));
        }
        is_promised
    }

    /// Takes note of what the manager makes of reports: which packet has faulted, and which device is in error for it.
    pub(super) fn follow_page_faults(&mut self, event: &Event) {
        // Random worlds expect whatever a drawn mistake does.
        let is_judged = |rules: &Rules| rules.is_of_steps && !rules.may_misreport_ends;
        if let Event::IllegalCommand { signal } = *event
            && self.rules.as_deref().is_none_or(is_judged)
            && self.narrator.names.kernel_of(signal).is_none()
        {
            let packet = self.narrator.names.packet(signal);
            self.paging_faults.push(format!("{packet} holds a command that means nothing to the GPU (FLT-23)"));
        }
        if self.rules.is_some() {
            return;
        }
        match *event {
            Event::PageFault { signal, virtual_address, write, flags, .. } => {
                let is_settled = !flags.contains(PageFaultFlags::FENCE_INVALID)
                    || flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED);
                let access = in_words(virtual_address, write);
                match self.narrator.names.kernel_of(signal) {
                    Some(name) if is_settled => drop(self.blame(&name, signal, &access)),
                    Some(_) => {
                        let fault = UnnamedFault { engine: signal.engine, virtual_address, access, device: None };
                        self.unnamed_faults.push(fault);
                    }
                    // It harms devices, which steps may expect. An engine without work has no packet that could fault.
                    None if signal.fence_id > 0 => {
                        self.paging_faults.push(format!("{} {access}", self.narrator.names.packet(signal)));
                    }
                    None => {}
                }
            }
            Event::DeviceInError { device, reason: DeviceErrorReason::PageFault { virtual_address } } => {
                let is_its =
                    |fault: &&mut UnnamedFault| fault.device.is_none() && fault.virtual_address == virtual_address;
                if let Some(fault) = self.unnamed_faults.iter_mut().find(is_its) {
                    fault.device = Some(device);
                }
            }
            // An engine ends its packets in order: the first that does not end is the one that has faulted.
            Event::Aborted { signal } => {
                let Some(name) = self.narrator.names.kernel_of(signal) else { return };
                let device = self.objects.last_kernel(&name).map(|kernel| self.objects.kernels[kernel].device);
                let is_its = |fault: &UnnamedFault| {
                    fault.engine == signal.engine && fault.device.is_some() && fault.device == device
                };
                if let Some(at) = self.unnamed_faults.iter().position(is_its) {
                    let fault = self.unnamed_faults.remove(at);
                    self.blame(&name, signal, &fault.access);
                }
            }
            // No packet is the guilty one where the reset of the engine was none.
            Event::AdapterResetBegun { .. } => self.unnamed_faults.retain(|fault| fault.device.is_some()),
            _ => {}
        }
    }

    /// A kernel whose page fault a step expects has ended or was aborted, and has not faulted: the reason in words.
    pub(super) fn expected_fault_missing(&self, kernel: usize, was_aborted: bool) -> String {
        let KernelState { name, device, .. } = &self.objects.kernels[kernel];
        if !was_aborted {
            return format!("kernel {name} ended, but `page-fault` was expected");
        }
        match self.errors.get(device).map(|error| error.why) {
            Some(DeviceErrorReason::PageFault { .. }) => {
                format!(
                    "kernel {name} was aborted for the page fault of another kernel, but one of its own was expected"
                )
            }
            Some(reason) => {
                let device = self.narrator.names.device(*device);
                format!("kernel {name} was aborted, since {device} is in error: {reason}; `page-fault` was expected")
            }
            None => format!("kernel {name} was aborted, but `page-fault` was expected"),
        }
    }
}
