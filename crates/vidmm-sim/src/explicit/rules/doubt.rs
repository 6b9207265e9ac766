//! Content that cannot be promised: it is not compared.

use std::ops::Range;

use vidmm::contract::EngineFence;
use vidmm::{AllocationId, ProcessId};

use crate::explicit::Session;
use crate::explicit::ledger::Part;
use crate::explicit::objects::{KernelState, WrittenCopy};
use crate::scenario::steps::{Kernel, Whereabouts};

impl Session<'_> {
    /// A kernel that uses what its device has not made resident writes to whatever is mapped at its addresses by now.
    pub(in crate::explicit) fn forget_addresses_of(&mut self, kernel: usize) {
        let written = &self.objects.kernels[kernel].outputs;
        for mapping in self.objects.mappings.values() {
            let addresses = mapping.addresses();
            if written.iter().any(|written| overlap(written, &addresses)) {
                self.ledger.forget(&mapping.part.allocation);
            }
        }
    }

    /// Kernels that others did not wait for have written by now: what those found meanwhile is not what is there. Nor is what was
    /// mapped, while they ran, where they write.
    pub(in crate::explicit) fn forget_late_writes(&mut self, signal: EngineFence) {
        for kernel in self.kernels_of(signal) {
            if self.objects.kernels[kernel].aborted {
                self.doubt(kernel);
            }
            if !self.objects.kernels[kernel].is_covered {
                self.forget_addresses_of(kernel);
            }
        }
    }

    /// A packet was aborted: what its kernels were to write is anybody's guess.
    pub(in crate::explicit) fn packet_aborted(&mut self, signal: EngineFence) {
        let Some(rules) = &mut self.rules else { return };
        rules.is_trouble = true;
        for kernel in self.kernels_of(signal) {
            match self.objects.kernels[kernel].begun {
                true => self.doubt(kernel),
                false => self.objects.kernels[kernel].aborted = true,
            }
        }
    }

    /// A kernel has faulted, or one of those under way if it is not said which: those that wait for it may run before its engine
    /// is reset, and find what it has written by then.
    pub(in crate::explicit) fn kernel_faulted(&mut self, name: Option<&str>) {
        if self.rules.is_none() {
            return;
        }
        let is_it = |kernel: &KernelState| kernel.begun && name.is_none_or(|name| kernel.submission == name);
        self.open_kernels(is_it).into_iter().for_each(|kernel| self.doubt(kernel));
    }

    /// A report was not understood. If it was one of a fault that nobody has had, those that wait for what it stopped
    /// may run, since a fault lets them go (FLT-11), and nobody knows who they are until the adapter is reset.
    pub(in crate::explicit) fn fault_misreported(&mut self) {
        let Some(rules) = self.rules.as_mut().filter(|rules| rules.may_fault) else { return };
        rules.is_misreported = true;
        self.open_kernels(|_| true).into_iter().for_each(|kernel| self.let_go(kernel));
    }

    /// A kernel may run whenever it likes.
    pub(super) fn let_go(&mut self, kernel: usize) {
        self.objects.kernels[kernel].uncover();
        self.doubt(kernel);
    }

    /// It is unknown when a kernel writes, or whether it does.
    pub(super) fn doubt(&mut self, kernel: usize) {
        let kernel = &mut self.objects.kernels[kernel];
        kernel.aborted = true;
        self.ledger.aborted(&kernel.work);
    }

    /// The kernels of this kind that have not ended.
    pub(super) fn open_kernels(&self, is_one: impl Fn(&KernelState) -> bool) -> Vec<usize> {
        let kernels = self.objects.kernels.iter().enumerate();
        kernels.filter(|(_, kernel)| !kernel.ended && is_one(kernel)).map(|(index, _)| index).collect()
    }

    /// The kernels of what an engine was handed.
    fn kernels_of(&self, signal: EngineFence) -> Vec<usize> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let name = self.narrator.names.kernel_of(signal);
        name.and_then(|name| rules.kernels.get(&name).cloned()).unwrap_or_default()
    }

    /// The adapter works again.
    pub(in crate::explicit) fn adapter_restarted(&mut self) {
        self.rules.iter_mut().for_each(|rules| rules.is_misreported &= rules.misreports_again);
    }

    /// The CPU has written to the copy of an allocation that keeps one: until the lock ends, kernels may find it or what was
    /// there before (2.2).
    pub(in crate::explicit) fn copy_written(&mut self, name: &str) {
        let (is_judged, num_kernels, write) = (self.rules.is_some(), self.objects.kernels.len(), self.cpu_writes);
        let Some(known) = self.objects.allocations.get_mut(name).filter(|known| is_judged && known.keeps_copy) else {
            return;
        };
        // Content that leaves local memory at this time may reach the copy after the CPU's.
        let is_overwritten = !self.runtime.vidmm().is_idle();
        known.written_copy = Some(WrittenCopy { write, num_kernels, is_overwritten });
        self.ledger.forget(name);
    }

    /// The last lock of an allocation ends, and what is in local memory is brought up to date from the copy: what the CPU has
    /// written is what it holds, unless kernels used it meanwhile.
    pub(in crate::explicit) fn copy_taken(&mut self, name: &str) {
        let Some(known) = self.objects.allocations.get_mut(name) else { return };
        if self.rules.is_none() || !known.keeps_copy {
            return;
        }
        let written = known.written_copy.take();
        let uses = |part: &Part| part.allocation == name;
        let mut since = self.objects.kernels[written.map_or(0, |written| written.num_kernels)..].iter();
        let is_used = since.any(|kernel| kernel.work.reads.iter().chain(&kernel.work.writes).any(uses));
        let is_doubtful = is_used || written.is_some_and(|written| written.is_overwritten);
        match written {
            Some(written) if !is_doubtful => drop(self.ledger.cpu_write(name, written.write)),
            // Writes of kernels may be overwritten with what the copy held before, or may not have been there yet.
            _ if is_doubtful => {
                self.ledger.forget(name);
                self.content_discarded(name);
            }
            _ => {}
        }
    }

    /// The content of an allocation in local memory is copied out, over what the CPU may have written to its copy: of
    /// two writers nobody promises who comes last (2.2).
    pub(in crate::explicit) fn copied_out(&mut self, id: AllocationId) {
        let Some(name) = self.narrator.names.allocations.get(&id) else { return };
        let known = self.objects.allocations.get_mut(name);
        if let Some(written) = known.and_then(|known| known.written_copy.as_mut()) {
            written.is_overwritten = true;
        }
    }

    /// A program was told that what it had offered is lost.
    pub(in crate::explicit) fn content_discarded(&mut self, name: &str) {
        self.discarded.insert(name.to_owned(), self.objects.kernels.len());
    }

    /// Whether the CPU may see another content than kernels do: that of its copy.
    pub(in crate::explicit) fn sees_copy(&mut self, name: &str) -> bool {
        let is_moving = !self.runtime.vidmm().is_idle();
        let Some(known) = self.objects.allocations.get(name) else { return true };
        known.keeps_copy && (is_moving || self.truth.whereabouts(known.id) == Whereabouts::Local)
    }

    /// Whether a kernel uses addresses of another process than its own, or such as are free: nobody can say what it finds there.
    pub(in crate::explicit) fn uses_others_addresses(&self, kernel: &Kernel) -> bool {
        let mappings = kernel.reads.iter().chain(&kernel.writes).filter_map(|name| self.objects.mappings.get(name));
        let device = kernel.device.as_ref().and_then(|name| self.objects.devices.get(name));
        let first = mappings.clone().next().map(|mapping| mapping.process);
        let own = device.map(|device| device.process).or(first);
        mappings.into_iter().any(|mapping| Some(mapping.process) != own || mapping.is_freed)
    }

    pub(crate) fn is_in_use(&self, name: &str) -> bool {
        let Some(rules) = &self.rules else { return false };
        let mut users = rules.users.get(name).into_iter().flatten();
        users.any(|&user| !self.objects.kernels[user].ended)
    }

    /// Whether the CPU sees the content of an allocation now. It does not see an allocation that a plan moves, and what it sees in a
    /// memory segment while the adapter is reset is anything.
    pub(in crate::explicit) fn is_seen(&self, name: &str) -> bool {
        let Some(known) = self.objects.allocations.get(name) else { return false };
        let is_shown = known.lock.is_some_and(|(address, _)| self.runtime.cpu_page_digest(address).is_some());
        is_shown && !self.truth.is_being_lost(known.id)
    }
}

/// Whether two ranges of addresses have one in common.
fn overlap(one: &(ProcessId, Range<u64>), other: &(ProcessId, Range<u64>)) -> bool {
    one.0 == other.0 && one.1.start < other.1.end && other.1.start < one.1.end
}
