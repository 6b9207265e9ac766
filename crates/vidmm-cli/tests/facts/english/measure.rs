//! The measure of plain text: a file's sentences, and how many of their words are pronoun-like.
//!
//! A document is read as Markdown. Fenced code, headings, HTML comments and the targets of links are left out; a list item and a table cell
//! are paragraphs of their own. Source text gives comments (read as Markdown too), messages (string literals with a space; a raw string is
//! data) and function names of five words or more, as tests have. TOML, shell and Python give comments.

use std::path::Path;

/// Words that stand for a noun, a place or a moment.
const PRONOUN_LIKE: [&str; 19] = [
    "that", "which", "what", "whatever", "who", "whose", "whoever", "it", "its", "those", "these", "them", "they",
    "one", "others", "other", "there", "then", "so",
];

/// Text of fewer words is a label, not a sentence.
const LEAST_WORDS: usize = 5;

/// A sentence with as many pronoun-like words has to be decoded.
const MANY: usize = 4;

/// The pronoun-like words of a text among its words, and the sentences with four or more among its sentences.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    pub pronouns: usize,
    pub words: usize,
    pub many: usize,
    pub sentences: usize,
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            pronouns: sum.pronouns + counts.pronouns,
            words: sum.words + counts.words,
            many: sum.many + counts.many,
            sentences: sum.sentences + counts.sentences,
        })
    }
}

/// The counts of a text's sentences.
pub fn counts(sentences: &[String]) -> Counts {
    let of_sentence = |sentence: &String| {
        let pronouns = pronouns(sentence);
        Counts { pronouns, words: words(sentence).count(), many: usize::from(pronouns >= MANY), sentences: 1 }
    };
    sentences.iter().map(of_sentence).sum()
}

/// The pronoun-like words of a sentence.
pub fn pronouns(sentence: &str) -> usize {
    words(sentence).filter(|word| PRONOUN_LIKE.contains(&&*word.to_ascii_lowercase())).count()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphabetic() && c != '\'').filter(|word| !word.is_empty())
}

/// The sentences of a file, by the ending of its name; none of a kind of file that is not measured.
pub fn sentences(path: &Path, text: &str) -> Option<Vec<String>> {
    let paragraphs = match path.extension()?.to_str()? {
        "rs" | "c" | "h" | "comp" | "glsl" => Source::default().read(text),
        "md" => of_markdown(text),
        "toml" | "sh" | "py" => of_hash_comments(text),
        _ => return None,
    };
    Some(paragraphs.iter().flat_map(|paragraph| of_paragraph(paragraph)).collect())
}

/// Splits behind a full stop, question mark or exclamation mark that a space follows.
fn of_paragraph(paragraph: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut sentence = String::new();
    for word in paragraph.split_whitespace() {
        sentence = sentence + word + " ";
        if word.ends_with(['.', '!', '?']) {
            found.push(std::mem::take(&mut sentence));
        }
    }
    found.push(sentence);
    found.retain(|sentence| words(sentence).count() >= LEAST_WORDS);
    found
}

/// The text of a list item, without its mark.
fn list_item(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = number.strip_prefix(". ").filter(|_| number.len() < line.len());
    numbered.or_else(|| ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark)))
}

fn of_markdown(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut is_code = false;
    for line in without(text, "<!--", "-->").lines().map(|line| line.trim_start_matches([' ', '>']).trim_end()) {
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
            paragraphs.push(String::new());
        } else if is_code {
        } else if line.is_empty() || line.starts_with('#') || line.starts_with('[') && line.contains("]: ") {
            paragraphs.push(String::new());
        } else if let Some(row) = line.strip_prefix('|') {
            paragraphs.extend(row.replace("\\|", " ").split('|').map(str::to_owned));
            paragraphs.push(String::new());
        } else if let Some(item) = list_item(line) {
            paragraphs.push(format!("{item} "));
        } else {
            *paragraphs.last_mut().unwrap() += &format!("{line} ");
        }
    }
    let plain = |paragraph: &String| without(&without(&paragraph.replace("](", "] (@"), "(@", ")"), "<http", ">");
    paragraphs.iter().map(plain).collect()
}

/// The text without all that stands from `open` to `close`.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        kept += before;
        rest = after.split_once(close).map_or("", |(_, behind)| behind);
    }
    kept + rest
}

