//! Traces: references that can be read from the start again and again, from memory or from a file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use vidmm_trace::Lifetime;

use crate::{
    Object, References, Use,
    requests::{RequestFile, RequestStream},
};

/// The size of large pages.
const LARGE_PAGE: u64 = 64 << 10;

/// A file of requests is held in memory up to so many uses, which spares reading it again for each run; a longer one is streamed.
const HELD_USES: usize = 1 << 24;

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A request is not as the format has them.
    #[error("{path}: {place}: {mistake}")]
    Request {
        /// The file.
        path: PathBuf,
        /// Where it is: `line 7` of text, or `request 7`, from 1.
        place: String,
        /// The mistake.
        mistake: &'static str,
    },
    /// The file has no request.
    #[error("{0} has no request")]
    Empty(PathBuf),
}

/// A submission, as it is read.
#[derive(Debug, Default)]
pub struct Step {
    /// Objects that appear; their numbers follow those of the objects before.
    pub objects: Vec<Object>,
    /// The objects that the submission uses, each once.
    pub uses: Vec<Use>,
    /// When each of them is used next, where that was asked for: later ones have larger numbers. `u64::MAX` is never.
    pub next_uses: Vec<u64>,
    /// Objects that are dropped after the submission.
    pub dying: Vec<u32>,
    /// The time for which it keeps the GPU busy, in nanoseconds.
    pub nanoseconds: u64,
}

impl Step {
    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.uses.clear();
        self.next_uses.clear();
        self.dying.clear();
    }
}

/// The submissions of a trace, one after the other.
pub trait Stream {
    /// Reads the next submission into `step`. Returns whether there is one.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    fn read(&mut self, step: &mut Step) -> Result<bool, TraceError>;
}

/// The size of a trace in several respects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Measure {
    /// The number of objects.
    pub objects: u64,
    /// The number of submissions.
    pub submissions: u64,
    /// The number of uses.
    pub uses: u64,
    /// The most bytes that exist at once, of objects that are used.
    pub footprint: u64,
    /// Bytes of the largest submission.
    pub largest_list: u64,
    /// The page size of which all sizes are multiples: 64 or 4 KiB, in bytes.
    pub page: u64,
    /// The time for which the submissions keep the GPU busy, in nanoseconds.
    pub nanoseconds: u64,
}

/// References that can be read from the start again and again.
#[derive(Debug)]
pub struct Trace {
    name: String,
    input: Input,
    measure: Measure,
    /// The next submission that uses the object, for each use, once it has been asked for and the file does not say it.
    next_uses: OnceLock<Vec<u32>>,
}

#[derive(Debug)]
enum Input {
    Held {
        references: References,
        /// The objects that are dropped, and the submissions after which that is, in their order.
        deaths: Vec<(usize, u32)>,
    },
    Requests(RequestFile),
}

impl Trace {
    /// A file of requests in a format of libCacheSim, if its name says so: `.csv` or `.oracleGeneral`, with `.zst` behind it where it
    /// is compressed. `batch` requests at a time are a submission.
    ///
    /// A file of up to 16 million requests is held in memory. A longer one is read once here, and streamed then.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is none.
    pub fn requests(path: &Path, batch: u32) -> Option<Result<Self, TraceError>> {
        Some(Self::of_file(RequestFile::recognise(path, batch)?, HELD_USES))
    }

    /// The same, with a limit of its own to what is held.
    ///
    /// # Errors
    ///
    /// As [`requests`](Self::requests).
    pub fn requests_held_up_to(path: &Path, batch: u32, uses: usize) -> Option<Result<Self, TraceError>> {
        Some(Self::of_file(RequestFile::recognise(path, batch)?, uses))
    }

    fn of_file(file: RequestFile, held_uses: usize) -> Result<Self, TraceError> {
        let name = file.path().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if let Some(references) = held(&name, &file, held_uses)? {
            return if references.is_empty() {
                Err(TraceError::Empty(file.path().to_owned()))
            } else {
                Ok(references.into())
            };
        }
        let mut trace =
            Self { name, input: Input::Requests(file), measure: Measure::default(), next_uses: OnceLock::new() };
        trace.measure = trace.measured()?;
        Ok(trace)
    }

