//! Combinations with content: each is a run of its own on the machine, and every page that a kernel reads is checked.

use std::error::Error;

use vidmm::policy::PolicyChoice;
use vidmm_sim::{MachineFactory, Report, RunError, Scenario, Unobserved};
use vidmm_trace::LocalMemory;

use super::{Cell, Input, row::Row};
use crate::{args::ReplayArgs, workload};

/// The scenario of a combination, with its workload.
pub fn prepare(
    args: &ReplayArgs,
    input: &Input<'_>,
    local_memory: LocalMemory,
    policy: PolicyChoice,
) -> Result<(Scenario, workload::Prepared), Box<dyn Error>> {
    let (mut scenario, base) = super::scenario(args, input.path)?;
    scenario.adapter.local_memory = Some(local_memory);
    scenario.adapter.policy = policy;
    scenario.client.ahead = args.ahead.unwrap_or(scenario.client.ahead);
    scenario.compare = None;
    let prepared = workload::prepare(&scenario, &base)?;
    Ok((scenario, prepared))
}

/// Runs a combination.
pub fn run(args: &ReplayArgs, cell: &Cell<'_>, factory: &dyn MachineFactory) -> Result<Row, Box<dyn Error>> {
    let (scenario, prepared) = prepare(args, cell.input, cell.local_memory, cell.policy)?;
    let lacking = scenario.needs() & factory.lacks();
    if !lacking.is_empty() {
        return Err(RunError::Lacks(lacking).into());
    }
    let (report, _) = prepared.run(&scenario, factory, &mut Unobserved)?;
    let Report { footprint_bytes, local_memory_bytes, figures, time, .. } = &report;
    Ok(Row {
        is_one_seed: args.seeds.is_some(),
        in_flight: u64::from(scenario.client.ahead) + 1,
        local_memory_bytes: *local_memory_bytes,
        footprint_bytes: *footprint_bytes,
        bytes_in: Some(figures.bytes_paged_in),
        bytes_out: Some(figures.bytes_paged_out),
        evictions: Some(figures.evictions),
        work_ns: Some(time.work_ns),
        virtual_ns: Some(time.virtual_ns),
        pages_checked: Some(report.pages_checked),
        findings: Some(report.findings.len() as u64 + u64::from(!report.all_held() && report.findings.is_empty())),
        ..Row::of(cell)
    })
}
