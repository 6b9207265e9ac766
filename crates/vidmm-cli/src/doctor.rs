//! `vidmm doctor`.

use std::{
    error::Error,
    io::{self, Write},
};

use vidmm_trace::ByteSize;
use vidmm_vulkan::{Change, DeviceReport, Measurements, MemoryType, Mode, QueueFamily, Through, VulkanError};

use crate::{
    args::DoctorArgs,
    progress,
    report::unless_closed,
    style::{BAD, BOLD, GOOD, counted, printable},
};

/// Prints what Vulkan has on this machine, and what it costs. Returns whether any device can be used.
pub fn run(args: &DoctorArgs) -> Result<bool, Box<dyn Error>> {
    let found = vidmm_vulkan::probe();
    let verdict = verdict(&found);
    let is_measured = args.measure && verdict.is_ok();
    let measured = is_measured.then(|| {
        let _clock = progress::clock("Measuring");
        vidmm_vulkan::measure()
    });
    let measured = measured.transpose()?;
    let mut out = anstream::stdout().lock();
    if args.json {
        let devices = found.as_deref().unwrap_or_default();
        let usable = verdict.as_ref().ok();
        let reason = verdict.as_ref().err().map(ToString::to_string);
        let findings =
            serde_json::json!({ "devices": devices, "usable": usable, "reason": reason, "measured": measured });
        unless_closed(writeln!(out, "{findings:#}"))?;
    } else {
        unless_closed(write(&mut out, found.as_deref().unwrap_or_default(), &verdict))?;
        if let Some(measured) = &measured {
            unless_closed(write_measured(&mut out, measured))?;
        }
    }
    Ok(verdict.is_ok())
}

/// The index of the device that `--gpu vulkan` takes, or why there is none.
fn verdict(found: &Result<Vec<DeviceReport>, VulkanError>) -> Result<usize, VulkanError> {
    let devices = found.as_ref().map_err(Clone::clone)?;
    if devices.is_empty() {
        return Err(VulkanError::NoDevice);
    }
    let checked: Vec<_> = devices.iter().map(DeviceReport::check).collect();
    let usable = checked.iter().position(Result::is_ok);
    usable.ok_or_else(|| VulkanError::NoUsableDevice(checked.into_iter().filter_map(Result::err).collect()))
}

fn write(out: &mut impl Write, devices: &[DeviceReport], verdict: &Result<usize, VulkanError>) -> io::Result<()> {
    for (index, device) in devices.iter().enumerate() {
        write_device(out, index, device)?;
        writeln!(out)?;
    }
    match verdict {
        Ok(index) => writeln!(
            out,
            "{GOOD}usable{GOOD:#}        `vidmm run --gpu vulkan` takes device {index}, {}",
            printable(&devices[*index].name)
        ),
        Err(error) => writeln!(out, "{BAD}not usable{BAD:#}    {}", printable(&error.to_string())),
    }
}

