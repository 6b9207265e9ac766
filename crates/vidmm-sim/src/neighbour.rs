//! The processes of a scenario on a manager that somebody else drives, beside the processes of others.

use std::borrow::Cow;
use std::path::Path;

use vidmm::contract::EngineKind;
use vidmm::{Nanoseconds, Output};
use vidmm_runtime::Runtime;
use vidmm_trace::Workload;

use crate::client::{Client, ClientError, ClientOptions};
use crate::machine::MachineDesc;
use crate::oracle::{Oracle, Verdict};
use crate::prediction::Content;
use crate::scenario::{Processes, ScenarioFile};
use crate::system_copies::SystemCopies;

/// The processes of a scenario. The driver of the manager calls [`submit`](Self::submit) at their arrivals, and shows them what the
/// manager tells.
pub struct Neighbour {
    client: Client<'static>,
    /// An oracle of nothing: no page of a neighbour is judged.
    oracle: Oracle,
}

impl Neighbour {
    /// Starts the processes of the scenario in `text`, which has the name `name`. Of the scenario only the processes are played: the
    /// adapter and its cost are those of the manager.
    ///
    /// # Errors
    ///
    /// If the text is no scenario, or has steps, changes or faults, or reads a trace, or does not fit in `local_memory_bytes`.
    pub fn start(runtime: &mut Runtime, name: &str, text: &str, local_memory_bytes: u64) -> Result<Self, String> {
        let scenario = match ScenarioFile::parse(text, Path::new(name)).map_err(|error| error.to_string())? {
            ScenarioFile::Workload(scenario) => scenario,
            ScenarioFile::Explicit(_) => {
                return Err(format!("{name}: steps make calls one by one, and a neighbour needs `[[process]]`"));
            }
        };
        if !scenario.script.changes.is_empty() || !scenario.faults.is_empty() {
            return Err(format!(
                "{name}: changes and faults are for a run of its own; a neighbour has processes alone"
            ));
        }
        if let Some(trace) = scenario.traces().next() {
            return Err(format!("{name}: {} is another file, and a neighbour is one file alone", trace.display()));
        }
        let Processes { workload, clients } = scenario.load(Path::new("")).map_err(|error| error.to_string())?;
        let kernel = workload.footprint(vidmm::PAGE_SIZE).largest_kernel_bytes;
        if kernel > local_memory_bytes {
            return Err(format!(
                "{name}: one kernel works on {kernel} bytes, and local memory has {local_memory_bytes}"
            ));
        }
        let engines: Vec<EngineKind> = runtime.vidmm().engines().to_vec();
        let options = ClientOptions {
            content: Content::Uniform.of_kernels(),
            upload_bytes_per_second: MachineDesc::default().bus_bytes_per_second,
            strict: false,
            more_memory: "with `--local-memory`",
            are_alone: false,
        };
        let client = Client::new(runtime, &engines, Cow::Owned(workload), &clients, options);
        let client = client.map_err(|error| error.to_string())?;
        Ok(Self { client, oracle: Oracle::new(&Workload::default(), Content::Uniform) })
    }

    /// Submits what may be submitted at this time. Returns the time of the next arrival.
    ///
    /// # Errors
    ///
    /// If a process cannot go on.
    pub fn submit(&mut self, runtime: &mut Runtime) -> Result<Option<Nanoseconds>, ClientError> {
        let (mut verdict, mut wrong) = (Verdict::default(), Vec::new());
        let copies =
            &mut SystemCopies { oracle: &self.oracle, enabled: false, verdict: &mut verdict, wrong: &mut wrong };
        self.client.submit(runtime, copies)
    }

    /// Shows what the manager tells. Returns whether a process was meant.
    ///
    /// # Errors
    ///
    /// If a process cannot go on.
    pub fn told(&mut self, runtime: &mut Runtime, output: &Output) -> Result<bool, ClientError> {
        match *output {
            Output::MonitoredFenceSignaled { fence, value } => {
                let process = self.client.fence_signaled(fence, value);
                process.map_or(Ok(()), |process| self.client.fence_reached(runtime, process))?;
                Ok(process.is_some())
            }
            Output::TrimNotification { device, flags, num_bytes_to_trim, .. } => {
                self.client.trim(runtime, device, flags, num_bytes_to_trim)?;
                Ok(self.client.process_with(device).is_some())
            }
            Output::DeviceInError(ref error) => {
                let process = self.client.process_with(error.device);
                // The process plays on, whatever has happened to its device.
                process.map_or(Ok(()), |process| self.client.recover(runtime, process))?;
                Ok(process.is_some())
            }
            _ => Ok(false),
        }
    }
}
