//! Reading recorded traces.
//!
//! A [`TraceFormat`] is stated, or recognised by content; the file's name decides nothing. A file may be packed by gzip or zstd.

mod error;
mod g10;
mod g10_kernels;
mod lines;
mod mooncake;
mod pieces;
mod pytorch;
mod watched;

pub use error::ImportError;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::Workload;
use crate::packed::Packing;
use lines::Lines;

/// The longest trace that is read, in bytes after decompression: 256 MiB, so that a wrong file ends
/// in an error and not in exhausted memory.
const MAX_TRACE_BYTES: u64 = 256 << 20;

/// The most lines of a trace, each of which is at least a kernel: 4 million.
const MAX_TRACE_LINES: usize = 4 << 20;

/// The properties that a trace does not have and its reader must choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The bytes of one KV-cache block of a serving trace.
    ///
    /// The default is 2 MiB. A block of a 70B model has 160 MiB, with which an hour of the
    /// Mooncake trace would touch 28 TiB.
    pub block_bytes: u64,
    /// The format of the trace; if none, the content decides.
    pub format: Option<TraceFormat>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { block_bytes: 2 << 20, format: None }
    }
}

/// A format of recorded kernels or requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// A line for each kernel of a training iteration, converted from G10's analyser.
    G10,
    /// The file `kernels.config` of G10's analyser, with several lines for each kernel.
    G10Kernels,
    /// A serving log of Mooncake, as JSON lines.
    Mooncake,
    /// A serving log of Alibaba's Bailian, as JSON lines.
    Bailian,
    /// A snapshot of the memory of PyTorch's allocator, as a pickle.
    Pytorch,
    /// A Vulkan program's submissions, as `vidmm exec --trace` writes.
    Vidmm,
}

impl TraceFormat {
    /// Every format.
    pub const ALL: [Self; 6] = [Self::G10, Self::G10Kernels, Self::Mooncake, Self::Bailian, Self::Pytorch, Self::Vidmm];

    /// The name in options and scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::G10 => "g10",
            Self::G10Kernels => "g10-kernels",
            Self::Mooncake => "mooncake",
            Self::Bailian => "bailian",
            Self::Pytorch => "pytorch",
            Self::Vidmm => "vidmm",
        }
    }

    /// How the trace is understood, for people.
    pub fn reading(self) -> &'static str {
        match self {
            Self::G10 => "NANOSECONDS | inputs | outputs",
            Self::G10Kernels => "blocks of `Kernel ID`, times as cycles at 1.2 GHz",
            Self::Mooncake => "`timestamp` in milliseconds, `hash_ids` of 512 tokens each",
            Self::Bailian => "`timestamp` in seconds, `hash_ids` of 16 tokens each",
            Self::Pytorch => "a use is the time of an allocation or of a free; uses between the two are not recorded",
            Self::Vidmm => "submissions with their ranges of buffers; lines `uncovered` say what is missing",
        }
    }

    /// Recognises the format by the content.
    fn of_content(bytes: &[u8]) -> Option<Self> {
        if pytorch::is_pickle(bytes) {
            return Some(Self::Pytorch);
        }
        // The first lines decide, so that a wrong byte further on is an error of a known format.
        let start = &bytes[..bytes.len().min(1 << 16)];
        let text = String::from_utf8_lossy(start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start));
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !g10_kernels::is_rule(line))?;
        if line.starts_with('{') && line.contains("\"hash_ids\"") {
            return Some(if line.contains("\"chat_id\"") { Self::Bailian } else { Self::Mooncake });
        }
        if watched::is_header(line) {
            return Some(Self::Vidmm);
        }
        if line.starts_with("Kernel ID:") {
            return Some(Self::G10Kernels);
        }
        let time = line.split_once('|')?.0.trim();
        let is_time = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        is_time.then_some(Self::G10)
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let format = Self::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| format!("`{name}` is no format of a trace; there are {names}"))
    }
}

/// Reads the trace in a file. The workload is named after the file, without its extensions.
///
/// # Errors
///
/// Returns an [`ImportError`] when the file cannot be read, and whatever [`parse`] returns.
pub fn read(path: &Path, options: &ImportOptions) -> Result<Workload, ImportError> {
    read_with_format(path, options).map(|(workload, _)| workload)
}

/// Reads the trace in a file as [`read`] does, and says the format of the trace.
///
/// # Errors
///
/// As [`read`].
pub fn read_with_format(path: &Path, options: &ImportOptions) -> Result<(Workload, TraceFormat), ImportError> {
    let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let bytes = read_limited(file).map_err(unreadable)?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = file_name.split('.').find(|part| !part.is_empty());
    // An error names the file, with the extensions.
    let (workload, format) = parse_with_format(&file_name, &bytes, options)?;
    Ok((Workload { name: stem.unwrap_or("trace").to_owned(), ..workload }, format))
}

/// Reads the trace in `bytes`, which may be packed by gzip or zstd, and names the workload `name`.
///
/// # Errors
///
/// Returns an [`ImportError`] that names the line and the expected text: for an empty or
/// unknown file, a damaged or truncated one, sizes of 0, a tensor that changes between lines, and
/// options that are out of range.
pub fn parse(name: &str, bytes: &[u8], options: &ImportOptions) -> Result<Workload, ImportError> {
    parse_with_format(name, bytes, options).map(|(workload, _)| workload)
}

fn parse_with_format(
    name: &str,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<(Workload, TraceFormat), ImportError> {
    if options.block_bytes == 0 {
        return Err(ImportError::NoBlockBytes);
    }
    if let Some(packing) = Packing::of_content(bytes) {
        let unpacked = read_limited(packing.unpack(bytes)).map_err(|source| ImportError::Packed {
            name: name.to_owned(),
            packing: packing.name(),
            source,
        })?;
        return parse_plain(name, &unpacked, options);
    }
    parse_plain(name, bytes, options)
}

/// Reads a trace that is no longer packed.
fn parse_plain(name: &str, bytes: &[u8], options: &ImportOptions) -> Result<(Workload, TraceFormat), ImportError> {
    if bytes.len() as u64 > MAX_TRACE_BYTES {
        return Err(ImportError::TooLong { name: name.to_owned(), limit: MAX_TRACE_BYTES });
    }
    let format = options.format.or_else(|| TraceFormat::of_content(bytes));
    if format == Some(TraceFormat::Pytorch) {
        let workload = pytorch::parse(name, bytes)?;
        workload.validate()?;
        return Ok((workload, TraceFormat::Pytorch));
    }
    let lines = Lines::new(name, bytes)?;
    if lines.iter().nth(MAX_TRACE_LINES).is_some() {
        return Err(ImportError::TooManyLines { name: name.to_owned(), limit: MAX_TRACE_LINES });
    }
    let format = format.ok_or_else(|| lines.unknown())?;
    let workload = match format {
        TraceFormat::G10 => g10::parse(&lines)?,
        TraceFormat::G10Kernels => g10_kernels::parse(&lines)?,
        TraceFormat::Mooncake => mooncake::parse(&lines, &mooncake::Log::MOONCAKE, options.block_bytes)?,
        TraceFormat::Bailian => mooncake::parse(&lines, &mooncake::Log::BAILIAN, options.block_bytes)?,
        TraceFormat::Vidmm => watched::parse(&lines)?,
        TraceFormat::Pytorch => unreachable!("a pickle has no lines"),
    };
    workload.validate()?;
    Ok((workload, format))
}

/// Reads everything, but never more than one byte above the limit.
fn read_limited(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_TRACE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
