//! Whether steps name what there is.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::{ProcessPriority, ReserveVideoMemory};
use super::call::{Action, Call, Look, Until};
use super::lists::{Kind, objects, subject};
use super::objects::{DestroyAllocation, FreeVa, HandleKind, KillProcess};
use super::render::Render;
use super::residency::{Evict, MakeResident, Offer, SetPriority, UpdateProperty};
use super::{DEFAULT_DEVICE, DEFAULT_PROCESS, Step};

/// Checks steps that were made in memory. Groups may be named as in a file.
///
/// # Errors
///
/// Where the first step is that names what is not there, and what is wrong with it.
pub(in crate::scenario) fn check_steps(steps: &[Step], is_physical: bool) -> Result<(), (usize, String)> {
    let mut known = Known::new(is_physical);
    for (at, step) in steps.iter().enumerate() {
        known.check(&mut step.action.clone()).map_err(|problem| (at, problem))?;
    }
    Ok(())
}

/// Takes names of what is not there out of lists, and drops the steps that do not make sense even then.
pub(in crate::scenario) fn drop_orphans(steps: &mut Vec<Step>, is_physical: bool) {
    let mut known = Known::new(is_physical);
    steps.retain_mut(|step| {
        let before = subjects(&mut step.action, is_physical);
        known.keep_known(&mut step.action);
        let is_about_nothing = before > 0 && subjects(&mut step.action, is_physical) == 0;
        !is_about_nothing && known.check(&mut step.action.clone()).is_ok()
    });
}

/// How many names the list has that a step is about.
fn subjects(action: &mut Action, is_physical: bool) -> usize {
    subject(action, is_physical).map_or(0, |(_, names)| names.len())
}

/// The names that steps have given so far.
pub(super) struct Known {
    /// Whether there are no GPU virtual addresses.
    is_physical: bool,
    processes: BTreeSet<String>,
    devices: BTreeSet<String>,
    /// Allocations, and groups of them.
    allocations: BTreeMap<String, Vec<String>>,
    /// Mappings, and groups of them.
    mappings: BTreeMap<String, Vec<String>>,
    kernels: BTreeSet<String>,
    fences: BTreeSet<String>,
}

impl Known {
    /// The names that are there before the first step.
    pub fn new(is_physical: bool) -> Self {
        Self {
            is_physical,
            processes: [DEFAULT_PROCESS.to_owned()].into(),
            devices: [DEFAULT_DEVICE.to_owned()].into(),
            allocations: BTreeMap::new(),
            mappings: BTreeMap::new(),
            kernels: BTreeSet::new(),
            fences: BTreeSet::new(),
        }
    }

    /// Takes the names of what is not there out of the lists of a step.
    fn keep_known(&self, action: &mut Action) {
        let mut keep = |(kind, names): (Kind, &mut Vec<String>)| names.retain(|name| self.is_known(kind, name));
        subject(action, self.is_physical).into_iter().for_each(&mut keep);
        objects(action).into_iter().for_each(keep);
    }

