//! Idle time: the work of the paging engine that nobody waits for, while engines leave the bus alone (D37).
//!
//! Prefetch comes before write-behind: content that is needed soon, before content that may go. Nothing is decided while the paging engine
//! has anything else to do.

use crate::{
    budget::account::Account,
    engines::engine::{Engine, PacketWork},
    plans::Plans,
    schedule::{cleaner::Cleaner, prefetch::Prefetcher, waiting::Power},
    state::State,
};

/// The work for idle time, and the last look at the bus.
#[derive(Debug)]
pub(crate) struct IdleTime {
    pub prefetcher: Prefetcher,
    cleaner: Cleaner,
    /// The number of the last event before the end of the look.
    seen: u64,
    /// Another look may find more as soon as the bus is free: the look found the bus in use, or decided a prefetch.
    is_kept_back: bool,
}

impl IdleTime {
    /// No look has been made yet.
    pub(crate) fn new(cleaner: Cleaner) -> Self {
        Self { prefetcher: Prefetcher::default(), cleaner, seen: 0, is_kept_back: false }
    }

    /// Decides what the paging engine does next, if engines leave the bus alone and nothing else is to be done.
    pub(crate) fn begin_work(&mut self, power: Power, state: &mut State, plans: &mut Plans) {
        let is_free = may_copy(power, state, plans);
        let may_begin = !self.cleaner.is_under_way(state, plans) && is_free;
        let has_decided = may_begin && self.prefetcher.prefetch(state, plans);
        if may_begin && !has_decided && self.cleaner.is_on() {
            self.cleaner.begin_chunk(state, plans);
        }
        // A prefetch that waits for a kernel leaves the bus free, and no event asks for the next look.
        self.is_kept_back = !is_free || has_decided;
        // The decisions of this look are no news.
        self.seen = state.moment.event_number();
    }

    /// Whether a search is awaited, or another look may find more once the bus is free, or anything has happened since the last look.
    #[inline]
    pub(crate) fn is_due(&self, state: &State) -> bool {
        self.cleaner.is_awaited() || self.is_kept_back || self.has_news(state)
    }

    /// Whether another look may find what the last look did not: something has happened, or the bus is free for more.
    pub(crate) fn may_begin(&self, power: Power, state: &State, plans: &Plans) -> bool {
        self.has_news(state) || self.is_kept_back && may_copy(power, state, plans)
    }

    /// Whether anything has happened since the last look that may matter for idle time.
    #[inline]
    fn has_news(&self, state: &State) -> bool {
        let is_used = self.cleaner.is_on() || self.prefetcher.is_on() || state.residency.may_prefetch;
        is_used && self.seen != state.moment.event_number()
    }
}

fn may_copy(power: Power, state: &State, plans: &Plans) -> bool {
    power == Power::Up && is_bus_free(state, plans)
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
