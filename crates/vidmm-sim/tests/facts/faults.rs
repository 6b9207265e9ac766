//! Programs with mistakes, on the model GPU: other programs hardly notice them, and nothing is left of a device in
//! error.

use vidmm::{
    AdapterOptions, AllocationId, ContextId, CreateMonitoredFenceDesc, DeviceErrorReason, DeviceId, EvictFlags,
    GpuVirtualAddress, MakeResidentFlags, MapGpuVirtualAddress, MemorySegmentGroup, MonitoredFenceId, Nanoseconds,
    Output, PagingQueueId, ProcessId, Residency, SubmitDesc,
};
use vidmm_runtime::{AllocationDesc, Content, Happening, KernelCommand, Machine, PageRange, Runtime};
use vidmm_soft::{CostModel, ModelGpuFaults, RENDER_ENGINE, SoftAdapterConfig};

const MIB: u64 = 1 << 20;
const MILLISECOND: Nanoseconds = 1_000_000;

fn runtime() -> Runtime {
    let config = SoftAdapterConfig { local_memory_bytes: 64 * MIB, ..SoftAdapterConfig::default() };
    let machine = vidmm_soft::machine(&config, CostModel::default(), ModelGpuFaults::default(), None);
    Runtime::start(AdapterOptions::default(), Machine::from(machine)).expect("the machine is right")
}

/// A process's device, with a context on the engine of kernels.
struct Program {
    process: ProcessId,
    device: DeviceId,
    queue: PagingQueueId,
    context: ContextId,
    fence: MonitoredFenceId,
}

impl Program {
    fn start(runtime: &mut Runtime) -> Self {
        let (vidmm, kmd, host) = runtime.borrow();
        let process = vidmm.create_process(kmd, host).expect("there is room");
        Self::on(runtime, process)
    }

    /// A device of an existing process.
    fn on(runtime: &mut Runtime, process: ProcessId) -> Self {
        let (vidmm, kmd, _) = runtime.borrow();
        let device = vidmm.create_device(process).expect("the process may have another");
        let queue = vidmm.create_paging_queue(device, 0).expect("the device is new");
        let context = vidmm.create_context(kmd, device, RENDER_ENGINE).expect("the engine takes contexts");
        let fence = CreateMonitoredFenceDesc { device: Some(device), initial_fence_value: 0 };
        let fence = vidmm.create_monitored_fence(fence).expect("the device is new");
        Self { process, device, queue, context, fence }
    }

    /// An allocation of 1 MiB, which is mapped.
    fn allocate(&self, runtime: &mut Runtime) -> AllocationId {
        let private_data = runtime.umd().allocation_private_data(&AllocationDesc::local(MIB));
        let (vidmm, kmd, host) = runtime.borrow();
        let created = vidmm.create_allocation(kmd, host, self.device, &private_data);
        let allocation = created.expect("the system has memory");
        let mapped = vidmm.map_gpu_virtual_address(host, self.queue, &MapGpuVirtualAddress::whole(allocation));
        mapped.expect("there is room");
        allocation
    }

    fn submit(&self, runtime: &mut Runtime, nanoseconds: u64, inputs: Vec<PageRange>) {
        let content = Content::Uniform;
        let kernel = KernelCommand { kernel: 1, nanoseconds, content, inputs, outputs: Vec::new() };
        let dma_buffer = runtime.umd().encode_kernel(&kernel);
        let desc = SubmitDesc { dma_buffer, ..SubmitDesc::default() };
        runtime.vidmm().submit(self.context, desc).expect("the device is not in error");
    }

    fn destroy(&self, runtime: &mut Runtime) {
        let (vidmm, kmd, host) = runtime.borrow();
        vidmm.destroy_device(kmd, host, self.device).expect("it has one");
    }
}

/// A program that brings in one MiB and gives up another, turn by turn.
struct Pager {
    program: Program,
    allocations: [AllocationId; 2],
    /// The fence value that it waits for, and the start of the wait.
    waits: Option<(u64, Nanoseconds)>,
    turns: usize,
}

impl Pager {
    fn start(runtime: &mut Runtime) -> Self {
        let program = Program::start(runtime);
        let allocations = [program.allocate(runtime), program.allocate(runtime)];
        Self { program, allocations, waits: None, turns: 0 }
    }

    fn turn(&mut self, runtime: &mut Runtime) {
        assert_eq!(self.waits, None, "what it asked for in the turn before is not there");
        let [next, last] = [0, 1].map(|which| self.allocations[(self.turns + which) % 2]);
        let made = runtime.vidmm().make_resident(self.program.queue, &[next], MakeResidentFlags::empty());
        if let Residency::Pending { paging_fence_value } = made.expect("there is room") {
            self.waits = Some((paging_fence_value, runtime.now()));
        }
        if self.turns > 0 {
            runtime.vidmm().evict(self.program.device, &[last], EvictFlags::empty()).expect("it is on the list");
        }
        self.turns += 1;
    }
}

