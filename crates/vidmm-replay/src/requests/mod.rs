//! Files of requests to a cache, streamed: memory grows with the objects, and not with the requests.
//!
//! [`RequestFormat`] lists the formats. A file may be packed by gzip or zstd. A request of a form that nobody stated is refused.

mod binary;
mod format;
mod text;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher},
    hint::black_box,
    io,
    path::{Path, PathBuf},
};

use vidmm_trace::{Lifetime, packed};

pub use self::format::{Column, Columns, RequestFormat, RequestOptions, Sizes};
use crate::{
    Object, Use,
    trace::{Step, Stream, TraceError, when},
};

/// The number of requests that are read before the first of them is looked up.
const AHEAD: usize = 64;

/// The largest size of an object, so that sums of sizes stay in range: 1 PiB.
const SIZE_MAX: u64 = 1 << 50;

/// A file of requests.
#[derive(Debug)]
pub(crate) struct RequestFile {
    path: PathBuf,
    format: RequestFormat,
    options: RequestOptions,
}

impl RequestFile {
    /// A file of a stated format, or with a name that ends as a format's names do.
    pub fn recognise(path: &Path, options: &RequestOptions) -> Option<Self> {
        let of_name = || RequestFormat::of_name(path.file_name()?.to_str()?);
        let of_columns = || options.columns.is_some().then_some(RequestFormat::Csv);
        let format = options.format.or_else(of_name).or_else(of_columns)?;
        Some(Self { path: path.to_owned(), format, options: options.clone() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn sizes(&self) -> Sizes {
        self.options.sizes
    }

    /// Whether each request may say when the object is used next.
    pub fn may_state_next_uses(&self) -> bool {
        // The numbers in a file count requests that a sample leaves out.
        self.format.may_state_next_uses() && self.options.sample.is_none()
    }

    fn requests(&self) -> Result<Requests, TraceError> {
        let open = || {
            let bytes = packed::open(&self.path, self.format.is_text())?;
            match self.format.is_text() {
                true => {
                    text::Lines::open(bytes, self.format, &self.options).map(|lines| Requests::Text(Box::new(lines)))
                }
                false => binary::Records::open(bytes, self.format).map(Requests::Binary),
            }
        };
        open().map_err(|failure| {
            self.failed(failure, if self.format.is_text() { "line 1" } else { "the start" }.to_owned())
        })
    }

    fn failed(&self, failure: Failure, place: String) -> TraceError {
        let path = self.path.clone();
        match failure {
            Failure::Io(error) => TraceError::Read { path, error },
            Failure::Mistake(mistake) => TraceError::Request { path, place, mistake },
        }
    }
}

/// The effect of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Read,
    Write,
    Delete,
}

impl Op {
    /// The operation of a word, or of a SCSI command as two hexadecimal digits.
    fn named(word: &[u8]) -> Option<Self> {
        const READS: &[&str] = &["read", "r", "rs", "get", "gets", "get_lease"];
        const WRITES: &[&str] = &[
            "write",
            "w",
            "ws",
            "set",
            "set_lease",
            "add",
            "replace",
            "cas",
            "append",
            "prepend",
            "incr",
            "decr",
            "put",
            "update",
        ];
        const DELETES: &[&str] = &["delete", "del", "remove"];
        let is_of = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
        match () {
            () if is_of(READS) => Some(Self::Read),
            () if is_of(WRITES) => Some(Self::Write),
            () if is_of(DELETES) => Some(Self::Delete),
            () if word.len() == 2 => Self::of_scsi(u8::from_str_radix(str::from_utf8(word).ok()?, 16).ok()?),
            () => None,
        }
    }

    fn of_scsi(command: u8) -> Option<Self> {
        match command {
            0x08 | 0x28 | 0x88 | 0xa8 => Some(Self::Read),
            0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Some(Self::Write),
            0x42 => Some(Self::Delete),
            _ => None,
        }
    }

    /// The operation of a number in libCacheSim's order; 0 and 255 are not recorded, which a read stands for.
    fn numbered(number: u64) -> Option<Self> {
        match number {
            0..=2 | 12 | 255 => Some(Self::Read),
            3..=8 | 10 | 11 | 13 | 14 => Some(Self::Write),
            9 => Some(Self::Delete),
            _ => None,
        }
    }
}

/// A request.
struct Request {
    id: u64,
    size: u64,
    op: Op,
    /// The number of the process, from 0.
    process: u32,
    /// How often the request is made, one after the other.
    times: u32,
    /// The number of the next request to the object, if the file may state the number; `u64::MAX` is never.
    next: Option<u64>,
}

/// A request that cannot be read.
enum Failure {
    Io(io::Error),
    Mistake(String),
}

impl Failure {
    fn mistake(mistake: impl Into<String>) -> Self {
        Self::Mistake(mistake.into())
    }
}

fn too_large() -> Failure {
    Failure::mistake("its size is above 1 PiB; is it in bytes?")
}

enum Requests {
    Text(Box<text::Lines>),
    Binary(binary::Records),
}

impl Requests {
    fn next(&mut self) -> Result<Option<Request>, Failure> {
        match self {
            Self::Text(lines) => lines.next(),
            Self::Binary(records) => records.next(),
        }
    }

    /// The place of the request that was read last, which is number `number`, from 1.
    fn place(&self, number: u64) -> String {
        match self {
            Self::Text(lines) => match lines.line() {
                Some(line) => format!("line {line}"),
                None => format!("request {number}"),
            },
            Self::Binary(_) => format!("request {number}"),
        }
    }
}

/// A name that is no number stands for a number of 64 bits.
fn hash(name: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// An object that has been requested.
struct Known {
    used: Use,
    /// The place in the last submission with the object.
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

/// Counts of odd requests, by the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remarks {
    /// Requests of another size than the object had.
    pub size_changes: u64,
    /// Requests of 0 bytes; such an object has a page.
    pub empty: u64,
    /// Deletions of objects.
    pub deletions: u64,
    /// Deletions of objects that were never requested before, or deleted already.
    pub absent_deletions: u64,
    /// Next requests that the file states, and that do not come so.
    pub wrong_next_uses: u64,
}

/// The knowledge of a first pass over a file.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub remarks: Remarks,
    /// The sizes of each object in bytes, before rounding: of the first request, and the largest.
    sizes: Vec<(u64, u64)>,
    /// The next request that the file stated last for each object.
    stated: Vec<u64>,
    /// The number of the first request, as the file counts.
    base: Option<u64>,
}

/// The submissions of a file of requests.
pub(crate) struct RequestStream<'a> {
    file: &'a RequestFile,
    requests: Requests,
    /// Requests that come next.
    ahead: VecDeque<Request>,
    known: HashMap<u64, Known, BuildHasherDefault<Mixer>>,
    /// The number of requests that were read, and of those that were given out.
    read: u64,
    given: u64,
    objects: u32,
    /// The number of uses that were given out.
    used: usize,
    next_uses: Option<&'a [u32]>,
    /// The sizes of objects, if not those of the first requests.
    largest: Option<&'a [u64]>,
    survey: Option<Survey>,
    /// Sizes by objects, where another size makes a new object.
    current: Vec<u64>,
}

impl<'a> RequestStream<'a> {
    pub fn open(
        file: &'a RequestFile,
        next_uses: Option<&'a [u32]>,
        largest: Option<&'a [u64]>,
    ) -> Result<Self, TraceError> {
        Ok(Self {
            file,
            requests: file.requests()?,
            ahead: VecDeque::with_capacity(AHEAD),
            known: HashMap::default(),
            read: 0,
            given: 0,
            objects: 0,
            used: 0,
            next_uses,
            largest,
            survey: None,
            current: Vec::new(),
        })
    }

