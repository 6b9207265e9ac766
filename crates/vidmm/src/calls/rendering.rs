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

/// The largest DMA buffer.
const DMA_BUFFER_MAX: usize = 64 << 20;

/// # Command buffers without GPU virtual addresses
impl VidMm {
    /// Lets the driver translate commands into a DMA buffer, and queues it.
    ///
    /// On a device with reference lists, the allocations of its references are brought in when its turn comes, all at
    /// once or portion by portion (SPL-01). On one with a device list they must be on that list. They are patched with
    /// their addresses when the DMA buffer is handed out, whole (RES-04, PAT-17). As any submission it requires the
    /// list as it stands at this call (D2).
    ///
    /// Returns its number among the adapter's DMA buffers, from 1.
    ///
    /// # Errors
    ///
    /// If a handle names nothing or is another device's, the device is in error, the context's queue is full, or the
    /// driver refuses the commands. If the driver's patch-location list breaks a rule (U-45), or the allocation list
    /// names an allocation that is not on the device's list (FLT-02), nothing is queued, and the device is in error.
    #[doc(alias = "D3DKMTRender")]
    pub fn render(&mut self, kmd: &mut dyn Kmd, context: ContextId, desc: RenderDesc) -> Result<u64, RenderError> {
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
        let is_prepared = self.state.objects[device_index].has_reference_lists();
        if !is_prepared {
            let named = desc.allocations.iter().map(|listed| listed.allocation);
            work::check_on_list(&mut self.state, &mut self.requests, &mut self.work, device_index, named)
                .map_err(|position| RenderError::NotResident { position })?;
        }
        let elements = list_elements(&self.state.adapter, &self.state.objects, &self.work, &list);
        let Rendered { dma_buffer, private_data, patch_locations } =
            translate(&mut self.state.moment, &self.state.objects, kmd, index, &desc, &elements)?;
        if let Err((position, rule)) = patch_list::check(&self.state.adapter, &patch_locations, &list, dma_buffer.len())
        {
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
        self.work.patching.num_dma_buffers += 1;
        let number = self.work.patching.num_dma_buffers;
        let references = References {
            list,
            patch_locations,
            pre_patched: elements.iter().map(|element| element.address).collect(),
            private_data,
            number,
            progress: Progress::default(),
        };
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
        let allocations = desc.allocations.iter().map(|listed| listed.allocation).collect();
        let desc = SubmitDesc { dma_buffer, waits: desc.waits, signals: desc.signals, allocations: Vec::new() };
        self.state.moment.record(|| Event::Rendered {
            device,
            context,
            dma_buffer: number,
            bytes: desc.dma_buffer.len() as u32,
            allocations,
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
        Ok(number)
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

/// Lets the driver translate, with as much room as it takes (PAT-12).
fn translate(
    moment: &mut Moment,
    objects: &Objects,
    kmd: &mut dyn Kmd,
    context: ContextIx,
    desc: &RenderDesc,
    elements: &[AllocationListElement],
) -> Result<Rendered, RenderError> {
    let mut dma_buffer = vec![0; desc.command.len().next_multiple_of(PAGE_SIZE as usize).max(PAGE_SIZE as usize)];
    let (mut used, mut multipass_offset, mut patch_locations, mut private_data) = (0, 0, Vec::new(), Vec::new());
    loop {
        let mut render = Render {
            context: objects.kmd_context(context),
            command: &desc.command,
            dma_buffer: &mut dma_buffer[used..],
            dma_buffer_write_offset: used as u32,
            allocation_list: elements,
            patch_location_list_in: &desc.patch_locations,
            patch_location_list_out: &mut patch_locations,
            dma_bytes_written: 0,
            dma_buffer_private_data: &mut private_data,
            multipass_offset: &mut multipass_offset,
        };
        let status = kmd.render(&mut render);
        let written = render.dma_bytes_written;
        if written > dma_buffer.len() - used || private_data.len() > DMA_BUFFER_MAX {
            let private_bytes = private_data.len();
            let violation = Violation::BufferOverrun { operation: None, dma_bytes: written, private_bytes };
            moment.fail(violation);
            return Err(RenderError::Driver(RenderStatus::InvalidParameter));
        }
        used += written;
        match status {
            Ok(()) => {
                dma_buffer.truncate(used);
                return Ok(Rendered { dma_buffer, private_data, patch_locations });
            }
            // A driver that goes on in small steps has room for the next one.
            Err(RenderStatus::InsufficientDmaBuffer) if (1..=dma_buffer.len() - used).contains(&written) => {}
            Err(RenderStatus::InsufficientDmaBuffer) if dma_buffer.len() < DMA_BUFFER_MAX => {
                dma_buffer.resize(dma_buffer.len() * 2, 0);
            }
            Err(status) => return Err(RenderError::Driver(status)),
        }
    }
}

/// The driver's translation of commands.
struct Rendered {
    dma_buffer: Vec<u8>,
    private_data: Vec<u8>,
    patch_locations: Vec<PatchLocation>,
}
