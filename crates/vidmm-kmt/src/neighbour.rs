//! Another user of the manager, beside the client.

use vidmm::Output;
use vidmm_runtime::{AllocationDesc, Runtime};

use crate::settings::{self, Settings};

/// The neighbour. It plays when time passes, and when the manager tells it something.
#[derive(Default)]
pub(crate) struct Neighbour {
    player: Option<vidmm_sim::Neighbour>,
    /// The time of the next work.
    pub next_arrival: Option<u64>,
    /// Why the neighbour plays no more.
    pub error: Option<String>,
}

impl Neighbour {
    /// Starts the neighbour of the settings.
    pub fn start(runtime: &mut Runtime, settings: &Settings) -> Result<Self, String> {
        let mut neighbour = Self::default();
        match &settings.neighbour {
            None => {}
            Some(settings::Neighbour::Size(bytes)) => keep_in_use(runtime, *bytes)?,
            Some(settings::Neighbour::Scenario { name, text }) => {
                let player = vidmm_sim::Neighbour::start(runtime, name, text, settings.local_memory)?;
                neighbour.player = Some(player);
                neighbour.play(runtime);
            }
        }
        Ok(neighbour)
    }

    /// Submits what may be submitted at this time. Returns whether there is a neighbour that plays.
    pub fn play(&mut self, runtime: &mut Runtime) -> bool {
        let Some(player) = &mut self.player else { return false };
        match player.submit(runtime) {
            // Work that waits for memory is tried again when time has passed.
            Ok(next_arrival) => self.next_arrival = next_arrival.filter(|&at| at > runtime.now()),
            Err(error) => self.stop(error),
        }
        true
    }

    /// Shows the neighbour what the manager tells. Returns whether the neighbour was meant.
    pub fn told(&mut self, runtime: &mut Runtime, output: &Output) -> bool {
        let Some(player) = &mut self.player else { return false };
        player.told(runtime, output).unwrap_or_else(|error| {
            self.stop(error);
            false
        })
    }

    fn stop(&mut self, error: impl ToString) {
        *self = Self { error: Some(error.to_string()), ..Self::default() };
    }
}

/// Another process that has local memory in use for the whole session.
fn keep_in_use(runtime: &mut Runtime, bytes: u64) -> Result<(), String> {
    let data = runtime.umd().allocation_private_data(&AllocationDesc::local(bytes));
    let (vidmm, kmd, host) = runtime.borrow();
    let process = vidmm.create_process(kmd, host).map_err(|error| error.to_string())?;
    let device = vidmm.create_device(process).map_err(|error| error.to_string())?;
    let queue = vidmm.create_paging_queue(device, 0).map_err(|error| error.to_string())?;
    let allocation = vidmm.create_allocation(kmd, host, device, &data).map_err(|error| error.to_string())?;
    let made = vidmm.make_resident(queue, &[allocation], vidmm::MakeResidentFlags::empty());
    let _ = made.map_err(|error| format!("the neighbour's memory: {error}"))?;
    Ok(())
}
