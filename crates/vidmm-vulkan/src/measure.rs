//! Measures a device: the costs of copies, of bindings, and of what a kernel stores through them, which differ most between devices.

use std::sync::Arc;
use std::time::Instant;

use ash::vk;
use serde::Serialize;

use crate::block::{Block, Purpose};
use crate::device::{BindOrder, VulkanDevice};
use crate::error::VulkanError;
use crate::instance::Validation;
use crate::kernels::{Arguments, Kernel};
use crate::recorder::Recorder;
use crate::sparse::{Binding, SparseResource, bind};

/// The bytes that are copied, bound and stored at a time; fewer where the device has little memory.
const BYTES: u64 = 64 << 20;

/// The unit of scattered memory: the page of 64 KiB.
const PAGE: u64 = 64 << 10;

/// The times that each figure is taken; the median counts.
const ROUNDS: usize = 7;

/// The costs on a device. Each is the median of a few, from the call to the end on the GPU.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measurements {
    /// The name of the device.
    pub device: String,
    /// Copies between system and local memory, by the size of their pieces.
    pub copies: Vec<CopySpeed>,
    /// Changes of mappings.
    pub bindings: Vec<BindingCost>,
    /// A kernel that writes 64 MiB of local memory, by the way in which it is mapped.
    pub stores: Vec<StoreSpeed>,
}

/// The speed of copies of [64 MiB](Measurements), as one command of many pieces, which lie scattered on one side.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CopySpeed {
    /// The bytes of a piece.
    pub piece_bytes: u64,
    /// Bytes a second from system to local memory.
    pub bytes_per_second_in: f64,
    /// Bytes a second from local to system memory.
    pub bytes_per_second_out: f64,
}

/// The cost of a change of mappings: one `vkQueueBindSparse`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BindingCost {
    /// The change.
    pub change: Change,
    /// The ranges that it has.
    pub ranges: u64,
    /// The bytes of a range.
    pub range_bytes: u64,
    /// Nanoseconds of all of it, from the call to the end on the GPU.
    pub nanoseconds: f64,
    /// Nanoseconds of the call alone, which the host's thread takes.
    pub nanoseconds_of_call: f64,
}

/// A change of mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Memory is bound where none was.
    Bind,
    /// Other memory is bound over what is bound.
    BindOver,
    /// Addresses with memory are bound to none.
    Unbind,
}

/// The speed of a kernel's stores.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StoreSpeed {
    /// How its addresses lead to memory.
    pub through: Through,
    /// Bytes a second, when it has run before on the same mappings.
    pub bytes_per_second: f64,
    /// Bytes a second the first time after the memory was bound.
    pub bytes_per_second_at_first: f64,
}

/// The addresses of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Through {
    /// A buffer with memory of its own.
    Buffer,
    /// A sparse buffer, bound as one range.
    OneRange,
    /// A sparse buffer, bound to scattered pages of 64 KiB.
    ScatteredPages,
}

/// Measures the device that [`VulkanDevice::open`] opens. It takes a few seconds, and some 200 MiB.
///
/// # Errors
///
/// If no device can be used, or a call fails.
pub fn measure() -> Result<Measurements, VulkanError> {
    let mut bench = Bench::new()?;
    let pieces = [PAGE, 4 * PAGE, 16 * PAGE, 256 * PAGE, bench.bytes];
    let pieces = pieces.into_iter().filter(|&piece| bench.bytes.is_multiple_of(piece)).collect::<Vec<_>>();
    let copies = pieces.into_iter().map(|piece| bench.copy(piece)).collect::<Result<_, _>>()?;
    let (name, whole) = (bench.device.report().name.clone(), bench.bytes);
    drop(bench);
    let bindings = [PAGE, whole].map(|range| Bench::new()?.bind(range));
    let bindings: Vec<_> = bindings.into_iter().collect::<Result<_, VulkanError>>()?;
    let ways = [(Through::Buffer, None), (Through::OneRange, Some(whole)), (Through::ScatteredPages, Some(PAGE))];
    let stores = ways.map(|(through, range)| Bench::new()?.store(through, range));
    let stores = stores.into_iter().collect::<Result<_, VulkanError>>()?;
    Ok(Measurements { device: name, copies, bindings: bindings.into_iter().flatten().collect(), stores })
}

/// The memory of a measurement, on a device of its own: with NVIDIA's driver 580 a machine went down each time that one device was
/// bound in all these ways one after the other, and never where each had a device to itself.
struct Bench {
    recorder: Recorder,
    local: Block,
    system: Block,
    bytes: u64,
    device: Arc<VulkanDevice>,
}

impl Bench {
    fn new() -> Result<Self, VulkanError> {
        let device = VulkanDevice::open(Validation::Off)?;
        let bytes = BYTES.min(1 << (device.report().usable_bytes() / 8).max(PAGE).ilog2());
        Ok(Self {
            recorder: Recorder::new(&device)?,
            local: Block::new(&device, Purpose::Local, bytes)?,
            system: Block::new(&device, Purpose::System, bytes)?,
            bytes,
            device,
        })
    }

