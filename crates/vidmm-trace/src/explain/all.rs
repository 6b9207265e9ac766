//! The stories of all allocations of a run, read at once.

use std::collections::BTreeMap;

use vidmm::{AllocationId, Event, NumberedEvent};

use super::concern::{Concern, Index};
use super::story::Story;
use super::waits::Plans;
use super::whole::{GONE, end};
use super::world::World;

/// Reads the events of a run, in order, and explains those of every allocation: the texts are those of
/// [`Explanation`](super::Explanation), but for steps beyond a limit.
#[derive(Debug, Default)]
pub struct Explanations {
    world: World,
    plans: Plans,
    index: Index,
    stories: BTreeMap<AllocationId, Story>,
    /// The stories of allocations that are gone, but for the state at the end of the log.
    over: Vec<(AllocationId, String)>,
    /// Steps of allocations that are not gone.
    steps: usize,
    steps_max: usize,
}

impl Explanations {
    /// Begins. While the allocations that are not gone have `steps_max` steps together, further steps are only counted, and the
    /// texts say how many.
    pub fn new(steps_max: usize) -> Self {
        Self { steps_max, ..Self::default() }
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
        if let Event::AllocationCreated { allocation, .. } = event.event {
            let story = Story::new(event, &self.world);
            self.steps += story.steps();
            self.stories.insert(allocation, story);
        }
        let allocations = match self.index.concern(&event.event) {
            Concern::All => self.stories.keys().copied().collect(),
            Concern::Some(mut allocations) => {
                allocations.sort_unstable();
                allocations.dedup();
                allocations
            }
        };
        allocations.into_iter().for_each(|allocation| self.tell(allocation, event));
    }

    fn tell(&mut self, allocation: AllocationId, event: &NumberedEvent) {
        let Some(story) = self.stories.get_mut(&allocation) else { return };
        let before = story.steps();
        story.set_full(self.steps >= self.steps_max);
        story.event(event, &self.world, &self.plans);
        self.steps += story.steps() - before;
        if story.is_over() {
            self.steps -= story.steps();
            self.over.push((allocation, story.life(&self.world)));
            self.stories.remove(&allocation);
        }
    }

    /// The explanations of all allocations, in no order.
    pub fn finish(self) -> impl Iterator<Item = (AllocationId, String)> {
        let Self { world, stories, over, .. } = self;
        let gone = end(world.events, GONE);
        let over = over.into_iter().map(move |(allocation, life)| (allocation, life + &gone));
        over.chain(stories.into_iter().map(move |(allocation, story)| (allocation, story.text(&world))))
    }
}
