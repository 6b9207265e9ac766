//! The files that a run writes.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use vidmm::NumberedEvent;
use vidmm_trace::{LogHeader, LogWriter};

/// The files that the arguments ask for. They are created before the run, so that a path that cannot be written is an
/// error at once.
pub struct Files {
    log: Option<(PathBuf, LogWriter<File>)>,
    summary: Option<(PathBuf, File)>,
}

impl Files {
    /// Creates the files for a run of that name and seed.
    pub fn create(events: Option<&Path>, summary: Option<&Path>, name: &str, seed: u64) -> Result<Self, String> {
        let summary = summary.map(|path| Ok::<_, String>((path.to_owned(), create(path)?))).transpose()?;
        let log = events
            .map(|path| Ok::<_, String>((path.to_owned(), LogWriter::new(create(path)?, &LogHeader::new(name, seed)))));
        Ok(Self { log: log.transpose()?, summary })
    }

    /// Writes an event to the log, if there is one.
    pub fn event(&mut self, event: &NumberedEvent) {
        if let Some((_, log)) = &mut self.log {
            log.event(event);
        }
    }

    /// Ends the log.
    pub fn finish_log(&mut self) -> Result<(), String> {
        match self.log.take() {
            Some((path, log)) => log.finish().map(drop).map_err(|error| cannot_write(&path, &error)),
            None => Ok(()),
        }
    }

    /// Writes the figures, if they are wanted.
    pub fn write_summary(self, scenario: &str, seed: u64, report: &impl Serialize) -> Result<(), String> {
        #[derive(Serialize)]
        struct Summary<'a, R> {
            scenario: &'a str,
            seed: u64,
            #[serde(flatten)]
            report: &'a R,
        }
        let Some((path, mut file)) = self.summary else { return Ok(()) };
        let summary = Summary { scenario, seed, report };
        let written = serde_json::to_writer_pretty(&mut file, &summary).map_err(io::Error::from);
        written.and_then(|()| writeln!(file)).map_err(|error| cannot_write(&path, &error))
    }
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}; check that the folder exists and can be written to", path.display())
}
