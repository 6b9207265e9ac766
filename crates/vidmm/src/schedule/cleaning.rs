//! Write-behind: while engines leave the bus alone, written content at the cold end of a memory is copied out ahead of the eviction (D37).
//!
//! A copy is made in chunks of at most 250 us, one at a time, each when the paging engine has nothing else to do: so nobody waits for
//! longer than a chunk. The speed of the bus is learned from the chunks. The copies take no more than a share of the time. The cold end is
//! what goes next, up to a watermark; memory that is free beyond a half counts as clean. Clean content that is written again before the
//! allocation goes was copied in vain: the watermark falls. The watermark rises with each eviction of clean content, and slowly with each
//! eviction that copies.

use crate::{
    budget::account::Account,
    engines::engine::{Engine, PacketWork},
    plans::Plans,
    schedule::{Schedule, waiting::Power},
    state::State,
};

impl Schedule {
    /// Copies the next chunk out, if engines leave the bus alone and there is something to clean.
    pub(crate) fn clean(&mut self, state: &mut State, plans: &mut Plans) {
        let is_free = self.may_copy(state, plans);
        self.cleaner.is_kept_back = !is_free;
        if !self.cleaner.is_under_way(state, plans) && is_free {
            self.cleaner.begin_chunk(state, plans);
        }
    }

    /// Whether another look may find what the last look did not: something has happened, or the bus was in use and is free.
    pub(crate) fn may_clean(&self, state: &State, plans: &Plans) -> bool {
        self.cleaner.has_news(state) || self.cleaner.is_kept_back && self.may_copy(state, plans)
    }

    fn may_copy(&self, state: &State, plans: &Plans) -> bool {
        self.turns.power == Power::Up && is_bus_free(state, plans)
    }
}

/// Whether engines leave the bus alone, and the paging engine has nothing to do.
fn is_bus_free(state: &State, plans: &Plans) -> bool {
    let State { engines, objects, adapter, .. } = state;
    let uses_bus = |(engine, record): (usize, &Engine)| match record.in_flight().front().map(|packet| &packet.work) {
        None => false,
        Some(PacketWork::Paging { .. }) => true,
        Some(&PacketWork::User { context, .. }) => {
            // Work reaches the memory alone that the list named when the work was submitted.
            let reaches_system = objects[objects[context].device].list[Account::SYSTEM].peak() > 0;
            reaches_system || engine == adapter.paging_engine as usize
        }
    };
    plans.stream.is_at_rest()
        && !plans.builder.has_work()
        && engines.recovery.is_over()
        && !engines.engines.iter().enumerate().any(uses_bus)
}
