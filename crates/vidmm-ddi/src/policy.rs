//! Policies of eviction in C: the table of `include/vidmm/policy.h` as a kind of policies.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;
use vidmm::SegmentId;
use vidmm::policy::{Candidate, Candidates, Parameter, Policy, PolicyKind, Recency, Subject};
use vidmm_sim::policies::{PolicyRule, report};

const VERSION: u32 = 2;
const MAX_PARAMETERS: u32 = 4;

#[repr(C)]
struct CSubject {
    allocation: u64,
    slot: u64,
    size: u64,
}

#[repr(C)]
#[derive(Default)]
struct CCandidate {
    slot: u64,
    rank: u64,
    size: u64,
}

/// Stands for the name of a policy that cannot be told.
const UNKNOWN: &str = "of a library";

/// The candidates of a library, and behind the header's fields our own.
#[repr(C)]
struct CCandidates {
    memory: Cell<u32>,
    first_from: unsafe extern "C" fn(*const CCandidates, u64, *mut CCandidate) -> c_int,
    get: unsafe extern "C" fn(*const CCandidates, u64, *mut CCandidate) -> c_int,
    set_rank: unsafe extern "C" fn(*const CCandidates, u64, u64),
    /// The candidates of the present hook; none outside of `Victim`.
    candidates: Cell<Option<*mut dyn Candidates>>,
    policy: &'static str,
}

#[repr(C)]
struct CParameter {
    key: *const c_char,
    default: u64,
    least: u64,
    most: u64,
}

/// `VIDMM_POLICY`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Table {
    version: u32,
    num_parameters: u32,
    parameters: *const CParameter,
    create: Option<unsafe extern "C" fn(*const u64) -> *mut c_void>,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    used: Option<unsafe extern "C" fn(*mut c_void, *const CSubject, u64)>,
    brought_in: Option<unsafe extern "C" fn(*mut c_void, *const CSubject, u32)>,
    released: Option<unsafe extern "C" fn(*mut c_void, *const CSubject, u64)>,
    rank: Option<unsafe extern "C" fn(*mut c_void, u64) -> u64>,
    victim: Option<unsafe extern "C" fn(*mut c_void, *const CCandidates) -> u64>,
    left: Option<unsafe extern "C" fn(*mut c_void, *const CSubject, u32)>,
    gone: Option<unsafe extern "C" fn(*mut c_void, *const CSubject)>,
    cleans: Option<unsafe extern "C" fn(*mut c_void, *const CCandidate) -> c_int>,
    announced: Option<unsafe extern "C" fn(*mut c_void, *const CSubject, u64)>,
    prefetch: Option<unsafe extern "C" fn(*mut c_void, u32, u64, *mut u64) -> c_int>,
}

