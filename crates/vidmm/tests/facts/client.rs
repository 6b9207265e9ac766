//! `vidmm-client`: sets, the manager of a residency list with its two ladders, trimming, renaming (RES-05, RES-14, RES-42).

use crate::world::*;
use vidmm::policy::PolicyChoice;
use vidmm::*;
use vidmm_client::{
    BeginSubmissionError, Forgotten, Ladder, ManageFlags, Managed, Ready, RenameError, Renamer, ResidencyManager,
    ResidencySet,
};

const LOCAL: Option<MemorySegmentGroup> = Some(MemorySegmentGroup::Local);

/// A client with a manager, and a fence that counts its submissions.
struct App {
    world: World,
    client: Client,
    manager: ResidencyManager,
    fence: MonitoredFenceId,
    submitted: u64,
    /// Completions that the manager has heard of.
    heard: usize,
}

impl App {
    fn new(pages: u64, ladder: Ladder) -> Self {
        Self::on(Config::pages(pages), ladder)
    }

    fn on(config: Config, ladder: Ladder) -> Self {
        let mut world = World::new(config);
        let client = world.client();
        let fence = world.fence();
        let manager = ResidencyManager::new(client.device, client.queue, ladder);
        Self { world, client, manager, fence, submitted: 0, heard: 0 }
    }

    fn manage(&mut self, pages: u64) -> Managed {
        self.manage_as(pages, ManageFlags::empty())
    }

    fn manage_as(&mut self, pages: u64, flags: ManageFlags) -> Managed {
        let allocation = self.world.allocate(self.client, pages);
        self.manager.manage(allocation, pages * PAGE_SIZE, flags)
    }

    fn begin(&mut self, set: &mut ResidencySet) -> Result<Ready, BeginSubmissionError> {
        self.world.call(|vidmm, _, _| self.manager.begin_submission(vidmm, self.fence, set))
    }

    /// Begins a set of these and submits work that touches nothing; the GPU does not run.
    fn submit(&mut self, members: &[Managed]) {
        let mut set = set_of(members);
        self.submit_set(&mut set);
    }

    fn submit_set(&mut self, set: &mut ResidencySet) {
        self.begin(set).unwrap();
        self.submitted += 1;
        self.world.submit_to(self.client.context, &[], &[], &[(self.fence, self.submitted)]);
        self.manager.submitted(self.submitted);
    }

    /// The GPU comes to its end, and the manager hears of it.
    fn run_all(&mut self) {
        self.world.run_all();
        for output in &self.world.outputs[self.heard..] {
            if let Output::MonitoredFenceSignaled { fence, value } = *output {
                self.manager.fence_reached(fence, value);
            }
        }
        self.heard = self.world.outputs.len();
    }

    fn notify(&mut self, flags: TrimFlags, num_bytes_to_trim: u64) -> u64 {
        self.world.call(|vidmm, _, _| self.manager.trim_notification(vidmm, flags, LOCAL, num_bytes_to_trim)).unwrap()
    }

    fn listed(&self, managed: &[Managed]) -> Vec<bool> {
        managed.iter().map(|&managed| self.manager.is_listed(managed)).collect()
    }

    /// The MakeResidents, refused ones too, and the Evicts so far, in a word each.
    fn calls(&self) -> Vec<String> {
        let call = |event: &Event| match event {
            Event::MakeResident { allocations, .. } => Some(format!("make resident {}", allocations.len())),
            Event::MakeResidentRefused { allocations, num_bytes_to_trim, flags, .. } => {
                let step = if flags.is_empty() { "refused" } else { "finally refused" };
                Some(format!("{step} {}: {}", allocations.len(), num_bytes_to_trim / PAGE_SIZE))
            }
            Event::Evict { allocations, flags, .. } => {
                let when = if flags.contains(IF_NECESSARY) { "if necessary" } else { "soon" };
                let content = if flags.contains(NOT_WRITTEN) { " unwritten" } else { "" };
                Some(format!("evict {}{content} {when}", allocations.len()))
            }
            _ => None,
        };
        self.world.events.iter().filter_map(call).collect()
    }
}

