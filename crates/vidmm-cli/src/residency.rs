//! `vidmm exec`: an unmodified Vulkan program whose memory is paged by a layer, and the table of what moved.

use std::{
    error::Error,
    ffi::OsString,
    fs,
    io::{self, Write},
};

use VkLayer_vidmm::{Figures, ResidencySettings};
use vidmm_trace::ByteSize;

use crate::{
    layer,
    report::unless_closed,
    style::{BAD, counted},
};

/// Runs the program under the layer, and prints what moved on each device. Returns whether the program ended well and nothing was refused.
pub fn page(settings: ResidencySettings, program: &[OsString]) -> Result<bool, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let settings = ResidencySettings { figures: Some(folder.path().to_owned()), ..settings };
    if let Some(path) = &settings.events {
        layer::remove(path)?;
    }
    let status = layer::run(program, settings.variables())?;
    let mut files = fs::read_dir(&folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    if files.is_empty() {
        let name = program[0].display();
        return Err(
            format!("{name} ended ({status}) and made no device through Vulkan's loader: nothing was paged").into()
        );
    }
    let mut is_well = status.success();
    let mut out = anstream::stdout().lock();
    for (number, file) in (1..).zip(&files) {
        let figures = Figures::read(&fs::read_to_string(file)?);
        is_well &= figures.get("refused") == 0;
        unless_closed(write(&mut out, number, &figures, &settings))?;
    }
    if !status.success() {
        writeln!(out, "program     {BAD}{status}{BAD:#}")?;
    }
    Ok(is_well)
}

fn write(out: &mut impl Write, number: u64, figures: &Figures, settings: &ResidencySettings) -> io::Result<()> {
    let size = |name: &str| ByteSize(figures.get(name));
    let count = |name: &str, one, several| counted(figures.get(name), one, several);
    if figures.get("unfinished") > 0 {
        return writeln!(out, "device {number:<4} {BAD}the program ended without an exit: there are no figures{BAD:#}");
    }
    if let Some(reason) = &figures.without {
        writeln!(out, "device {number:<4} {BAD}without residency: {reason}{BAD:#}")?;
    }
    if figures.get("local-bytes") == 0 {
        return Ok(());
    }
    let mode = if figures.get("mode-b") == 0 { "a" } else { "b" };
    writeln!(
        out,
        "device {number:<4} mode {mode}, policy {}, {} of local memory, homes of {} at most, {}",
        settings.policy,
        size("local-bytes"),
        size("home-bytes-max"),
        count("submissions", "submission", "submissions"),
    )?;
    writeln!(
        out,
        "  paged in  {}: {} copied, {} first filled",
        count("page-ins", "range", "ranges"),
        size("bytes-in"),
        size("bytes-filled")
    )?;
    writeln!(out, "  paged out {}: {} copied", count("evictions", "range", "ranges"), size("bytes-out"))?;
    writeln!(
        out,
        "  from home {} of {} together, {} in parts, {} refused",
        count("served", "use of a range", "uses of ranges"),
        size("served-bytes"),
        count("split", "call", "calls"),
        figures.get("refused"),
    )?;
    for (reason, pinned) in &figures.pinned {
        writeln!(out, "  pinned    {reason}: {} of {}", pinned.count, ByteSize(pinned.bytes))?;
    }
    Ok(())
}