// SAFETY: the table is constant, and the functions may be called by any thread for policies of their own.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// The reason why a policy cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadPolicyError {
    /// The library cannot be opened.
    #[error("the library cannot be opened: {0}; build it with `-shared -fPIC`")]
    Open(libloading::Error),
    /// The function is missing.
    #[error("the library has no `VidmmGetPolicy`; export it as vidmm/policy.h declares it")]
    NoFunction,
    /// The function returned no table.
    #[error("VidmmGetPolicy returned NULL")]
    NoTable,
    /// The library was built for another vidmm.
    #[error("the library has version {0} of vidmm/policy.h, and version {VERSION} is known: build it anew")]
    Version(u32),
    /// The table lacks what makes a policy.
    #[error("the table lacks {0}")]
    Lacks(&'static str),
    /// A parameter makes no sense.
    #[error("parameter {0} of the table: {1}")]
    Parameter(u32, &'static str),
}

/// Loads the policy of a library. Its name is the path as it is given. The library stays loaded until the process ends.
///
/// # Errors
///
/// If there is no such library, or the table is not one of a policy.
pub fn load_policy(path: &Path) -> Result<PolicyKind, LoadPolicyError> {
    type GetPolicy = unsafe extern "C" fn() -> *const Table;
    // A name without a slash would be looked for in the system's folders.
    let file = if path.components().count() == 1 { Path::new(".").join(path) } else { path.to_owned() };
    // SAFETY: opening runs the library's constructors, as the user asks by naming the library.
    let library = unsafe { Library::new(file) }.map_err(LoadPolicyError::Open)?;
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: the header declares the function so.
    let get = unsafe { library.get::<GetPolicy>(b"VidmmGetPolicy\0") }.map_err(|_| LoadPolicyError::NoFunction)?;
    // SAFETY: the function has no arguments, and returns a static table or null.
    let table = unsafe { get() };
    if table.is_null() {
        return Err(LoadPolicyError::NoTable);
    }
    // SAFETY: a table begins with its version, whatever the version.
    let version = unsafe { *table.cast::<u32>() };
    if version != VERSION {
        return Err(LoadPolicyError::Version(version));
    }
    // SAFETY: not null, and of this version.
    let table = unsafe { *table };
    if table.create.is_none() {
        return Err(LoadPolicyError::Lacks("Create"));
    }
    if table.rank.is_none() && table.victim.is_none() {
        return Err(LoadPolicyError::Lacks("both Rank and Victim, so it orders nothing"));
    }
    let parameters: &'static [Parameter] = Box::leak(parameters(&table)?.into_boxed_slice());
    let name: &'static str = Box::leak(path.display().to_string().into_boxed_str());
    let make = Box::leak(Box::new(move |values: &[u64]| made(name, table, values)));
    Ok(PolicyKind::new(name, make).with(parameters))
}

fn parameters(table: &Table) -> Result<Vec<Parameter>, LoadPolicyError> {
    let wrong = LoadPolicyError::Parameter;
    if table.num_parameters > MAX_PARAMETERS {
        return Err(wrong(table.num_parameters, "there are four at most"));
    }
    if table.num_parameters > 0 && table.parameters.is_null() {
        return Err(wrong(1, "Parameters is NULL"));
    }
    let read = |number: u32| {
        // SAFETY: the table has so many, in a row.
        let &CParameter { key, default, least, most } = unsafe { &*table.parameters.add(number as usize) };
        if key.is_null() {
            return Err(wrong(number + 1, "Key is NULL"));
        }
        // SAFETY: not null, and by the header a string with an end, which stays as long as the library.
        let key = unsafe { CStr::from_ptr::<'static>(key) }.to_str().unwrap_or_default();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            return Err(wrong(number + 1, "Key has other characters than letters, digits, `-` and `_`"));
        }
        if !(least..=most).contains(&default) {
            return Err(wrong(number + 1, "Default is not between Least and Most"));
        }
        Ok(Parameter { key, default, range: least..=most })
    };
    (0..table.num_parameters).map(read).collect()
}

/// A policy of the library; the documented order, if the library makes none.
fn made(name: &'static str, table: Table, values: &[u64]) -> Box<dyn Policy> {
    let create = table.create.expect("a table with Create is loaded");
    // SAFETY: the values are as many as the table has parameters, and live for the call.
    let policy = unsafe { create(values.as_ptr()) };
    if policy.is_null() {
        report(name, "Create", PolicyRule::HookReturns, || {
            "it returned NULL; the least recently used goes in its place".to_owned()
        });
        return Box::<Recency>::default();
    }
    let candidates =
        CCandidates { memory: Cell::new(0), first_from, get, set_rank, candidates: Cell::new(None), policy: name };
    Box::new(CPolicy { table, policy, recency: Recency::default(), candidates: Box::new(candidates) })
}

/// A policy that a library made.
struct CPolicy {
    table: Table,
    policy: *mut c_void,
    /// The ranks, if the table has none.
    recency: Recency,
    /// The address stays the same: a library with a kept pointer is found out.
    candidates: Box<CCandidates>,
}

// SAFETY: the library's policy may be called by any thread, by one at a time (vidmm/policy.h).
unsafe impl Send for CPolicy {}

impl std::fmt::Debug for CPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CPolicy({})", self.candidates.policy)
    }
}

impl Drop for CPolicy {
    fn drop(&mut self) {
        if let Some(destroy) = self.table.destroy {
            // SAFETY: Create made it, and nobody calls it any more.
            unsafe { destroy(self.policy) };
        }
    }
}

fn c_subject(subject: Subject) -> CSubject {
    CSubject { allocation: subject.allocation.to_bits(), slot: subject.slot as u64, size: subject.size }
}

impl Policy for CPolicy {
    fn used(&mut self, subject: Subject, time: u64) {
        if let Some(used) = self.table.used {
            // SAFETY: Create made the policy; the subject lives for the call.
            unsafe { used(self.policy, &c_subject(subject), time) };
        }
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        if let Some(brought_in) = self.table.brought_in {
            // SAFETY: as `used`.
            unsafe { brought_in(self.policy, &c_subject(subject), memory.0.into()) };
        }
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        self.recency.released(subject, last_use);
        if let Some(released) = self.table.released {
            // SAFETY: as `used`.
            unsafe { released(self.policy, &c_subject(subject), last_use) };
        }
    }