fn write_device(out: &mut impl Write, index: usize, device: &DeviceReport) -> io::Result<()> {
    writeln!(out, "{BOLD}device {index}{BOLD:#}      {}", printable(&device.name))?;
    let about = if device.is_lavapipe { ", which is a CPU: for tests, and not for speed" } else { "" };
    writeln!(out, "kind          {}{about}", device.kind)?;
    writeln!(out, "driver        {}", printable(&device.driver))?;
    writeln!(out, "Vulkan        {}", device.vulkan)?;
    for lacking in &device.lacks {
        writeln!(out, "{BAD}lacks{BAD:#}         {lacking}")?;
    }
    for (index, family) in device.queue_families.iter().enumerate() {
        let in_use = |of: Option<u32>| of == Some(index as u32);
        let of = match (in_use(device.queue_family), in_use(device.bind_family)) {
            (true, _) => ", the one in use",
            (false, true) => ", in use for binding",
            (false, false) => "",
        };
        let queues = counted(family.queues.into(), "queue", "queues");
        writeln!(out, "queues        family {index}: {queues}, {}{of}", abilities(family))?;
    }
    for (index, heap) in device.heaps.iter().enumerate() {
        let budget = heap.budget_bytes.map_or_else(
            || "no budget is told".to_owned(),
            |budget| format!("{} of it are for this process now", size(budget)),
        );
        let owner = if heap.device_local { "the device's own" } else { "the system's" };
        writeln!(out, "memory        heap {index}: {}, {owner}; {budget}", size(heap.bytes))?;
    }
    for (index, memory) in device.memory_types.iter().enumerate() {
        let place =
            |of: Option<u32>, name: &str| if of == Some(index as u32) { format!(", {name}") } else { String::new() };
        let roles = place(device.local_type, "local memory") + &place(device.system_type, "system memory");
        writeln!(out, "memory        type {index}: heap {}, {}{roles}", memory.heap, properties(memory))?;
    }
    if device.granule_bytes > 0 {
        writeln!(out, "binds in      units of {}", size(device.granule_bytes))?;
        let mode = match device.mode {
            Mode::BindsAll => "local and system memory can be mapped",
            Mode::BindsLocalOnly => {
                "local memory can be mapped; system memory is copied, and reached at addresses of its own"
            }
        };
        writeln!(out, "mode          {mode}")?;
        let stray = match device.is_non_resident_strict {
            true => "reads zero, and writes nothing",
            false => "is undefined: nothing tells of a stray access",
        };
        writeln!(out, "unmapped      an access {stray}")?;
    }
    let limits = &device.limits;
    writeln!(
        out,
        "limits        {} of addresses for sparse buffers, {} for a buffer, {}",
        size(limits.sparse_address_space_bytes),
        size(limits.max_buffer_bytes),
        counted(limits.max_memory_allocations.into(), "allocation", "allocations")
    )?;
    writeln!(out, "a run takes   at most {} of memory", size(device.usable_bytes()))
}

fn write_measured(out: &mut impl Write, measured: &Measurements) -> io::Result<()> {
    writeln!(out)?;
    for copy in &measured.copies {
        let (to_local, to_system) = (speed(copy.bytes_per_second_in), speed(copy.bytes_per_second_out));
        let pieces = size(copy.piece_bytes);
        writeln!(out, "copies        in pieces of {pieces}: {to_local} to local memory, {to_system} to system memory")?;
    }
    for binding in &measured.bindings {
        let change = match binding.change {
            Change::Bind => "bound",
            Change::BindOver => "bound over others",
            Change::Unbind => "unbound",
        };
        let (ranges, bytes) = (counted(binding.ranges, "range", "ranges"), size(binding.range_bytes));
        let (all, call) = (binding.nanoseconds / 1e3, binding.nanoseconds_of_call / 1e3);
        let each = all / binding.ranges as f64;
        let cost = format!("{all:.0} us, {call:.0} of them in the call; {each:.1} us each");
        writeln!(out, "bindings      {ranges} of {bytes} {change}: {cost}")?;
    }
    for stores in &measured.stores {
        let through = match stores.through {
            Through::Buffer => "a buffer with memory of its own",
            Through::OneRange => "a sparse buffer bound as one range",
            Through::ScatteredPages => "a sparse buffer bound to scattered pages of 64 KiB",
        };
        let (later, first) = (speed(stores.bytes_per_second), speed(stores.bytes_per_second_at_first));
        writeln!(out, "stores        into {through}: {later}, {first} at first")?;
    }
    Ok(())
}

fn speed(bytes_per_second: f64) -> String {
    format!("{:.1} GB/s", bytes_per_second / 1e9)
}

fn abilities(family: &QueueFamily) -> String {
    let all = [
        (family.graphics, "draws"),
        (family.compute, "computes"),
        (family.transfer, "copies"),
        (family.sparse_binding, "binds memory"),
    ];
    joined(&all, "does none of what is needed")
}

fn properties(memory: &MemoryType) -> String {
    let all = [
        (memory.device_local, "the device's own"),
        (memory.host_visible, "visible to the host"),
        (memory.host_coherent, "coherent"),
        (memory.bindable, "bindable"),
    ];
    joined(&all, "none of what is needed")
}

fn joined(all: &[(bool, &str)], none: &str) -> String {
    let held: Vec<_> = all.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    if held.is_empty() { none.to_owned() } else { held.join(", ") }
}

/// A size to one decimal: those of a GPU's heaps are no round numbers.
fn size(bytes: u64) -> String {
    match bytes {
        0..=0xF_FFFF => ByteSize(bytes).to_string(),
        _ if bytes < 1 << 30 => format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64),
        _ => format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64),
    }
}
