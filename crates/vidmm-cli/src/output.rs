//! The files that a run writes, and its sums.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use sha2::{Digest, Sha256};
use vidmm::NumberedEvent;
use vidmm_trace::{LogFile, LogHeader, LogWriter};
use vidmm_view::WholeFile;

use crate::statistics::Counted;

/// The files that the arguments ask for. They are created before the run, so that a path that cannot be written is an
/// error at once.
pub struct Files {
    header: LogHeader,
    log: Option<(PathBuf, LogWriter<LogFile>)>,
    summary: Option<(PathBuf, WholeFile)>,
    counted: Option<Counted>,
}

impl Files {
    /// Creates the files for the run that the header describes, which reads `inputs`.
    pub fn create(
        events: Option<&Path>,
        summary: Option<&Path>,
        inputs: &[PathBuf],
        mut header: LogHeader,
    ) -> Result<Self, String> {
        let outputs = Vec::from_iter(events.into_iter().chain(summary));
        check_apart(&outputs, inputs)?;
        if !outputs.is_empty() {
            header.settings.extend(inputs.iter().map(|path| (format!("input {}", path.display()), digest(path))));
        }
        let summary = summary.map(|path| Ok::<_, String>((path.to_owned(), create(path)?))).transpose()?;
        let log = events.map(|path| {
            let file = LogFile::create(path).map_err(|error| cannot_write(path, &error))?;
            Ok::<_, String>((path.to_owned(), LogWriter::new(file, &header)))
        });
        Ok(Self { log: log.transpose()?, summary, header, counted: None })
    }

    /// The same, with the statistics of the run if they are wanted.
    pub fn with_statistics(self, are_wanted: bool) -> Self {
        Self { counted: are_wanted.then(Counted::default), ..self }
    }

    /// Prints the statistics, if they are wanted.
    pub fn write_statistics(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.counted.take().map_or(Ok(()), |counted| counted.write(out))
    }

    /// Writes an event to the log, if there is one, and counts it.
    pub fn event(&mut self, event: &NumberedEvent) {
        if let Some((_, log)) = &mut self.log {
            log.event(event);
        }
        if let Some(counted) = &mut self.counted {
            counted.event(event);
        }
    }

    /// Ends the log.
    pub fn finish_log(&mut self) -> Result<(), String> {
        match self.log.take() {
            Some((path, log)) => log.finish().and_then(LogFile::finish).map_err(|error| cannot_write(&path, &error)),
            None => Ok(()),
        }
    }

    /// Writes the figures, if they are wanted.
    pub fn write_summary(self, report: &impl Serialize) -> Result<(), String> {
        #[derive(Serialize)]
        struct Summary<'a, R> {
            scenario: &'a str,
            seed: u64,
            settings: &'a BTreeMap<String, String>,
            #[serde(flatten)]
            report: &'a R,
        }
        let Some((path, mut file)) = self.summary else { return Ok(()) };
        let LogHeader { scenario, seed, settings, .. } = &self.header;
        let summary = Summary { scenario, seed: *seed, settings, report };
        let written = serde_json::to_writer_pretty(&mut file, &summary).map_err(io::Error::from);
        written.and_then(|()| writeln!(file)).and_then(|()| file.finish()).map_err(|error| cannot_write(&path, &error))
    }
}

/// The length and the SHA-256 of a file, by which another file of that name is known. What can be read only once is not read.
pub fn digest(path: &Path) -> String {
    let is_file = path.metadata().is_ok_and(|data| data.is_file());
    let read = || -> io::Result<(u64, String)> {
        let (mut file, mut hash, mut length, mut part) = (File::open(path)?, Sha256::new(), 0, vec![0; 1 << 16]);
        loop {
            match file.read(&mut part)? {
                0 => return Ok((length, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())),
                read => {
                    hash.update(&part[..read]);
                    length += read as u64;
                }
            }
        }
    };
    match is_file.then(read) {
        Some(Ok((length, sha256))) => format!("{length} bytes, sha256 {sha256}"),
        Some(Err(_)) | None => "no file that can be read again".to_owned(),
    }
}

/// Refuses to write over a file that the run reads, or two files into one. Devices, such as /dev/null, may be named again.
pub fn check_apart(outputs: &[&Path], inputs: &[PathBuf]) -> Result<(), String> {
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

fn create(path: &Path) -> Result<WholeFile, String> {
    WholeFile::create(path).map_err(|error| cannot_write(path, &error))
}

/// Writes a whole file, or none.
pub fn write_file(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    let mut file = create(path)?;
    file.write_all(text.as_ref()).and_then(|()| file.finish()).map_err(|error| cannot_write(path, &error))
}

pub fn cannot_write(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::Unsupported => "give another name",
        io::ErrorKind::WouldBlock => "another run writes this file; give another name",
        io::ErrorKind::StorageFull => "make room, or give a path elsewhere",
        _ => "check that the folder exists and can be written to",
    };
    format!("cannot write {}: {error}; {remedy}", path.display())
}
