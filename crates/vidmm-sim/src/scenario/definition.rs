//! A scenario, whatever its source.

use std::path::Path;

use vidmm_runtime::AllocationSegments;
use vidmm_trace::{ImportOptions, LocalMemory, Workload, import};

use super::adapter::{AdapterSettings, DEFAULT_APERTURE};
use super::amount;
use super::client::ClientSettings;
use super::cost::CostSettings;
use super::error::ScenarioError;
use super::fault::Fault;
use super::limits::MAX_LOCAL_MEMORY;
use super::memory::Notification;
use super::process::{ProcessBehaviour, ProcessSettings};
use super::script::{CompareSettings, Script};
use super::source::WorkloadSource;
use crate::client::{BufferDesc, ClientDesc};

/// The name of a scenario that has none, and no file either.
pub(super) const DEFAULT_NAME: &str = "training";

/// The local memory of a scenario without that key: half of the workload's need.
const DEFAULT_LOCAL_MEMORY: LocalMemory = LocalMemory::Percent(5000);

/// The unit to which local memory is rounded up, in bytes: a multiple of every page size, so that no part is wasted.
const LOCAL_MEMORY_UNIT: u64 = 2 << 20;

/// The workload of a scenario, and the behaviour of each of its processes.
#[derive(Clone, Debug)]
pub struct Processes {
    /// The work of all processes.
    pub workload: Workload,
    /// The behaviour of each, in the order of their numbers.
    pub clients: Vec<ClientDesc>,
}

/// The workload, the machine, and the mistakes that are made on purpose.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name in reports; by default the file's name without the extension.
    pub name: String,
    /// The seed of all that is random: the generated workload, and the transfer that a fault hits.
    pub seed: u64,
    /// Whether work is found that uses what its process has evicted or offered, which changes no decision.
    pub strict: bool,
    /// The machine.
    pub adapter: AdapterSettings,
    /// How fast the machine is.
    pub cost: CostSettings,
    /// How the client uses it.
    pub client: ClientSettings,
    /// Where the workload comes from; with `processes`, it is not used.
    pub source: WorkloadSource,
    /// Processes that run beside each other, each with a workload of its own.
    pub processes: Vec<ProcessSettings>,
    /// The timetable: changes, the table and the checks.
    pub script: Script,
    /// A second run to compare with.
    pub compare: Option<CompareSettings>,
    /// The errors to be made on purpose, each name once, so that a run can show that they are found.
    pub faults: Vec<Fault>,
    /// The words that its findings must contain, if it is there to show how a mistake is found.
    pub shows: Option<String>,
}

impl Default for Scenario {
    /// The demonstration: training on half of the memory that it needs.
    fn default() -> Self {
        Self {
            name: DEFAULT_NAME.to_owned(),
            seed: 1,
            strict: false,
            adapter: AdapterSettings::default(),
            cost: CostSettings::default(),
            client: ClientSettings::default(),
            source: WorkloadSource::default(),
            processes: Vec::new(),
            script: Script::default(),
            compare: None,
            faults: Vec::new(),
            shows: None,
        }
    }
}

impl Scenario {
    /// The recorded traces that it names, as it names them.
    pub fn traces(&self) -> impl Iterator<Item = &Path> {
        let sources = self.processes.iter().map(|process| &process.source);
        sources.chain([&self.source]).filter_map(|source| match source {
            WorkloadSource::Trace(source) => Some(source.trace.as_path()),
            _ => None,
        })
    }

    /// Sets another seed, which changes the generated workload and the speed of the machine. With its own seed the
    /// scenario is as it is written.
    pub fn set_seed(&mut self, seed: u64) {
        if seed != self.seed {
            (self.seed, self.cost) = (seed, self.cost.drawn(seed));
        }
    }

    /// Generates or imports the workload of each process, and scales it. A relative path of a trace starts at
    /// `base_dir`, the scenario's folder.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::Workload`] for generator parameters out of range or too many processes, and
    /// [`ScenarioError::Import`] for a trace that cannot be read; [`ScenarioError::NoSuchProcess`] if the script names a process
    /// that is not there.
    pub fn load(&self, base_dir: &Path) -> Result<Processes, ScenarioError> {
        let alone = ProcessSettings { source: self.source.clone(), behaviour: ProcessBehaviour::default() };
        let all = if self.processes.is_empty() { std::slice::from_ref(&alone) } else { &self.processes[..] };
        let mut together = Processes { workload: Workload::default(), clients: Vec::new() };
        let mut seed = self.seed;
        for process in all {
            for number in 1..=process.behaviour.count {
                let first = together.clients.len();
                self.add(process, seed, base_dir, &mut together)?;
                seed = seed.wrapping_add(1);
                if process.behaviour.count > 1 {
                    together.clients[first..].iter_mut().for_each(|client| client.name += &format!(" {number}"));
                }
            }
        }
        if self.client.scale > 1 {
            together.workload.scale(self.client.scale);
        }
        together.workload.validate()?;
        let is_known = |name: &&String| together.clients.iter().any(|client| client.name == **name);
        match self.script.processes().find(|name| !is_known(name)) {
            Some(name) => Err(ScenarioError::NoSuchProcess { name: name.clone() }),
            None => Ok(together),
        }
    }