/// Comments from `#` to the end of the line; comments of adjacent lines are read together.
fn of_hash_comments(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let found = line.match_indices('#').find(|&(at, _)| line[..at].matches(['"', '\'']).count().is_multiple_of(2));
        let comment = found.map_or("", |(at, _)| line[at + 1..].trim_start());
        let is_own_line = line.trim_start().starts_with('#');
        if is_own_line { format!("{comment}\n") } else { format!("\n{comment}\n") }
    };
    of_markdown(&text.lines().map(of_line).collect::<String>())
}

/// A reader of Rust and C.
#[derive(Default)]
struct Source {
    paragraphs: Vec<String>,
    /// The comment that is being read, and its mark: a line with another mark begins another comment.
    comment: String,
    mark: String,
}

impl Source {
    fn read(mut self, text: &str) -> Vec<String> {
        let mut rest = text;
        let mut word = "";
        while let Some(letter) = rest.chars().next() {
            let length = if rest.starts_with("//") {
                let line = rest.lines().next().unwrap();
                self.line_comment(line);
                // A blank line behind the comment ends the comment.
                line.len() + usize::from(!rest[line.len()..].starts_with("\n\n"))
            } else if rest.starts_with("/*") {
                let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
                let lines = rest[2..length].lines().map(|line| line.trim().trim_matches(['*', '/']).trim_start());
                self.comment += &lines.collect::<Vec<_>>().join("\n");
                length
            } else if letter.is_whitespace() {
                if rest.starts_with("\n\n") {
                    self.end_comment();
                }
                letter.len_utf8()
            } else {
                self.end_comment();
                self.code(rest, &mut word)
            };
            rest = rest.get(length..).unwrap_or("");
        }
        self.end_comment();
        self.paragraphs
    }

    fn line_comment(&mut self, line: &str) {
        let content = line.trim_start_matches(['/', '!']);
        let mark = &line[..line.len() - content.len()];
        if mark != self.mark {
            self.end_comment();
            mark.clone_into(&mut self.mark);
        }
        self.comment += &format!("{}\n", content.strip_prefix(' ').unwrap_or(content));
    }

    fn end_comment(&mut self) {
        self.paragraphs.extend(of_markdown(&std::mem::take(&mut self.comment)));
        self.mark.clear();
    }

    /// Takes a token of code, and returns its length; `word` is the identifier before.
    fn code<'t>(&mut self, text: &'t str, word: &mut &'t str) -> usize {
        let is_raw = *word == "r" || *word == "br";
        let before = std::mem::take(word);
        let hashes = text.len() - text.trim_start_matches('#').len();
        if is_raw && text[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            return text[hashes + 1..].find(&close).map_or(text.len(), |end| hashes + 1 + end + close.len());
        }
        if let Some(literal) = text.strip_prefix('"') {
            return 1 + self.string(literal);
        }
        if let Some(quoted) = text.strip_prefix('\'') {
            // A lifetime has no closing quote behind its first letter.
            let mut letters = quoted.char_indices().skip(1);
            let is_escape = quoted.starts_with('\\');
            return match is_escape.then(|| quoted[2..].find('\'')).flatten() {
                Some(end) => 1 + 2 + end + 1,
                None => letters.next().filter(|&(_, next)| next == '\'').map_or(1, |(end, _)| 1 + end + 1),
            };
        }
        let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        if length == 0 {
            return text.chars().next().map_or(0, char::len_utf8);
        }
        *word = &text[..length];
        if before == "fn" {
            self.paragraphs.push(word.replace('_', " "));
        }
        length
    }

    /// Takes a string literal from behind its opening quote, and returns its length with the closing quote.
    fn string(&mut self, literal: &str) -> usize {
        let mut message = String::new();
        let mut letters = literal.char_indices().peekable();
        let mut length = literal.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    length = at + 1;
                    break;
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => message.push('\n'),
                    // The literal goes on behind the indent of the next line.
                    Some((_, '\n')) => while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {},
                    _ => message.push(' '),
                },
                _ => message.push(letter),
            }
        }
        if message.contains(' ') {
            self.paragraphs.extend(without(&message, "{", "}").lines().map(str::to_owned));
        }
        length
    }
}