    /// The same, with memory for so many objects.
    pub fn with_capacity(mut self, objects: usize) -> Self {
        self.known.reserve(objects);
        self
    }

    /// The same, which looks at each request more closely.
    pub fn surveying(self) -> Self {
        Self { survey: Some(Survey::default()), ..self }
    }

    /// How the requests are read, in words.
    pub fn reading(&self) -> String {
        let reading = match &self.requests {
            Requests::Text(lines) => lines.reading(),
            Requests::Binary(records) => records.reading(),
        };
        format!("{}, {reading}", self.file.format.name())
    }

    /// The knowledge of the pass, which is over.
    pub fn survey(self) -> Survey {
        let may_state_next_uses = self.file.may_state_next_uses();
        let mut survey = self.survey.unwrap_or_default();
        if !may_state_next_uses {
            survey.remarks.wrong_next_uses = 0;
        }
        survey
    }

    /// The next request, unless another is to come first.
    fn request(&mut self, is_wanted: impl Fn(&Request) -> bool) -> Result<Option<Request>, TraceError> {
        if self.ahead.is_empty() {
            self.read_ahead()?;
        }
        let Some(next) = self.ahead.front_mut().filter(|next| is_wanted(next)) else { return Ok(None) };
        self.given += 1;
        if next.times > 1 {
            next.times -= 1;
            return Ok(Some(Request { times: 1, ..*next }));
        }
        Ok(self.ahead.pop_front())
    }