fn set_of(members: &[Managed]) -> ResidencySet {
    let mut set = ResidencySet::new();
    members.iter().for_each(|&member| _ = set.insert(member));
    set
}

/// A set of allocations that are only read.
fn read_set_of(members: &[Managed]) -> ResidencySet {
    let mut set = ResidencySet::new();
    members.iter().for_each(|&member| _ = set.insert_read(member));
    set
}

fn pages_to_trim(error: BeginSubmissionError) -> u64 {
    match error {
        BeginSubmissionError::MakeResident(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => {
            num_bytes_to_trim / PAGE_SIZE
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_set_has_each_member_once_and_none_after_it_was_cleared() {
    let mut app = App::new(8, Ladder::Trim);
    let [a, b] = [app.manage(1), app.manage(1)];
    let mut set = ResidencySet::new();
    assert_eq!([set.insert(b), set.insert(a), set.insert(b), set.insert(a)], [true, true, false, false]);
    assert_eq!(set.members(), [b, a]);
    set.clear();
    assert!(set.is_empty());
    assert_eq!([set.insert(a), set.insert(a)], [true, false]);
    assert_eq!(set.len(), 1);
    let mut default = ResidencySet::default();
    assert!(default.insert(a) && !default.insert(a));
}

#[test]
fn a_member_is_written_as_soon_as_one_use_writes_it() {
    let mut app = App::new(8, Ladder::Trim);
    let [a, b, c] = [app.manage(1), app.manage(1), app.manage(1)];
    let mut set = ResidencySet::default();
    assert_eq!([a, b, c].map(|managed| set.insert_read(managed)), [true; 3]);
    assert_eq!([set.insert(c), set.insert(a), set.insert(a), set.insert_read(a)], [false; 4]);
    assert_eq!((set.members(), set.written()), (&[a, b, c][..], &[c, a][..]));
    set.clear();
    assert!(set.insert_read(a) && set.written().is_empty());
}

/// RES-22: written content is that of the uses since the allocation became resident.
#[test]
fn an_allocation_that_was_only_read_since_it_became_resident_is_evicted_as_not_written() {
    let mut app = App::new(16, Ladder::Trim);
    let [a, b, c] = [app.manage(1), app.manage(2), app.manage(4)];
    let give_up = |app: &mut App| {
        let given_up = app.world.call(|vidmm, _, _| app.manager.give_up(vidmm, u64::MAX));
        (given_up.unwrap() / PAGE_SIZE, app.calls().split_off(app.calls().len() - 2))
    };
    let mut set = read_set_of(&[a, b, c]);
    set.insert(b);
    app.submit_set(&mut set);
    app.submit_set(&mut read_set_of(&[b]));
    let calls = ["evict 2 unwritten soon", "evict 1 soon"];
    assert_eq!(give_up(&mut app), (7, calls.map(String::from).to_vec()), "a read does not undo a write");
    app.submit_set(&mut read_set_of(&[a, b, c]));
    let calls = ["make resident 3", "evict 3 unwritten soon"];
    assert_eq!(give_up(&mut app), (7, calls.map(String::from).to_vec()), "it was written before it became resident");
    app.run_all();
    app.world.tear_down();
}

#[test]
fn a_set_that_came_to_write_a_member_is_begun_anew() {
    let mut app = App::new(16, Ladder::Trim);
    let a = app.manage(1);
    let mut set = read_set_of(&[a]);
    app.submit_set(&mut set);
    set.insert(a);
    app.submit_set(&mut set);
    app.notify(TrimFlags::TRIM_TO_BUDGET, PAGE_SIZE);
    assert_eq!(app.calls(), ["make resident 1", "evict 1 soon"]);
    app.run_all();
    app.world.tear_down();
}

#[test]
fn an_allocation_that_others_write_always_counts_as_written() {
    let mut app = App::new(16, Ladder::Trim);
    let [own, shared] = [app.manage(1), app.manage_as(2, ManageFlags::WRITTEN_BY_OTHERS)];
    app.submit_set(&mut read_set_of(&[own, shared]));
    let destroyed = app.world.call(|vidmm, _, host| app.manager.trim(vidmm, host)).unwrap();
    assert_eq!(destroyed, []);
    assert_eq!(app.calls(), ["make resident 2", "evict 1 unwritten soon", "evict 1 soon"]);
    app.run_all();
    app.world.tear_down();
}

#[test]
fn an_allocation_that_others_may_write_from_now_on_counts_as_written() {
    let mut app = App::new(16, Ladder::Trim);
    let [own, shared] = [app.manage(1), app.manage(2)];
    app.submit_set(&mut read_set_of(&[own, shared]));
    app.manager.expect_other_writers(shared).unwrap();
    app.world.call(|vidmm, _, host| app.manager.trim(vidmm, host)).unwrap();
    assert_eq!(app.calls(), ["make resident 2", "evict 1 unwritten soon", "evict 1 soon"]);
    let allocation = app.manager.forget(shared).unwrap();
    assert_eq!(app.manager.expect_other_writers(shared), Err(Forgotten(shared)), "{allocation} is managed no longer");
    app.run_all();
    app.world.tear_down();
}

/// RES-42: in each queue the period begins with what has ended there.
#[test]
fn a_long_submission_in_one_queue_keeps_only_what_it_uses() {
    let mut app = App::new(16, Ladder::Trim);
    let [scene, field, shared] = [app.manage(1), app.manage(2), app.manage(3)];
    let graphics = app.fence;
    let compute = app.world.fence();
    let context = app.world.context(app.client, COPY);
    app.fence = compute;
    app.begin(&mut set_of(&[field, shared])).unwrap();
    app.world.submit_to(context, &[], &[], &[(compute, 1)]);
    app.manager.submitted(1);
    app.fence = graphics;
    app.submit(&[scene, shared]);
    app.world.run_paging();
    app.world.complete(RENDER);
    app.manager.fence_reached(graphics, 1);
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 0);
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), PAGE_SIZE, "nothing uses the scene any more");
    assert_eq!(app.listed(&[scene, field, shared]), [false, true, true]);
    app.run_all();
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 0, "it was in use when the period began");
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 5 * PAGE_SIZE);
    app.world.tear_down();
}

