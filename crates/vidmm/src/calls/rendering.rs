//! Render: work without GPU virtual addresses (PAT-10 to PAT-16).

use super::work::QUEUED_MAX;
use crate::{
    adapter::Adapter,
    calls::{patch_list, work},
    contract::{AllocationListElement, Kmd, PatchLocation, Render, RenderStatus},
    event::{
        Event,
        error::{DeviceErrorReason, DriverFinding, Violation},
        render_error::RenderError,
    },
    id::{AllocationId, AllocationIx, ContextId, ContextIx, DeviceIx},
    manager::VidMm,
    moment::Moment,
    objects::{
        Objects,
        split::{Progress, Reference, References},
        submission::{FenceValueDesc, Submission, SubmitDesc},
    },
    recovery::device_error,
    residency::place,
    units::PAGE_SIZE,
    work::Work,
};
use alloc::{boxed::Box, vec, vec::Vec};
use core::{mem, ops::RangeInclusive};

/// Commands for an engine that uses physical addresses.
#[doc(alias = "D3DKMT_RENDER")]
#[derive(Clone, Debug, Default)]
pub struct RenderDesc {
    /// The user-mode driver's commands; the driver translates them.
    pub command: Vec<u8>,
    /// The allocations that they refer to.
    #[doc(alias = "D3DDDI_ALLOCATIONLIST")]
    pub allocations: Vec<AllocationListDesc>,
    /// The places where they refer to them; only the driver's own list counts.
    pub patch_locations: Vec<PatchLocation>,
    /// Fences that must have reached their values before it runs.
    pub waits: Vec<FenceValueDesc>,
    /// Fences that its end signals.
    pub signals: Vec<FenceValueDesc>,
}

/// An allocation that commands refer to.
#[doc(alias = "D3DDDI_ALLOCATIONLIST")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationListDesc {
    /// The allocation; none to unbind a slot (PAT-16).
    pub allocation: Option<AllocationId>,
    /// Whether the GPU writes to it.
    pub write_operation: bool,
}

/// Bytes of the largest DMA buffer, and of all full DMA buffers of a command buffer.
const DMA_BUFFER_MAX: usize = 64 << 20;

