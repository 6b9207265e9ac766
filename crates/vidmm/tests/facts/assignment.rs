//! Homes by assignment: a fitting list is granted, a refusal tells the truth, and the amount to trim suffices (D30, P03).
//!
//! In random worlds of three segments a test compares each answer with all possible placements of the list.

use std::collections::BTreeMap;

use crate::patching::random::Random;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

const APERTURE: SegmentId = SegmentId(2);
const MORE: SegmentId = SegmentId(3);
const SEGMENTS: [SegmentId; 3] = [LOCAL, APERTURE, MORE];

/// Three segments of a few pages, and one device.
struct Few {
    world: World,
    client: Client,
    capacities: [u64; 3],
    known: BTreeMap<AllocationId, Known>,
}

#[derive(Clone)]
struct Known {
    pages: u64,
    /// The places of its segments among [`SEGMENTS`].
    may_be_in: Vec<usize>,
    is_listed: bool,
}

impl Few {
    fn new([local, system, more]: [u64; 3]) -> Self {
        let config = Config { more_memory: vec![(more * PAGE_SIZE, true)], ..Config::discrete(local, system) };
        let mut world = World::new(config);
        let client = world.client();
        Self { world, client, capacities: [local, system, more], known: BTreeMap::new() }
    }

    /// An allocation for these segments, in order of preference.
    fn create(&mut self, pages: u64, may_be_in: &[usize], is_shared: bool) -> AllocationId {
        let set = may_be_in.iter().fold(0, |set, &at| set | SegmentSet::of(SEGMENTS[at]).0);
        let mut preferred_segment = SegmentPreference::default();
        for (preferred, &at) in preferred_segment.segment_ids.iter_mut().zip(may_be_in) {
            *preferred = SEGMENTS[at];
        }
        let info = AllocationInfo {
            supported_segment_set: SegmentSet(set),
            preferred_segment,
            ..allocation_info(pages * PAGE_SIZE, NORMAL)
        };
        let allocation = match is_shared {
            true => self.world.create_to_share(self.client, info),
            false => self.world.try_create(self.client, info).unwrap(),
        };
        self.known.insert(allocation, Known { pages, may_be_in: may_be_in.to_vec(), is_listed: false });
        allocation
    }

    /// The segment of the count of an allocation.
    fn counted(&self, allocation: AllocationId) -> usize {
        let account = self.world.vidmm.query_account(allocation).unwrap();
        let segment = if account.segment == SegmentId::SYSTEM { APERTURE } else { account.segment };
        SEGMENTS.iter().position(|&of| of == segment).unwrap()
    }

    /// Whether allocations fit beside the given bytes in any placement, tried in every way.
    fn packs(&self, allocations: &[AllocationId], beside: [u64; 3]) -> bool {
        let Some((first, rest)) = allocations.split_first() else {
            return beside.iter().zip(self.capacities).all(|(&taken, capacity)| taken <= capacity);
        };
        let Known { pages, may_be_in, .. } = &self.known[first];
        may_be_in.iter().any(|&at| {
            let mut taken = beside;
            taken[at] += pages;
            taken[at] <= self.capacities[at] && self.packs(rest, taken)
        })
    }

    fn listed(&self) -> Vec<AllocationId> {
        self.known.iter().filter(|(_, known)| known.is_listed).map(|(&id, _)| id).collect()
    }

