//! The loop: calls go in, outputs go to the GPU, events come back.

use std::collections::VecDeque;
use std::rc::Rc;

use vidmm::contract::{CpuVirtualAddress, DmaBuffer, EngineFence, Host, Kmd, NotifyInterrupt, PageFaultFlags};
use vidmm::{
    AdapterOptions, GpuVirtualAddress, Nanoseconds, NumberedEvent, Output, PhysicalAddress, StartAdapterError,
    Statistics, VidMm,
};

use crate::calls::{Calls, Running};
use crate::{Content, CpuView, FaultSwitch, Gpu, GpuEvent, Umd, WrongEffect};

/// A driver, its user-mode half, a GPU and a host that belong together.
pub struct Machine {
    /// The kernel-mode driver.
    pub kmd: Box<dyn Kmd>,
    /// Its user-mode half.
    pub umd: Box<dyn Umd>,
    /// The GPU that executes their commands.
    pub gpu: Box<dyn Gpu>,
    /// The operating system's part.
    pub host: Box<dyn Host>,
    /// The CPU's view of the addresses that the host hands out.
    pub cpu: Box<dyn CpuView>,
    /// The switch that ends its faults.
    pub fault_switch: FaultSwitch,
}

/// News for a client from the loop.
#[derive(Debug)]
pub enum Happening {
    /// An output of the manager. The loop itself handles the outputs for the GPU; clients see all others.
    Output(Output),
    /// A kernel has read its inputs.
    KernelRead {
        /// Its number.
        kernel: u64,
        /// The digests of the pages of each input.
        inputs: Vec<Vec<u64>>,
    },
    /// A kernel has taken longer than the kernel computes, because of its accesses to system memory.
    AccessedOverBus {
        /// Its number.
        kernel: u64,
        /// The bytes in system memory of each input.
        read: Vec<u64>,
        /// The bytes in system memory of each output.
        written: Vec<u64>,
        /// How much longer it took.
        lost_ns: Nanoseconds,
    },
    /// A kernel has accessed a page that the host had unmapped from the IOMMU: its driver keeps what the device cached
    /// (NTF-04).
    LateAccess {
        /// Its number.
        kernel: u64,
        /// The first such page.
        virtual_address: GpuVirtualAddress,
        /// Whether it was written.
        write: bool,
    },
    /// A driver's commands have not the documented effect.
    WrongEffect(Box<WrongEffect>),
    /// A packet has ended.
    PacketEnded {
        /// The fence that it signalled.
        signal: EngineFence,
        /// Whether it was a paging buffer.
        paging: bool,
        /// The time at which it began to run.
        started_at: Nanoseconds,
        /// The time at which it ended.
        ended_at: Nanoseconds,
    },
    /// A packet was aborted.
    PageFault {
        /// The fence that it would have signalled.
        signal: EngineFence,
        /// The address.
        virtual_address: GpuVirtualAddress,
        /// Whether it was a write.
        write: bool,
    },
}

/// One adapter at work, on one thread, in the time of its GPU.
pub struct Runtime {
    vidmm: VidMm,
    machine: Machine,
    calls: Rc<Calls>,
    now: Nanoseconds,
    happenings: VecDeque<Happening>,
    gpu_events: Vec<GpuEvent>,
}

impl Runtime {
    /// Starts the adapter of `machine`.
    ///
    /// # Errors
    ///
    /// If the driver's report breaks a rule.
    pub fn start(options: AdapterOptions, mut machine: Machine) -> Result<Self, StartAdapterError> {
        let (kmd, calls) = Calls::watch(machine.kmd);
        machine.kmd = kmd;
        let vidmm = VidMm::start_adapter(options, &mut *machine.kmd, &mut *machine.host)?;
        machine.fault_switch.adapter_started();
        Ok(Self { vidmm, machine, calls, now: 0, happenings: VecDeque::new(), gpu_events: Vec::new() })
    }

    /// Stops the adapter, with all that is on it: the driver and the host get back what they gave.
    #[doc(alias = "DxgkDdiStopDevice")]
    pub fn stop(self) {
        let Self { vidmm, mut machine, .. } = self;
        vidmm.stop_adapter(&mut *machine.kmd, &mut *machine.host);
    }

    /// The call of the driver or the GPU that has not returned: what panicked, if a panic has ended a call of this.
    pub fn running(&self) -> Option<Running> {
        self.calls.running()
    }

    /// The time.
    pub fn now(&self) -> Nanoseconds {
        self.now
    }

    /// Ends the faults of the machine: none of them hits any more.
    pub fn end_faults(&mut self) {
        self.machine.fault_switch.turn_off();
    }

    /// The manager, and the driver and the host for its calls.
    pub fn borrow(&mut self) -> (&mut VidMm, &mut dyn Kmd, &mut dyn Host) {
        (&mut self.vidmm, &mut *self.machine.kmd, &mut *self.machine.host)
    }

    /// The manager.
    pub fn vidmm(&mut self) -> &mut VidMm {
        &mut self.vidmm
    }

    /// The user-mode driver.
    pub fn umd(&self) -> &dyn Umd {
        &*self.machine.umd
    }

