//! Reading recorded traces.
//!
//! The format is recognised by content, never by the file's name:
//!
//! * G10: one line a kernel, `NANOSECONDS | inputs | outputs`, each a list of
//!   `TENSOR:IS_WEIGHT:BYTES`;
//! * Mooncake: one JSON object a line and request, with the ids of the cache blocks it touches.
//!
//! Either may be compressed with gzip.

mod error;
mod g10;
mod lines;
mod mooncake;

pub use error::ImportError;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::Workload;
use lines::Lines;

/// The longest trace that is read, in bytes after decompression: 256 MiB, so that a wrong file ends
/// in an error and not in exhausted memory.
const MAX_TRACE_BYTES: u64 = 256 << 20;

/// The most lines of a trace, each of which is at least a kernel: 4 million.
const MAX_TRACE_LINES: usize = 4 << 20;

/// The two bytes that every gzip file starts with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The properties that a trace does not have and its reader must choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The bytes of one KV-cache block of a serving trace.
    ///
    /// The default is 2 MiB. A block of a 70B model has 160 MiB, with which an hour of the
    /// Mooncake trace would touch 28 TiB.
    pub block_bytes: u64,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { block_bytes: 2 << 20 }
    }
}

/// Reads the trace in a file. The workload is named after the file, without its extensions.
///
/// # Errors
///
/// Returns an [`ImportError`] when the file cannot be read, and whatever [`parse`] returns.
pub fn read(path: &Path, options: &ImportOptions) -> Result<Workload, ImportError> {
    let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let bytes = read_limited(file).map_err(unreadable)?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = file_name.split('.').find(|part| !part.is_empty());
    // An error names the file, with the extensions.
    let workload = parse(&file_name, &bytes, options)?;
    Ok(Workload { name: stem.unwrap_or("trace").to_owned(), ..workload })
}

/// Reads the trace in `bytes`, which may be compressed with gzip, and names the workload `name`.
///
/// # Errors
///
/// Returns an [`ImportError`] that names the line and the expected text: for an empty or
/// unknown file, a damaged or truncated one, sizes of 0, a tensor that changes between lines, and
/// options that are out of range.
pub fn parse(name: &str, bytes: &[u8], options: &ImportOptions) -> Result<Workload, ImportError> {
    if options.block_bytes == 0 {
        return Err(ImportError::NoBlockBytes);
    }
    if bytes.starts_with(&GZIP_MAGIC) {
        let unpacked = read_limited(MultiGzDecoder::new(bytes))
            .map_err(|source| ImportError::Gzip { name: name.to_owned(), source })?;
        return parse_text(name, &unpacked, options);
    }
    parse_text(name, bytes, options)
}

/// Reads a trace that is no longer compressed.
fn parse_text(name: &str, bytes: &[u8], options: &ImportOptions) -> Result<Workload, ImportError> {
    if bytes.len() as u64 > MAX_TRACE_BYTES {
        return Err(ImportError::TooLong { name: name.to_owned(), limit: MAX_TRACE_BYTES });
    }
    let lines = Lines::new(name, bytes)?;
    if lines.iter().nth(MAX_TRACE_LINES).is_some() {
        return Err(ImportError::TooManyLines { name: name.to_owned(), limit: MAX_TRACE_LINES });
    }
    let workload = match Format::of(lines.first().text) {
        Some(Format::G10) => g10::parse(&lines)?,
        Some(Format::Mooncake) => mooncake::parse(&lines, options.block_bytes)?,
        None => return Err(lines.unknown()),
    };
    workload.validate()?;
    Ok(workload)
}

/// Reads everything, but never more than one byte above the limit.
fn read_limited(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_TRACE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The formats that are known.
enum Format {
    G10,
    Mooncake,
}

impl Format {
    /// Recognises the format by the first line that is not blank.
    fn of(line: &str) -> Option<Self> {
        if line.starts_with('{') && line.contains("\"hash_ids\"") {
            return Some(Self::Mooncake);
        }
        let time = line.split_once('|')?.0.trim();
        let is_time = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        is_time.then_some(Self::G10)
    }
}
