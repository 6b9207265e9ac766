//! A user of the adapter whose device has a device list.

use std::ops::Deref;

use super::*;

/// A device with a device list, a context on the render engine and a paging queue.
#[derive(Clone, Copy, Debug)]
pub struct Lister {
    pub client: Client,
    pub queue: PagingQueueId,
}

impl Deref for Lister {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

/// How many wake-ups nobody needs: who has not ended by then waits for ever.
const WAKES_MAX: u32 = 2_000;

impl World {
    pub fn lister(&mut self) -> Lister {
        let process = self.call(|vidmm, driver, host| vidmm.create_process(driver, host)).unwrap();
        self.lister_of(process)
    }

    pub fn lister_of(&mut self, process: ProcessId) -> Lister {
        let desc = CreateDeviceDesc { process, residency: Some(DeviceResidency::DeviceList) };
        let device = self.call(|vidmm, _, _| vidmm.create_device(desc)).unwrap();
        let context = self.context(device, RENDER);
        let queue = self.call(|vidmm, _, _| vidmm.create_paging_queue(device, 0)).unwrap();
        Lister { client: Client { process, device, context }, queue }
    }

    pub fn make_resident(
        &mut self,
        lister: Lister,
        allocations: &[AllocationId],
    ) -> Result<Residency, MakeResidentError> {
        let flags = MakeResidentFlags::empty();
        self.call(|vidmm, _, _| vidmm.make_resident(lister.queue, allocations, flags))
    }

    pub fn evict(&mut self, lister: Lister, allocations: &[AllocationId]) -> Result<u64, EvictError> {
        let flags = EvictFlags::EVICT_ONLY_IF_NECESSARY;
        self.call(|vidmm, _, _| vidmm.evict(lister.device, allocations, flags))
    }

    /// The value that the fence of a device's paging queue has reached.
    pub fn paged(&self, lister: Lister) -> u64 {
        self.vidmm.paging_fence_value(lister.queue).unwrap()
    }

    /// Writes a token to the last page of each allocation, and reads it.
    pub fn touch(
        &mut self,
        lister: Lister,
        touched: &[(AllocationId, u64, u64)],
    ) -> Result<RangeInclusive<u64>, RenderError> {
        let writer = touched.iter().enumerate().fold(Writer::new().split(), |writer, (slot, &(id, page, token))| {
            writer.write(slot as u32, id, page, token).read(slot as u32, id, page)
        });
        self.try_render(lister.context, writer.finish())
    }

    /// Lets everything end, and time pass wherever somebody waits for it.
    #[track_caller]
    pub fn run_in_time(&mut self) {
        for _ in 0..WAKES_MAX {
            self.run_all();
            match self.vidmm.next_wake() {
                Some(wake) if !self.vidmm.is_idle() => self.now = self.now.max(wake),
                _ => return,
            }
        }
        panic!("after {WAKES_MAX} wake-ups somebody still waits");
    }

    /// How often devices were suspended.
    pub fn suspensions(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::DeviceSuspended { .. })).count()
    }
}