/// # Command buffers without GPU virtual addresses
impl VidMm {
    /// Lets the driver translate commands into DMA buffers, and queues the DMA buffers in order.
    ///
    /// One DMA buffer is enough for most commands. A driver whose DMA buffer is full goes on in a new DMA buffer, which
    /// has lists of its own (PAT-12). The first DMA buffer waits, and the last DMA buffer signals.
    ///
    /// On a device with reference lists, the allocations of its references are brought in when its turn comes, all at
    /// once or portion by portion (SPL-01). On one with a device list they must be on that list. They are patched with
    /// their addresses when the DMA buffer is handed out, whole (RES-04, PAT-17). As any submission it requires the
    /// list as it stands at this call (D2).
    ///
    /// Returns the numbers of the DMA buffers among the adapter's, from 1.
    ///
    /// # Errors
    ///
    /// If a handle names nothing or is another device's, the device is in error, the context's queue is full, or the
    /// driver refuses the commands. If the driver's patch-location list breaks a rule (U-45), or the allocation list
    /// names an allocation that is not on the device's list (FLT-02), nothing is queued, and the device is in error.
    #[doc(alias = "D3DKMTRender")]
    pub fn render(
        &mut self,
        kmd: &mut dyn Kmd,
        context: ContextId,
        mut desc: RenderDesc,
    ) -> Result<RangeInclusive<u64>, RenderError> {
        let index = self.state.objects.contexts.lookup(context)?;
        let device_index = self.state.objects[index].device;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        if !self.state.adapter.is_physical() {
            return Err(RenderError::GpuVirtualAddresses);
        }
        let queued = self.state.objects[index].queue.len();
        if queued >= QUEUED_MAX {
            return Err(RenderError::QueueFull { queued });
        }
        let list = look_up_list(&self.state.objects, device_index, &desc.allocations)?;
        for named in desc.waits.iter().chain(&desc.signals) {
            self.state.objects.monitored_fences.lookup(named.fence)?;
        }
        if !self.state.objects[device_index].has_reference_lists() {
            let named = desc.allocations.iter().map(|listed| listed.allocation);
            work::check_on_list(&mut self.state, &mut self.requests, &mut self.work, device_index, named)
                .map_err(|position| RenderError::NotResident { position })?;
        }
        let elements = list_elements(&self.state.adapter, &self.state.objects, &self.work, &list);
        let rendered = translate(&mut self.state.moment, &self.state.objects, kmd, index, &desc, &elements)?;
        if rendered.len() > QUEUED_MAX - queued {
            return Err(RenderError::QueueFull { queued });
        }
        let check = |buffer: &Rendered| {
            patch_list::check(&self.state.adapter, &buffer.patch_locations, &list, buffer.dma_buffer.len())
        };
        if let Err((position, rule)) = rendered.iter().try_for_each(check) {
            self.state.moment.report(DriverFinding::PatchLocationList { position, rule });
            device_error::put_device_in_error(
                &mut self.state,
                &mut self.requests,
                &mut self.work,
                device_index,
                DeviceErrorReason::PatchLocationList { rule },
            );
            return Err(RenderError::PatchLocationList { position, rule });
        }
        let first = self.work.patching.num_dma_buffers + 1;
        let last = self.work.patching.num_dma_buffers + rendered.len() as u64;
        for (number, buffer) in (first..).zip(rendered) {
            let Rendered { dma_buffer, private_data, patch_locations } = buffer;
            let references = References {
                list: list.clone(),
                patch_locations,
                pre_patched: elements.iter().map(|element| element.address).collect(),
                private_data,
                number,
                progress: Progress::default(),
            };
            let waits = mem::take(&mut desc.waits);
            let signals = if number == last { mem::take(&mut desc.signals) } else { Vec::new() };
            let submitted = SubmitDesc { dma_buffer, waits, signals, allocations: Vec::new() };
            self.queue_rendered(context, index, &desc.allocations, submitted, references);
        }
        Ok(first..=last)
    }

    /// Queues a DMA buffer behind the DMA buffers of its context.
    fn queue_rendered(
        &mut self,
        context: ContextId,
        index: ContextIx,
        allocations: &[AllocationListDesc],
        desc: SubmitDesc,
        references: References,
    ) {
        let device_index = self.state.objects[index].device;
        let is_prepared = self.state.objects[device_index].has_reference_lists();
        self.work.patching.num_dma_buffers = references.number;
        if is_prepared {
            for finding in patch_list::findings(&self.state.adapter, &self.state.objects, &references) {
                self.state.moment.report(finding);
            }
            for allocation in references.allocations() {
                self.state.objects[allocation].patched_mut().queued += 1;
                self.state.residency.reclassify(&mut self.state.objects, allocation);
            }
        }
        let device = self.state.objects.devices.id(device_index);
        self.state.moment.record(|| Event::Rendered {
            device,
            context,
            dma_buffer: references.number,
            bytes: desc.dma_buffer.len() as u32,
            allocations: allocations.iter().map(|listed| listed.allocation).collect(),
            patch_locations: references.patch_locations.clone(),
            waits: FenceValueDesc::pairs(&desc.waits),
            signals: FenceValueDesc::pairs(&desc.signals),
        });
        let submission = if is_prepared {
            0
        } else {
            crate::work::number_submission(
                &mut self.state.moment,
                &mut self.state.objects,
                context,
                device_index,
                &desc,
            )
        };
        self.schedule.queue(
            &mut self.state,
            &mut self.work,
            index,
            Submission::new(submission, desc, Some(Box::new(references))),
        );
    }
}

