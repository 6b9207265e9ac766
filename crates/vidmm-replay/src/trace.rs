//! Traces: references that can be read from the start again and again, from memory or from a file.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{
    Object, References, Setup, Use,
    requests::{Remarks, RequestFile, RequestOptions, RequestStream, Sizes, Survey},
};

/// The size of large pages.
const LARGE_PAGE: u64 = 64 << 10;

/// A file of requests is held in memory up to so many uses, which spares reading it again for each run; a longer one is streamed.
const HELD_USES: usize = 1 << 22;

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}; check the path, and whether the file is whole")]
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
        mistake: String,
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
    /// The process that submits, from 0; no two processes use an object.
    pub process: u32,
    /// The number and the bytes of uses that pass by, since their objects are larger than the memory.
    pub passed: (u64, u64),
    /// The time for which it keeps the GPU busy, in nanoseconds.
    pub nanoseconds: u64,
}

impl Step {
    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.uses.clear();
        self.next_uses.clear();
        self.dying.clear();
        self.process = 0;
        self.passed = (0, 0);
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
    /// The number of processes that submit.
    pub processes: u32,
    /// The number of uses.
    pub uses: u64,
    /// The most bytes that exist at once, of objects that are used.
    pub footprint: u64,
    /// Bytes of the largest submission.
    pub largest_list: u64,
    /// Bytes of the largest object.
    pub largest_object: u64,
    /// The page size of which all sizes are multiples, in bytes: 64 KiB, 4 KiB, or what was asked for below that.
    pub page: u64,
    /// The time for which the submissions keep the GPU busy, in nanoseconds.
    pub nanoseconds: u64,
}

/// References that can be read from the start again and again.
#[derive(Debug)]
pub struct Trace {
    name: String,
    /// How the file is read, in words.
    reading: String,
    remarks: Remarks,
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
    Requests {
        file: RequestFile,
        /// The size of each object, if that is the largest of all requests.
        largest: Option<Vec<u64>>,
        /// The file states next uses, and the first pass found them right.
        states_next_uses: bool,
    },
}

impl Trace {
    /// A file of requests to a cache, if the options or the end of the name state a format.
    ///
    /// A file of up to 4 million requests is held in memory. A longer file is read once here, and streamed later.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a request is not of the format.
    pub fn requests(path: &Path, options: &RequestOptions) -> Option<Result<Self, TraceError>> {
        Self::requests_held_up_to(path, options, HELD_USES)
    }

    /// The same, with a limit of its own to what is held.
    ///
    /// # Errors
    ///
    /// As [`requests`](Self::requests).
    pub fn requests_held_up_to(path: &Path, options: &RequestOptions, uses: usize) -> Option<Result<Self, TraceError>> {
        Some(Self::of_file(RequestFile::recognise(path, options)?, options.page, uses))
    }

    fn of_file(file: RequestFile, page: u64, held_uses: usize) -> Result<Self, TraceError> {
        let name = file.path().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut stream = RequestStream::open(&file, None, None)?.surveying();
        let reading = stream.reading();
        let (mut measure, mut references) = measured(&mut stream, page, Some((&name, held_uses)))?;
        let survey: Survey = stream.survey();
        let remarks = survey.remarks;
        let largest = (file.sizes() == Sizes::Largest && remarks.size_changes > 0).then(|| survey.largest());
        if largest.is_some() {
            let mut stream = RequestStream::open(&file, None, largest.as_deref())?;
            (measure, references) = measured(&mut stream, page, Some((&name, held_uses)))?;
        }
        if measure.submissions == 0 {
            return Err(TraceError::Empty(file.path().to_owned()));
        }
        let states_next_uses = file.may_state_next_uses() && remarks.wrong_next_uses == 0;
        let input = match references {
            Some(references) => Input::Held { deaths: references.deaths(), references },
            None => Input::Requests { file, largest, states_next_uses },
        };
        Ok(Self { name, reading, remarks, input, measure, next_uses: OnceLock::new() })
    }

    /// The name for reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the file is read: the format and the columns, in words. Empty for references that no file gave.
    pub fn reading(&self) -> &str {
        &self.reading
    }

    /// The same trace, with words for how the file was read.
    #[must_use]
    pub fn read_as(self, reading: impl Into<String>) -> Self {
        Self { reading: reading.into(), ..self }
    }

    /// The same trace, with pages of `page` bytes, of which all sizes are multiples.
    pub(crate) fn with_page(mut self, page: u64) -> Self {
        self.measure.page = page;
        self
    }

    /// Counts of odd requests, by the reader of a file.
    pub fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// Whether objects are dropped: after the last use, by deletions, or since their sizes change.
    pub(crate) fn drops(&self) -> bool {
        match &self.input {
            Input::Held { references, .. } => references.drops(),
            Input::Requests { file, .. } => {
                self.remarks.deletions > 0 || file.sizes() == Sizes::New && self.remarks.size_changes > 0
            }
        }
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
        let states = matches!(&self.input, Input::Requests { states_next_uses: true, .. });
        let next_uses = match with_next_uses && !states {
            true => Some(self.next_uses()?),
            false => None,
        };
        Ok(match &self.input {
            Input::Held { references, deaths } => {
                Box::new(Held { references, at: 0, used: 0, deaths: deaths.as_slice(), next_uses })
            }
            Input::Requests { file, largest, .. } => {
                let stream = RequestStream::open(file, next_uses, largest.as_deref())?;
                // Where no object ends, all have room in one table from the start.
                let objects = if self.drops() { 0 } else { self.measure.objects };
                Box::new(stream.with_capacity(objects as usize))
            }
        })
    }

