//! How DMA buffers were split, as a table.

use std::io::{self, Write};

use vidmm_sim::{PortionRow, Portions, SlotRow, SlotState};

use crate::style::{BOLD, counted};

/// The columns: their titles, and their least widths.
const HEADS: [&str; 9] = ["DMA buffer", "portion", "bytes", "ends", "patched", "slot", "allocation", "address", ""];

/// Writes the portions in the order in which they ran, and their number. Writes nothing if nothing was rendered.
pub fn write(out: &mut impl Write, portions: &Portions) -> io::Result<()> {
    let Portions { rows, num_dropped, num_moves, .. } = portions;
    if rows.is_empty() && *num_dropped == 0 {
        return Ok(());
    }
    let lines: Vec<[String; 9]> = rows.iter().flat_map(lines).collect();
    let widths: [usize; 9] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([HEADS[column].len()]).max().unwrap_or(0)
    });
    writeln!(out, "\n{BOLD}{}{BOLD:#}", line(&HEADS.map(str::to_owned), &widths))?;
    for cells in &lines {
        writeln!(out, "{}", line(cells, &widths))?;
    }
    let mut buffers: Vec<&str> = rows.iter().map(|row| &row.dma_buffer[..]).collect();
    buffers.sort_unstable();
    buffers.dedup();
    let patched = rows.iter().filter(|row| row.patched).count() as u64;
    write!(
        out,
        "\n{BOLD}portions{BOLD:#}    {} in {}, {patched} patched; {}",
        counted(rows.len() as u64, "portion", "portions"),
        counted(buffers.len() as u64, "DMA buffer", "DMA buffers"),
        counted(*num_moves, "allocation moved", "allocations moved"),
    )?;
    match num_dropped {
        0 => writeln!(out),
        _ => writeln!(out, "; {} dropped", counted(*num_dropped, "DMA buffer", "DMA buffers")),
    }
}

/// A line for each slot; the first one describes the portion too.
fn lines(row: &PortionRow) -> Vec<[String; 9]> {
    let bytes = format!("{}..{}", row.start_offset, row.end_offset);
    let patched = if row.patched { "yes" } else { "no" };
    let head = [row.dma_buffer.clone(), row.portion.to_string(), bytes, row.end.clone(), patched.to_owned()];
    let blank: [String; 5] = Default::default();
    let slots = row.slots.iter().map(slot);
    let slots: Vec<[String; 4]> = if row.slots.is_empty() { vec![Default::default()] } else { slots.collect() };
    let heads = std::iter::once(head).chain(std::iter::repeat(blank));
    let joined = heads.zip(slots).map(|(head, slot)| {
        let mut cells = head.into_iter().chain(slot);
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    });
    joined.collect()
}

fn slot(row: &SlotRow) -> [String; 4] {
    let state = match row.state {
        SlotState::Bound => "bound",
        SlotState::Unbound => "unbound",
        SlotState::Fixed => "fixed",
        SlotState::Reprogrammed => "reprogrammed",
        SlotState::Moved => "moved",
    };
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [row.slot_id.to_string(), or_none(&row.allocation), or_none(&row.address), state.to_owned()]
}

fn line(cells: &[String; 9], widths: &[usize; 9]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, &width)| format!("{cell:<width$}"));
    format!("  {}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
}