#[test]
fn the_uses_of_a_forgotten_fence_count_as_ended() {
    let mut app = App::new(16, Ladder::Trim);
    let a = app.manage(1);
    app.submit(&[a]);
    app.notify(TrimFlags::PERIODIC_TRIM, 0);
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 0, "the GPU has not ended it");
    app.manager.forget_fence(app.fence);
    app.notify(TrimFlags::PERIODIC_TRIM, 0);
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), PAGE_SIZE);
    app.run_all();
    app.world.tear_down();
}

#[test]
fn only_what_is_missing_is_made_resident_in_one_call() {
    let mut app = App::new(8, Ladder::Trim);
    let [a, b, c] = [app.manage(1), app.manage(2), app.manage(3)];
    app.submit(&[a, b]);
    app.submit(&[b, c, a]);
    app.submit(&[c, a]);
    assert_eq!(app.calls(), ["make resident 2", "make resident 1"]);
    assert_eq!(app.manager.listed_bytes(), 6 * PAGE_SIZE);
    app.run_all();
    app.world.tear_down();
}

#[test]
fn the_client_waits_for_pending_allocations_and_for_no_others() {
    let mut app = App::new(8, Ladder::Trim);
    let [a, b] = [app.manage(1), app.manage(2)];
    let mut set = set_of(&[a]);
    assert_eq!(app.begin(&mut set), Ok(Ready { paging_fence_value: 1 }));
    assert_eq!(app.begin(&mut set), Ok(Ready { paging_fence_value: 1 }), "it is still under way");
    set.insert(b);
    assert_eq!(app.begin(&mut set), Ok(Ready { paging_fence_value: 2 }));
    app.run_all();
    assert_eq!(app.world.paging_fence(app.client), 2);
    app.world.tear_down();
}

/// RES-14, P03: refused, trimmed by what was asked for, tried again.
#[test]
fn the_trimming_ladder_evicts_what_was_used_longest_ago_as_far_as_needed() {
    let mut app = App::new(8, Ladder::Trim);
    let [a, b, c, d] = [app.manage(2), app.manage(3), app.manage(3), app.manage(4)];
    app.submit(&[a]);
    app.submit(&[b]);
    app.submit(&[c]);
    app.submit(&[a]);
    app.submit(&[d]);
    assert_eq!(app.calls()[3..], ["refused 1: 4", "evict 2 if necessary", "make resident 1"]);
    assert_eq!(app.listed(&[a, b, c, d]), [true, false, false, true]);
    app.run_all();
    app.world.tear_down();
}

