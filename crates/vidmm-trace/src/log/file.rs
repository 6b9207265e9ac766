//! Logs as files: compressed, if their names say so.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
};

use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use fs4::{FileExt, TryLockError};

/// A file that a log is written to: compressed by gzip if its name ends with `.gz`.
#[derive(Debug)]
pub struct LogFile(Form);

#[derive(Debug)]
enum Form {
    Plain(File),
    Gzip(GzEncoder<File>),
}

impl LogFile {
    /// Creates the file, or empties it. The file is locked until this is dropped, or its process ends.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or its name asks for a form that logs do not have; [`io::ErrorKind::WouldBlock`] if another
    /// log is written to the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let is_compressed = is_gzip(path)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        // Many may write to a device or a pipe. A file system without locks has files all the same.
        if file.metadata()?.is_file() {
            if let Err(TryLockError::WouldBlock) = FileExt::try_lock(&file) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            file.set_len(0)?;
        }
        Ok(Self(match is_compressed {
            true => Form::Gzip(GzEncoder::new(file, Compression::fast())),
            false => Form::Plain(file),
        }))
    }

    /// Writes what is left, after which the file is whole.
    ///
    /// # Errors
    ///
    /// If the file cannot be written to.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Form::Plain(mut file) => file.flush(),
            Form::Gzip(encoder) => encoder.finish().map(drop),
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Form::Plain(file) => file.write(bytes),
            Form::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Form::Plain(file) => file.flush(),
            Form::Gzip(encoder) => encoder.flush(),
        }
    }
}

/// Opens the file of a log to be read: of one whose name ends with `.gz`, what it is when decompressed.
///
/// # Errors
///
/// If the file cannot be opened, or its name asks for a form that logs do not have.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    // A name that asks for another form is refused whether there is such a file or not.
    is_gzip(path)?;
    plain(path, File::open(path)?)
}

/// The log in the bytes of a file: of one whose name ends with `.gz`, what it is when decompressed.
///
/// # Errors
///
/// If the name asks for a form that logs do not have.
pub fn plain(path: &Path, file: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let is_compressed = is_gzip(path)?;
    let file = BufReader::new(file);
    Ok(match is_compressed {
        true => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file))),
        false => Box::new(file),
    })
}

/// Whether a name says that its file is compressed by gzip.
fn is_gzip(path: &Path) -> io::Result<bool> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Ok(true),
        Some("zst" | "zstd" | "xz" | "bz2") => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "logs are written and read plain, or compressed by gzip in a file whose name ends with .gz, and in no other form",
        )),
        _ => Ok(false),
    }
}
