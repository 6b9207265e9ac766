//! Submissions of a device's queues, and the moments at which the program sees their ends.

use std::collections::HashMap;

use ash::vk;

use crate::descriptors::Use;
use crate::trace;

/// The queues of a device.
#[derive(Default)]
pub struct Queues {
    queues: HashMap<vk::Queue, Queue>,
    fences: HashMap<vk::Fence, Submission>,
    /// The values that submissions will signal, of each timeline.
    timelines: HashMap<vk::Semaphore, Vec<(u64, Submission)>>,
}

#[derive(Clone, Copy, Default)]
struct Queue {
    /// The number in the trace.
    number: u64,
    submitted: u64,
    /// The submissions that the program knows to have ended.
    ended: u64,
}

/// A submission: the number among those of the queue.
pub type Submission = (vk::Queue, u64);

impl Queues {
    pub fn add(&mut self, queue: vk::Queue) {
        let number = self.queues.len() as u64 + 1;
        self.queues.entry(queue).or_insert(Queue { number, ..Queue::default() });
    }

    pub fn create_timeline(&mut self, semaphore: vk::Semaphore) {
        self.timelines.insert(semaphore, Vec::new());
    }

    pub fn destroy_semaphore(&mut self, semaphore: vk::Semaphore) {
        self.timelines.remove(&semaphore);
    }

    pub fn destroy_fence(&mut self, fence: vk::Fence) {
        self.fences.remove(&fence);
    }

    /// Appends a submission with the uses, and remembers what signals the end.
    pub fn submit(&mut self, device: u64, queue: vk::Queue, uses: &[Use], signals: &[(vk::Semaphore, u64)]) {
        let Some(of) = self.queues.get_mut(&queue) else { return };
        of.submitted += 1;
        if trace::is_on() {
            let line = |Use { buffer, range, access }: &Use| {
                format!("\n{} {buffer} {} {}", access.word(), range.start, range.end - range.start)
            };
            let uses: String = uses.iter().map(line).collect();
            trace::event(format_args!("submit {device} {} {}{uses}", of.number, of.submitted));
        }
        for (semaphore, value) in signals {
            if let Some(values) = self.timelines.get_mut(semaphore) {
                values.push((*value, (queue, of.submitted)));
            }
        }
    }

    /// The fence is signalled behind all that the queue has.
    pub fn signal(&mut self, queue: vk::Queue, fence: vk::Fence) {
        self.fences.insert(fence, self.last(queue));
    }

    /// The newest submission of a queue.
    pub fn last(&self, queue: vk::Queue) -> Submission {
        (queue, self.queues.get(&queue).map_or(0, |queue| queue.submitted))
    }

    /// The newest submissions of all queues.
    pub fn all(&self) -> Vec<Submission> {
        self.queues.iter().map(|(&queue, of)| (queue, of.submitted)).collect()
    }

    /// The submission that a fence ends.
    pub fn of_fence(&self, fence: vk::Fence) -> Option<Submission> {
        self.fences.get(&fence).copied()
    }

    /// The program has seen a value of a timeline.
    pub fn reached(&mut self, device: u64, semaphore: vk::Semaphore, value: u64) {
        let Some(values) = self.timelines.get_mut(&semaphore) else { return };
        let (reached, ahead) = values.iter().partition(|(signalled, _)| *signalled <= value);
        *values = ahead;
        let reached: Vec<(u64, Submission)> = reached;
        reached.into_iter().for_each(|(_, submission)| self.end(device, submission));
    }

    /// The program knows that a submission has ended, and with it those before on the queue.
    pub fn end(&mut self, device: u64, (queue, submission): Submission) {
        if let Some(of) = self.queues.get_mut(&queue).filter(|of| of.ended < submission) {
            of.ended = submission;
            trace::event(format_args!("done {device} {} {submission}", of.number));
        }
    }
}
