//! The names that steps have given so far, and a check that other steps name existing objects.

use std::collections::BTreeMap;

use vidmm_trace::ByteSize;

use super::until::Until;
use super::{DEFAULT_DEVICE, DEFAULT_PROCESS};
use crate::scenario::limits::MAX_CREATED;

/// The kind of object that a name belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Process,
    Device,
    Allocation,
    Mapping,
    Reservation,
    /// Kernels and command buffers.
    Kernel,
    Fence,
    Use,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Device => "device",
            Self::Allocation => "allocation",
            Self::Mapping => "mapping",
            Self::Reservation => "reservation",
            Self::Kernel => "kernel",
            Self::Fence => "fence",
            Self::Use => "use",
        }
    }
}

/// The names that steps have given so far. Each step shows its names in the order in which they are checked.
#[derive(Debug)]
pub(super) struct Known {
    /// Whether there are no GPU virtual addresses.
    pub is_physical: bool,
    /// The members of each name of a kind: itself, or those of a group.
    names: BTreeMap<Kind, BTreeMap<String, Vec<String>>>,
    /// The processes of devices.
    owners: BTreeMap<String, String>,
    /// Bytes of all allocations that were created.
    created: u64,
    /// Set while nothing is checked, and names of objects that do not exist are taken out of lists.
    pub prunes: bool,
    /// Set by a step whose list has lost all its names.
    pub is_orphan: bool,
}

impl Known {
    /// The names that are there before the first step.
    pub fn new(is_physical: bool) -> Self {
        let default = |name: &str| [(name.to_owned(), vec![name.to_owned()])].into();
        let names = [(Kind::Process, default(DEFAULT_PROCESS)), (Kind::Device, default(DEFAULT_DEVICE))].into();
        Self { is_physical, names, owners: BTreeMap::new(), created: 0, prunes: false, is_orphan: false }
    }

    /// Adds the bytes of new allocations, of which there is a limit: each page that has content is kept.
    pub fn add_bytes(&mut self, bytes: u64) -> Result<(), String> {
        if self.prunes {
            return Ok(());
        }
        self.created = self.created.saturating_add(bytes);
        match self.created <= MAX_CREATED {
            true => Ok(()),
            false => Err(format!("the steps create more than {} in all; make them smaller", ByteSize(MAX_CREATED))),
        }
    }

    /// Checks the list that a step is about. Without any of its members the step does nothing.
    ///
    /// # Errors
    ///
    /// Returns the problem, and what to write instead; so do the functions that follow.
    pub fn about(&mut self, kind: Kind, list: &mut Vec<String>) -> Result<(), String> {
        let was_empty = list.is_empty();
        self.list(kind, list)?;
        self.is_orphan |= list.is_empty() && !was_empty;
        Ok(())
    }

    /// Checks another list of names. Members are put in the place of groups.
    pub fn list(&self, kind: Kind, list: &mut Vec<String>) -> Result<(), String> {
        if self.prunes {
            list.retain(|name| self.has(kind, name));
            return Ok(());
        }
        let unmapped =
            |name: &&String| kind == Kind::Mapping && !self.has(kind, name) && self.has(Kind::Allocation, name);
        if let Some(name) = list.iter().find(unmapped) {
            return Err(format!("`{name}` is not mapped; write a step with `map = \"{name}\"` before this one"));
        }
        let members = list.iter().map(|name| self.members(kind, name)).collect::<Result<Vec<_>, _>>()?;
        *list = members.concat();
        Ok(())
    }

    /// Checks the work and the fences that work waits for.
    pub fn after(&self, list: &mut Vec<String>) -> Result<(), String> {
        let is_there = |name: &str| self.has(Kind::Kernel, name) || self.has(Kind::Fence, name);
        if self.prunes {
            list.retain(|name| is_there(name));
        }
        let missing = list.iter().find(|name| !is_there(name));
        missing.map_or(Ok(()), |name| Err(self.missing("kernel or fence", Kind::Kernel, name)))
    }

    /// Checks a name.
    pub fn one(&self, kind: Kind, name: &str) -> Result<(), String> {
        if self.prunes { Ok(()) } else { self.members(kind, name).map(drop) }
    }

    /// Checks a name that may be left out.
    pub fn optional(&self, kind: Kind, name: &Option<String>) -> Result<(), String> {
        name.iter().try_for_each(|name| self.one(kind, name))
    }

