//! Residency: requests, waits, places, reasons to leave, and the allocations that took the room.

use vidmm::event::{ContentSource, EvictReason, PrefetchReason};
use vidmm::{AllocationId, Event, EvictFlags, MakeResidentFlags, OfferFlags, OfferPriority, ReclaimResult};

use super::rooms::Rooms;
use super::subject::Subject;
use super::tale::Tale;
use super::waits::{Ended, Plans, Requests};
use super::words::{capitalised, evict_reason, refusal, time};
use super::world::World;
use crate::ByteSize;

impl Subject {
    /// Tells the events of its residency.
    pub fn of_residency(
        &mut self,
        event: &Event,
        world: &World,
        tale: &mut Tale,
        (plans, requests): (&Plans, &mut Requests),
        rooms: &mut Rooms,
    ) {
        match event {
            Event::MakeResident { .. } | Event::MakeResidentRefused { .. } | Event::Evict { .. } => {
                self.of_lists(event, world, tale, requests);
            }
            Event::Offered { .. }
            | Event::Reclaimed { .. }
            | Event::ContentDiscarded { .. }
            | Event::Decommitted { .. } => self.of_offers(event, world, tale, requests),
            Event::Granted { queue, paging_fence_value, plans: granted, .. } => {
                requests.grant((*queue, *paging_fence_value, granted), plans, self.id, tale.at());
            }
            Event::PagingFenceSignaled { queue, value } => {
                for ended in requests.end(*queue, *value, tale.at()) {
                    became_ready(&ended, world, tale);
                }
            }
            Event::Evicted { allocation, .. } if *allocation == self.id => self.left(event, world, tale, rooms),
            Event::Placed { allocation, .. } if *allocation == self.id => self.came(event, world, tale),
            Event::Cleaned { allocation, .. } if *allocation == self.id => cleaned(event, tale),
            Event::Announced { device, allocations } if allocations.contains(&self.id) => {
                let position = allocations.iter().position(|id| *id == self.id).unwrap_or(0) + 1;
                let device = world.device(*device);
                tale.tell(format!(
                    "{} announced that it needs the allocation soon, as number {position}.",
                    capitalised(&device)
                ));
            }
            Event::Prefetched { plan, allocation, reason } if *allocation == self.id => {
                let why = match reason {
                    PrefetchReason::Announced { device } => format!("{} had announced it", world.device(*device)),
                    PrefetchReason::Policy => "the policy expected a use".to_owned(),
                };
                tale.tell(format!("While engines left the bus alone, it came into free memory ahead of a MakeResident: {why} (plan {plan})."));
            }
            _ => {}
        }
    }

