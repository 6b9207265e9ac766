//! A call of vkQueueSubmit in parts, none of which needs more than local memory.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::manager::Slot;
use crate::settings::Mode;

/// The uses of a submission: for each range whether it is written.
pub type Uses = BTreeMap<Slot, bool>;

/// A part of a call of vkQueueSubmit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The whole call.
    All,
    /// Command buffers of one batch of the call.
    Of { info: usize, buffers: Range<usize>, is_last_of_call: bool },
}

/// The parts of a call, each with the uses. None if mode B has no room for a part.
pub fn plan(
    infos: &[Vec<Uses>],
    can_split: &[bool],
    fits: impl Fn(&Uses) -> bool,
    mode: Mode,
) -> Option<Vec<(Part, Uses)>> {
    let joined = |buffers: &[Uses]| {
        let mut all = Uses::new();
        for (&slot, &is_written) in buffers.iter().flatten() {
            *all.entry(slot).or_default() |= is_written;
        }
        all
    };
    let all = joined(&infos.concat());
    if fits(&all) {
        return Some(vec![(Part::All, all)]);
    }
    let mut parts = Vec::new();
    for (info, (buffers, &can_split)) in infos.iter().zip(can_split).enumerate() {
        let mut first = 0;
        let is_last_of_call = |end: usize| info + 1 == infos.len() && end == buffers.len();
        let part = |buffers: Range<usize>| Part::Of { info, is_last_of_call: is_last_of_call(buffers.end), buffers };
        for end in 1..=buffers.len() {
            let goes_on = end < buffers.len() && (!can_split || fits(&joined(&buffers[first..=end])));
            if !goes_on {
                parts.push((part(first..end), joined(&buffers[first..end])));
                first = end;
            }
        }
        if buffers.is_empty() {
            parts.push((part(0..0), Uses::new()));
        }
    }
    (mode == Mode::BindsHome || parts.iter().all(|(_, uses)| fits(uses))).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::{Mode, Part, Uses, plan};

    #[test]
    fn a_call_without_room_for_all_is_split_at_command_buffers() {
        let of = |slots: &[u32]| Uses::from_iter(slots.iter().map(|&slot| (slot, false)));
        let fits = |uses: &Uses| uses.len() <= 2;
        let b = Mode::BindsNothing;
        let part = |info, buffers, is_last_of_call| Part::Of { info, buffers, is_last_of_call };
        let parts = |infos: &[Vec<Uses>], can_split: &[bool], mode| {
            let parts = plan(infos, can_split, fits, mode)?;
            Some(Vec::from_iter(parts.into_iter().map(|(part, uses)| (part, uses.len()))))
        };
        assert_eq!(parts(&[], &[], b), Some(vec![(Part::All, 0)]));
        assert_eq!(parts(&[vec![of(&[1]), of(&[2])], vec![]], &[true; 2], b), Some(vec![(Part::All, 2)]));
        let infos = [vec![of(&[1]), of(&[1, 2]), of(&[3])], vec![], vec![of(&[4])]];
        let expected = vec![
            (part(0, 0..2, false), 2),
            (part(0, 2..3, false), 1),
            (part(1, 0..0, false), 0),
            (part(2, 0..1, true), 1),
        ];
        assert_eq!(parts(&infos, &[true; 3], b), Some(expected));
        // Mode B refuses a whole batch and a command buffer without room, and mode A serves both from home.
        assert_eq!(parts(&infos, &[false, true, true], b), None);
        assert_eq!(parts(&[vec![of(&[1, 2, 3])]], &[true], b), None);
        let served = vec![(part(0, 0..1, true), 3)];
        assert_eq!(parts(&[vec![of(&[1, 2, 3])]], &[true], Mode::BindsHome), Some(served));
    }
}