    /// Reads the next requests. Their objects lie anywhere in memory: with nothing else between one and the next, the processor waits
    /// for several of them at once.
    fn read_ahead(&mut self) -> Result<(), TraceError> {
        while self.ahead.len() < AHEAD {
            self.read += 1;
            let request = self.requests.next().map_err(|failure| {
                let place = self.requests.place(self.read);
                self.file.failed(failure, place)
            })?;
            let Some(request) = request else { break };
            if self.is_sampled(request.id) {
                self.ahead.push_back(request);
            }
        }
        for request in &self.ahead {
            black_box(self.known.contains_key(&request.id));
        }
        Ok(())
    }

    /// Whether the requests to an object belong to the sample.
    fn is_sampled(&self, id: u64) -> bool {
        self.file.options.sample.is_none_or(|share| {
            let mut mixer = Mixer::default();
            // The map's buckets and the sample must not depend on each other.
            mixer.write_u64(id.rotate_left(32) ^ 0x5348_4152_4453);
            mixer.finish() % 1_000_000 < share.into()
        })
    }

    fn delete(&mut self, request: &Request, step: &mut Step) {
        let known = self.known.remove(&request.id);
        step.dying.extend(known.iter().map(|known| known.used.object() as u32));
        if let Some(Survey { remarks, .. }) = &mut self.survey {
            *if known.is_some() { &mut remarks.deletions } else { &mut remarks.absent_deletions } += 1;
        }
    }

    /// Ends an object of another size than request number `number` states, if such a request makes a new object.
    fn replace(&mut self, (id, size): (u64, u64), number: u64, step: &mut Step) {
        let is_other = |known: &Known| self.current[known.used.object()] != size;
        if self.file.options.sizes == Sizes::New && self.known.get(&id).is_some_and(is_other) {
            let replaced = self.known.remove(&id).expect("the object was found").used.object();
            step.dying.push(replaced as u32);
            if let Some(survey) = &mut self.survey {
                survey.remarks.size_changes += 1;
                survey.check_next(replaced, number);
            }
        }
    }