fn look_up_list(
    objects: &Objects,
    device: DeviceIx,
    listed: &[AllocationListDesc],
) -> Result<Vec<Reference>, RenderError> {
    let look_up = |(position, desc): (usize, &AllocationListDesc)| {
        let found = |id| -> Result<AllocationIx, RenderError> {
            let index = objects.lookup_allocation(id)?;
            let is_its = objects[index].is_open_on(device);
            if is_its { Ok(index) } else { Err(RenderError::WrongDevice { position }) }
        };
        let allocation = desc.allocation.map(found).transpose()?;
        Ok(Reference { allocation, write_operation: desc.write_operation })
    };
    listed.iter().enumerate().map(look_up).collect()
}

/// The allocation list for the driver, before any allocation is brought in for it (PAT-14).
fn list_elements(adapter: &Adapter, objects: &Objects, work: &Work, list: &[Reference]) -> Vec<AllocationListElement> {
    let element = |reference: &Reference| AllocationListElement {
        allocation: reference.allocation.map(|index| objects[index].handle),
        write_operation: reference.write_operation,
        address: reference
            .allocation
            .filter(|_| !work.patching.knobs.never_prepatch)
            .and_then(|i| place::address(adapter, objects, i)),
    };
    list.iter().map(element).collect()
}

/// Lets the driver translate. A driver whose DMA buffer is full goes on in a new DMA buffer; a driver that has no room for
/// anything gets a larger DMA buffer (PAT-12).
fn translate(
    moment: &mut Moment,
    objects: &Objects,
    kmd: &mut dyn Kmd,
    context: ContextIx,
    desc: &RenderDesc,
    elements: &[AllocationListElement],
) -> Result<Vec<Rendered>, RenderError> {
    let mut size = desc.command.len().next_multiple_of(PAGE_SIZE as usize).max(PAGE_SIZE as usize);
    let (mut rendered, mut full_bytes, mut multipass_offset) = (Vec::new(), 0, 0);
    loop {
        let mut buffer = Rendered { dma_buffer: vec![0; size], ..Rendered::default() };
        let mut render = Render {
            context: objects.kmd_context(context),
            command: &desc.command,
            dma_buffer: &mut buffer.dma_buffer,
            allocation_list: elements,
            patch_location_list_in: &desc.patch_locations,
            patch_location_list_out: &mut buffer.patch_locations,
            dma_bytes_written: 0,
            dma_buffer_private_data: &mut buffer.private_data,
            multipass_offset: &mut multipass_offset,
        };
        let status = kmd.render(&mut render);
        let written = render.dma_bytes_written;
        if written > size || buffer.private_data.len() > DMA_BUFFER_MAX {
            let private_bytes = buffer.private_data.len();
            let violation = Violation::BufferOverrun { operation: None, dma_bytes: written, private_bytes };
            moment.fail(violation);
            return Err(RenderError::Driver(RenderStatus::InvalidParameter));
        }
        buffer.dma_buffer.truncate(written);
        buffer.dma_buffer.shrink_to_fit();
        match status {
            Ok(()) => {
                rendered.push(buffer);
                return Ok(rendered);
            }
            Err(RenderStatus::InsufficientDmaBuffer) if written > 0 && full_bytes < DMA_BUFFER_MAX => {
                full_bytes += written.next_multiple_of(PAGE_SIZE as usize) + buffer.private_data.len();
                rendered.push(buffer);
            }
            Err(RenderStatus::InsufficientDmaBuffer) if written == 0 && size < DMA_BUFFER_MAX => size *= 2,
            Err(status) => return Err(RenderError::Driver(status)),
        }
    }
}

/// A DMA buffer with the driver's translation of commands, or of a part of the commands.
#[derive(Default)]
struct Rendered {
    dma_buffer: Vec<u8>,
    private_data: Vec<u8>,
    patch_locations: Vec<PatchLocation>,
}