/// RES-14, RES-15: nothing is left to trim.
#[test]
fn the_trimming_ladder_ends_with_cant_trim_further() {
    let mut app = App::new(8, Ladder::Trim);
    let [a, b, c] = [app.manage(2), app.manage(6), app.manage(4)];
    app.submit(&[a]);
    let mut set = set_of(&[b, c]);
    assert_eq!(app.begin(&mut set).map_err(pages_to_trim), Err(0));
    assert_eq!(app.calls()[1..], ["refused 2: 0", "finally refused 2: 0"], "no trim would be enough");
    assert_eq!(app.listed(&[a, b, c]), [true, false, false]);
    app.submit(&[b, a]);
    assert_eq!(app.listed(&[a, b, c]), [true, true, false], "the manager goes on");
    app.run_all();
    app.world.tear_down();
}

/// RES-14: Direct3D 12 never trims; what this submission has brought in goes again.
#[test]
fn the_passing_ladder_undoes_its_batches_and_says_what_all_of_it_needs() {
    let mut app = App::new(700, Ladder::PassUp);
    let old = app.manage(100);
    app.submit(&[old]);
    let many: Vec<Managed> = (0..800).map(|_| app.manage(1)).collect();
    let mut set = set_of(&many);
    set.insert(old);
    let missing = app.begin(&mut set).map_err(pages_to_trim);
    assert_eq!(missing, Err(200), "900 pages, of which 700 fit");
    let undone = ["make resident 256", "make resident 256", "refused 256: 168", "evict 512 unwritten if necessary"];
    assert_eq!(app.calls()[1..], undone);
    assert_eq!(app.manager.listed_bytes(), 100 * PAGE_SIZE);
    assert!(app.manager.is_listed(old));

    let mut less = set_of(&many[..700]);
    assert_eq!(app.begin(&mut less).map_err(pages_to_trim), Err(100));
    let evicted = app.world.call(|vidmm, _, _| app.manager.give_up(vidmm, 100 * PAGE_SIZE));
    assert_eq!(evicted, Ok(100 * PAGE_SIZE));
    app.submit_set(&mut less);
    app.run_all();
    app.world.tear_down();
}

#[test]
fn an_unchanged_set_that_is_begun_again_makes_no_call_and_still_counts_as_used() {
    let mut app = App::new(8, Ladder::Trim);
    let [a, b, c] = [app.manage(3), app.manage(3), app.manage(4)];
    app.submit(&[b]);
    let mut set = set_of(&[a]);
    for _ in 0..3 {
        app.submit_set(&mut set);
    }
    assert_eq!(app.calls().len(), 2);
    app.submit(&[c]);
    assert_eq!(app.listed(&[a, b, c]), [true, false, true], "b was used longest ago");
    app.submit(&[b]);
    assert_eq!(app.listed(&[a, b, c]), [false, true, true]);
    app.submit_set(&mut set);
    assert_eq!(app.listed(&[a]), [true], "a set whose member was evicted is brought in again");
    app.run_all();
    app.world.tear_down();
}

/// RES-42: an allocation that was last used before the last period began is evicted.
#[test]
fn a_periodic_trim_evicts_what_a_whole_period_did_not_use() {
    let mut app = App::new(16, Ladder::Trim);
    let [a, b, c] = [app.manage(1), app.manage(2), app.manage(3)];
    let mut all = set_of(&[a, b, c]);
    app.submit_set(&mut all);
    app.run_all();
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 0, "the first period is not over before it began");
    app.submit_set(&mut all);
    app.submit(&[a]);
    app.run_all();
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 0, "all were used in this period");
    app.submit(&[a]);
    app.submit(&[b]);
    app.run_all();
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 3 * PAGE_SIZE);
    assert_eq!(app.listed(&[a, b, c]), [true, true, false]);
    assert_eq!(app.calls().last().unwrap(), "evict 1 if necessary");
    app.world.tear_down();
}