    fn of_lists(&mut self, event: &Event, world: &World, tale: &mut Tale, requests: &mut Requests) {
        match *event {
            Event::MakeResident { device, queue, ref allocations, flags, paging_fence_value, ref waiting, .. } => {
                let Some(named) = self.named(allocations) else { return };
                let count = self.counts.entry(device).or_default();
                *count += named;
                let count = *count;
                let anew = if count == named { "" } else { " once more" };
                let with = with_others(allocations);
                let how = if flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) {
                    ", having nothing left to trim"
                } else {
                    ""
                };
                let answer = if waiting.contains(&self.id) {
                    requests.ask(device, queue, paging_fence_value, tale.at());
                    format!("it had to wait (value {paging_fence_value} of {queue})")
                } else {
                    "it was already".to_owned()
                };
                tale.tell(format!(
                    "{} asked for it to be resident{anew}{how} ({with}count {count}): {answer}.",
                    capitalised(&world.device(device))
                ));
            }
            Event::MakeResidentRefused { device, ref allocations, ref shortages, reason, .. } => {
                if self.named(allocations).is_none() {
                    return;
                }
                tale.sums.refused += 1;
                let to_trim = shortages.iter().map(|shortage| {
                    let memory = world.segments.name(shortage.account.segment);
                    format!("{} of {memory}", ByteSize(shortage.num_bytes_to_trim))
                });
                let to_trim = to_trim.collect::<Vec<_>>().join(" and ");
                let held = shortages.iter().map(|shortage| {
                    let segment = shortage.account.segment;
                    match world.holders.of(segment) {
                        holders if holders.is_empty() => String::new(),
                        holders => format!(" Of {} {holders}.", world.segments.name(segment)),
                    }
                });
                tale.tell(format!(
                    "{} asked for it to be resident ({}{} to trim) and was refused: {}.{}",
                    capitalised(&world.device(device)),
                    with_others(allocations),
                    if to_trim.is_empty() { "nothing" } else { &to_trim },
                    refusal(reason),
                    held.collect::<String>()
                ));
            }
            Event::Evict { device, ref allocations, flags, .. } => {
                let Some(named) = self.named(allocations) else { return };
                let count = self.counts.entry(device).or_default();
                *count = count.saturating_sub(named);
                let required = match (*count, flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY)) {
                    (0, true) => "may leave when room is wanted",
                    (0, false) => "is to leave",
                    _ => "is still required",
                };
                let clean = if flags.contains(EvictFlags::NOT_WRITTEN_TO) { "not written to, " } else { "" };
                let device = capitalised(&world.device(device));
                tale.tell(format!("{device} evicted it from its list ({clean}count {count}): it {required}."));
            }
            _ => {}
        }
    }

    fn of_offers(&mut self, event: &Event, world: &World, tale: &mut Tale, requests: &mut Requests) {
        match *event {
            Event::Offered { device, ref allocations, priority, flags, .. } if self.named(allocations).is_some() => {
                self.offered = true;
                let device = capitalised(&world.device(device));
                let (how, more) = (offer_priority(priority), offer_flags(flags));
                tale.tell(format!("{device} offered it{how}: once the work before had ended its content {more}."));
            }
            Event::Reclaimed { device, queue, ref allocations, ref results, paging_fence_value, .. } => {
                let position = allocations.iter().position(|&id| id == self.id);
                let Some(&result) = position.and_then(|position| results.get(position)) else { return };
                self.offered = false;
                let answer = match result {
                    ReclaimResult::Ok => "its content was what it had been",
                    ReclaimResult::Discarded => "its content was lost, and reads as zero",
                    ReclaimResult::NotCommitted => {
                        "its content and its backing store were lost; it can only be destroyed"
                    }
                };
                if paging_fence_value > 0 && self.is_listed_by(device) {
                    requests.ask(device, queue, paging_fence_value, tale.at());
                }
                tale.tell(format!("{} took it back: {answer}.", capitalised(&world.device(device))));
            }
            // With a plan, its eviction says so.
            Event::ContentDiscarded { allocation, plan: None } if allocation == self.id => {
                tale.sums.discarded += 1;
                tale.tell("Its content, which was in system memory only, was discarded.");
            }
            Event::Decommitted { allocation } if allocation == self.id => {
                tale.tell("Its backing store was given back to the system.");
            }
            _ => {}
        }
    }

    /// The number of times that a call names it; none if it does not.
    fn named(&self, allocations: &[AllocationId]) -> Option<u64> {
        let count = allocations.iter().filter(|&&id| id == self.id).count() as u64;
        (count > 0).then_some(count)
    }

    fn left(&mut self, event: &Event, world: &World, tale: &mut Tale, rooms: &mut Rooms) {
        let &Event::Evicted { plan, segment, ref extents, copied, reason, discarded, wanted_by, .. } = event else {
            return;
        };
        self.place = None;
        let place = world.segments.name(segment);
        let content = match (discarded, copied) {
            (true, _) => "; its content was discarded",
            (_, true) => "; its content was copied to system memory",
            _ if world.segments.is_memory(segment) && reason != EvictReason::Destroyed => "; nothing had to be copied",
            _ => "",
        };
        let wanted_by = wanted_by
            .map(|wanted| wanted.device)
            .filter(|&device| device != self.owner || reason != EvictReason::Promoted);
        let for_whom = wanted_by.map_or_else(String::new, |device| format!(", for {}", world.device(device)));
        let position = tale.tell_for(
            format!(
                "It left {place} {}{for_whom}{content} (plan {plan}).",
                evict_reason(reason, world.policy.as_deref())
            ),
            wanted_by,
        );
        tale.sums.left += 1;
        tale.sums.discarded += u64::from(discarded);
        tale.sums.bytes_out = tale.sums.bytes_out.saturating_add(if copied { self.size } else { 0 });
        if let Some(device) = wanted_by {
            *tale.sums.wanted_by.entry(device).or_default() += 1;
        }
        self.left = Some((position, plan, segment));
        if !segment.is_system() {
            rooms.open(position, plan, segment, extents);
        }
    }

    fn came(&mut self, event: &Event, world: &World, tale: &mut Tale) {
        let &Event::Placed { plan, segment, content, .. } = event else { return };
        self.place = Some(segment);
        let place = world.segments.name(segment);
        let how = match content {
            ContentSource::Fill => "filled with zeros, since it had no content",
            ContentSource::BackingStore => "with its content copied in from system memory",
            ContentSource::InPlace => "where it lay, without moving a byte",
        };
        tale.sums.came_in += 1;
        let copied = if content == ContentSource::BackingStore { self.size } else { 0 };
        tale.sums.bytes_in = tale.sums.bytes_in.saturating_add(copied);
        // An allocation that leaves one place for another in one plan was moved.
        if let Some((position, _, from)) = self.left.take().filter(|&(_, before, _)| before == plan) {
            let Some(before) = tale.sentences.get(position) else { return };
            let why = before.text.trim_end_matches('.').to_owned();
            let where_to = match world.segments.is_memory(segment) {
                true if from == segment => format!("moved: it went to another place there, {how}"),
                true => format!("promoted: it went to {place}, {how}"),
                false => format!("demoted: it is resident in {place} from now on"),
            };
            return tale.tell_anew(position, format!("{why}, and was {where_to}."));
        }
        tale.tell(format!("It got a place in {place}, {how} (plan {plan})."));
    }
}

