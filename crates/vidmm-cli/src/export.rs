//! `vidmm export`.

use std::{error::Error, io::BufWriter, path::Path};

use vidmm_view::{
    WholeFile,
    perfetto::PerfettoWriter,
    tables::{Format, TableFolder},
    timeline::{Record, Timeline},
};

use crate::{
    args::ExportArgs,
    output::{self, cannot_write},
    progress::read_log,
};

/// Reads the log once, and writes all files that were asked for.
pub fn export(args: &ExportArgs) -> Result<bool, Box<dyn Error>> {
    let path = args.events.display();
    if args.perfetto.is_none() && args.parquet.is_none() && args.csv.is_none() {
        return Err("there is nothing to write; give --perfetto, --parquet or --csv".into());
    }
    let outputs = Vec::from_iter(args.perfetto.as_deref());
    output::check_apart(&outputs, std::slice::from_ref(&args.events))?;
    read_log(&args.events, args.damaged, |log| {
        let mut files = Files::create(args)?;
        let mut timeline = Timeline::new();
        for event in log {
            let event = event.map_err(|error| format!("{path}: {error}"))?;
            for (folder, tables) in &mut files.tables {
                tables.event(&event).map_err(|error| cannot_write(folder, &error))?;
            }
            timeline.event(&event).try_for_each(|record| files.record(&record))?;
        }
        timeline.finish().try_for_each(|record| files.record(&record))?;
        files.finish()
    })?;
    Ok(true)
}

/// The files that the arguments ask for, with their paths.
struct Files<'a> {
    perfetto: Option<(&'a Path, PerfettoWriter<BufWriter<WholeFile>>)>,
    tables: Vec<(&'a Path, TableFolder)>,
}

impl<'a> Files<'a> {
    fn create(args: &'a ExportArgs) -> Result<Self, String> {
        let perfetto = args.perfetto.as_deref().map(|path| {
            let file = WholeFile::create(path).map_err(|error| cannot_write(path, &error))?;
            Ok::<_, String>((path, PerfettoWriter::new(BufWriter::new(file))))
        });
        let folders = [(&args.parquet, Format::Parquet), (&args.csv, Format::Csv)];
        let folders = folders.into_iter().filter_map(|(folder, format)| Some((folder.as_deref()?, format)));
        let tables = folders.map(|(folder, format)| {
            let tables = TableFolder::create(folder, format).map_err(|error| cannot_write(folder, &error))?;
            Ok::<_, String>((folder, tables))
        });
        Ok(Self { perfetto: perfetto.transpose()?, tables: tables.collect::<Result<_, _>>()? })
    }

    fn record(&mut self, record: &Record) -> Result<(), String> {
        if let Some((path, perfetto)) = &mut self.perfetto {
            perfetto.record(record).map_err(|error| cannot_write(path, &error))?;
        }
        self.tables
            .iter_mut()
            .try_for_each(|(folder, tables)| tables.record(record).map_err(|error| cannot_write(folder, &error)))
    }

    fn finish(self) -> Result<(), String> {
        if let Some((path, perfetto)) = self.perfetto {
            let whole = perfetto.finish().and_then(|file| file.into_inner()?.finish());
            whole.map_err(|error| cannot_write(path, &error))?;
        }
        self.tables
            .into_iter()
            .try_for_each(|(folder, tables)| tables.finish().map_err(|error| cannot_write(folder, &error)))
    }
}