/// RES-42: the period begins with what the GPU has ended, not with what was submitted.
#[test]
fn work_that_the_gpu_has_not_ended_belongs_to_the_next_period() {
    let mut app = App::new(16, Ladder::Trim);
    let [a, b] = [app.manage(1), app.manage(2)];
    app.submit(&[a]);
    app.run_all();
    app.submit(&[b]);
    app.notify(TrimFlags::PERIODIC_TRIM, 0);
    app.run_all();
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), PAGE_SIZE);
    assert_eq!(app.listed(&[a, b]), [false, true]);
    app.world.tear_down();
}

/// RES-41: a restarted period evicts nothing.
#[test]
fn a_restarted_period_spares_what_the_idle_one_did_not_use() {
    let mut app = App::new(16, Ladder::Trim);
    let [a, b] = [app.manage(1), app.manage(2)];
    app.submit(&[a, b]);
    app.run_all();
    app.notify(TrimFlags::PERIODIC_TRIM, 0);
    app.submit(&[a]);
    app.run_all();
    assert_eq!(app.notify(TrimFlags::RESTART_PERIODIC_TRIM, 0), 0);
    assert_eq!(app.listed(&[a, b]), [true, true]);
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM, 0), 3 * PAGE_SIZE, "nothing ran since");
    app.world.tear_down();
}

#[test]
fn a_trim_to_budget_evicts_the_oldest_at_once_until_the_bytes_are_reached() {
    let mut app = App::new(16, Ladder::PassUp);
    let [a, b, c] = [app.manage(2), app.manage(3), app.manage(4)];
    for used in [b, a, c] {
        app.submit(&[used]);
    }
    assert_eq!(app.notify(TrimFlags::TRIM_TO_BUDGET, 3 * PAGE_SIZE + 1), 5 * PAGE_SIZE);
    assert_eq!(app.listed(&[a, b, c]), [false, false, true]);
    assert_eq!(app.calls().last().unwrap(), "evict 2 soon");
    assert_eq!(app.notify(TrimFlags::TRIM_TO_BUDGET, 0), 0);
    app.run_all();
    app.world.tear_down();
}

/// RES-41: a budget is of a group, and what counts in another one does not help it.
#[test]
fn a_trim_to_the_budget_of_a_group_leaves_other_memory_alone() {
    let mut app = App::on(Config::discrete(16, 64), Ladder::PassUp);
    let system = app.world.create(app.client, Place::System, 4, SILENT);
    let system = app.manager.manage(system, 4 * PAGE_SIZE, ManageFlags::empty());
    let [a, b] = [app.manage(2), app.manage(3)];
    for used in [a, system, b] {
        app.submit(&[used]);
    }
    assert_eq!(app.notify(TrimFlags::TRIM_TO_BUDGET, 3 * PAGE_SIZE), 5 * PAGE_SIZE);
    assert_eq!(app.listed(&[a, system, b]), [false, true, false]);
    app.run_all();
    app.world.tear_down();
}

/// Both flags at once: what goes for the budget is not unused in the period any more.
#[test]
fn a_trim_to_budget_counts_as_periodic() {
    let mut app = App::new(16, Ladder::Trim);
    let [a, b, c] = [app.manage(2), app.manage(3), app.manage(4)];
    for used in [a, b, c] {
        app.submit(&[used]);
    }
    app.run_all();
    app.notify(TrimFlags::PERIODIC_TRIM, 0);
    app.submit(&[b]);
    app.submit(&[c]);
    app.run_all();
    assert_eq!(app.notify(TrimFlags::PERIODIC_TRIM | TrimFlags::TRIM_TO_BUDGET, 4 * PAGE_SIZE), 5 * PAGE_SIZE);
    assert_eq!(app.listed(&[a, b, c]), [false, false, true]);
    app.world.tear_down();
}