/// A part of the content was copied out ahead of an eviction.
fn cleaned(event: &Event, tale: &mut Tale) {
    let &Event::Cleaned { plan, offset, size, is_last, ahead, watermark, .. } = event else { return };
    tale.sums.bytes_out = tale.sums.bytes_out.saturating_add(size);
    if offset == 0 {
        tale.tell(format!(
            "While engines left the bus alone, its content began to be copied out ahead of an eviction: {} of {} at the cold end of the \
             memory went before it, or were free beyond a half (plan {plan}).",
            ByteSize(ahead),
            ByteSize(watermark)
        ));
    }
    if is_last {
        tale.tell(format!(
            "The last part is copied out ahead (plan {plan}): if nothing writes meanwhile, an eviction before the next write copies nothing."
        ));
    }
}

/// Other allocations that a call names.
fn with_others(allocations: &[AllocationId]) -> String {
    match allocations.len() {
        1 => String::new(),
        2 => "with another allocation, ".to_owned(),
        count => format!("with {} other allocations, ", count - 1),
    }
}

fn became_ready(ended: &Ended, world: &World, tale: &mut Tale) {
    tale.sums.waited = tale.sums.waited.saturating_add(ended.waited);
    tale.sums.longest_wait = tale.sums.longest_wait.max(ended.waited);
    let mut details = vec![format!("{} after the call", time(ended.waited))];
    details.extend(ended.for_what.iter().cloned());
    tale.tell(format!("It was ready for {} ({}).", world.device(ended.device), details.join("; ")));
}

const fn offer_priority(priority: OfferPriority) -> &'static str {
    match priority {
        OfferPriority::Low => " as worthless",
        OfferPriority::Normal => " as easy to make again",
        OfferPriority::High => " as better kept",
        OfferPriority::Auto => " as its priority says",
    }
}

fn offer_flags(flags: OfferFlags) -> &'static str {
    match (flags.contains(OfferFlags::OFFER_IMMEDIATELY), flags.contains(OfferFlags::ALLOW_DECOMMIT)) {
        (true, true) => "goes at once, and its backing store with it",
        (true, false) => "goes at once",
        (false, true) => "and its backing store may go when room is wanted",
        (false, false) => "may go when room is wanted",
    }
}