    fn measured(&self) -> Result<Measure, TraceError> {
        let mut measure = Measure { page: LARGE_PAGE, ..Measure::default() };
        let (mut sizes, mut step, mut stream) = (Vec::new(), Step::default(), self.open(false)?);
        while stream.read(&mut step)? {
            sizes.extend(step.objects.iter().map(|object| object.size));
            measure.submissions += 1;
            measure.uses += step.uses.len() as u64;
            measure.nanoseconds += step.nanoseconds;
            let bytes = step.uses.iter().map(|used| sizes[used.object()]).sum();
            measure.largest_list = measure.largest_list.max(bytes);
        }
        measure.objects = sizes.len() as u64;
        measure.footprint = match &self.input {
            Input::Held { references, .. } => references.footprint(),
            Input::Requests(_) => sizes.iter().sum(),
        };
        if sizes.iter().any(|size| size % LARGE_PAGE != 0) {
            measure.page = crate::PAGE;
        }
        Ok(measure)
    }

    /// The name for reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in several respects.
    pub fn measure(&self) -> &Measure {
        &self.measure
    }

    /// Its submissions from the first on; with the next uses, if they are asked for. Where the file does not say those, they are looked
    /// for once, and kept in four bytes for each use.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn open(&self, with_next_uses: bool) -> Result<Box<dyn Stream + '_>, TraceError> {
        let says_next_uses = matches!(&self.input, Input::Requests(file) if file.says_next_uses());
        let next_uses = match with_next_uses && !says_next_uses {
            true => Some(self.next_uses()?),
            false => None,
        };
        Ok(match &self.input {
            Input::Held { references, deaths } => {
                Box::new(Held { references, at: 0, used: 0, deaths: deaths.as_slice(), next_uses })
            }
            Input::Requests(file) => Box::new(RequestStream::open(file, next_uses)?),
        })
    }

    fn next_uses(&self) -> Result<&[u32], TraceError> {
        if let Some(known) = self.next_uses.get() {
            return Ok(known);
        }
        let (mut stream, mut step) = (self.open(false)?, Step::default());
        let (mut last, mut next, mut number) = (Vec::new(), Vec::new(), 0);
        while stream.read(&mut step)? {
            last.resize(last.len() + step.objects.len(), usize::MAX);
            for used in &step.uses {
                let before = std::mem::replace(&mut last[used.object()], next.len());
                if before != usize::MAX {
                    next[before] = number;
                }
                next.push(u32::MAX);
            }
            number += 1;
        }
        Ok(self.next_uses.get_or_init(|| next))
    }
}

/// The requests of a file, if there are no more than so many uses.
fn held(name: &str, file: &RequestFile, most: usize) -> Result<Option<References>, TraceError> {
    let (mut stream, mut step) = (RequestStream::open(file, None)?, Step::default());
    let mut references = References::new(name, []);
    while stream.read(&mut step)? {
        if references.len() + step.uses.len() > most {
            return Ok(None);
        }
        for object in &step.objects {
            references.add(object.size, object.lifetime);
        }
        references.submit(step.uses.iter().copied());
    }
    Ok(Some(references))
}

impl From<References> for Trace {
    fn from(references: References) -> Self {
        let times = references.objects().iter().zip(references.times_of_use()).enumerate();
        let dropped = times.filter(|(_, (object, (_, end)))| object.lifetime == Lifetime::Temporary && *end > 0);
        let mut deaths = Vec::from_iter(dropped.map(|(index, (_, (_, end)))| (end - 1, index as u32)));
        deaths.sort_unstable();
        let name = references.name.clone();
        let input = Input::Held { references, deaths };
        let mut trace = Self { name, input, measure: Measure::default(), next_uses: OnceLock::new() };
        trace.measure = trace.measured().expect("what is held can be read");
        trace
    }
}

/// Submissions that are held in memory.
struct Held<'a> {
    references: &'a References,
    /// The submission that comes next, and the number of uses before it.
    at: usize,
    used: usize,
    deaths: &'a [(usize, u32)],
    next_uses: Option<&'a [u32]>,
}

impl Stream for Held<'_> {
    fn read(&mut self, step: &mut Step) -> Result<bool, TraceError> {
        step.clear();
        let Some(list) = self.references.submission(self.at) else { return Ok(false) };
        if self.at == 0 {
            step.objects.extend(self.references.objects());
        }
        step.uses.extend(list);
        if let Some(next) = self.next_uses {
            step.next_uses.extend(next[self.used..self.used + list.len()].iter().map(|&next| when(next)));
        }
        let (now, later) = self.deaths.split_at(self.deaths.partition_point(|&(after, _)| after <= self.at));
        step.dying.extend(now.iter().map(|&(_, object)| object));
        self.deaths = later;
        step.nanoseconds = self.references.nanoseconds(self.at);
        self.at += 1;
        self.used += list.len();
        Ok(true)
    }
}

/// A next use that is kept in four bytes.
pub(crate) fn when(next: u32) -> u64 {
    if next == u32::MAX { u64::MAX } else { next.into() }
}
