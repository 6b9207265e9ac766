//! Shrinks an input that fails.

use std::time::{Duration, Instant};

/// The time that it may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A smaller input for which `fails` still holds: parts are left out, and bytes are set to 0, as long as it does.
pub fn shrink(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let start = Instant::now();
    let mut smallest = input.to_vec();
    let mut len = smallest.len();
    while len > 0 && start.elapsed() < PATIENCE {
        let mut at = 0;
        while at < smallest.len() {
            let mut without = smallest.clone();
            without.drain(at..(at + len).min(smallest.len()));
            if fails(&without) {
                smallest = without;
            } else {
                at += len;
            }
        }
        len /= 2;
    }
    for at in 0..smallest.len() {
        let before = std::mem::take(&mut smallest[at]);
        if before != 0 && (start.elapsed() > PATIENCE || !fails(&smallest)) {
            smallest[at] = before;
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn bytes_that_do_not_matter_are_left_out() {
        let fails = |input: &[u8]| input.windows(2).any(|pair| pair == b"x3");
        assert_eq!(shrink(b"some text with x3 and more", fails), b"x3");
    }

    #[test]
    fn bytes_that_may_be_anything_are_made_0() {
        let fails = |input: &[u8]| input.len() >= 3 && input.contains(&b'x');
        let mut small = shrink(b"an x among others", fails);
        small.sort();
        assert_eq!(small, [0, 0, b'x']);
    }
}
