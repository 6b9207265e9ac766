//! Making calls: command buffers, for adapters without GPU virtual addresses.

use std::ops::RangeInclusive;

use vidmm::{AllocationListDesc, FenceValueDesc, RenderDesc};
use vidmm_runtime::{BoundKernel, BoundRange, CommandStep, Surface, UserCommands};

use super::ledger::{Part, Work};
use super::objects::KernelState;
use super::session::Session;
use crate::prediction::Content;
use crate::scenario::steps::{
    Answered, Bound, DEFAULT_DEVICE, HostileList, KernelEngine, Make, Render, RenderCommand, Undone,
};

/// The lists that a user-mode driver makes of a command buffer.
#[derive(Default)]
struct Written {
    steps: Vec<CommandStep>,
    /// The allocation list, by name; element 0 is the null element.
    elements: Vec<(String, bool)>,
    /// The reads and writes of each kernel.
    work: Vec<Work>,
}

impl Session<'_> {
    /// Renders a command buffer. Returns the numbers of its DMA buffers.
    fn render(&mut self, render: &Render) -> Result<RangeInclusive<u64>, Undone> {
        let device_name = self.device_of_render(render)?;
        let mut waits = render.after.iter().map(|name| self.wait_for(name)).collect::<Result<Vec<_>, _>>()?;
        let Written { steps, elements, work } = self.write(render)?;
        let parts: Vec<&Part> = work.iter().flat_map(|work| work.reads.iter().chain(&work.writes)).collect();
        let own = self.objects.devices[&device_name].engines[render.engine as usize].fence;
        waits.extend(self.waits_for_users(&parts, own));
        let UserCommands { commands, mut patch_locations } = self.runtime.umd().encode_command_buffer(&steps);
        match render.hostile {
            None => {}
            Some(HostileList::DecreasingSplitOffsets) => patch_locations.reverse(),
            Some(HostileList::SplitOffsetBeyondTheEnd) => {
                patch_locations.last_mut().into_iter().for_each(|last| last.split_offset = commands.len() as u32 + 1);
            }
            Some(HostileList::AddressWithoutPatchLocation) => drop(patch_locations.pop()),
        }
        let mut allocations = vec![AllocationListDesc { allocation: None, write_operation: false }];
        for (name, write_operation) in elements {
            let allocation = Some(self.objects.allocation(&name)?.id);
            allocations.push(AllocationListDesc { allocation, write_operation });
        }
        let device = self.objects.devices.get_mut(&device_name).expect("it is there, or made");
        let queue = &mut device.engines[render.engine as usize];
        let (fence, value) = (queue.fence, queue.submitted + 1);
        let signals = vec![FenceValueDesc { fence, value }];
        let desc = RenderDesc { command: commands, allocations, patch_locations, waits, signals };
        let (vidmm, kmd, _) = self.runtime.borrow();
        let numbers = vidmm.render(kmd, queue.context, desc)?;
        queue.submitted = value;
        let device = device.device;
        let is_only = numbers.start() == numbers.end();
        for number in numbers.clone() {
            let name = if is_only { render.name.clone() } else { format!("{}, DMA buffer {number}", render.name) };
            self.narrator.names.dma_buffers.insert(number, name);
        }
        let is_one = work.len() == 1;
        for (position, work) in (1..).zip(work) {
            let name = if is_one { render.name.clone() } else { format!("{}.{position}", render.name) };
            let submission = render.name.clone();
            let index = self.objects.add_kernel(KernelState {
                name,
                submission,
                work,
                outputs: Vec::new(),
                device,
                fence,
                value,
                fault_is_expected: false,
                is_covered: true,
                must_fault: false,
                is_illegal: false,
                faulted: false,
                aborted: false,
                begun: false,
                ended: false,
            });
            self.add_user(index);
        }
        Ok(numbers)
    }

    /// Renders a command buffer that reads allocations one by one, to see what is there.
    pub fn render_readers(&mut self, allocations: &[String], device: Option<String>) -> Result<Answered, Undone> {
        let read = |allocation: &String| {
            let bound = Bound { allocation: allocation.clone(), slot: 0, pages: None };
            [RenderCommand::Split, RenderCommand::Kernel { reads: vec![bound], writes: Vec::new() }]
        };
        let numbers = self.render(&Render {
            name: format!("check {}", self.objects.kernels.len() + 1),
            commands: allocations.iter().flat_map(read).collect(),
            content: Content::Ramp,
            nanoseconds: 1000,
            engine: KernelEngine::Render,
            after: Vec::new(),
            device,
            hostile: None,
        })?;
        self.narrator.names.looks.extend(numbers);
        Ok(Answered::ok())
    }

    fn device_of_render(&mut self, render: &Render) -> Result<String, Undone> {
        let device = match (&render.device, render.bound().next()) {
            (Some(device), _) => device.clone(),
            (None, Some(first)) => self.objects.allocation(&first.allocation)?.device.clone(),
            (None, None) => DEFAULT_DEVICE.to_owned(),
        };
        self.device(&device)?;
        Ok(device)
    }

    /// Lays out a command buffer: everything is bound anew where a kernel uses it.
    fn write(&self, render: &Render) -> Result<Written, Undone> {
        let mut written = Written::default();
        for bound in render.bound() {
            if !written.elements.iter().any(|(name, _)| *name == bound.allocation) {
                written.elements.push((bound.allocation.clone(), false));
            }
        }
        for command in &render.commands {
            match command {
                RenderCommand::Split => written.steps.push(CommandStep::SplitPoint),
                &RenderCommand::Unbind(slot_id) => written.steps.push(CommandStep::Unbind { slot_id }),
                RenderCommand::Kernel { reads, writes } => {
                    let (inputs, reads) = self.bind(reads, false, &mut written)?;
                    let (outputs, writes) = self.bind(writes, true, &mut written)?;
                    let kernel = (self.objects.kernels.len() + written.work.len()) as u64 + 1;
                    let (nanoseconds, content) = (render.nanoseconds, render.content.of_kernels());
                    let bound = BoundKernel { kernel, nanoseconds, content, inputs, outputs };
                    written.steps.push(CommandStep::Kernel(bound));
                    written.work.push(Work {
                        number: kernel,
                        content: render.content,
                        zeros: Vec::new(),
                        reads,
                        writes,
                    });
                }
            }
        }
        Ok(written)
    }

    /// Binds ranges of a kernel to their slots, and says which pages of which allocations they are.
    fn bind(
        &self,
        ranges: &[Bound],
        write: bool,
        written: &mut Written,
    ) -> Result<(Vec<BoundRange>, Vec<Part>), Undone> {
        let mut bound = (Vec::new(), Vec::new());
        for Bound { allocation, slot, pages } in ranges {
            let known = self.objects.allocation(allocation)?;
            let (first_page, end) = pages.unwrap_or((0, known.pages));
            let num_pages = end.min(known.pages).saturating_sub(first_page);
            let surface = known.surface.map(|number| Surface { number, first_page });
            let at = written.elements.iter().position(|(name, _)| name == allocation).expect("all are listed");
            written.elements[at].1 |= write;
            let (slot_id, allocation_index) = (*slot, at as u32 + 1);
            written.steps.push(CommandStep::Bind { slot_id, allocation_index });
            bound.0.push(BoundRange { slot_id, first_page, num_pages, surface });
            bound.1.push(Part { allocation: allocation.clone(), first_page, pages: num_pages });
        }
        Ok(bound)
    }
}

impl Make<Session<'_>> for Render {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let numbers = session.render(self)?;
        let named = match numbers.start() == numbers.end() {
            true => format!("DMA buffer {}", numbers.start()),
            false => format!("DMA buffers {} to {}", numbers.start(), numbers.end()),
        };
        Ok(Answered::ok().and(&named))
    }
}