    /// Gives the request's object to the step.
    fn use_object(&mut self, request: &Request, step: &mut Step) -> Result<(), TraceError> {
        let place = step.uses.len() as u32;
        self.replace((request.id, request.size), self.given - 1, step);
        let is_write = request.op == Op::Write;
        let next = request.next.unwrap_or(u64::MAX);
        let used = match self.known.entry(request.id) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                let used = known.used;
                if let Some(survey) = &mut self.survey {
                    survey.requested_again(used.object(), self.given - 1, request);
                }
                // Within a submission an object is used once.
                let at = known.place as usize;
                if step.uses.get(at).is_some_and(|other| other.object() == used.object()) {
                    step.next_uses[at] = next;
                    if is_write {
                        step.uses[at] = Use::write(used.object() as u32);
                    }
                    return Ok(());
                }
                known.place = place;
                used
            }
            Entry::Vacant(new) => {
                let size = self.largest.map_or(request.size, |sizes| sizes[self.objects as usize]);
                let size = size.max(1).next_multiple_of(self.file.options.page);
                step.objects.push(Object { size, lifetime: Lifetime::Whole });
                let used = Use::read(self.objects);
                new.insert(Known { used, place });
                self.objects += 1;
                if self.objects == 1 << 31 {
                    let mistake = "it is of object number 2^31; cut the trace into shorter traces".to_owned();
                    return Err(self.file.failed(Failure::Mistake(mistake), self.requests.place(self.read)));
                }
                if self.file.options.sizes == Sizes::New {
                    self.current.push(request.size);
                }
                if let Some(survey) = &mut self.survey {
                    survey.sizes.push((request.size, request.size));
                    survey.stated.push(next);
                    survey.remarks.empty += u64::from(request.size == 0);
                }
                used
            }
        };
        step.uses.push(if is_write { Use::write(used.object() as u32) } else { used });
        step.next_uses.push(next);
        Ok(())
    }
}

impl Survey {
    /// The largest size of each object in bytes, before rounding.
    pub fn largest(&self) -> Vec<u64> {
        self.sizes.iter().map(|&(_, largest)| largest).collect()
    }

    /// An object that was requested before is requested, as request number `number`, from 0.
    fn requested_again(&mut self, object: usize, number: u64, request: &Request) {
        let (size, largest) = &mut self.sizes[object];
        self.remarks.size_changes += u64::from(*size != request.size);
        self.remarks.empty += u64::from(request.size == 0);
        *largest = (*largest).max(request.size);
        self.check_next(object, number);
        self.stated[object] = request.next.unwrap_or(u64::MAX);
    }

    /// The file must have stated this request; it may count from any number.
    fn check_next(&mut self, object: usize, number: u64) {
        let base = self.stated[object].wrapping_sub(number);
        self.remarks.wrong_next_uses += u64::from(*self.base.get_or_insert(base) != base);
    }
}

impl Stream for RequestStream<'_> {
    fn read(&mut self, step: &mut Step) -> Result<bool, TraceError> {
        step.clear();
        let (mut left, mut process) = (self.file.options.batch.max(1), None);
        while left > 0 {
            // A submission is of one process.
            let is_of = |next: &Request| next.op == Op::Delete || process.is_none_or(|process| process == next.process);
            let Some(request) = self.request(is_of)? else { break };
            match request.op {
                Op::Delete => self.delete(&request, step),
                Op::Read | Op::Write => {
                    process = Some(request.process);
                    self.use_object(&request, step)?;
                    left -= 1;
                }
            }
        }
        step.process = process.unwrap_or_default();
        // A deletion right behind the requests ends the object before the next submission.
        while let Some(request) = self.request(|next| next.op == Op::Delete)? {
            self.delete(&request, step);
        }
        // So does the next request, if another size makes a new object.
        if let Some(next) = self.ahead.front().map(|next| (next.id, next.size)) {
            self.replace(next, self.given, step);
        }
        if let Some(next) = self.next_uses.filter(|_| !step.uses.is_empty()) {
            let next = next[self.used..self.used + step.uses.len()].iter();
            step.next_uses.iter_mut().zip(next).for_each(|(at, &next)| *at = when(next));
        }
        self.used += step.uses.len();
        Ok(!step.uses.is_empty())
    }
}
