//! Finds steps that repeat, so that they are told once.

/// The longest cycle that is found, in steps.
const LONGEST: usize = 32;

/// The fewest rounds that make a cycle; fewer are told one by one.
const ROUNDS: usize = 3;

/// A cycle of `period` steps from `start` on, repeated in so many rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cycle {
    pub start: usize,
    pub period: usize,
    pub rounds: usize,
}

/// Cuts steps into cycles; a step that does not repeat is a cycle of one step and one round. Of the cycles that begin
/// at a step, the one that explains most is taken, and of equal ones the shortest.
pub(super) fn cycles<T: PartialEq>(steps: &[T]) -> Vec<Cycle> {
    let (mut found, mut start) = (Vec::new(), 0);
    while start < steps.len() {
        let rest = &steps[start..];
        let mut best = Cycle { start, period: 1, rounds: 1 };
        for period in 1..=LONGEST.min(rest.len() / ROUNDS) {
            let rounds = rest.chunks_exact(period).take_while(|round| *round == &rest[..period]).count();
            if rounds >= ROUNDS && rounds * period > best.rounds * best.period {
                best = Cycle { start, period, rounds };
            }
        }
        found.push(best);
        start += best.period * best.rounds;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(steps: &str) -> Vec<(usize, usize)> {
        let cycles = cycles(steps.as_bytes());
        cycles.iter().map(|cycle| (cycle.period, cycle.rounds)).collect()
    }

    #[test]
    fn steps_that_do_not_repeat_are_told_one_by_one() {
        assert_eq!(told(""), []);
        assert_eq!(told("abc"), [(1, 1); 3]);
        assert_eq!(told("abab"), [(1, 1); 4]);
    }

    #[test]
    fn rounds_are_counted() {
        assert_eq!(told("xabcabcabcabcy"), [(1, 1), (3, 4), (1, 1)]);
        assert_eq!(told("aaaa"), [(1, 4)]);
    }

    #[test]
    fn the_cycle_that_explains_most_is_taken() {
        assert_eq!(told("aaabaaabaaab"), [(4, 3)]);
    }
}
