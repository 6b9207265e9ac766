//! Files of requests to a cache, in two formats of libCacheSim, streamed: memory grows with the objects, and not with the requests.
//!
//! *CSV* has a request on each line: its time, the object, and that one's size in bytes. Where the first line names the columns (`time`,
//! `id`, `obj_id`, `object` or `key`; `size`, `obj_size` or `bytes`), their order does not matter. *oracleGeneral* has 24 bytes for each, little-endian: the time
//! (4), the object (8), its size in bytes (4), and the number of the request that is the next to it (8; below 0 is none).

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fs::File,
    hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher},
    hint::black_box,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use ruzstd::decoding::StreamingDecoder;
use vidmm_trace::Lifetime;

use crate::{
    Object, PAGE, Use,
    trace::{Step, Stream, TraceError, when},
};

/// The number of requests that are read before the first of them is looked up.
const AHEAD: usize = 64;

/// The length of a request in an oracleGeneral file.
const ORACLE_BYTES: usize = 24;

/// A file of requests.
#[derive(Debug)]
pub struct RequestFile {
    path: PathBuf,
    format: Format,
    is_compressed: bool,
    batch: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Csv,
    OracleGeneral,
}

impl RequestFile {
    /// A file whose name ends as those of one of the formats do.
    pub(crate) fn recognise(path: &Path, batch: u32) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (name, is_compressed) = match name.strip_suffix(".zst") {
            Some(name) => (name, true),
            None => (name.as_str(), false),
        };
        let format = match name.rsplit_once('.')?.1 {
            "csv" => Format::Csv,
            "oraclegeneral" => Format::OracleGeneral,
            _ => return None,
        };
        Some(Self { path: path.to_owned(), format, is_compressed, batch: batch.max(1) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether each request says when the object is used next.
    pub(crate) fn says_next_uses(&self) -> bool {
        self.format == Format::OracleGeneral
    }

    fn cannot_read(&self, error: io::Error) -> TraceError {
        TraceError::Read { path: self.path.clone(), error }
    }

    fn requests(&self) -> Result<Requests, TraceError> {
        let file = BufReader::with_capacity(1 << 20, File::open(&self.path).map_err(|error| self.cannot_read(error))?);
        let bytes: Box<dyn Read> = match self.is_compressed {
            true => Box::new(BufReader::with_capacity(1 << 20, Frames::new(file))),
            false => Box::new(file),
        };
        match self.format {
            Format::OracleGeneral => Ok(Requests::OracleGeneral(bytes)),
            Format::Csv => {
                let mut lines = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
                let mut line = csv::ByteRecord::new();
                let has_line = lines.read_byte_record(&mut line).map_err(|error| self.cannot_read(error.into()))?;
                let columns = Columns::named_by(&line);
                let pending = has_line && columns.is_none();
                Ok(Requests::Csv { lines: Box::new(lines), columns: columns.unwrap_or_default(), line, pending })
            }
        }
    }
}

/// The frames of a compressed file, one behind the other.
struct Frames {
    decoder: Option<Box<StreamingDecoder<BufReader<File>, ruzstd::decoding::FrameDecoder>>>,
    rest: Option<BufReader<File>>,
}

impl Frames {
    fn new(file: BufReader<File>) -> Self {
        Self { decoder: None, rest: Some(file) }
    }
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut rest) = self.rest.take() {
                if io::BufRead::fill_buf(&mut rest)?.is_empty() {
                    self.rest = Some(rest);
                    return Ok(0);
                }
                let decoder = StreamingDecoder::new(rest).map_err(|error| {
                    io::Error::other(format!("it is not compressed with zstd, as the end of its name says ({error})"))
                })?;
                self.decoder = Some(Box::new(decoder));
            }
            let decoder = self.decoder.as_mut().expect("there is a frame or a rest");
            let read = decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.rest = self.decoder.take().map(|decoder| decoder.into_inner());
        }
    }
}

/// The columns of a CSV file, from 0.
#[derive(Clone, Copy, Debug)]
struct Columns {
    id: usize,
    size: usize,
}

impl Default for Columns {
    /// The time, the object, its size.
    fn default() -> Self {
        Self { id: 1, size: 2 }
    }
}

impl Columns {
    /// The columns, if the line names them.
    fn named_by(line: &csv::ByteRecord) -> Option<Self> {
        let named = |names: &[&str]| {
            let is_so =
                |field: &[u8]| names.iter().any(|name| field.trim_ascii().eq_ignore_ascii_case(name.as_bytes()));
            line.iter().position(is_so)
        };
        Some(Self { id: named(&["id", "obj_id", "object", "key"])?, size: named(&["size", "obj_size", "bytes"])? })
    }
}

/// A request.
struct Request {
    id: u64,
    size: u64,
    /// The number of the next one to the object; `u64::MAX` is none or unknown.
    next: u64,
}

enum Requests {
    Csv {
        lines: Box<csv::Reader<Box<dyn Read>>>,
        columns: Columns,
        line: csv::ByteRecord,
        /// `line` is a request that was read already.
        pending: bool,
    },
    OracleGeneral(Box<dyn Read>),
}

