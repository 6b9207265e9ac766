//! A scenario, wherever it comes from.

use std::path::Path;

use vidmm_trace::{ImportOptions, Workload, import};

use super::adapter::AdapterSettings;
use super::client::ClientSettings;
use super::cost::CostSettings;
use super::error::ScenarioError;
use super::fault::Fault;
use super::limits::MAX_LOCAL_MEMORY;
use super::source::WorkloadSource;

/// The name of a scenario that has none, and no file either.
pub(super) const DEFAULT_NAME: &str = "training";

/// What local memory is rounded up to, in bytes: a multiple of every page size, so that the whole of it can be used.
const LOCAL_MEMORY_UNIT: u64 = 2 << 20;

/// What is run, on what machine, and what goes wrong on purpose.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What reports call it; by default its file's name without the extension.
    pub name: String,
    /// What everything random follows from: the generated workload, and which transfer a fault hits.
    pub seed: u64,
    /// The machine.
    pub adapter: AdapterSettings,
    /// How fast the machine is.
    pub cost: CostSettings,
    /// How the client uses it.
    pub client: ClientSettings,
    /// Where the workload comes from.
    pub source: WorkloadSource,
    /// The errors to be made on purpose, each name once, so that a run can show that they are found.
    pub faults: Vec<Fault>,
}

impl Default for Scenario {
    /// The demonstration: training on half of the memory that it needs.
    fn default() -> Self {
        Self {
            name: DEFAULT_NAME.to_owned(),
            seed: 1,
            adapter: AdapterSettings::default(),
            cost: CostSettings::default(),
            client: ClientSettings::default(),
            source: WorkloadSource::default(),
            faults: Vec::new(),
        }
    }
}

impl Scenario {
    /// Generates or imports the workload, and scales it. `base_dir` is where the path of a trace starts: the scenario's
    /// folder.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::Workload`] for generator parameters out of range, and [`ScenarioError::Import`] for a
    /// trace that cannot be read.
    pub fn workload(&self, base_dir: &Path) -> Result<Workload, ScenarioError> {
        let mut workload = match &self.source {
            WorkloadSource::Generator(generator) => generator.generate(self.seed)?,
            WorkloadSource::Trace(source) => {
                let options = ImportOptions { block_bytes: source.block_bytes.bytes() };
                import::read(&base_dir.join(&source.trace), &options)?
            }
        };
        if self.client.scale > 1 {
            workload.scale(self.client.scale);
        }
        Ok(workload)
    }

    /// Returns the bytes of local memory for `workload`, which is the scenario's own: a size as it stands, or a share
    /// of the most bytes that are alive at one time, each buffer rounded up to whole pages. Either is rounded up to a
    /// multiple of 2 MiB.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::LocalMemoryTooSmall`] if one kernel's buffers alone are larger, and
    /// [`ScenarioError::LocalMemoryTooLarge`] above 1 TiB.
    pub fn local_memory_bytes(&self, workload: &Workload) -> Result<u64, ScenarioError> {
        let footprint = workload.footprint(self.adapter.page_size.bytes());
        let local_memory = self.adapter.local_memory;
        let asked = local_memory.bytes_of(footprint.peak_bytes).max(1);
        let bytes = asked.checked_next_multiple_of(LOCAL_MEMORY_UNIT).filter(|&bytes| bytes <= MAX_LOCAL_MEMORY);
        let bytes = bytes.ok_or(ScenarioError::LocalMemoryTooLarge { local_memory })?;
        let needed = footprint.largest_kernel_bytes;
        if needed > bytes {
            return Err(ScenarioError::LocalMemoryTooSmall { bytes, needed });
        }
        Ok(bytes)
    }
}
