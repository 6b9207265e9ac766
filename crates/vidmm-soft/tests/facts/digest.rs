//! The digest is Horner's rule, whichever way it is computed.

use proptest::prelude::*;
use vidmm_runtime::Content;
use vidmm_soft::{KernelState, RAMP_STEP, SparseMemory, mix, ramp_words, uniform_digest, words_digest};

/// As `vidmm_runtime` has it in words.
fn horner(words: &[u64; 512]) -> u64 {
    words.iter().fold(0u64, |sum, word| sum.wrapping_mul(0xD6E8FEB86659FD93).wrapping_add(*word))
}

proptest! {
    #[test]
    fn of_a_uniform_page_has_a_closed_form(word: u64) {
        prop_assert_eq!(uniform_digest(word), horner(&[word; 512]));
    }

    #[test]
    fn of_a_ramp_page_is_that_of_its_words(seed: u64) {
        let words: [u64; 512] = std::array::from_fn(|i| seed.wrapping_add((i as u64).wrapping_mul(0x9E3779B97F4A7C15)));
        prop_assert_eq!(ramp_words(seed), words);
        let mut memory = SparseMemory::new(4096);
        memory.write_pages(0, 1, Content::Ramp, |_| seed);
        prop_assert_eq!(memory.page_digest(0), horner(&words));
    }

    #[test]
    fn of_any_page_is_horners_rule(words in prop::collection::vec(any::<u64>(), 512)) {
        let words: [u64; 512] = words.try_into().unwrap();
        prop_assert_eq!(words_digest(&words), horner(&words));
    }
}

#[test]
fn kernels_mix_as_it_is_written_down() {
    fn by_the_book(a: u64, b: u64) -> u64 {
        let mut x = (a ^ b.rotate_left(32)).wrapping_mul(0x9E3779B97F4A7C15);
        x ^= x >> 29;
        x = x.wrapping_mul(0xBF58476D1CE4E5B9);
        x ^= x >> 32;
        x.wrapping_add(b)
    }
    assert_eq!(mix(1, 2), by_the_book(1, 2));
    let mut state = KernelState::new(77);
    state.absorb(5);
    let by_hand = by_the_book(by_the_book(0x76_69_64_6D_6D, 77), 5);
    assert_eq!(state.seed(3, 4), by_the_book(by_the_book(by_hand, 4), 4));
    assert_eq!(RAMP_STEP, 0x9E3779B97F4A7C15);
}
