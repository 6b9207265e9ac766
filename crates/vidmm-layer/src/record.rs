//! The uses of the commands of a command buffer.

use std::collections::{BTreeMap, HashSet};

use ash::vk;

use crate::descriptors::{Set, Use};
use crate::fault;

/// A part of what a command buffer uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A range that a command names.
    Use(Use),
    /// A bound set and the dynamic offsets. The content counts when the command buffer is submitted.
    Set(vk::DescriptorSet, Vec<u32>),
    /// All that a secondary command buffer uses.
    Secondary(vk::CommandBuffer),
}

/// A command buffer since its begin.
#[derive(Default)]
pub struct Record {
    steps: Vec<Step>,
    /// A known step is not added again: a second time changes nothing.
    known: HashSet<Step>,
    bound: BTreeMap<(vk::PipelineBindPoint, u32), Bound>,
    vertices: BTreeMap<u32, Option<Use>>,
    index: Option<Use>,
}

enum Bound {
    Set(vk::DescriptorSet, Vec<u32>),
    Pushed(Set),
}

impl Record {
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn add(&mut self, step: Step) {
        if self.known.insert(step.clone()) {
            self.steps.push(step);
        }
    }

    /// A command names a range, if the buffer is known.
    pub fn use_range(&mut self, range: Option<Use>) {
        range.into_iter().for_each(|range| self.add(Step::Use(range)));
    }

    pub fn execute(&mut self, secondary: vk::CommandBuffer) {
        self.add(Step::Secondary(secondary));
    }

    pub fn bind_set(&mut self, point: vk::PipelineBindPoint, number: u32, set: vk::DescriptorSet, offsets: &[u32]) {
        self.bound.insert((point, number), Bound::Set(set, offsets.to_vec()));
    }

    /// The set that pushed descriptors go to.
    pub fn pushed(&mut self, point: vk::PipelineBindPoint, number: u32) -> &mut Set {
        let bound = self.bound.entry((point, number)).or_insert_with(|| Bound::Pushed(Set::default()));
        if let Bound::Set(..) = bound {
            *bound = Bound::Pushed(Set::default());
        }
        let Bound::Pushed(set) = bound else { unreachable!("a bound set gave way") };
        set
    }

    pub fn bind_vertices(&mut self, number: u32, range: Option<Use>) {
        self.vertices.insert(number, range.filter(|_| !fault::is("no-vertex")));
    }

    pub fn bind_index(&mut self, range: Option<Use>) {
        self.index = range.filter(|_| !fault::is("no-index"));
    }

    /// Shaders run, and use the sets bound at the point.
    pub fn shade(&mut self, point: vk::PipelineBindPoint) {
        let mut steps = Vec::new();
        for (_, bound) in self.bound.iter().filter(|((at, _), _)| *at == point) {
            match bound {
                Bound::Set(set, offsets) => steps.push(Step::Set(*set, offsets.clone())),
                Bound::Pushed(set) => steps.extend(set.uses(&[]).map(Step::Use)),
            }
        }
        steps.into_iter().for_each(|step| self.add(step));
    }

    /// A draw: with the shaders run the reads of vertices, and of indices.
    pub fn draw(&mut self, is_indexed: bool) {
        self.shade(vk::PipelineBindPoint::GRAPHICS);
        let vertices = Vec::from_iter(self.vertices.values().flatten().cloned());
        let index = self.index.clone().filter(|_| is_indexed);
        vertices.into_iter().chain(index).for_each(|range| self.use_range(Some(range)));
    }
}
