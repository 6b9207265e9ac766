//! Changes of an input.

use crate::random::Random;

/// Bytes at the edges of ranges.
const EDGES: [u8; 9] = [0, 1, 0x7F, 0x80, 0xFF, b'\n', b' ', b'0', b'9'];

/// A new input out of `base`: changed in a few places, with parts of `other`.
pub fn mutate(base: &[u8], other: &[u8], words: &[&str], max_len: usize, random: &mut Random) -> Vec<u8> {
    let mut input = base.to_vec();
    let most = 1 << random.below(4);
    for _ in 0..1 + random.below(most) {
        change(&mut input, other, words, random);
    }
    input.truncate(max_len);
    input
}

fn change(input: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut Random) {
    // A text has two more kinds of changes, its words and its lines. Without words the input is no text.
    match random.below(if words.is_empty() { 8 } else { 12 }) {
        0 => set(input, random, |byte, random| byte ^ (1 << random.below(8))),
        1 => set(input, random, |_, random| random.next() as u8),
        2 => set(input, random, |_, random| EDGES[random.below(EDGES.len())]),
        3 => set(input, random, |byte, random| byte.wrapping_add(random.below(9) as u8).wrapping_sub(4)),
        4 => drop(input.drain(random.range(input.len()))),
        5 => {
            let copied = input[random.range(input.len())].to_vec();
            insert(input, random, &copied);
        }
        6 => {
            let len = 1 + random.below(8);
            let new = random.bytes(len);
            insert(input, random, &new);
        }
        7 => {
            let taken = &other[random.range(other.len())];
            let replaced = random.range(input.len());
            input.splice(replaced, taken.iter().copied());
        }
        8 | 9 => {
            let word = words[random.below(words.len())].as_bytes();
            let replaced = if random.below(2) == 0 { random.range(input.len()) } else { number_in(input, random) };
            input.splice(replaced, word.iter().copied());
        }
        _ => change_lines(input, other, random),
    }
}

fn set(input: &mut [u8], random: &mut Random, new: impl FnOnce(u8, &mut Random) -> u8) {
    if !input.is_empty() {
        let at = random.below(input.len());
        input[at] = new(input[at], random);
    }
}

fn insert(input: &mut Vec<u8>, random: &mut Random, new: &[u8]) {
    let at = random.below(input.len() + 1);
    input.splice(at..at, new.iter().copied());
}

/// The place of a number at or behind a random place; without a number, an empty range there.
fn number_in(input: &[u8], random: &mut Random) -> std::ops::Range<usize> {
    let from = random.below(input.len() + 1);
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = input[from..].iter().position(is_digit).map(|at| from + at) else { return from..from };
    let len = input[start..].iter().take_while(|byte| is_digit(byte)).count();
    start..start + len
}

/// Repeats a line, leaves it out, moves it, or takes it from the other input.
fn change_lines(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let mut lines: Vec<&[u8]> = input.split_inclusive(|&byte| byte == b'\n').collect();
    let others: Vec<&[u8]> = other.split_inclusive(|&byte| byte == b'\n').collect();
    if lines.is_empty() || others.is_empty() {
        return;
    }
    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(4) {
        0 => lines.insert(to, lines[from]),
        1 => drop(lines.remove(from)),
        2 => lines.swap(from, to),
        _ => lines.insert(to, others[random.below(others.len())]),
    }
    *input = lines.concat();
}
