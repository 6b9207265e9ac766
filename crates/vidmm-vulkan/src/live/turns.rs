//! Uses by applications: each is one of a self-scheduled context of the manager's (D25), and lasts until the application's own
//! submission has ended.

use std::collections::{BTreeMap, VecDeque};

use vidmm::contract::EngineFence;
use vidmm::{ContextId, DeviceId};

use crate::block::Block;
use crate::device::Point;

use super::command::{Turn, UseNo};

/// The uses that were begun: those that wait for their turn, and those that have it.
#[derive(Default)]
pub(super) struct Turns {
    /// Those that the manager has not let begin, by their context and number.
    waiting: BTreeMap<(ContextId, u64), (DeviceId, Turn)>,
    /// Those that it has let begin, and whose waits may not be over.
    queued: VecDeque<Begun>,
    /// Those of each context that have their turn, oldest first.
    under_way: BTreeMap<ContextId, VecDeque<UnderWay>>,
    /// Uses whose end was told before their turn.
    told: BTreeMap<UseNo, Option<Point>>,
}

/// A use that may begin behind some packets of the paging engine.
pub(super) struct Begun {
    pub context: ContextId,
    pub number: u64,
    pub waits: Vec<EngineFence>,
}

/// A use that has its turn.
struct UnderWay {
    number: u64,
    device: DeviceId,
    /// The last fence of the paging engine that it waits for on the GPU; 0 if none.
    paging: u64,
    end: End,
    /// The application submits it by itself, perhaps to another queue.
    is_elsewhere: bool,
    after: After,
}

/// The end of a use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The application has still to tell it.
    Untold(UseNo),
    /// It ends when the point is reached; none is at once.
    At(Option<Point>),
    /// A thread waits for that point.
    Watched(Point),
}

/// The action after the end of a use.
pub(super) enum After {
    Nothing,
    /// The block is free.
    Recycle(Block),
    /// The bytes go to the one who waits for them, and the block is free.
    Deliver(Block, usize, std::sync::mpsc::Sender<Vec<u8>>),
}

/// A use that has ended.
pub(super) struct EndedUse {
    pub number: u64,
    pub device: DeviceId,
    /// The point at which the application's own submission has ended.
    pub elsewhere: Option<Point>,
    pub after: After,
}

impl Turns {
    /// A use waits for its turn.
    pub fn wait(&mut self, context: ContextId, number: u64, device: DeviceId, turn: Turn) {
        self.waiting.insert((context, number), (device, turn));
    }

    /// The manager lets a use begin.
    pub fn let_begin(&mut self, begun: Begun) {
        self.queued.push_back(begun);
    }

    /// The next use all of whose waits the queue has got, and its turn.
    pub fn next(&mut self, is_submitted: impl Fn(&EngineFence) -> bool) -> Option<(Begun, DeviceId, Turn)> {
        let at = self.queued.iter().position(|begun| begun.waits.iter().all(&is_submitted))?;
        let begun = self.queued.remove(at)?;
        let (device, turn) = self.waiting.remove(&(begun.context, begun.number))?;
        Some((begun, device, turn))
    }

    /// A use has its turn now.
    pub fn begin(&mut self, begun: &Begun, device: DeviceId, end: End, after: After) {
        let is_elsewhere = matches!(end, End::Untold(_));
        let end = match end {
            End::Untold(number) => self.told.remove(&number).map_or(end, End::At),
            told => told,
        };
        let paging = begun.waits.iter().map(|wait| wait.fence_id).max().unwrap_or(0);
        let use_ = UnderWay { number: begun.number, device, paging, end, is_elsewhere, after };
        self.under_way.entry(begun.context).or_default().push_back(use_);
    }

    /// The application has told the end of a use.
    pub fn tell(&mut self, number: UseNo, at: Option<Point>) {
        match self.under_way.values_mut().flatten().find(|of| of.end == End::Untold(number)) {
            Some(of) => of.end = End::At(at),
            None => {
                self.told.insert(number, at);
            }
        }
    }

    /// The contexts of which uses have their turn.
    pub fn contexts(&self) -> Vec<ContextId> {
        self.under_way.keys().copied().collect()
    }

    /// The end of the first use of a context that has its turn, and the last fence of the paging engine that it waits for.
    pub fn first_end(&mut self, context: ContextId) -> Option<(&mut End, u64)> {
        let first = self.under_way.get_mut(&context)?.front_mut()?;
        Some((&mut first.end, first.paging))
    }

    /// The first use of a context has ended.
    pub fn end_first(&mut self, context: ContextId) -> Option<EndedUse> {
        let uses = self.under_way.get_mut(&context)?;
        let UnderWay { number, device, end, is_elsewhere, after, .. } = uses.pop_front()?;
        if uses.is_empty() {
            self.under_way.remove(&context);
        }
        let elsewhere = match end {
            End::At(point) if is_elsewhere => point,
            End::Watched(point) if is_elsewhere => Some(point),
            _ => None,
        };
        Some(EndedUse { number, device, elsewhere, after })
    }
}