    fn copy(&mut self, piece: u64) -> Result<CopySpeed, VulkanError> {
        let count = self.bytes / piece;
        let regions = |is_in: bool| -> Vec<vk::BufferCopy> {
            let region = |number| {
                let (one, other) = (number * piece, scattered(number, count) * piece);
                let (from, to) = if is_in { (one, other) } else { (other, one) };
                vk::BufferCopy::default().src_offset(from).dst_offset(to).size(piece)
            };
            (0..count).map(region).collect()
        };
        let mut speed = |is_in| {
            let (from, to) = if is_in { (&self.system, &self.local) } else { (&self.local, &self.system) };
            let (recorder, regions) = (&mut self.recorder, regions(is_in));
            let seconds = median(|| {
                recorder.copy_pieces(from, to, &regions)?;
                recorder.timed()
            })?;
            Ok::<_, VulkanError>(self.bytes as f64 / seconds)
        };
        Ok(CopySpeed { piece_bytes: piece, bytes_per_second_in: speed(true)?, bytes_per_second_out: speed(false)? })
    }

    /// Binds addresses to local memory in ranges of `range` bytes, over it again, and to none.
    fn bind(&self, range: u64) -> Result<[BindingCost; 3], VulkanError> {
        let space = SparseResource::new(&self.device, self.bytes)?;
        let mut taken: [(Vec<f64>, Vec<f64>); 3] = Default::default();
        for _ in 0..ROUNDS {
            for (turn, (calls, all)) in taken.iter_mut().enumerate() {
                let (of_call, of_all) = self.timed_bind(&self.bindings(&space, range, turn))?;
                calls.push(of_call);
                all.push(of_all);
            }
        }
        let ranges = self.bytes / range;
        let cost = |change, (mut calls, mut all): (Vec<f64>, Vec<f64>)| BindingCost {
            change,
            ranges,
            range_bytes: range,
            nanoseconds: middle(&mut all) * 1e9,
            nanoseconds_of_call: middle(&mut calls) * 1e9,
        };
        let [bound, over, unbound] = taken;
        Ok([cost(Change::Bind, bound), cost(Change::BindOver, over), cost(Change::Unbind, unbound)])
    }

    /// The first turn binds, the second binds other memory, the third unbinds.
    fn bindings<'a>(&'a self, space: &'a SparseResource, range: u64, turn: usize) -> Vec<Binding<'a>> {
        let count = self.bytes / range;
        let memory = |number: u64| match turn {
            0 => Some((&self.local, scattered(number, count) * range)),
            1 => Some((&self.local, scattered((number + 1) % count, count) * range)),
            _ => None,
        };
        let binding =
            |number| Binding { resource: space, offset: number * range, bytes: range, memory: memory(number) };
        (0..count).map(binding).collect()
    }

    /// The seconds of the call, and those until the end.
    fn timed_bind(&self, bindings: &[Binding<'_>]) -> Result<(f64, f64), VulkanError> {
        let begun = Instant::now();
        bind(&self.device, bindings, BindOrder::Last)?;
        let called = begun.elapsed().as_secs_f64();
        self.device.wait(self.device.submitted())?;
        Ok((called, begun.elapsed().as_secs_f64()))
    }

    /// Lets a kernel write all of it, through a buffer with memory of its own or addresses bound in ranges of `range` bytes.
    fn store(&mut self, through: Through, range: Option<u64>) -> Result<StoreSpeed, VulkanError> {
        let space = range.map(|range| Ok((SparseResource::new(&self.device, self.bytes)?, range))).transpose()?;
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            if let Some((space, range)) = &space {
                self.timed_bind(&self.bindings(space, *range, 2))?;
                self.timed_bind(&self.bindings(space, *range, 0))?;
            }
            let pages = space.as_ref().map_or(self.local.address, |(space, _)| space.address);
            for of in [&mut first, &mut later] {
                let arguments = Arguments { pages, ..Arguments::default() };
                self.recorder.dispatch(Kernel::Write, arguments, self.bytes / vidmm::PAGE_SIZE)?;
                of.push(self.recorder.timed()?);
            }
        }
        let speed = |of: &mut Vec<f64>| self.bytes as f64 / middle(of);
        Ok(StoreSpeed { through, bytes_per_second: speed(&mut later), bytes_per_second_at_first: speed(&mut first) })
    }
}

impl Recorder {
    /// Submits what was recorded, and returns the seconds until its end.
    fn timed(&mut self) -> Result<f64, VulkanError> {
        let begun = Instant::now();
        self.finish()?;
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// The place of `number`, of `count` of a power of two, in an order in which no two neighbours stay together.
fn scattered(number: u64, count: u64) -> u64 {
    (number * 0x9E37 + 1) % count
}

fn median(mut once: impl FnMut() -> Result<f64, VulkanError>) -> Result<f64, VulkanError> {
    let mut all = (0..ROUNDS).map(|_| once()).collect::<Result<Vec<_>, _>>()?;
    Ok(middle(&mut all))
}

fn middle(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
