//! A machine without GPU virtual addresses, and what the core would do between its driver and its GPU.

use vidmm::contract::*;
use vidmm::{PhysicalAddress, SegmentId};
use vidmm_runtime::{AllocationDesc, BoundKernel, BoundRange, Content, GpuEvent, Umd, UserCommands};
use vidmm_soft::encoding::{Command, encode_to_vec};
use vidmm_soft::*;

use super::{PAGE, Process, Rig, interrupts, kernel, range, reads};

pub const LOCAL_BYTES: u64 = 64 << 20;
pub const APERTURE_BYTES: u64 = 4 << 20;
pub const APERTURE: SegmentId = SegmentId(2);

/// So small commands that most operations take several.
pub fn config() -> SoftAdapterConfig {
    SoftAdapterConfig {
        local_memory_bytes: LOCAL_BYTES,
        aperture_bytes: APERTURE_BYTES,
        max_command_bytes: 3 * PAGE,
        ..SoftAdapterConfig::with_patching()
    }
}

pub fn aperture(offset: u64) -> PhysicalAddress {
    PhysicalAddress { segment: APERTURE, offset }
}

pub fn bytes_of(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_to_vec(command, &mut bytes);
    bytes
}

pub fn set_state() -> Vec<u8> {
    bytes_of(&Command::SetState(7))
}

/// Kernel number `number`, which reads `inputs` and writes `outputs`, each a slot, a first page and a count of pages.
pub fn bound_kernel(number: u64, inputs: &[(u32, u64, u64)], outputs: &[(u32, u64, u64)]) -> BoundKernel {
    let bound = |ranges: &[(u32, u64, u64)]| {
        let range =
            |&(slot_id, first_page, num_pages): &_| BoundRange { slot_id, first_page, num_pages, surface: None };
        ranges.iter().map(range).collect()
    };
    let (inputs, outputs) = (bound(inputs), bound(outputs));
    BoundKernel { kernel: number, nanoseconds: 0, content: Content::Uniform, inputs, outputs }
}

/// The null element of an allocation list.
pub const NULL: AllocationListElement =
    AllocationListElement { allocation: None, write_operation: false, address: None };

pub fn element(
    allocation: KmdAllocationHandle,
    write_operation: bool,
    address: Option<PhysicalAddress>,
) -> AllocationListElement {
    AllocationListElement { allocation: Some(allocation), write_operation, address }
}

/// DMA buffers as the driver has rendered them, behind one another, in so many calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rendered {
    pub dma: Vec<u8>,
    pub patch_locations: Vec<PatchLocation>,
    pub passes: usize,
}

/// Renders into new DMA buffers, which are larger by `step` bytes whenever nothing fits, and have none at first.
pub fn render_in(
    kmd: &mut dyn Kmd,
    user: &UserCommands,
    allocation_list: &[AllocationListElement],
    step: usize,
) -> Result<Rendered, RenderStatus> {
    let (mut rendered, mut multipass_offset, mut room) = (Rendered::default(), 0, 0);
    loop {
        let (mut buffer, mut told) = (vec![0xEE; room], Vec::new());
        let mut render = Render {
            context: KmdContextHandle(1),
            command: &user.commands,
            dma_buffer: &mut buffer,
            allocation_list,
            patch_location_list_in: &user.patch_locations,
            patch_location_list_out: &mut told,
            dma_bytes_written: 0,
            dma_buffer_private_data: &mut Vec::new(),
            multipass_offset: &mut multipass_offset,
        };
        let status = kmd.render(&mut render);
        let written = render.dma_bytes_written;
        assert!(buffer[written..].iter().all(|&byte| byte == 0xEE), "wrote more than it says");
        let start = rendered.dma.len() as u32;
        rendered.dma.extend(&buffer[..written]);
        rendered.patch_locations.extend(told.into_iter().map(|location| PatchLocation {
            patch_offset: location.patch_offset + start,
            split_offset: location.split_offset + start,
            ..location
        }));
        rendered.passes += 1;
        match status {
            Err(RenderStatus::InsufficientDmaBuffer) if written > 0 => {}
            Err(RenderStatus::InsufficientDmaBuffer) => room += step,
            Err(error) => return Err(error),
            Ok(()) => return Ok(rendered),
        }
    }
}

pub fn render(kmd: &mut dyn Kmd, user: &UserCommands, allocation_list: &[AllocationListElement]) -> Rendered {
    render_in(kmd, user, allocation_list, 1 << 20).unwrap()
}

