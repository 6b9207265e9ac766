//! Objects, and the submissions that use them, held in memory.

use vidmm_trace::{Cost, Lifetime, Workload};

/// A page of memory, to which sizes are rounded up unless another size is given: 4 KiB.
pub const PAGE: u64 = 4096;

/// A use of an object by a submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use(u32);

impl Use {
    const WRITES: u32 = 1 << 31;

    /// The object is read.
    pub fn read(object: u32) -> Self {
        Self(object & !Self::WRITES)
    }

    /// The object is written, so that its content must be copied out before it leaves.
    pub fn write(object: u32) -> Self {
        Self(object | Self::WRITES)
    }

    /// The number of the object, which is its index among the sizes.
    pub fn object(self) -> usize {
        (self.0 & !Self::WRITES) as usize
    }

    /// Whether it is written.
    pub fn is_write(self) -> bool {
        self.0 & Self::WRITES != 0
    }
}

/// An object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Its size in bytes, a multiple of the page size.
    pub size: u64,
    /// When it has content. One that is there from the start is brought in at its first use; another is made there.
    pub lifetime: Lifetime,
}

/// Objects, and the lists of them that submissions use one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct References {
    /// A name for reports.
    pub name: String,
    /// The page size in bytes.
    page: u64,
    objects: Vec<Object>,
    uses: Vec<Use>,
    ends: Vec<usize>,
    /// The time for which each submission keeps the GPU busy, in nanoseconds; 0 behind the last.
    times: Vec<u64>,
    /// The process of each submission; 0 behind the last.
    processes: Vec<u32>,
    /// The objects dropped before the end, with the submission before the drop, in the order of the drops.
    drops: Vec<(usize, u32)>,
}

impl References {
    /// No object and no submission. Sizes are rounded up to pages of `page` bytes.
    pub fn with_page(name: impl Into<String>, page: u64) -> Self {
        Self {
            name: name.into(),
            page: page.max(1),
            objects: Vec::new(),
            uses: Vec::new(),
            ends: Vec::new(),
            times: Vec::new(),
            processes: Vec::new(),
            drops: Vec::new(),
        }
    }

    /// Objects of these sizes in bytes that are there from the start to the end, and no submission yet.
    pub fn new(name: impl Into<String>, sizes: impl IntoIterator<Item = u64>) -> Self {
        let mut references = Self::with_page(name, PAGE);
        for size in sizes {
            references.add(size, Lifetime::Whole);
        }
        references
    }

    /// Adds an object. Its size in bytes is rounded up to whole pages, and to one at least. Returns its number.
    ///
    /// # Panics
    ///
    /// If there are 2^31 objects.
    pub fn add(&mut self, size: u64, lifetime: Lifetime) -> u32 {
        let number = u32::try_from(self.objects.len()).ok().filter(|&number| number & Use::WRITES == 0);
        self.objects.push(Object { size: size.max(1).next_multiple_of(self.page), lifetime });
        number.expect("there are fewer than 2^31 objects")
    }

    /// Adds a submission that uses these objects, each once, and keeps the GPU busy for no time.
    ///
    /// # Panics
    ///
    /// If it uses none, or one that does not exist.
    pub fn submit(&mut self, uses: impl IntoIterator<Item = Use>) {
        self.submit_for(uses, 0);
    }

    /// The same, and the GPU is busy for so many nanoseconds.
    ///
    /// # Panics
    ///
    /// As [`submit`](Self::submit).
    pub fn submit_for(&mut self, uses: impl IntoIterator<Item = Use>, nanoseconds: u64) {
        let start = self.uses.len();
        self.uses.extend(uses);
        let list = &self.uses[start..];
        assert!(!list.is_empty(), "a submission uses something");
        assert!(list.iter().all(|used| used.object() < self.objects.len()), "the object exists");
        self.ends.push(self.uses.len());
        // Requests take no time, and no memory for times.
        if nanoseconds > 0 {
            self.times.resize(self.ends.len() - 1, 0);
            self.times.push(nanoseconds);
        }
    }

    /// The same several times; what is made and dropped is another object each time.
    #[must_use]
    pub fn repeated(&self, iterations: u32) -> Self {
        let mut references = Self::with_page(self.name.clone(), self.page);
        let mut numbers = Vec::new();
        for iteration in 0..iterations {
            for (at, object) in self.objects.iter().enumerate() {
                match iteration {
                    0 => numbers.push(references.add(object.size, object.lifetime)),
                    _ if object.lifetime == Lifetime::Temporary => {
                        numbers[at] = references.add(object.size, object.lifetime);
                    }
                    _ => {}
                }
            }
            for (at, list) in self.submissions().enumerate() {
                let renamed = |used: &Use| match used.is_write() {
                    true => Use::write(numbers[used.object()]),
                    false => Use::read(numbers[used.object()]),
                };
                references.submit_for(list.iter().map(renamed), self.nanoseconds(at));
            }
        }
        references
    }