    fn is_known(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Allocations => self.allocations.contains_key(name),
            Kind::Mappings => self.mappings.contains_key(name),
            Kind::Devices => self.devices.contains(name),
            Kind::Work => self.kernels.contains(name),
            Kind::WorkOrFences => self.kernels.contains(name) || self.fences.contains(name),
        }
    }

    /// Checks that a step names what there is, takes note of what it creates, and puts the members of groups in their place.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to write instead.
    pub fn check(&mut self, action: &mut Action) -> Result<(), String> {
        match action {
            Action::Call(call) => self.check_call(call),
            Action::Look(Look::Wait(Until::Kernel(kernel))) => {
                let moments =
                    "`idle` waits until everything has ended, `quiet` until nothing more happens, `20 ms` so long";
                known("kernel", &self.kernels, kernel).map_err(|error| format!("{error}; {moments}"))
            }
            Action::Look(Look::Wait(_) | Look::PagingVa(..)) => Ok(()),
            Action::Look(Look::ForgeHandle(forge)) => match forge.of {
                HandleKind::Process => add("process", &mut self.processes, &forge.name),
                HandleKind::Device => add("device", &mut self.devices, &forge.name),
                HandleKind::Fence => add("fence", &mut self.fences, &forge.name),
                HandleKind::Allocation => {
                    add_members("allocation", &mut self.allocations, None, std::slice::from_ref(&forge.name))
                }
            },
            Action::Look(
                Look::System(allocations)
                | Look::CpuWrite(allocations)
                | Look::CpuRead(allocations)
                | Look::Residency(allocations, _),
            ) => self.resolve_allocations(allocations),
            Action::Look(Look::Aperture(check)) => self.resolve_allocations(&mut check.allocations),
            Action::Look(Look::VideoMemory(query)) => known("process", &self.processes, &query.process),
            Action::Look(Look::DeviceError(check)) => {
                check.devices.iter().try_for_each(|device| known("device", &self.devices, device))
            }
            Action::Look(Look::AdapterError(_) | Look::Resets(_) | Look::Finding(_)) => Ok(()),
            Action::Look(Look::Trim(trim)) => known("device", &self.devices, &trim.device),
            Action::Look(Look::Waiting(kernels)) => {
                kernels.iter().try_for_each(|kernel| known("kernel", &self.kernels, kernel))
            }
        }
    }

    fn check_call(&mut self, call: &mut Call) -> Result<(), String> {
        match call {
            Call::CreateProcess(process) => add("process", &mut self.processes, process),
            Call::CreateDevice(create) => {
                create.process.iter().try_for_each(|process| known("process", &self.processes, process))?;
                add("device", &mut self.devices, &create.device)
            }
            Call::CreateFence(fence) => {
                is_new("kernel", self.kernels.contains(fence), fence)?;
                add("fence", &mut self.fences, fence)
            }
            Call::CreateAllocation(create) => {
                create.device.iter().try_for_each(|device| known("device", &self.devices, device))?;
                let names = create.names();
                let group = create.count.map(|_| create.name.clone());
                add_members("allocation", &mut self.allocations, group, &names)
            }
            Call::OpenAllocation(on) | Call::CloseAllocation(on) => {
                known("device", &self.devices, &on.device)?;
                self.resolve_allocations(&mut on.allocations)
            }
            Call::Map(map) => {
                self.resolve_allocations(&mut map.allocations)?;
                map.device.iter().try_for_each(|device| known("device", &self.devices, device))?;
                match (&map.name, &map.allocations[..]) {
                    (Some(name), [_]) => add_members("mapping", &mut self.mappings, None, std::slice::from_ref(name)),
                    (Some(name), _) => Err(format!("`as = \"{name}\"` names one mapping; map one allocation there")),
                    (None, names) => {
                        let group = self.group_of(names);
                        add_members("mapping", &mut self.mappings, group, names)
                    }
                }
            }
            Call::MakeResident(MakeResident { allocations, device, .. })
            | Call::Evict(Evict { allocations, device, .. }) => {
                device.iter().try_for_each(|device| known("device", &self.devices, device))?;
                self.resolve_allocations(allocations)
            }
            Call::Offer(Offer { allocations, .. })
            | Call::Lock(allocations)
            | Call::Unlock(allocations)
            | Call::SetPriority(SetPriority { allocations, .. })
            | Call::UpdateProperty(UpdateProperty { allocations, .. })
            | Call::DestroyAllocation(DestroyAllocation { allocations, .. }) => self.resolve_allocations(allocations),
            Call::Reclaim(reclaim) => {
                self.resolve_allocations(&mut reclaim.allocations)?;
                match (reclaim.allocations.len(), reclaim.results.len()) {
                    (_, 0 | 1) => Ok(()),
                    (allocations, results) if allocations == results => Ok(()),
                    (allocations, results) => Err(format!(
                        "`results` has {results} results for {allocations} allocations; write one for each, or one for all"
                    )),
                }
            }
            Call::ReserveVideoMemory(ReserveVideoMemory { process, .. })
            | Call::ProcessPriority(ProcessPriority { process, .. })
            | Call::NotifyBudget(process)
            | Call::SuspendProcess(process, _)
            | Call::ResumeProcess(process)
            | Call::KillProcess(KillProcess { process, .. }) => known("process", &self.processes, process),
            Call::RegisterTrim(device) | Call::UnregisterTrim(device) => known("device", &self.devices, device),
            Call::TrimIntervals(_) | Call::Power(_) => Ok(()),
            Call::CheckContent(allocations) if self.is_physical => self.resolve_allocations(allocations),
            Call::CheckContent(mappings) => self.resolve_mappings(mappings),
            Call::FreeVa(FreeVa { mapping, rest, .. }) => {
                let mut one = vec![mapping.clone()];
                self.resolve_mappings(&mut one)?;
                if one.len() > 1 {
                    return Err(format!("`{mapping}` is a group; free one mapping at a time"));
                }
                let mut add = |rest| add_members("mapping", &mut self.mappings, None, std::slice::from_ref(rest));
                rest.iter().try_for_each(&mut add)
            }
            Call::Kernel(kernel) => {
                self.resolve_mappings(&mut kernel.reads)?;
                self.resolve_mappings(&mut kernel.writes)?;
                self.resolve_allocations(&mut kernel.allocations)?;
                kernel.device.iter().try_for_each(|device| known("device", &self.devices, device))?;
                self.check_after(&kernel.after)?;
                self.add_work(&kernel.name)
            }
            Call::Render(render) => self.check_render(render),
            Call::Signal(fence) => known("fence", &self.fences, fence),
        }
    }

    fn check_render(&mut self, render: &Render) -> Result<(), String> {
        for bound in render.bound() {
            let members = self.allocations.get(&bound.allocation);
            let members = members.ok_or_else(|| missing("allocation", self.allocations.keys(), &bound.allocation))?;
            if members[..] != [bound.allocation.clone()] {
                return Err(format!("`{}` is a group; a slot holds one allocation", bound.allocation));
            }
        }
        render.check_slots()?;
        render.device.iter().try_for_each(|device| known("device", &self.devices, device))?;
        self.check_after(&render.after)?;
        self.add_work(&render.name)
    }

    /// What work waits for: other work, or fences.
    fn check_after(&self, after: &[String]) -> Result<(), String> {
        let work = |name: &&String| !self.fences.contains(*name);
        after.iter().filter(work).try_for_each(|name| known("kernel or fence", &self.kernels, name))
    }

    /// Takes note of a kernel, or of a command buffer.
    fn add_work(&mut self, name: &str) -> Result<(), String> {
        if !matches!(Until::from(name.to_owned()), Until::Kernel(_)) {
            return Err(format!("`wait = \"{name}\"` means something else; give the kernel another name"));
        }
        is_new("fence", self.fences.contains(name), name)?;
        add("kernel", &mut self.kernels, name)
    }

    /// The group that has exactly these members, if there is one.
    fn group_of(&self, members: &[String]) -> Option<String> {
        let group = self.allocations.iter().find(|(name, group)| group.as_slice() == members && group[0] != **name);
        group.map(|(name, _)| name.clone())
    }

    fn resolve_allocations(&self, names: &mut Vec<String>) -> Result<(), String> {
        resolve("allocation", &self.allocations, names)
    }

    fn resolve_mappings(&self, names: &mut Vec<String>) -> Result<(), String> {
        let unmapped =
            names.iter().find(|name| !self.mappings.contains_key(*name) && self.allocations.contains_key(*name));
        match unmapped {
            Some(name) => Err(format!("`{name}` is not mapped; write a step with `map = \"{name}\"` before this one")),
            None => resolve("mapping", &self.mappings, names),
        }
    }
}

