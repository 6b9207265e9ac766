//! The story of one allocation in sentences: the steps, their reasons, and the devices that benefited.
//!
//! The events of a log are its only source. Steps that repeat are told once and then counted.

pub mod words;
mod cycles;
mod holders;
mod tale;
mod world;
mod rooms;
mod waits;
mod subject;
mod residency;
mod device;
mod faults;
mod notifications;
mod portions;
mod whole;
mod story;
mod pieces;
mod concern;
mod all;

use vidmm::{AllocationId, Event, NumberedEvent};

pub use all::Explanations;
use story::Story;
use waits::Plans;
use world::World;

/// The reason why there is no explanation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExplainError {
    /// The text names no allocation.
    #[error(
        "`{0}` does not name an allocation; write its number as in `7`, or `7.1` for the second that has that number"
    )]
    NotAName(String),
    /// The log never creates it.
    #[error("the log has no {name}; {known}")]
    Unknown {
        /// The name in question.
        name: AllocationId,
        /// The names that exist instead.
        known: String,
    },
}

/// Reads the name of an allocation as logs and messages have it: `allocation 7`, `7`, or `7.1` for the second allocation that
/// has the number 7.
///
/// # Errors
///
/// If the text is no such name.
pub fn allocation_name(text: &str) -> Result<AllocationId, ExplainError> {
    let number = text.trim().strip_prefix("allocation").unwrap_or(text).trim();
    let (index, generation) = number.split_once('.').unwrap_or((number, "0"));
    match (index.parse::<u32>(), generation.parse::<u32>()) {
        (Ok(index), Ok(generation)) => Ok(AllocationId::from_bits(u64::from(generation) << 32 | u64::from(index))),
        _ => Err(ExplainError::NotAName(text.to_owned())),
    }
}

/// Reads the events of a run, in order, and explains those of one allocation.
#[derive(Debug)]
pub struct Explanation {
    id: AllocationId,
    world: World,
    plans: Plans,
    story: Option<Story>,
}

impl Explanation {
    /// Begins the explanation of `allocation`.
    pub fn new(allocation: AllocationId) -> Self {
        Self { id: allocation, world: World::default(), plans: Plans::default(), story: None }
    }

    /// Names the policy that chooses among allocations of equal priority, as the header of a log has it.
    #[must_use]
    pub fn under(mut self, policy: Option<&String>) -> Self {
        self.world.policy = policy.cloned();
        self
    }

    /// Reads the next event.
    pub fn event(&mut self, event: &NumberedEvent) {
        self.world.learn(&event.event);
        self.plans.learn(&event.event);
        if let Event::AllocationCreated { allocation, .. } = event.event
            && allocation == self.id
        {
            self.story = Some(Story::new(event, &self.world));
        }
        if let Some(story) = &mut self.story {
            story.event(event, &self.world, &self.plans);
        }
    }

    /// The explanation, in lines.
    ///
    /// # Errors
    ///
    /// Returns [`ExplainError::Unknown`] if the log has no such allocation.
    pub fn finish(self) -> Result<String, ExplainError> {
        match &self.story {
            Some(story) => Ok(story.text(&self.world)),
            None => Err(ExplainError::Unknown { name: self.id, known: self.world.other_names(self.id) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for bits in [0, 7, 1 << 32 | 7, u64::MAX] {
            let name = AllocationId::from_bits(bits);
            assert_eq!(allocation_name(&name.to_string()), Ok(name));
        }
        assert_eq!(allocation_name(" 7.1 "), Ok(AllocationId::from_bits(1 << 32 | 7)));
    }

    #[test]
    fn other_names_are_refused() {
        for text in ["", "A", "7.", "-1", "7.1.2", "device 7", "4294967296"] {
            assert_eq!(allocation_name(text), Err(ExplainError::NotAName(text.to_owned())));
        }
    }
}