    fn rank(&self, slot: usize) -> u64 {
        match self.table.rank {
            // SAFETY: as `used`.
            Some(rank) => unsafe { rank(self.policy, slot as u64) },
            None => self.recency.rank(slot),
        }
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let Some(victim) = self.table.victim else { return self.recency.victim(candidates) };
        self.candidates.memory.set(candidates.memory().0.into());
        // SAFETY: only the lifetime changes; the pointer is forgotten before the reference ends.
        let present =
            unsafe { std::mem::transmute::<*mut dyn Candidates, *mut dyn Candidates>(ptr::from_mut(candidates)) };
        self.candidates.candidates.set(Some(present));
        // SAFETY: as `used`; the candidates have the layout of the header.
        let slot = unsafe { victim(self.policy, &raw const *self.candidates) };
        self.candidates.candidates.set(None);
        usize::try_from(slot).unwrap_or(usize::MAX)
    }

    fn cleans(&self, Candidate { slot, rank, size }: Candidate) -> bool {
        let candidate = CCandidate { slot: slot as u64, rank, size };
        // SAFETY: as `used`; the candidate lives for the call.
        self.table.cleans.is_none_or(|cleans| unsafe { cleans(self.policy, &raw const candidate) } != 0)
    }

    fn announced(&mut self, subject: Subject, time: u64) {
        self.recency.announced(subject, time);
        if let Some(announced) = self.table.announced {
            // SAFETY: as `used`.
            unsafe { announced(self.policy, &c_subject(subject), time) };
        }
    }

    fn prefetches(&self) -> bool {
        self.table.prefetch.is_some()
    }

    fn prefetch(&mut self, memory: SegmentId, free: u64) -> Option<usize> {
        let (prefetch, mut slot) = (self.table.prefetch?, u64::MAX);
        // SAFETY: as `used`; there is room for the slot.
        let is_chosen = unsafe { prefetch(self.policy, memory.0.into(), free, &raw mut slot) } != 0;
        is_chosen.then(|| usize::try_from(slot).unwrap_or(usize::MAX))
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        if let Some(left) = self.table.left {
            // SAFETY: as `used`.
            unsafe { left(self.policy, &c_subject(subject), memory.0.into()) };
        }
    }

    fn gone(&mut self, subject: Subject) {
        self.recency.gone(subject);
        if let Some(gone) = self.table.gone {
            // SAFETY: as `used`.
            unsafe { gone(self.policy, &c_subject(subject)) };
        }
    }
}

/// The candidates of the present hook for a question of a library; none outside of `Victim`.
///
/// # Safety
///
/// `of` is null, or what a policy's `Victim` was given, and the policy exists.
unsafe fn asked<'a>(of: *const CCandidates, function: &'static str) -> Option<&'a mut dyn Candidates> {
    // SAFETY: by the caller.
    let Some(of) = (unsafe { of.as_ref() }) else {
        report(UNKNOWN, function, PolicyRule::HookReturns, || "the candidates are NULL".to_owned());
        return None;
    };
    let present = of.candidates.get();
    if present.is_none() {
        report(of.policy, function, PolicyRule::NothingIsKept, || {
            "candidates of a Victim that has returned are asked; nothing is shown".to_owned()
        });
    }
    // SAFETY: `victim` set the reference, and has not returned. The functions below use the reference one after another.
    present.map(|candidates| unsafe { &mut *candidates })
}

/// Writes a candidate. Returns whether there is one.
///
/// # Safety
///
/// `to` is null or points to room for a candidate.
unsafe fn answered(candidate: Option<Candidate>, to: *mut CCandidate) -> c_int {
    if let (Some(Candidate { slot, rank, size }), false) = (candidate, to.is_null()) {
        // SAFETY: not null, and by the caller there is room.
        unsafe { to.write(CCandidate { slot: slot as u64, rank, size }) };
    }
    candidate.is_some().into()
}

unsafe extern "C" fn first_from(of: *const CCandidates, rank: u64, to: *mut CCandidate) -> c_int {
    // SAFETY: the header says what the arguments are.
    unsafe { answered(asked(of, "FirstFrom").and_then(|candidates| candidates.first_from(rank)), to) }
}

unsafe extern "C" fn get(of: *const CCandidates, slot: u64, to: *mut CCandidate) -> c_int {
    let slot = usize::try_from(slot).unwrap_or(usize::MAX);
    // SAFETY: as above.
    unsafe { answered(asked(of, "Get").and_then(|candidates| candidates.get(slot)), to) }
}

unsafe extern "C" fn set_rank(of: *const CCandidates, slot: u64, rank: u64) {
    // SAFETY: as above.
    if let (Some(candidates), Ok(slot)) = (unsafe { asked(of, "SetRank") }, usize::try_from(slot)) {
        candidates.set_rank(slot, rank);
    }
}