#[test]
fn nothing_of_a_set_that_was_begun_goes_before_it_is_submitted() {
    let mut app = App::new(16, Ladder::Trim);
    let [a, b] = [app.manage(2), app.manage(3)];
    app.submit(&[a, b]);
    let mut set = set_of(&[b]);
    app.begin(&mut set).unwrap();
    assert_eq!(app.notify(TrimFlags::TRIM_TO_BUDGET, u64::MAX), 2 * PAGE_SIZE);
    assert_eq!(app.listed(&[a, b]), [false, true]);
    app.manager.submitted(2);
    assert_eq!(app.notify(TrimFlags::TRIM_TO_BUDGET, u64::MAX), 3 * PAGE_SIZE);
    app.run_all();
    app.world.tear_down();
}

/// RES-57: the TrimAPI of Direct3D 11.1, without Offer.
#[test]
fn a_program_that_goes_idle_keeps_nothing_resident_and_nothing_internal() {
    let mut app = App::new(16, Ladder::Trim);
    let [own, scratch, unused] = [app.manage(2), app.manage_as(3, ManageFlags::INTERNAL), app.manage(1)];
    let (own_allocation, scratch_allocation) =
        (app.manager.allocation(own).unwrap(), app.manager.allocation(scratch).unwrap());
    app.submit(&[own, scratch]);
    let destroyed = app.world.call(|vidmm, _, host| app.manager.trim(vidmm, host)).unwrap();
    assert_eq!(destroyed, [scratch]);
    assert_eq!(app.listed(&[own, scratch, unused]), [false; 3]);
    assert_eq!(app.manager.listed_bytes(), 0);
    app.run_all();
    let reclaimed = Event::AllocationReclaimed { allocation: scratch_allocation };
    assert!(app.world.events.contains(&reclaimed), "its memory is free when the work before has ended");
    assert_eq!(app.world.evicted().iter().filter(|evicted| evicted.0 == own_allocation).count(), 1);

    app.submit(&[own]);
    assert_eq!(app.begin(&mut set_of(&[scratch])), Err(BeginSubmissionError::Forgotten(Forgotten(scratch))));
    app.run_all();
    app.world.tear_down();
}

#[test]
fn a_forgotten_allocation_is_refused_even_when_its_number_is_anothers() {
    let mut app = App::new(16, Ladder::Trim);
    let gone = app.manage(2);
    let allocation = app.manager.allocation(gone).unwrap();
    app.submit(&[gone]);
    app.world.destroy(allocation);
    assert_eq!(app.manager.forget(gone), Ok(allocation));
    assert_eq!(app.manager.forget(gone), Err(Forgotten(gone)));
    assert_eq!(app.manager.listed_bytes(), 0);
    let successor = app.manage(3);
    assert_ne!(successor, gone);
    assert_eq!(app.begin(&mut set_of(&[gone])), Err(BeginSubmissionError::Forgotten(Forgotten(gone))));
    app.submit(&[successor]);
    app.run_all();
    app.world.tear_down();
}

/// An eviction by somebody else is found, and the manager's books are as they were.
#[test]
fn an_evict_behind_the_managers_back_is_reported() {
    let mut app = App::new(4, Ladder::Trim);
    let [a, b] = [app.manage(3), app.manage(2)];
    app.submit(&[a]);
    let allocation = app.manager.allocation(a).unwrap();
    app.world.evict(app.client, &[allocation], SOON).unwrap();
    let stolen = app.world.call(|vidmm, _, _| app.manager.give_up(vidmm, 1));
    assert_eq!(stolen, Err(EvictError::NotResident { position: 0 }));
    assert!(app.manager.is_listed(a));
    app.submit(&[b]);
    app.run_all();
    app.world.tear_down();
}

