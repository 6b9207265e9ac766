//! The bytes that any policy must bring in, by Belady's MIN, which knows the future.

use std::collections::BinaryHeap;

use vidmm_trace::Lifetime;

use crate::References;

/// Bytes that are brought in by MIN on bytes: objects may be partly resident, and those leave first that are used last. No policy that
/// keeps whole objects brings in less, where each list is resident as a whole while its submission runs.
pub fn min_split(references: &References, capacity: u64) -> u64 {
    farthest_first(references, capacity, |wanted, resident: u64| wanted.min(resident))
}

/// Bytes that are brought in by MIN on whole objects: those leave first that are used last. It is what a manager could do that knew the
/// future.
pub fn min_whole(references: &References, capacity: u64) -> u64 {
    farthest_first(references, capacity, |_, resident| resident)
}

/// `taken` says how much leaves of an object of which so much is resident where so much is wanted.
fn farthest_first(references: &References, capacity: u64, taken: impl Fn(u64, u64) -> u64) -> u64 {
    let objects = references.objects();
    let (mut resident, mut next) = (vec![0_u64; objects.len()], vec![0_u32; objects.len()]);
    let mut is_there = Vec::from_iter(objects.iter().map(|object| object.lifetime == Lifetime::Whole));
    // An entry is out of date once its object is used.
    let mut farthest: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut used, mut brought_in) = (0, 0);
    let mut next_uses = references.next_uses().into_iter();
    for (number, list) in references.submissions().enumerate() {
        let mut wanted = 0;
        for index in list.iter().map(|used| used.object()) {
            next[index] = next_uses.next().expect("each use has one");
            let missing = objects[index].size - resident[index];
            wanted += missing;
            // An object that is made at its first use is not brought in.
            brought_in += if std::mem::replace(&mut is_there[index], true) { missing } else { 0 };
        }
        while used + wanted > capacity {
            let Some(&(use_at, index)) = farthest.peek() else { break };
            let index = index as usize;
            // An object that this submission uses is in the heap for this submission or an earlier one.
            if use_at <= number as u32 || next[index] != use_at || resident[index] == 0 {
                farthest.pop();
                continue;
            }
            let taken = taken(used + wanted - capacity, resident[index]);
            resident[index] -= taken;
            used -= taken;
            if resident[index] == 0 {
                farthest.pop();
            }
        }
        used += wanted;
        for index in list.iter().map(|used| used.object()) {
            resident[index] = objects[index].size;
            farthest.push((next[index], index as u32));
        }
        if farthest.len() > 4 * objects.len() + list.len() {
            farthest.retain(|&(use_at, index)| next[index as usize] == use_at && use_at > number as u32);
        }
    }
    brought_in
}
