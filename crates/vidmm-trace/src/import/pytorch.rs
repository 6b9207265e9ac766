//! Snapshots of the memory of PyTorch's allocator, as `torch.cuda.memory._dump_snapshot` pickles.
//!
//! The history in `device_traces` has the events of each device: `alloc` and `free_completed` (`free_requested` comes before, at
//! the same place), of an address and a size. An allocation is a buffer, and each event is a kernel: `alloc` writes the buffer,
//! `free_completed` reads the buffer. The recorder sees no use between the two. Kernels take no time, since the recorder knows
//! none. A pickle is data here: a call that a pickle asks for is an error, and nothing is executed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_pickle::DeOptions;

use super::ImportError;
use crate::{Buffer, Cost, Engine, Kernel, Lifetime, Workload};

/// The stack of the thread that reads a pickle: each list in a list takes a frame.
const STACK_BYTES: usize = 256 << 20;

/// The parts of a snapshot that are read.
#[derive(Deserialize)]
struct Snapshot {
    device_traces: Vec<Vec<Event>>,
}

/// An event of the allocator.
#[derive(Deserialize)]
struct Event {
    action: String,
    #[serde(default)]
    addr: Option<u64>,
    #[serde(default)]
    size: Option<u64>,
}

/// Whether content is a pickle of protocol 2 or newer.
pub(super) fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=5, ..])
}

/// Reads the snapshot.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Workload, ImportError> {
    let refused = |reason: String| ImportError::Snapshot { name: name.to_owned(), reason };
    let read = || serde_pickle::from_slice::<Snapshot>(bytes, DeOptions::new());
    let snapshot = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        thread.map(|thread| thread.join().expect("the reader of pickles returns an error, and never panics"))
    });
    let snapshot = snapshot.map_err(|error| refused(format!("a thread cannot start ({error}); try again")))?;
    let expected = "expected a pickled dictionary with `device_traces`, as `torch.cuda.memory._dump_snapshot` writes";
    let snapshot = snapshot.map_err(|error| refused(format!("{error}; {expected}")))?;
    let mut devices = snapshot.device_traces.iter().enumerate().filter(|(_, events)| !events.is_empty());
    let Some((_, events)) = devices.next() else {
        let remedy = "call `torch.cuda.memory._record_memory_history()` before the work";
        return Err(refused(format!("no device has a history of allocations; {remedy}")));
    };
    if let Some((number, _)) = devices.next() {
        return Err(refused(format!(
            "device {number} is a second device with a history, and devices share no memory; keep one list of \
             `device_traces`, and empty the other lists"
        )));
    }
    let mut history = History::default();
    for (number, event) in events.iter().enumerate() {
        history.event(event).map_err(|mistake| refused(format!("event {number} of the device: {mistake}")))?;
    }
    let mut workload = history.workload;
    if workload.kernels.is_empty() {
        return Err(refused("the history has no `alloc` and no `free_completed`; record while work runs".to_owned()));
    }
    name.clone_into(&mut workload.name);
    workload.insert_uploads();
    Ok(workload)
}

/// The allocations so far.
#[derive(Default)]
struct History {
    workload: Workload,
    /// The live allocations by their addresses.
    live: BTreeMap<u64, u32>,
}

impl History {
    fn event(&mut self, event: &Event) -> Result<(), String> {
        let is_free = match &*event.action {
            "alloc" => false,
            "free_completed" | "free" => true,
            "free_requested" | "segment_alloc" | "segment_free" | "segment_map" | "segment_unmap" | "map" | "unmap"
            | "snapshot" | "workspace_snapshot" | "oom" => return Ok(()),
            other => return Err(format!("`{}` is no known action of the allocator", other.escape_debug())),
        };
        let (Some(address), Some(size)) = (event.addr, event.size) else {
            return Err(format!("`{}` has no `addr` or no `size`", event.action));
        };
        if is_free {
            // A free of an allocation older than the history: the content exists before.
            let buffer = self.live.remove(&address).unwrap_or_else(|| self.add(size, Lifetime::Temporary));
            let known = &mut self.workload.buffers[buffer as usize];
            if known.bytes != size {
                return Err(format!("a free of {size} bytes at {address}, where {} bytes live", known.bytes));
            }
            known.lifetime = Lifetime::Temporary;
            self.push(vec![buffer], Vec::new());
            return Ok(());
        }
        // An allocation that the history never frees lives to the end.
        let buffer = self.add(size, Lifetime::Kept);
        if self.live.insert(address, buffer).is_some() {
            return Err(format!("an allocation at {address}, where another allocation lives; the history has a gap"));
        }
        self.push(Vec::new(), vec![buffer]);
        Ok(())
    }

    /// Adds an allocation. A pickle is at most 256 MiB long, so that the count fits.
    fn add(&mut self, size: u64, lifetime: Lifetime) -> u32 {
        let index = self.workload.buffers.len() as u32;
        self.workload.buffers.push(Buffer { name: index.into(), bytes: size, lifetime });
        index
    }

    fn push(&mut self, reads: Vec<u32>, writes: Vec<u32>) {
        let cost = Cost::Nanoseconds(0);
        self.workload.kernels.push(Kernel {
            engine: Engine::Compute,
            reads,
            writes,
            cost,
            not_before_ns: 0,
            process: 0,
        });
    }
}