    /// Checks a name that is no group's; `advice` says what to do without groups.
    pub fn single(&self, kind: Kind, name: &str, advice: &str) -> Result<(), String> {
        let mut members = vec![name.to_owned()];
        self.list(kind, &mut members)?;
        if self.prunes || members == [name] { Ok(()) } else { Err(format!("`{name}` is a group; {advice}")) }
    }

    /// Adds the name of a new object.
    pub fn add(&mut self, kind: Kind, name: &str) -> Result<(), String> {
        self.add_group(kind, None, &[name.to_owned()])
    }

    /// Adds the mappings that are named by their allocations. Groups of allocations of which all are mapped need no name here.
    pub fn add_mappings(&mut self, names: &[String]) -> Result<(), String> {
        self.add_group(Kind::Mapping, None, names)
    }

    /// Adds the names of new objects, and of the group that they make.
    pub fn add_group(&mut self, kind: Kind, group: Option<String>, members: &[String]) -> Result<(), String> {
        if self.prunes {
            return Ok(());
        }
        let with_members = group.map(|group| (group, members.to_owned()));
        let each = members.iter().map(|member| (member.clone(), vec![member.clone()]));
        for (name, members) in each.chain(with_members) {
            self.is_new(kind, &name)?;
            self.names.entry(kind).or_default().insert(name, members);
        }
        Ok(())
    }

    /// Adds the name of a new kernel or command buffer.
    pub fn add_work(&mut self, name: &str) -> Result<(), String> {
        if !matches!(Until::from(name.to_owned()), Until::Kernel(_)) {
            return Err(format!("`wait = \"{name}\"` means something else; give the kernel another name"));
        }
        self.is_new(Kind::Fence, name)?;
        self.add(Kind::Kernel, name)
    }

    /// Checks that no object of a kind has this name.
    pub fn is_new(&self, kind: Kind, name: &str) -> Result<(), String> {
        let is_there = self.names.get(&kind).is_some_and(|names| names.contains_key(name));
        if !is_there || self.prunes {
            return Ok(());
        }
        let default = match (kind, name) {
            (Kind::Process, DEFAULT_PROCESS) => ": it is made when the first step needs it",
            (Kind::Device, DEFAULT_DEVICE) => {
                ", of the process `P`: it is made when the first step needs it, and steps that name no device are for it"
            }
            _ => "",
        };
        Err(format!("there is already the {} `{name}`{default}; give this one another name", kind.name()))
    }

    /// The device `name` is of a process.
    pub fn add_device(&mut self, name: &str, process: Option<&str>) -> Result<(), String> {
        self.add(Kind::Device, name)?;
        self.owners.insert(name.to_owned(), process.unwrap_or(DEFAULT_PROCESS).to_owned());
        Ok(())
    }

    /// Whether there is such an object.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.named(kind, name).is_some()
    }

    /// The objects of a name. A group of allocations of which all are mapped is a group of mappings.
    fn named(&self, kind: Kind, name: &str) -> Option<&[String]> {
        let of = |kind: Kind| self.names.get(&kind).and_then(|names| names.get(name)).map(Vec::as_slice);
        let mapped = || {
            let mappings = self.names.get(&Kind::Mapping)?;
            of(Kind::Allocation).filter(|group| group.iter().all(|member| mappings.contains_key(member)))
        };
        of(kind).or_else(|| if kind == Kind::Mapping { mapped() } else { None })
    }

    fn members(&self, kind: Kind, name: &str) -> Result<&[String], String> {
        self.named(kind, name).ok_or_else(|| self.missing(kind.name(), kind, name))
    }

    fn missing(&self, what: &str, kind: Kind, name: &str) -> String {
        let known = self.names.get(&kind).into_iter().flatten();
        let known: Vec<String> = known.map(|(name, _)| format!("`{name}`")).collect();
        let so_far = match &known[..] {
            [] => "there are none so far".to_owned(),
            known => format!("so far there are {}", known.join(", ")),
        };
        let other = self.names.iter().find(|(_, names)| names.contains_key(name));
        let instead = match other {
            Some((Kind::Device, _)) if kind == Kind::Process => {
                let process = self.owners.get(name).map_or(DEFAULT_PROCESS, String::as_str);
                format!("`{name}` is a device; its process is `{process}`")
            }
            Some((other, _)) => format!("`{name}` is the name of a {}; {so_far}", other.name()),
            None => so_far,
        };
        format!("there is no {what} `{name}`; {instead}")
    }
}