/// A request that cannot be read.
enum Failure {
    Io(io::Error),
    Mistake(&'static str),
}

impl Requests {
    fn next(&mut self) -> Result<Option<Request>, Failure> {
        match self {
            Self::Csv { lines, columns, line, pending } => {
                let is_read = std::mem::take(pending)
                    || lines.read_byte_record(line).map_err(|error| Failure::Io(error.into()))?;
                if !is_read {
                    return Ok(None);
                }
                let field = |at| line.get(at).map(<[u8]>::trim_ascii).filter(|field| !field.is_empty());
                if line.len() < 2 {
                    return Err(Failure::Mistake("it has one column; the columns have commas between them"));
                }
                let id = field(columns.id).ok_or(Failure::Mistake("it names no object"))?;
                let size = field(columns.size).and_then(number);
                let size = size.ok_or(Failure::Mistake(
                    "its size is no number of bytes; columns are time, object, size, or as the first line names them: \
                     `id`, `obj_id`, `object` or `key`, and `size`, `obj_size` or `bytes`",
                ))?;
                Ok(Some(Request { id: number(id).unwrap_or_else(|| hash(id)), size, next: u64::MAX }))
            }
            Self::OracleGeneral(bytes) => {
                let mut record = [0; ORACLE_BYTES];
                let mut filled = 0;
                while filled < ORACLE_BYTES {
                    match bytes.read(&mut record[filled..]).map_err(Failure::Io)? {
                        0 if filled == 0 => return Ok(None),
                        0 => return Err(Failure::Mistake("the file ends within it")),
                        read => filled += read,
                    }
                }
                let part = |from: usize, to: usize| {
                    record[from..to].iter().rev().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte))
                };
                let next = part(16, 24).cast_signed();
                Ok(Some(Request { id: part(4, 12), size: part(12, 16), next: u64::try_from(next).unwrap_or(u64::MAX) }))
            }
        }
    }
}

impl Requests {
    /// The place of the request that was read last, which is number `number`, from 1.
    fn place(&self, number: u64) -> String {
        match self {
            Self::Csv { line, .. } => match line.position() {
                Some(position) => format!("line {}", position.line()),
                None => format!("request {number}"),
            },
            Self::OracleGeneral(_) => format!("request {number}"),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

/// A name that is no number stands for one.
fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// An object that has been requested.
struct Known {
    used: Use,
    /// The submission that used it last, and its place there.
    last: u64,
    place: u32,
}

/// Mixes the bits of one number. The default hasher is made for keys that an adversary chooses, and is most of the time that reading
/// a request takes.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the names of objects are numbers")
    }

    fn write_u64(&mut self, number: u64) {
        // Each bit of the number is to change all bits of the hash: the product's halves together do that.
        let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

/// The submissions of a file of requests. The size of an object is that of its first request, in whole pages.
pub(crate) struct RequestStream<'a> {
    file: &'a RequestFile,
    requests: Requests,
    /// Requests that come next.
    ahead: VecDeque<Request>,
    known: HashMap<u64, Known, BuildHasherDefault<Mixer>>,
    /// The number of requests that were read.
    read: u64,
    submission: u64,
    /// The number of uses that were given out.
    used: usize,
    next_uses: Option<&'a [u32]>,
}

impl<'a> RequestStream<'a> {
    pub fn open(file: &'a RequestFile, next_uses: Option<&'a [u32]>) -> Result<Self, TraceError> {
        Ok(Self {
            file,
            requests: file.requests()?,
            ahead: VecDeque::with_capacity(AHEAD),
            known: HashMap::default(),
            read: 0,
            submission: 0,
            used: 0,
            next_uses,
        })
    }

    fn request(&mut self) -> Result<Option<Request>, TraceError> {
        if self.ahead.is_empty() {
            self.read_ahead()?;
        }
        Ok(self.ahead.pop_front())
    }

    /// Reads the next requests. Their objects lie anywhere in memory: with nothing else between one and the next, the processor waits
    /// for several of them at once.
    fn read_ahead(&mut self) -> Result<(), TraceError> {
        while self.ahead.len() < AHEAD {
            self.read += 1;
            let request = self.requests.next().map_err(|failure| match failure {
                Failure::Io(error) => self.file.cannot_read(error),
                Failure::Mistake(mistake) => {
                    TraceError::Request { path: self.file.path.clone(), place: self.requests.place(self.read), mistake }
                }
            })?;
            let Some(request) = request else { break };
            self.ahead.push_back(request);
        }
        for request in &self.ahead {
            black_box(self.known.contains_key(&request.id));
        }
        Ok(())
    }
}

impl Stream for RequestStream<'_> {
    fn read(&mut self, step: &mut Step) -> Result<bool, TraceError> {
        step.clear();
        self.submission += 1;
        for _ in 0..self.file.batch {
            let Some(request) = self.request()? else { break };
            let (count, place) = (self.known.len() as u32, step.uses.len() as u32);
            let used = match self.known.entry(request.id) {
                Entry::Occupied(known) => {
                    let known = known.into_mut();
                    // Within a submission an object is used once.
                    if known.last == self.submission {
                        step.next_uses[known.place as usize] = request.next;
                        continue;
                    }
                    (known.last, known.place) = (self.submission, place);
                    known.used
                }
                Entry::Vacant(new) => {
                    let size = request.size.max(1).next_multiple_of(PAGE);
                    step.objects.push(Object { size, lifetime: Lifetime::Whole });
                    let used = Use::read(count);
                    new.insert(Known { used, last: self.submission, place });
                    used
                }
            };
            step.uses.push(used);
            step.next_uses.push(request.next);
        }
        if let Some(next) = self.next_uses.filter(|_| !step.uses.is_empty()) {
            let next = next[self.used..self.used + step.uses.len()].iter();
            step.next_uses.iter_mut().zip(next).for_each(|(at, &next)| *at = when(next));
        }
        self.used += step.uses.len();
        Ok(!step.uses.is_empty())
    }
}