    /// Whether an object is dropped, after the last use or earlier.
    pub(crate) fn drops(&self) -> bool {
        !self.drops.is_empty() || self.objects.iter().any(|object| object.lifetime == Lifetime::Temporary)
    }

    /// The page size in bytes.
    pub(crate) fn page(&self) -> u64 {
        self.page
    }

    /// Drops an object after the last submission so far; no later submission uses the object.
    ///
    /// # Panics
    ///
    /// If there is no submission.
    pub(crate) fn drop_object(&mut self, object: u32) {
        self.drops.push((self.ends.len() - 1, object));
    }

    /// The last submission so far is of this process, and not of process 0. Two processes use no object in common.
    ///
    /// # Panics
    ///
    /// If there is no submission.
    pub(crate) fn set_process(&mut self, process: u32) {
        // One process takes no memory for numbers.
        if process > 0 {
            self.processes.resize(self.ends.len() - 1, 0);
            self.processes.push(process);
        }
    }

    /// The objects that are dropped, and the submissions after which that is, in their order.
    pub(crate) fn deaths(&self) -> Vec<(usize, u32)> {
        let times = self.objects.iter().zip(self.times_of_use()).enumerate();
        let dropped = times.filter(|(_, (object, (_, end)))| object.lifetime == Lifetime::Temporary && *end > 0);
        let mut deaths = self.drops.clone();
        deaths.extend(dropped.map(|(index, (_, (_, end)))| (end - 1, index as u32)));
        deaths.sort_unstable();
        deaths
    }

    /// The objects, by their numbers.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The lists, in the order of the submissions: distinct objects, never none.
    pub fn submissions(&self) -> impl DoubleEndedIterator<Item = &[Use]> + ExactSizeIterator {
        (0..self.ends.len()).map(|at| self.submission(at).expect("it is there"))
    }

    /// The list of a submission, if there is one of that number, from 0.
    pub(crate) fn submission(&self, at: usize) -> Option<&[Use]> {
        let end = *self.ends.get(at)?;
        Some(&self.uses[if at == 0 { 0 } else { self.ends[at - 1] }..end])
    }

    /// The number of uses.
    pub fn len(&self) -> usize {
        self.uses.len()
    }

    /// Whether there is no submission.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The most bytes that exist at once, of objects that any submission uses.
    pub fn footprint(&self) -> u64 {
        let mut changes = vec![0_i128; self.ends.len() + 1];
        for (object, (first, end)) in self.objects.iter().zip(self.times_of_use()).filter(|(_, (_, end))| *end > 0) {
            let size = i128::from(object.size);
            changes[if object.lifetime == Lifetime::Whole { 0 } else { first }] += size;
            changes[if object.lifetime == Lifetime::Temporary { end } else { self.ends.len() }] -= size;
        }
        let mut alive = 0;
        let totals = changes.into_iter().map(|change| (alive += change, alive).1);
        totals.max().map_or(0, |most| most as u64)
    }

    /// The first submission that uses each object, and how many there are up to the last one; 0 if none does.
    pub(crate) fn times_of_use(&self) -> Vec<(usize, usize)> {
        let mut times = vec![(0, 0); self.objects.len()];
        for (number, list) in self.submissions().enumerate() {
            for used in list {
                let (first, end) = &mut times[used.object()];
                *first = if *end == 0 { number } else { *first };
                *end = number + 1;
            }
        }
        times
    }

    /// The process of a submission.
    pub(crate) fn process(&self, submission: usize) -> u32 {
        self.processes.get(submission).copied().unwrap_or(0)
    }

    /// The time for which a submission keeps the GPU busy, in nanoseconds.
    pub(crate) fn nanoseconds(&self, submission: usize) -> u64 {
        self.times.get(submission).copied().unwrap_or(0)
    }
}

impl From<&Workload> for References {
    /// Each kernel is a submission, and each buffer an object.
    fn from(workload: &Workload) -> Self {
        Self::of_workload(workload, PAGE)
    }
}

impl References {
    /// The same with pages of `page` bytes.
    pub fn of_workload(workload: &Workload, page: u64) -> Self {
        let mut references = Self::with_page(workload.name.clone(), page);
        for buffer in &workload.buffers {
            references.add(buffer.bytes, buffer.lifetime);
        }
        for kernel in &workload.kernels {
            let is_written = |buffer: &u32| kernel.writes.contains(buffer);
            let uses = kernel.buffers().into_iter();
            let nanoseconds = match kernel.cost {
                Cost::Nanoseconds(nanoseconds) => nanoseconds,
                Cost::Upload => 0,
            };
            references
                .submit_for(uses.map(|at| if is_written(&at) { Use::write(at) } else { Use::read(at) }), nanoseconds);
        }
        references
    }
}
