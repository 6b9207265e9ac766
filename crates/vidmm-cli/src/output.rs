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
    /// Creates the files for a run of that name and seed, which reads `inputs`.
    pub fn create(
        events: Option<&Path>,
        summary: Option<&Path>,
        inputs: &[PathBuf],
        (name, seed): (&str, u64),
    ) -> Result<Self, String> {
        let outputs = Vec::from_iter(events.into_iter().chain(summary));
        check_apart(&outputs, inputs)?;
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

/// Refuses to write over a file that the run reads, or two files into one. Devices, such as /dev/null, may be named again.
fn check_apart(outputs: &[&Path], inputs: &[PathBuf]) -> Result<(), String> {
    for (position, output) in outputs.iter().enumerate() {
        if let Some(input) = inputs.iter().find(|input| are_one_file(output, input)) {
            let (output, input) = (output.display(), input.display());
            return Err(format!("cannot write {output}: the run reads it as {input}; give another path"));
        }
        if let Some(other) = outputs[..position].iter().find(|other| are_one_file(output, other)) {
            let (output, other) = (output.display(), other.display());
            return Err(format!("cannot write {output}: the run writes {other} there; give another path"));
        }
    }
    Ok(())
}

fn are_one_file(one: &Path, other: &Path) -> bool {
    let is_device = |path: &Path| path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir());
    if is_device(one) {
        return false;
    }
    // A file that does not exist yet is known by its folder.
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((folder.canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    let are_one_place = || place(one).is_some_and(|here| place(other) == Some(here));
    same_file::is_same_file(one, other).unwrap_or_else(|_| are_one_place())
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}; check that the folder exists and can be written to", path.display())
}
