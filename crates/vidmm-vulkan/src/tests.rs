//! Bindings, copies and shaders of a device, under validation.
//!
//! A test skips where there is no device, and says so; with `VIDMM_REQUIRE_VULKAN=1` it fails.

mod commands;

use std::sync::Arc;

use vidmm::PAGE_SIZE;
use vidmm_soft::{mix, uniform_digest};

use crate::block::{Block, Purpose};
use crate::device::{BindOrder, VulkanDevice};
use crate::error::VulkanError;
use crate::instance::{Validation, take_validation_messages};
use crate::kernels::{Arguments, FLAG_SEED, FLAG_SURFACE, Kernel};
use crate::recorder::{Place, Recorder};
use crate::sparse::{Binding, SparseResource, bind};

/// Bytes of the blocks of a test.
const BYTES: u64 = 1 << 20;

/// A device to try things on.
struct Bench {
    recorder: Recorder,
    addresses: SparseResource,
    one: Block,
    other: Block,
    digests: Block,
    device: Arc<VulkanDevice>,
}

fn device() -> Option<Arc<VulkanDevice>> {
    let is_required = std::env::var_os("VIDMM_REQUIRE_VULKAN").is_some_and(|value| value != "0");
    let opened = match VulkanDevice::open(Validation::On) {
        Err(VulkanError::NoLayer(_)) if !is_required => VulkanDevice::open(Validation::Off),
        opened => opened,
    };
    match opened {
        Ok(device) => Some(device),
        Err(error) if is_required => panic!("VIDMM_REQUIRE_VULKAN says that there must be a device, and: {error}"),
        Err(error) => {
            // Not through `print`, which tests keep to themselves.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {error}\n").as_bytes());
            None
        }
    }
}

impl Bench {
    fn new() -> Option<Self> {
        let device = device()?;
        let block = |purpose| Block::new(&device, purpose, BYTES).expect("there is memory");
        let mut bench = Self {
            recorder: Recorder::new(&device).expect("there are command buffers"),
            addresses: SparseResource::new(&device, BYTES).expect("there are addresses"),
            one: block(Purpose::Local),
            other: block(Purpose::Local),
            digests: block(Purpose::Staging),
            device,
        };
        for block in [&bench.one, &bench.other] {
            bench.recorder.fill(Place { block, offset: 0 }, BYTES, 0).expect("it is filled");
        }
        Some(bench)
    }

    /// The unit of bindings, in bytes.
    fn unit(&self) -> u64 {
        self.device.report().granule_bytes.max(PAGE_SIZE)
    }

    /// Binds the first units of the addresses, each to memory or to nothing.
    fn bind(&mut self, units: &[Option<(&str, u64)>]) {
        self.recorder.submit().expect("it is submitted");
        let unit = self.unit();
        let binding = |(number, target): (u64, &Option<(&str, u64)>)| Binding {
            resource: &self.addresses,
            offset: number * unit,
            bytes: unit,
            memory: target.map(|(name, at)| (if name == "one" { &self.one } else { &self.other }, at * unit)),
        };
        let bindings: Vec<_> = (0..).zip(units).map(binding).collect();
        bind(&self.device, &bindings, BindOrder::Last).expect("it is bound");
    }

    /// Writes the first page of a unit of the addresses, all words `seed`.
    fn write(&mut self, unit: u64, seed: u64) {
        let pages = self.addresses.address + unit * self.unit();
        let arguments = Arguments { pages, first: seed, flags: FLAG_SEED, ..Arguments::default() };
        self.recorder.dispatch(Kernel::Write, arguments, 1).expect("it is recorded");
    }

    /// The digest of the page at an address of the device.
    fn digest(&mut self, pages: u64) -> u64 {
        let arguments = Arguments { pages, first: self.digests.address, ..Arguments::default() };
        self.recorder.dispatch(Kernel::Digest, arguments, 1).expect("it is recorded");
        self.recorder.finish().expect("it is finished");
        self.digests.words(1)[0]
    }

    /// The digest of the first page of a unit of the addresses.
    fn mapped(&mut self, unit: u64) -> u64 {
        let address = self.addresses.address + unit * self.unit();
        self.digest(address)
    }
}

#[test]
fn a_write_through_an_address_is_where_the_address_leads() {
    let Some(mut bench) = Bench::new() else { return };
    bench.bind(&[Some(("other", 3)), Some(("one", 2))]);
    bench.write(0, 7);
    bench.write(1, 9);
    let unit = bench.unit();
    let (one, other) = (bench.one.address, bench.other.address);
    assert_eq!(bench.digest(other + 3 * unit), uniform_digest(7));
    assert_eq!(bench.digest(one + 2 * unit), uniform_digest(9));
    assert_eq!(bench.digest(one), 0);
    assert_eq!(take_validation_messages(), [""; 0]);
}

#[test]
fn an_address_that_is_bound_elsewhere_leads_there_and_one_that_is_unbound_nowhere() {
    let Some(mut bench) = Bench::new() else { return };
    bench.bind(&[Some(("one", 0)), Some(("one", 1))]);
    bench.write(0, 7);
    bench.write(1, 9);
    bench.bind(&[Some(("one", 1)), None]);
    assert_eq!(bench.mapped(0), uniform_digest(9), "it leads to what was written through the other address");
    assert_eq!(bench.mapped(1), 0, "nothing is left of the old mapping");
    let one = bench.one.address;
    assert_eq!(bench.digest(one), uniform_digest(7), "memory keeps what nothing maps");
    assert_eq!(take_validation_messages(), [""; 0]);
}

#[test]
fn a_copy_moves_what_a_shader_wrote_and_decompression_is_its_own_inverse() {
    let Some(mut bench) = Bench::new() else { return };
    bench.bind(&[Some(("one", 0))]);
    bench.write(0, 7);
    let (from, to) = (Place { block: &bench.one, offset: 0 }, Place { block: &bench.other, offset: 0 });
    bench.recorder.copy(from, to, PAGE_SIZE).expect("it is recorded");
    let pages = bench.other.address;
    let flags = FLAG_SURFACE;
    let arguments = Arguments { pages, surface: 5, surface_page: 11, flags, ..Arguments::default() };
    bench.recorder.dispatch(Kernel::Decompress, arguments, 1).expect("it is recorded");
    assert_eq!(bench.digest(pages), uniform_digest(7 ^ (mix(6, 11) | 1)));
    bench.recorder.dispatch(Kernel::Decompress, arguments, 1).expect("it is recorded");
    assert_eq!(bench.digest(pages), uniform_digest(7));
    assert_eq!(take_validation_messages(), [""; 0]);
}

/// Mappings and open files of this process.
fn held() -> (usize, usize) {
    let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    (maps.lines().count(), count("/proc/self/fd"))
}

#[test]
fn a_thousand_round_trips_leave_nothing_behind() {
    let Some(mut bench) = Bench::new() else { return };
    let round = |bench: &mut Bench, number: u64| {
        let place = ["one", "other"][(number % 2) as usize];
        bench.bind(&[Some((place, number % 16))]);
        bench.write(0, number);
        assert_eq!(bench.mapped(0), uniform_digest(number));
        bench.bind(&[None]);
    };
    (0..50).for_each(|number| round(&mut bench, number));
    let before = held();
    (50..1050).for_each(|number| round(&mut bench, number));
    let after = held();
    // Other tests run beside this one, and have a device each.
    let grown = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    assert!(grown.0 < 500 && grown.1 < 100, "{grown:?} mappings and files more");
    assert_eq!(take_validation_messages(), [""; 0]);
}