/// Patches the portion from `start` to `end`, and returns its bytes.
pub fn patch(
    kmd: &mut dyn Kmd,
    rendered: &mut Rendered,
    allocation_list: &[AllocationListElement],
    start: usize,
    end: usize,
) -> Vec<u8> {
    let locations = &rendered.patch_locations;
    let first = locations.partition_point(|location| (location.split_offset as usize) < start);
    let after = locations.partition_point(|location| (location.split_offset as usize) < end);
    let size = rendered.dma.len() as u32;
    let portion = &mut rendered.dma[start..end];
    kmd.patch(&mut Patch {
        context: KmdContextHandle(1),
        dma_buffer: portion,
        dma_buffer_size: size,
        dma_buffer_private_data: &mut [],
        dma_buffer_submission_start_offset: start as u32,
        dma_buffer_submission_end_offset: end as u32,
        allocation_list,
        patch_location_list: locations,
        patch_location_list_submission_start: first as u32,
        patch_location_list_submission_length: (after - first) as u32,
        submission_fence_id: 1,
    });
    portion.to_vec()
}

/// A rig with the paging process and a user's.
pub struct PatchRig {
    pub rig: Rig,
    pub paging: Process,
    pub user: Process,
}

impl PatchRig {
    pub fn new(config: SoftAdapterConfig) -> Self {
        let mut rig = Rig::new(config);
        let (paging, user) = (rig.paging_process(), rig.process());
        Self { rig, paging, user }
    }

    pub fn address(&self, place: PhysicalAddress) -> u64 {
        PhysicalAddressMap::new(&self.rig.config).address(place).0
    }

    pub fn allocation(&mut self, size: u64, surface: Option<u32>) -> KmdAllocationHandle {
        let desc = AllocationDesc { surface, ..AllocationDesc::local(size) };
        self.rig.kmd.create_allocation(&SoftUmd.allocation_private_data(&desc)).unwrap().allocation
    }

    /// Runs a paging operation on the paging engine, in the system context.
    pub fn page(&mut self, operation: &PagingOperation) {
        let commands = self.rig.build(operation);
        let signal = self.rig.submit(self.paging, PAGING_ENGINE, &[], commands);
        let events = self.rig.drain();
        assert!(matches!(events[..], [GpuEvent::Completed { signal: ended, .. }] if ended == signal), "{events:?}");
    }

    /// A transfer of `pages` pages, the first of which is page `first` of the allocation.
    pub fn transfer(&mut self, source: PhysicalAddress, destination: PhysicalAddress, first: u64, pages: u64) {
        self.page(&transfer(KmdAllocationHandle(1), source, destination, first, pages));
    }

    pub fn map_aperture(&mut self, first_page: u64, pages: u64, system_offset: u64) {
        let commands = self.rig.map_aperture(first_page, pages, system_offset);
        self.rig.submit(self.paging, PAGING_ENGINE, &[], commands);
        self.rig.drain();
    }

    pub fn unmap_aperture(&mut self, first_page: u64, pages: u64, dummy_page: u64) {
        let commands = self.rig.unmap_aperture(first_page, pages, dummy_page);
        self.rig.submit(self.paging, PAGING_ENGINE, &[], commands);
        self.rig.drain();
    }

    /// Runs commands of the user on the engine of kernels, behind one that programs its state.
    pub fn run(&mut self, commands: Vec<u8>) -> Vec<GpuEvent> {
        self.rig.run(self.user, [set_state(), commands].concat())
    }

    /// The digests that a kernel reads at a physical address.
    pub fn read(&mut self, place: PhysicalAddress, pages: u64) -> Vec<u64> {
        let events = self.run(kernel(0, 0, &[range(self.address(place), pages)], &[]));
        assert_eq!(interrupts(&events), []);
        reads(&events).remove(0).1.remove(0)
    }

    /// The digests of `pages` pages from `place` on, as they are in memory.
    pub fn digests(&self, place: PhysicalAddress, pages: u64) -> Vec<u64> {
        use vidmm_runtime::Gpu;
        (0..pages).map(|page| self.rig.gpu.page_digest(place.offset_by(page * PAGE)).unwrap()).collect()
    }
}

pub fn transfer(
    allocation: KmdAllocationHandle,
    source: PhysicalAddress,
    destination: PhysicalAddress,
    first: u64,
    pages: u64,
) -> PagingOperation {
    PagingOperation::Transfer(Transfer {
        allocation,
        transfer_offset: first * PAGE,
        transfer_size: pages * PAGE,
        source,
        destination,
        flags: TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END,
        mdl_offset: first as u32,
    })
}