    /// The digest of the bytes of one page as they are in memory, as [`Gpu::page_digest`] gives it.
    pub fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.machine.gpu.page_digest(address)
    }

    /// The digest of the page that the CPU sees at `address`; `None` if no memory is mapped there.
    pub fn cpu_page_digest(&self, address: CpuVirtualAddress) -> Option<u64> {
        self.page_digest(self.machine.cpu.shown(address)?)
    }

    /// Writes the page that the CPU sees at `address`, as [`Gpu::write_page`] does; `false` if no memory is mapped
    /// there.
    pub fn cpu_write_page(&mut self, address: CpuVirtualAddress, content: Content, seed: u64) -> bool {
        let shown = self.machine.cpu.shown(address);
        shown.is_some_and(|page| self.machine.gpu.write_page(page, content, seed))
    }

    /// Whether the GPU executes the driver's commands, by [`Gpu::executes_commands`]. If not, the driver's effects are
    /// unchecked.
    pub fn executes_commands(&self) -> bool {
        self.machine.gpu.executes_commands()
    }

    /// The bytes that the driver had decompressed so far, by [`Gpu::bytes_decompressed`].
    pub fn bytes_decompressed(&self) -> u64 {
        self.machine.gpu.bytes_decompressed()
    }

    /// The manager's counters so far.
    pub fn statistics(&self) -> Statistics {
        self.vidmm.statistics()
    }

    /// Takes the events that came since the last call.
    pub fn drain_events(&mut self) -> impl Iterator<Item = NumberedEvent> {
        self.vidmm.events().drain()
    }

    /// The next news for a client.
    pub fn next_happening(&mut self) -> Option<Happening> {
        self.happenings.pop_front()
    }

    /// Carries out the manager's outputs, until it has none.
    pub fn pump(&mut self) {
        while let Some(output) = self.vidmm.poll(self.now, &mut *self.machine.kmd, &mut *self.machine.host) {
            let (now, gpu, calls) = (self.now, &mut *self.machine.gpu, &self.calls);
            match output {
                Output::Submit(packet) => {
                    calls.given(&packet);
                    calls.of_gpu(|| gpu.submit(now, packet));
                }
                Output::PreemptCommand { engine, preemption_fence_id } => {
                    calls.of_gpu(|| gpu.preempt(now, engine, preemption_fence_id));
                }
                Output::ResetEngine { engine } => calls.of_gpu(|| gpu.reset_engine(now, engine)),
                Output::ResetFromTimeout => calls.of_gpu(|| gpu.reset_from_timeout(now)),
                Output::RestartFromTimeout => calls.of_gpu(|| gpu.restart_from_timeout(now)),
                for_client => {
                    if let Output::PoweredDown = for_client {
                        calls.of_gpu(|| gpu.lose_power());
                    }
                    self.happenings.push_back(Happening::Output(for_client));
                }
            }
        }
    }

    /// Lets time pass until the GPU has something to report, or until `limit`, whichever is first; `false` when neither
    /// is to come.
    pub fn advance(&mut self, limit: Option<Nanoseconds>) -> bool {
        self.pump();
        let next = self.machine.gpu.next_event_at().into_iter().chain(self.vidmm.next_wake());
        let Some(until) = next.chain(limit).min() else { return false };
        self.now = self.now.max(until);
        self.calls.of_gpu(|| {
            let gpu = &mut self.machine.gpu;
            gpu.advance(self.now, &mut self.gpu_events);
            while gpu.next_event_at().is_some_and(|at| at <= self.now) {
                gpu.advance(self.now, &mut self.gpu_events);
            }
        });
        let mut events = std::mem::take(&mut self.gpu_events);
        for event in events.drain(..) {
            self.vidmm.events().set_occurred_at(event.occurred_at());
            self.calls.see(&event);
            self.handle(event);
        }
        self.gpu_events = events;
        self.vidmm.events().set_occurred_at(None);
        self.pump();
        true
    }

    fn handle(&mut self, event: GpuEvent) {
        match event {
            GpuEvent::KernelRead { kernel, inputs } => {
                self.happenings.push_back(Happening::KernelRead { kernel, inputs });
            }
            GpuEvent::LateAccess { kernel, virtual_address, write } => {
                self.happenings.push_back(Happening::LateAccess { kernel, virtual_address, write });
            }
            GpuEvent::AccessedOverBus { kernel, read, written, lost_ns } => {
                self.happenings.push_back(Happening::AccessedOverBus { kernel, read, written, lost_ns });
            }
            GpuEvent::Flushed { .. } | GpuEvent::KernelWrote { .. } => {}
            GpuEvent::WrongEffect(wrong) => self.happenings.push_back(Happening::WrongEffect(wrong)),
            GpuEvent::Completed { signal, started_at, ended_at, buffer } => {
                let paging = matches!(buffer, DmaBuffer::Paging(_));
                self.vidmm.handle_completed(signal, buffer);
                self.happenings.push_back(Happening::PacketEnded { signal, paging, started_at, ended_at });
            }
            GpuEvent::Interrupt { status, at: _ } => self.interrupt(&status),
            GpuEvent::Preempted { engine, preemption_fence_id, last_completed_fence_id, returned, at: _ } => {
                self.vidmm.handle_preempted(engine, preemption_fence_id, last_completed_fence_id, returned);
            }
            GpuEvent::EngineReset { engine, result, returned, at: _ } => {
                self.vidmm.handle_engine_reset(engine, result, returned);
            }
            GpuEvent::ResetFromTimeout { returned, at: _ } => self.vidmm.handle_reset_from_timeout(returned),
            GpuEvent::RestartedFromTimeout { result, at: _ } => self.vidmm.handle_restart_from_timeout(result),
        }
    }

    /// Lets the driver decode an interrupt. An interrupt of another adapter has no effect.
    fn interrupt(&mut self, status: &[u8]) {
        let Some(notification) = self.machine.kmd.interrupt_routine(status) else { return };
        self.vidmm.handle_interrupt(&notification);
        if let NotifyInterrupt::DmaPageFaulted(fault) = notification {
            self.happenings.push_back(Happening::PageFault {
                signal: EngineFence { engine: fault.node_ordinal, fence_id: fault.faulted_fence_id },
                virtual_address: fault.faulted_virtual_address,
                write: fault.page_fault_flags.contains(PageFaultFlags::WRITE),
            });
        }
    }
}
