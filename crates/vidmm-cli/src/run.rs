//! `vidmm run`.

use std::{
    error::Error,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use vidmm::NumberedEvent;
use vidmm_sim::{
    AdapterSettings, Content, Fault, MachineDesc, Observer, PageTables, Report, RunDesc, Scenario, TraceSource,
    WorkloadSource,
};
use vidmm_trace::{ImportOptions, LogHeader, LogWriter, Workload};

use crate::{
    args::{ContentArg, Gpu, RunArgs, replay_command},
    report, soft,
};

/// The scenario of a run without arguments.
const BUILT_IN: (&str, &str) = ("scenarios/training.toml", include_str!("../../../scenarios/training.toml"));

/// Runs, prints, writes what was asked for. Returns whether all that was checked held.
pub fn run(args: &RunArgs) -> Result<bool, Box<dyn Error>> {
    let (scenario, base) = scenario(args)?;
    let workload = scenario.workload(&base)?;
    let local_memory_bytes = scenario.local_memory_bytes(&workload)?;
    let faults = scenario.faults.clone();
    let desc = RunDesc {
        machine: machine_desc(&scenario, local_memory_bytes, faults.clone()),
        ahead: scenario.client.ahead as usize,
        content: scenario.client.content,
        events: args.events.is_some(),
    };
    let factory = match args.gpu {
        Gpu::Soft => soft::machine,
    };
    // Files are created before the run: a path that cannot be written is not found out at its end.
    let summary = args.summary.as_deref().map(|path| Ok::<_, String>((path, create(path)?))).transpose()?;
    let mut watcher = Watcher::new(args, &scenario, &workload)?;
    let run = vidmm_sim::run(&workload, &desc, &factory, &mut watcher);
    watcher.finish()?;
    let run = run?;
    let replay = (!run.all_held()).then(|| replay_command(scenario.seed, &faults));
    report::print(&scenario.name, &workload, &run, &faults, replay.as_deref())?;
    if let Some((path, file)) = summary {
        write_summary(file, &scenario, &run).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(run.all_held())
}

/// The scenario that the arguments ask for, and the folder that its paths start at.
fn scenario(args: &RunArgs) -> Result<(Scenario, PathBuf), Box<dyn Error>> {
    let here = PathBuf::new();
    let (mut scenario, base) = match (&args.scenario, &args.trace) {
        (Some(path), _) => (Scenario::load(path)?, path.parent().map(Path::to_owned).unwrap_or_default()),
        (None, Some(trace)) => (of_trace(trace), here),
        (None, None) => (Scenario::parse(BUILT_IN.1, Path::new(BUILT_IN.0))?, here),
    };
    if let Some(local_memory) = args.local_memory {
        scenario.adapter.local_memory = local_memory;
    }
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    if let Some(ahead) = args.ahead {
        scenario.client.ahead = ahead;
    }
    if let Some(content) = args.content {
        scenario.client.content = match content {
            ContentArg::Uniform => Content::Uniform,
            ContentArg::Ramp => Content::Ramp,
        };
    }
    if let Some(scale) = args.scale {
        scenario.client.scale = scale;
    }
    if !args.faults.is_empty() {
        Fault::check_list(&args.faults)?;
        scenario.faults = args.faults.clone();
    }
    match (&mut scenario.source, args.block_bytes) {
        (WorkloadSource::Trace(source), Some(block_bytes)) => source.block_bytes = block_bytes,
        (WorkloadSource::Generator(_), Some(_)) => {
            return Err("--block-bytes is the block size of a Mooncake trace; give one with --trace".into());
        }
        _ => {}
    }
    Ok((scenario, base))
}

fn of_trace(trace: &Path) -> Scenario {
    let block_bytes = vidmm_trace::ByteSize(ImportOptions::default().block_bytes);
    let name = trace.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Scenario {
        name,
        source: WorkloadSource::Trace(TraceSource { trace: trace.to_owned(), block_bytes }),
        ..Scenario::default()
    }
}

fn machine_desc(scenario: &Scenario, local_memory_bytes: u64, faults: Vec<Fault>) -> MachineDesc {
    let AdapterSettings { page_tables, paging_buffer, paging_va_mib, .. } = scenario.adapter;
    MachineDesc {
        local_memory_bytes,
        page_size: match scenario.adapter.page_size {
            vidmm_sim::PageSize::Kib4 => vidmm::PageSize::Kib4,
            vidmm_sim::PageSize::Kib64 => vidmm::PageSize::Kib64,
        },
        page_table_bits: Some(scenario.adapter.page_table_bits()),
        dual_pte: scenario.adapter.dual_pte(),
        invalid_tlb_entries_not_cached: scenario.adapter.invalid_tlb_entries_not_cached,
        page_tables_in_system_memory: page_tables == PageTables::System,
        paging_buffer_bytes: paging_buffer.bytes() as u32,
        paging_va_mib,
        bus_bytes_per_second: scenario.cost.bus_bytes_per_second(),
        local_bytes_per_second: scenario.cost.local_bytes_per_second(),
        faults,
    }
}

/// Writes the event log and moves the progress bar.
struct Watcher {
    log: Option<(PathBuf, LogWriter<File>)>,
    bar: ProgressBar,
}

impl Watcher {
    fn new(args: &RunArgs, scenario: &Scenario, workload: &Workload) -> Result<Self, Box<dyn Error>> {
        let log = match &args.events {
            None => None,
            Some(path) => {
                Some((path.clone(), LogWriter::new(create(path)?, &LogHeader::new(&*scenario.name, scenario.seed))))
            }
        };
        // Drawn on a terminal only.
        let bar = ProgressBar::new(workload.kernels.len() as u64);
        let style = ProgressStyle::with_template("{msg:>12.cyan.bold} [{bar:27}] {pos}/{len} kernels, {elapsed}");
        bar.set_style(style.expect("the template is right").progress_chars("=> "));
        bar.set_message("Running");
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Self { log, bar })
    }

    fn finish(self) -> Result<(), Box<dyn Error>> {
        self.bar.finish_and_clear();
        match self.log {
            Some((path, log)) => log.finish().map(drop).map_err(|error| cannot_write(&path, &error).into()),
            None => Ok(()),
        }
    }
}

impl Observer for Watcher {
    fn event(&mut self, event: &NumberedEvent) {
        if let Some((_, log)) = &mut self.log {
            log.event(event);
        }
    }

    fn progress(&mut self, ended: usize, _of: usize) {
        self.bar.set_position(ended as u64);
    }
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn write_summary(mut file: File, scenario: &Scenario, report: &Report) -> io::Result<()> {
    #[derive(serde::Serialize)]
    struct Summary<'a> {
        scenario: &'a str,
        seed: u64,
        #[serde(flatten)]
        report: &'a Report,
    }
    let summary = Summary { scenario: &scenario.name, seed: scenario.seed, report };
    serde_json::to_writer_pretty(&mut file, &summary)?;
    writeln!(file)
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}; check that the folder exists and can be written to", path.display())
}
