//! The engine of the application: a packet of its is a turn, which lasts until the application's own submission has ended.

use std::collections::{BTreeMap, VecDeque};

use vidmm::DeviceId;
use vidmm::contract::{DmaBuffer, EngineFence, Packet};

use crate::block::Block;
use crate::device::Point;

use super::command::{Turn, UseNo};

/// The uses that were begun: those that wait for their turn, and those that have it.
#[derive(Default)]
pub(super) struct Turns {
    /// Those that the manager has not handed out, by the number in their buffer.
    waiting: BTreeMap<u64, (DeviceId, Turn)>,
    last: u64,
    /// Those that the manager has handed out, and whose waits are not over.
    pub queued: VecDeque<Packet>,
    under_way: VecDeque<UnderWay>,
    /// Uses whose end was told before their turn.
    told: BTreeMap<UseNo, Option<Point>>,
}

/// A use that has its turn.
struct UnderWay {
    signal: EngineFence,
    buffer: DmaBuffer,
    device: DeviceId,
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
    pub signal: EngineFence,
    pub buffer: DmaBuffer,
    pub device: DeviceId,
    /// The point at which the application's own submission has ended.
    pub elsewhere: Option<Point>,
    pub after: After,
}

impl Turns {
    /// A use waits for its turn. Returns the bytes of its packet, which name it.
    pub fn wait(&mut self, device: DeviceId, turn: Turn) -> Vec<u8> {
        self.last += 1;
        self.waiting.insert(self.last, (device, turn));
        self.last.to_le_bytes().to_vec()
    }

    /// It is the turn of the use that a packet names.
    pub fn take(&mut self, packet: &Packet) -> Option<(DeviceId, Turn)> {
        let named = packet.buffer.commands().try_into().ok()?;
        self.waiting.remove(&u64::from_le_bytes(named))
    }

    /// A use has its turn now.
    pub fn begin(&mut self, packet: Packet, device: DeviceId, end: End, after: After) {
        let is_elsewhere = matches!(end, End::Untold(_));
        let end = match end {
            End::Untold(number) => self.told.remove(&number).map_or(end, End::At),
            told => told,
        };
        let (signal, buffer) = (packet.signal, packet.buffer);
        self.under_way.push_back(UnderWay { signal, buffer, device, end, is_elsewhere, after });
    }

    /// The application has told the end of a use.
    pub fn tell(&mut self, number: UseNo, at: Option<Point>) {
        match self.under_way.iter_mut().find(|of| of.end == End::Untold(number)) {
            Some(of) => of.end = End::At(at),
            None => {
                self.told.insert(number, at);
            }
        }
    }

    /// The end of the first use that has its turn.
    pub fn first_end(&mut self) -> Option<&mut End> {
        self.under_way.front_mut().map(|first| &mut first.end)
    }

    /// The first use has ended.
    pub fn end_first(&mut self) -> Option<EndedUse> {
        let UnderWay { signal, buffer, device, end, is_elsewhere, after } = self.under_way.pop_front()?;
        let elsewhere = match end {
            End::At(point) if is_elsewhere => point,
            End::Watched(point) if is_elsewhere => Some(point),
            _ => None,
        };
        Some(EndedUse { signal, buffer, device, elsewhere, after })
    }

    /// Whether none has its turn.
    pub fn none_under_way(&self) -> bool {
        self.under_way.is_empty()
    }
}