    /// Adds the processes of one workload.
    fn add(
        &self,
        process: &ProcessSettings,
        seed: u64,
        base_dir: &Path,
        together: &mut Processes,
    ) -> Result<(), ScenarioError> {
        let ProcessSettings { source, behaviour } = process;
        let mut workload = match source {
            WorkloadSource::Generator(generator) => generator.generate(seed)?,
            WorkloadSource::Trace(source) => {
                let options = ImportOptions { block_bytes: source.block_bytes.bytes(), format: source.format };
                import::read(&base_dir.join(&source.trace), &options)?
            }
            WorkloadSource::Submissions(source) => source.workload(seed),
        };
        workload.compress_arrivals(behaviour.compress_arrivals);
        workload.delay(behaviour.start.ns);
        let client = behaviour.client(&workload.name, &self.client, &self.all_clients());
        let name = std::mem::take(&mut workload.name);
        let numbers = together.workload.append(workload);
        together.workload.name = name;
        together.clients.extend(numbers.map(|_| client.clone()));
        Ok(())
    }

    /// The settings that all processes have in common.
    fn all_clients(&self) -> ClientDesc {
        let buffers = BufferDesc {
            segments: self.segments(),
            compression: self.client.compression,
            notify_eviction: self.client.notify.contains(&Notification::Eviction),
            notify_io_mmu_unmap: self.client.notify.contains(&Notification::IoMmuUnmap),
        };
        ClientDesc { buffers, ..ClientDesc::default() }
    }

    /// Returns the bytes of local memory for `workload`, which is the scenario's own, rounded up to a multiple of 2
    /// MiB. A share is one of the most bytes that are alive at one time, each buffer rounded up to whole pages. Without
    /// a key it is half of them. 0 is a machine without local memory.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::LocalMemoryTooSmall`] if one kernel's buffers alone are larger than all memory that
    /// they may be in, [`ScenarioError::LocalMemoryTooLarge`] above 1 TiB, and [`ScenarioError::NoLocalMemory`] if the
    /// buffers may be in local memory only and there is none.
    pub fn local_memory_bytes(&self, workload: &Workload) -> Result<u64, ScenarioError> {
        let footprint = workload.footprint(self.adapter.page_size.bytes());
        let local_memory = self.adapter.local_memory_or(DEFAULT_LOCAL_MEMORY);
        let segments = self.segments();
        if local_memory == amount::NONE {
            return if segments == AllocationSegments::Local { Err(ScenarioError::NoLocalMemory) } else { Ok(0) };
        }
        let bytes = rounded(local_memory, footprint.peak_bytes)?;
        let needed = footprint.largest_kernel_bytes;
        if needed > bytes && segments == AllocationSegments::Local {
            return Err(ScenarioError::LocalMemoryTooSmall { bytes, needed });
        }
        Ok(bytes)
    }

    /// Returns the most bytes of system memory that may be resident, for `workload`: a size, or a share of its footprint.
    /// None is no limit.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::CommitLimitTooSmall`] if the buffers are in system memory only, and one kernel's alone are
    /// larger.
    pub fn aperture_commit_limit_bytes(&self, workload: &Workload) -> Result<Option<u64>, ScenarioError> {
        let footprint = workload.footprint(self.adapter.page_size.bytes());
        let limit = self.adapter.aperture_commit_limit.map(|limit| rounded(limit, footprint.peak_bytes)).transpose()?;
        let needed = footprint.largest_kernel_bytes;
        match limit {
            Some(bytes) if needed > bytes && self.segments() == AllocationSegments::System => {
                let is_capped = self.adapter.aperture.is_some_and(|aperture| aperture.bytes() < needed);
                let keys = if is_capped { "`aperture-commit-limit` and `aperture`" } else { "`aperture-commit-limit`" };
                Err(ScenarioError::CommitLimitTooSmall { keys, bytes, needed })
            }
            limit => Ok(limit),
        }
    }

    /// Returns the bytes of the aperture segment for `workload`: the scenario's, or else the limit of resident system
    /// memory, or the footprint of its buffers if they may be there.
    ///
    /// # Errors
    ///
    /// As [`aperture_commit_limit_bytes`](Self::aperture_commit_limit_bytes).
    pub fn aperture_bytes(&self, workload: &Workload) -> Result<u64, ScenarioError> {
        if let Some(size) = self.adapter.aperture {
            return Ok(size.bytes());
        }
        let wanted = match self.aperture_commit_limit_bytes(workload)? {
            Some(limit) => limit,
            None if self.segments() == AllocationSegments::Local => 0,
            None => {
                rounded(LocalMemory::Percent(10_000), workload.footprint(self.adapter.page_size.bytes()).peak_bytes)?
            }
        };
        Ok(wanted.max(DEFAULT_APERTURE.bytes()))
    }

    /// The segments where the buffers may be: the scenario's, or else local memory, or system memory where there is no
    /// local memory.
    pub fn segments(&self) -> AllocationSegments {
        let default =
            if self.adapter.has_local_memory() { AllocationSegments::Local } else { AllocationSegments::System };
        self.client.segments.unwrap_or(default)
    }
}

/// The bytes of an amount of memory, rounded up so that no part is wasted.
fn rounded(amount: LocalMemory, footprint: u64) -> Result<u64, ScenarioError> {
    let asked = amount.bytes_of(footprint).max(1);
    let bytes = asked.checked_next_multiple_of(LOCAL_MEMORY_UNIT).filter(|&bytes| bytes <= MAX_LOCAL_MEMORY);
    bytes.ok_or(ScenarioError::LocalMemoryTooLarge { local_memory: amount })
}
