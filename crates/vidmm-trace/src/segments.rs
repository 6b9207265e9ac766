//! The segments of an adapter, by its log.

use std::borrow::Cow;

use vidmm::contract::SegmentSet;
use vidmm::event::{ApertureSegmentFacts, MemorySegmentFacts};
use vidmm::{Event, MemorySegmentGroup, SegmentId};

/// The segments of an adapter, and the groups in which they count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segments {
    memory: Vec<MemorySegmentFacts>,
    apertures: Vec<ApertureSegmentFacts>,
    system_group: MemorySegmentGroup,
}

impl Default for Segments {
    /// No segments: no adapter has started.
    fn default() -> Self {
        Self { memory: Vec::new(), apertures: Vec::new(), system_group: MemorySegmentGroup::NonLocal }
    }
}

impl Segments {
    /// The segments of the event that starts an adapter; none of any other event.
    pub fn of(event: &Event) -> Option<Self> {
        match *event {
            Event::AdapterStarted { ref memory, ref apertures, system_group, .. } => {
                Some(Self { memory: memory.clone(), apertures: apertures.clone(), system_group })
            }
            _ => None,
        }
    }

    /// The memory segments, in the driver's order.
    pub fn memory(&self) -> &[MemorySegmentFacts] {
        &self.memory
    }

    /// The aperture segments, in the driver's order.
    pub fn apertures(&self) -> impl Iterator<Item = SegmentId> {
        self.apertures.iter().map(|aperture| aperture.segment)
    }

    /// Whether a segment is a memory segment.
    pub fn is_memory(&self, segment: SegmentId) -> bool {
        self.memory.iter().any(|memory| memory.segment == segment)
    }

    /// The group in which allocations in a segment count, if they count toward a budget.
    pub fn group(&self, segment: SegmentId) -> Option<MemorySegmentGroup> {
        let memory = self.memory.iter().find(|memory| memory.segment == segment);
        memory.map_or(Some(self.system_group), |memory| memory.group)
    }

    /// The name of a segment in scenarios: local memory is the first memory segment, `memory-2` the second; the same of apertures.
    pub fn name(&self, segment: SegmentId) -> Cow<'static, str> {
        match self.apertures().position(|aperture| aperture == segment) {
            Some(0) => return "the aperture".into(),
            Some(at) => return format!("aperture-{}", at + 1).into(),
            None => {}
        }
        match self.memory.iter().position(|memory| memory.segment == segment) {
            Some(0) => "local memory".into(),
            Some(at) => format!("memory-{}", at + 1).into(),
            None => "system memory".into(),
        }
    }

    /// The names of a set of segments.
    pub fn names(&self, set: SegmentSet) -> Cow<'static, str> {
        let memory = self.memory.iter().filter(|memory| set.contains(memory.segment));
        let mut names: Vec<_> = memory.map(|memory| self.name(memory.segment)).collect();
        let apertures = (1..).zip(self.apertures()).filter(|&(_, aperture)| set.contains(aperture));
        names.extend(apertures.map(|(number, _)| match number {
            1 => "system memory".into(),
            further => format!("aperture-{further}").into(),
        }));
        match &names[..] {
            [] => "no segment".into(),
            [local, system] if local == "local memory" && system == "system memory" => "local or system memory".into(),
            names => names.join(" or ").into(),
        }
    }
}