#[test]
fn eight_that_page_do_not_wait_for_one_that_hangs() {
    let mut runtime = runtime();
    let hangs = Program::start(&mut runtime);
    let mut pagers: Vec<Pager> = (0..8).map(|_| Pager::start(&mut runtime)).collect();
    while runtime.now() < MILLISECOND {
        runtime.advance(Some(MILLISECOND));
    }
    hangs.submit(&mut runtime, u64::MAX, Vec::new());
    let begun = runtime.now();
    let (mut longest, mut waits, mut in_error) = (0, 0, None);
    for turn in 1..=250 {
        pagers.iter_mut().for_each(|pager| pager.turn(&mut runtime));
        let next = begun + turn * 10 * MILLISECOND;
        while runtime.now() < next {
            runtime.advance(Some(next));
            while let Some(happening) = runtime.next_happening() {
                match happening {
                    Happening::Output(Output::PagingFenceSignaled { queue, value }) => {
                        let pager = pagers.iter_mut().find(|pager| pager.program.queue == queue).expect("it is one's");
                        if let Some((_, since)) = pager.waits.take_if(|(waited, _)| *waited <= value) {
                            longest = longest.max(runtime.now() - since);
                            waits += 1;
                        }
                    }
                    Happening::Output(Output::DeviceInError(error)) => in_error = Some((error, runtime.now() - begun)),
                    _ => {}
                }
            }
        }
    }
    let (error, after) = in_error.expect("the kernel is found hung");
    assert_eq!((error.device, error.reason), (hangs.device, DeviceErrorReason::EngineTimeout));
    // A quantum of 100 ms, and TdrDelay of 2 s. The program is told when the driver has reset the engine, which takes 1
    // ms.
    assert_eq!(after, 2_101 * MILLISECOND);
    assert_eq!(waits, 8 * 250);
    assert!(longest < 10 * MILLISECOND, "somebody waited {longest} ns");
    assert_eq!(runtime.statistics().engine_resets, 1);
}

/// The number of an object among its kind, by its name: that number is followed by how often it was given before.
fn number(name: &dyn std::fmt::Display) -> usize {
    let name = name.to_string();
    let number = name.split(' ').next_back().and_then(|number| number.split('.').next());
    number.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{name} has no number"))
}

#[test]
fn nothing_is_left_of_ten_thousand_devices_in_error() {
    let mut runtime = runtime();
    let bystander = Program::start(&mut runtime);
    let kept = bystander.allocate(&mut runtime);
    let _ = runtime.vidmm().make_resident(bystander.queue, &[kept], MakeResidentFlags::empty()).expect("there is room");
    let mut broken = Program::start(&mut runtime);
    let mut largest = 0;
    for fault in 1..=10_000 {
        let allocation = broken.allocate(&mut runtime);
        let _ = runtime
            .vidmm()
            .make_resident(broken.queue, &[allocation], MakeResidentFlags::empty())
            .expect("there is room");
        // No process maps anything there.
        broken.submit(&mut runtime, 1000, vec![PageRange::plain(GpuVirtualAddress(0x1000), 1)]);
        bystander.submit(&mut runtime, 1000, Vec::new());
        let mut is_in_error = false;
        while !is_in_error {
            assert!(runtime.advance(None), "fault {fault} is never found");
            while let Some(happening) = runtime.next_happening() {
                is_in_error |= matches!(happening, Happening::Output(Output::DeviceInError(error)) if error.device == broken.device);
            }
        }
        let names: [&dyn std::fmt::Display; 5] =
            [&broken.device, &broken.queue, &broken.context, &broken.fence, &allocation];
        largest = names.into_iter().map(number).max().expect("there are some").max(largest);
        let next = Program::on(&mut runtime, broken.process);
        std::mem::replace(&mut broken, next).destroy(&mut runtime);
    }
    while !runtime.vidmm().is_idle() && runtime.advance(None) {}
    assert_eq!(runtime.statistics().engine_resets, 10_000);
    // The numbers of destroyed objects are given again: no table has more than some tens of entries.
    assert!(largest < 32, "an object has number {largest}");
    runtime.vidmm().check().expect("the records agree");
    let info = runtime.vidmm().query_video_memory_info(bystander.process, MemorySegmentGroup::Local);
    assert_eq!(info.expect("it is there").current_usage, MIB);
}