/// Puts members in the place of groups.
fn resolve(kind: &str, known: &BTreeMap<String, Vec<String>>, names: &mut Vec<String>) -> Result<(), String> {
    let mut members = Vec::new();
    for name in names.iter() {
        members.extend(known.get(name).ok_or_else(|| missing(kind, known.keys(), name))?.iter().cloned());
    }
    *names = members;
    Ok(())
}

fn known(kind: &str, known: &BTreeSet<String>, name: &str) -> Result<(), String> {
    if known.contains(name) { Ok(()) } else { Err(missing(kind, known.iter(), name)) }
}

fn missing<'a>(kind: &str, known: impl Iterator<Item = &'a String>, name: &str) -> String {
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    let so_far = if known.is_empty() {
        "there are none so far".to_owned()
    } else {
        format!("so far there are {}", known.join(", "))
    };
    format!("there is no {kind} `{name}`; {so_far}")
}

fn add(kind: &str, known: &mut BTreeSet<String>, name: &str) -> Result<(), String> {
    is_new(kind, !known.insert(name.to_owned()), name)
}

fn is_new(kind: &str, known: bool, name: &str) -> Result<(), String> {
    if known { Err(format!("there is already the {kind} `{name}`; give this one another name")) } else { Ok(()) }
}

/// Takes note of members, each by its name, and of the group that they make.
fn add_members(
    kind: &str,
    known: &mut BTreeMap<String, Vec<String>>,
    group: Option<String>,
    members: &[String],
) -> Result<(), String> {
    let with_members = group.map(|group| (group, members.to_owned()));
    let each = members.iter().map(|member| (member.clone(), vec![member.clone()]));
    for (name, members) in each.chain(with_members) {
        is_new(kind, known.insert(name.clone(), members).is_some(), &name)?;
    }
    Ok(())
}
