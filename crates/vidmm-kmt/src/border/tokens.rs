//! Tokens: a stream of words. A client and the helper library exchange structs as tokens. A token is a word with an id, the number of
//! words behind the token, and flags. A struct has the number of the element, the bytes, the words, and then the tokens of the struct.

/// The flag of a token that is true without a value.
const IS_TRUE: u32 = 1;

/// The flag of a struct.
const IS_STRUCT: u32 = 16;

/// The words of a struct before its tokens.
const STRUCT_WORDS: usize = 4;

fn word(id: u16, words: u32, flags: u32) -> u32 {
    u32::from(id) | words << 16 | flags << 24
}

/// Writes tokens.
#[derive(Debug, Default)]
pub struct Tokens(pub Vec<u32>);

impl Tokens {
    /// A value of 32 bits.
    pub fn number(&mut self, id: u16, value: u32) {
        self.0.extend([word(id, 1, 0), value]);
    }

    /// A value of 64 bits.
    pub fn quad(&mut self, id: u16, value: u64) {
        self.0.extend([word(id, 2, 0), value as u32, (value >> 32) as u32]);
    }

    /// A flag that is set.
    pub fn is_true(&mut self, id: u16) {
        self.0.push(word(id, 0, IS_TRUE));
    }

    /// An element of an array of structs, with its tokens.
    pub fn element(&mut self, id: u16, element: u32, write: impl FnOnce(&mut Self)) {
        let begin = self.0.len();
        self.0.extend([word(id, 0, IS_STRUCT), element, 0, 0]);
        write(self);
        let words = (self.0.len() - begin - STRUCT_WORDS) as u32;
        (self.0[begin + 2], self.0[begin + 3]) = (words * 4, words);
    }

    /// A struct, with its tokens.
    pub fn nested(&mut self, id: u16, write: impl FnOnce(&mut Self)) {
        self.element(id, 0, write);
    }
}

/// The value of the first token of an id, at any depth. A stream that is cut has no more tokens.
pub fn find(tokens: &[u32], id: u16) -> Option<u64> {
    let mut rest = tokens;
    while let Some(&head) = rest.first() {
        let (of, words, flags) = (head as u16, (head >> 16 & 0xff) as usize, head >> 24);
        if flags & IS_STRUCT != 0 {
            let words = *rest.get(3)? as usize;
            let inner = rest.get(STRUCT_WORDS..STRUCT_WORDS.checked_add(words)?)?;
            if let Some(found) = find(inner, id) {
                return Some(found);
            }
            rest = &rest[STRUCT_WORDS + words..];
        } else {
            let value = rest.get(1..1 + words)?;
            if of == id {
                let low = value.first().map_or(u64::from(flags & IS_TRUE), |&low| low.into());
                return Some(low | value.get(1).map_or(0, |&high| u64::from(high) << 32));
            }
            rest = &rest[1 + words..];
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Tokens, find};

    #[test]
    fn a_value_is_found_at_any_depth() {
        let mut tokens = Tokens::default();
        tokens.number(1, 7);
        tokens.nested(2, |inner| inner.element(3, 1, |inner| inner.quad(4, 1 << 40)));
        tokens.is_true(5);
        let values = [1, 4, 5, 6].map(|id| find(&tokens.0, id));
        assert_eq!(values, [Some(7), Some(1 << 40), Some(1), None]);
    }

    #[test]
    fn a_cut_stream_has_no_more_tokens() {
        let mut tokens = Tokens::default();
        tokens.nested(2, |inner| inner.quad(4, 9));
        assert!((0..tokens.0.len()).all(|length| find(&tokens.0[..length], 4).is_none()));
        assert_eq!(find(&[4 | 255 << 16, 1], 4), None);
        assert_eq!(find(&[2 | 16 << 24, 0, 0, u32::MAX], 4), None);
    }
}