    /// The submissions as a run plays them: with `setup.pass_by`, uses of objects larger than local memory pass by.
    pub(crate) fn play(&self, setup: &Setup, with_next_uses: bool) -> Result<Box<dyn Stream + '_>, TraceError> {
        let inner = self.open(with_next_uses)?;
        let largest = self.measure.largest_object;
        let limit = setup.local_memory / self.measure.page * self.measure.page;
        Ok(match setup.pass_by && largest > limit {
            true => Box::new(Passing { inner, limit, objects: 0, large: BTreeMap::new() }),
            false => inner,
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

/// The measure of a stream whose objects appear with their first use, and the references, if a name and the most uses to hold are
/// given and there are no more.
fn measured(
    stream: &mut dyn Stream,
    page: u64,
    mut held: Option<(&str, usize)>,
) -> Result<(Measure, Option<References>), TraceError> {
    let mut measure = Measure { page: LARGE_PAGE, ..Measure::default() };
    let mut references = held.map(|(name, _)| References::with_page(name, page));
    let (mut sizes, mut alive, mut step) = (Vec::new(), 0, Step::default());
    while stream.read(&mut step)? {
        for object in &step.objects {
            sizes.push(object.size);
            alive += object.size;
            measure.largest_object = measure.largest_object.max(object.size);
            if object.size % LARGE_PAGE != 0 {
                measure.page = page.min(crate::PAGE);
            }
        }
        measure.submissions += 1;
        measure.processes = measure.processes.max(step.process + 1);
        measure.uses += step.uses.len() as u64;
        measure.nanoseconds += step.nanoseconds;
        let bytes = step.uses.iter().map(|used| sizes[used.object()]).sum();
        measure.largest_list = measure.largest_list.max(bytes);
        measure.footprint = measure.footprint.max(alive);
        alive -= step.dying.iter().map(|&object| sizes[object as usize]).sum::<u64>();
        if held.is_some_and(|(_, most)| measure.uses > most as u64) {
            (held, references) = (None, None);
        }
        if let Some(references) = &mut references {
            step.objects.iter().for_each(|object| _ = references.add(object.size, object.lifetime));
            references.submit(step.uses.iter().copied());
            references.set_process(step.process);
            step.dying.iter().for_each(|&object| references.drop_object(object));
        }
    }
    measure.objects = sizes.len() as u64;
    Ok((measure, references))
}

impl From<References> for Trace {
    fn from(references: References) -> Self {
        let (name, footprint, page) = (references.name.clone(), references.footprint(), references.page());
        let deaths = references.deaths();
        let input = Input::Held { references, deaths };
        let (reading, remarks, measure) = (String::new(), Remarks::default(), Measure::default());
        let mut trace = Self { name, reading, remarks, input, measure, next_uses: OnceLock::new() };
        let mut stream = trace.open(false).expect("what is held can be read");
        let (measure, _) = measured(&mut *stream, page, None).expect("what is held can be read");
        drop(stream);
        trace.measure = Measure { footprint, ..measure };
        trace
    }
}

/// Submissions without the uses of objects that are larger than the memory.
struct Passing<'a> {
    inner: Box<dyn Stream + 'a>,
    /// Bytes of memory.
    limit: u64,
    /// The number of objects so far.
    objects: u32,
    /// The larger objects, with their sizes.
    large: BTreeMap<u32, u64>,
}

impl Stream for Passing<'_> {
    fn read(&mut self, step: &mut Step) -> Result<bool, TraceError> {
        if !self.inner.read(step)? {
            return Ok(false);
        }
        for object in &step.objects {
            if object.size > self.limit {
                self.large.insert(self.objects, object.size);
            }
            self.objects += 1;
        }
        if self.large.is_empty() {
            return Ok(true);
        }
        let mut kept = 0;
        for at in 0..step.uses.len() {
            if let Some(size) = self.large.get(&(step.uses[at].object() as u32)) {
                step.passed = (step.passed.0 + 1, step.passed.1 + size);
                continue;
            }
            step.uses[kept] = step.uses[at];
            if let Some(&next) = step.next_uses.get(at) {
                step.next_uses[kept] = next;
            }
            kept += 1;
        }
        step.uses.truncate(kept);
        step.next_uses.truncate(kept);
        step.dying.retain(|object| !self.large.contains_key(object));
        Ok(true)
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
        step.process = self.references.process(self.at);
        self.at += 1;
        self.used += list.len();
        Ok(true)
    }
}

/// A next use that is kept in four bytes.
pub(crate) fn when(next: u32) -> u64 {
    if next == u32::MAX { u64::MAX } else { next.into() }
}