#[test]
fn a_renamed_buffer_has_as_many_allocations_as_the_gpu_is_behind() {
    let mut renamer = Renamer::new(3);
    let mut created = 0;
    let mut create = || {
        created += 1;
        Ok::<u32, ()>(created)
    };
    assert_eq!(renamer.next(0, &mut create), Ok(1));
    assert_eq!(renamer.next(0, &mut create), Ok(1), "nothing uses it yet");
    renamer.used(10);
    assert_eq!(renamer.next(9, &mut create), Ok(2));
    renamer.used(20);
    assert_eq!(renamer.next(9, &mut create), Ok(3));
    renamer.used(30);
    assert_eq!(renamer.next(9, &mut create), Err(RenameError::AllInUse { fence_value: 10 }));
    assert_eq!(renamer.current(), Some(3));
    assert_eq!(renamer.next(10, &mut create), Ok(1), "the first whose last use has ended");
    renamer.used(40);
    assert_eq!(renamer.next(25, &mut create), Ok(2));
    renamer.used(50);
    assert_eq!(renamer.next(50, &mut create), Ok(2), "the present one is as free as any");
    assert_eq!(renamer.len(), 3);
    assert_eq!(renamer.trim(35).collect::<Vec<_>>(), [3]);
    assert_eq!(renamer.trim(50).collect::<Vec<_>>(), [1], "the present one stays");
    assert_eq!(renamer.len(), 1);
}

#[test]
fn a_failure_to_create_a_renamed_allocation_changes_nothing() {
    let mut renamer: Renamer<u32> = Renamer::new(2);
    assert_eq!(renamer.next(0, || Err("no memory")), Err(RenameError::Create("no memory")));
    assert!(renamer.is_empty());
    assert_eq!(renamer.next(0, || Ok::<_, ()>(7)), Ok(7));
}

/// RES-13: what is counted in system memory makes no room in local memory, however long it was not used.
#[test]
fn room_is_made_in_the_memory_that_is_short() {
    for ladder in [Ladder::Trim, Ladder::PassUp] {
        let mut app = App::on(Config::discrete(16, 64), ladder);
        let manage = |app: &mut App, place| {
            let allocation = app.world.create(app.client, place, 8, SILENT);
            app.manager.manage(allocation, 8 * PAGE_SIZE, ManageFlags::empty())
        };
        let places = [Place::System, Place::Local, Place::System, Place::Local, Place::Local];
        let [oldest, a, later, b, c] = places.map(|place| manage(&mut app, place));
        for managed in [oldest, a, later, b] {
            app.submit(&[managed]);
        }
        app.run_all();
        if ladder == Ladder::PassUp {
            let refused = app.begin(&mut set_of(&[c]));
            let Err(BeginSubmissionError::MakeResident(MakeResidentError::NoMemory { shortages, .. })) = refused else {
                panic!("local memory is full: {refused:?}")
            };
            assert_eq!(shortages, short(LOCAL_MEMORY, 8 * PAGE_SIZE, NoMemoryReason::DoesNotFit));
            let evicted = app.world.call(|vidmm, _, _| app.manager.make_room(vidmm, &shortages));
            assert_eq!(evicted, Ok(8 * PAGE_SIZE));
        }
        app.submit(&[c]);
        assert_eq!(app.listed(&[oldest, a, later, b, c]), [true, false, true, true, true], "{ladder:?}");
        // The allocation that was passed over is still the oldest.
        let evicted = app.world.call(|vidmm, _, _| app.manager.give_up(vidmm, 1));
        assert_eq!((evicted, app.listed(&[oldest, later])), (Ok(8 * PAGE_SIZE), vec![false, true]));
        app.run_all();
        app.world.tear_down();
    }
}

/// A loop over more than memory holds: least recently used first keeps nothing, and a forecast keeps a part (D24).
#[test]
fn a_policy_of_the_core_chooses_what_leaves_the_list() {
    let brought_in = |policy| {
        let mut app = App::new(12, Ladder::Trim);
        app.manager = ResidencyManager::with_policy(app.client.device, app.client.queue, Ladder::Trim, policy);
        let all: Vec<Managed> = (0..36).map(|_| app.manage(1)).collect();
        for frame in 0..600 {
            app.submit(&all[frame * 3 % 36..][..3]);
            app.run_all();
        }
        let joined = |event: &Event| match event {
            Event::MakeResident { allocations, .. } => allocations.len(),
            _ => 0,
        };
        let joined: usize = app.world.events.iter().map(joined).sum();
        app.world.tear_down();
        joined
    };
    assert_eq!(brought_in(PolicyChoice::LRU), 1800);
    let (predict, least) = (brought_in(PolicyChoice::PREDICT), 1800 * 8 / 11);
    assert!(predict <= least * 11 / 10, "{predict} joined the list, and {least} would have with the future known");
}