    /// Makes allocations resident, and checks the answer.
    fn make_resident(&mut self, allocations: &[AllocationId]) -> Option<NoMemoryReason> {
        let listed = self.listed();
        let joining: Vec<_> = allocations.iter().copied().filter(|id| !listed.contains(id)).collect();
        let packs_anew = self.packs(&[&listed[..], &joining].concat(), [0; 3]);
        match self.world.cant_trim(self.client, allocations) {
            Ok(_) => {
                assert!(packs_anew, "{allocations:?} were admitted, but the list does not fit");
                self.set_listed(&joining, true);
                None
            }
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, reason, shortages }) => {
                assert_eq!(reason == NoMemoryReason::DoesNotFit, !packs_anew, "{reason:?} for {allocations:?}");
                self.trim(allocations, &joining, num_bytes_to_trim, &shortages);
                Some(reason)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Evicts the amounts of a refusal; the same call must be admitted. Where a refusal asks for nothing, a trim of the whole list would
    /// not help.
    fn trim(&mut self, allocations: &[AllocationId], joining: &[AllocationId], to_trim: u64, shortages: &[Shortage]) {
        // The call keeps its own allocations.
        let listed: Vec<_> = self.listed().into_iter().filter(|id| !allocations.contains(id)).collect();
        let counted = |at: usize| Vec::from_iter(listed.iter().copied().filter(|&id| self.counted(id) == at));
        let bytes = |at: usize| counted(at).iter().map(|id| self.known[id].pages * PAGE_SIZE).sum::<u64>();
        if to_trim == 0 {
            let named = self.listed().into_iter().filter(|id| allocations.contains(id));
            let staying = named.fold([0; 3], |mut taken, id| {
                taken[self.counted(id)] += self.known[&id].pages;
                taken
            });
            assert!(!self.packs(joining, staying), "{joining:?} would fit after a trim");
            return;
        }
        assert!(to_trim <= (0..3).map(bytes).sum::<u64>(), "the process lists less than {to_trim} bytes");
        let mut victims = Vec::new();
        for shortage in shortages {
            let segment = shortage.account.segment;
            let segment = if segment == SegmentId::SYSTEM { APERTURE } else { segment };
            let at = SEGMENTS.iter().position(|&of| of == segment).unwrap();
            assert!(shortage.num_bytes_to_trim <= bytes(at), "the process lists less than {shortage:?}");
            let mut missing = shortage.num_bytes_to_trim;
            for id in counted(at) {
                if missing > 0 {
                    missing = missing.saturating_sub(self.known[&id].pages * PAGE_SIZE);
                    victims.push(id);
                }
            }
        }
        for &id in &victims {
            while self.world.evict(self.client, &[id], IF_NECESSARY).is_ok() {}
        }
        self.set_listed(&victims, false);
        let answer = self.world.cant_trim(self.client, allocations);
        assert!(answer.is_ok(), "P03: {victims:?} left for {allocations:?}, refused again: {answer:?}");
        self.set_listed(joining, true);
    }

    fn set_listed(&mut self, allocations: &[AllocationId], is_listed: bool) {
        for id in allocations {
            self.known.get_mut(id).unwrap().is_listed = is_listed;
        }
    }
}

/// D30: C joins in local memory, and moves for D: 6.5 of 10 MiB are in use.
#[test]
fn a_fitting_list_is_granted_against_first_choices() {
    let mut few = Few::new([4, 3, 3]);
    let joining = [(2, &[0][..]), (1, &[2]), (1, &[0, 1]), (2, &[0, 2])];
    let all = joining.map(|(pages, may_be_in)| few.create(pages, may_be_in, false));
    let filler = few.create(1, &[2], false);
    assert_eq!(few.make_resident(&[&all[..], &[filler]].concat()), None);
    few.world.run_all();
    few.world.tear_down();
}

/// D30: allocations for one segment alone weigh more than the segment.
#[test]
fn a_list_without_any_placement_is_refused_as_such() {
    let mut few = Few::new([4, 16, 4]);
    let (a, b) = (few.create(3, &[0], false), few.create(2, &[0], false));
    assert_eq!(few.make_resident(&[a, b]), Some(NoMemoryReason::DoesNotFit));
}

/// D30: a shared allocation keeps the home; with another home the list would fit.
#[test]
fn a_list_is_refused_for_allocations_held_in_place() {
    let mut few = Few::new([4, 16, 4]);
    let shared = few.create(3, &[0, 1], true);
    assert_eq!(few.make_resident(&[shared]), None);
    few.world.run_all();
    let local = few.create(3, &[0], false);
    let answer = few.world.cant_trim(few.client, &[local]);
    assert_eq!(answer, Err(refused_in(LOCAL_MEMORY, 2 * PAGE_SIZE, NoMemoryReason::HeldForNow)));
}

/// P03: a refusal asks for no unlisted page, and for nothing where all listed pages would not be enough.
#[test]
fn a_refusal_asks_for_listed_bytes_alone() {
    let mut few = Few::new([4, 4, 4]);
    let (small, large) = (few.create(2, &[0], false), few.create(5, &[0], false));
    assert_eq!(few.make_resident(&[small]), None);
    assert_eq!(few.make_resident(&[large]), Some(NoMemoryReason::DoesNotFit));
    let answer = few.world.cant_trim(few.client, &[large]);
    let nothing =
        MakeResidentError::NoMemory { num_bytes_to_trim: 0, reason: NoMemoryReason::DoesNotFit, shortages: vec![] };
    assert_eq!(answer, Err(nothing));
}

/// D30: in 1,000 worlds no fitting list is refused, every *would not fit even alone* is true, and a trim suffices.
#[test]
fn no_fitting_list_is_refused() {
    let mut refusals: BTreeMap<Option<String>, u32> = BTreeMap::new();
    for seed in 0..1000 {
        let mut random = Random(seed);
        let mut few = Few::new([0; 3].map(|_| 2 + random.below(5)));
        let all: Vec<AllocationId> = (0..6)
            .map(|_| {
                let mut may_be_in: Vec<usize> = (0..3).filter(|_| random.below(5) < 3).collect();
                if may_be_in.is_empty() {
                    may_be_in.push(random.below(3) as usize);
                }
                if random.one_in(2) {
                    may_be_in.reverse();
                }
                few.create(1 + random.below(4), &may_be_in, false)
            })
            .collect();
        for _ in 0..4 {
            let joining: Vec<_> = all.iter().copied().filter(|_| random.below(5) < 2).collect();
            if !joining.is_empty() {
                let reason = few.make_resident(&joining).map(|reason| format!("{reason:?}"));
                assert!(reason.as_deref().is_none_or(|of| of == "DoesNotFit"), "seed {seed}: {reason:?}");
                *refusals.entry(reason).or_default() += 1;
                // The device comes to rest, and nothing holds the list.
                few.world.run_all();
            }
            let leaving: Vec<_> = few.listed().into_iter().filter(|_| random.below(3) == 0).collect();
            for &id in &leaving {
                while few.world.evict(few.client, &[id], IF_NECESSARY).is_ok() {}
            }
            few.set_listed(&leaving, false);
        }
    }
    assert!(refusals.values().all(|&times| times > 300), "both answers are frequent: {refusals:?}");
}
