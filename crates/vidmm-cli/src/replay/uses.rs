//! The uses of a combination as a table.

use std::{error::Error, io::BufWriter, path::Path};

use vidmm_replay::{UseRow, is_exact, study_uses};
use vidmm_view::{
    WholeFile,
    tables::{Column, ParquetWriter, Value},
};

use super::{Cell, options};
use crate::{args::ReplayArgs, output::cannot_write};

const COLUMNS: [Column; 10] = [
    Column::integer("submission"),
    Column::integer("at_ns"),
    Column::integer("object"),
    Column::integer("bytes"),
    Column::integer("is_write"),
    Column::integer("is_hit"),
    Column::integer("reuse_bytes"),
    Column::integer("victims"),
    Column::integer("candidates"),
    Column::integer("rank"),
];

/// Writes the uses of a single combination. A study must play the combination.
pub fn write(args: &ReplayArgs, path: &Path, cells: &[Cell<'_>]) -> Result<(), Box<dyn Error>> {
    let ([cell], Some(trace)) = (cells, cells.first().and_then(|cell| cell.input.trace.as_ref())) else {
        return Err(format!(
            "--uses takes a single combination, and the command has {}; give a single input, policy and size",
            cells.len()
        )
        .into());
    };
    let options = options(args, cell, trace);
    if !is_exact(trace, &options) {
        return Err(
            "--uses writes the uses of a study, and the whole manager plays the trace: several processes, a larger \
                    --ahead, or deletions under s3-fifo or predict"
                .into(),
        );
    }
    let file = WholeFile::create(path).map_err(|error| cannot_write(path, &error))?;
    let mut table = ParquetWriter::new(BufWriter::new(file), "uses", &COLUMNS)?;
    study_uses::<Box<dyn Error>>(trace, &options, |row| Ok(table.row(fields(row))?))?;
    let whole = table.finish()?.into_inner()?.finish();
    Ok(whole.map_err(|error| cannot_write(path, &error))?)
}

fn fields(row: &UseRow) -> [Value<'_>; 10] {
    let UseRow { submission, at_ns, object, bytes, is_write, is_hit, reuse_bytes, victims, candidates, rank } = *row;
    let [is_write, is_hit] = [is_write, is_hit].map(u64::from);
    let counts = [submission, at_ns, object.into(), bytes, is_write, is_hit].map(Value::Integer);
    let [submission, at_ns, object, bytes, is_write, is_hit] = counts;
    let [reuse_bytes, victims, candidates, rank] = [reuse_bytes, Some(victims), candidates, rank].map(Value::from);
    [submission, at_ns, object, bytes, is_write, is_hit, reuse_bytes, victims, candidates, rank]
}
