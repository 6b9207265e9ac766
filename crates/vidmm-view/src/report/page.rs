//! The page: its parts in their order.

use std::io::{self, Write};

use base64::{engine::general_purpose::STANDARD, write::EncoderWriter};
use flate2::{Compression, write::ZlibEncoder};

use super::Report;

/// The styles.
const STYLE: &str = include_str!("page/page.css");

/// The body without its data.
const BODY: &str = include_str!("page/page.html");

/// The program, in the order in which its parts need one another.
const PROGRAM: [&str; 10] = [
    include_str!("page/data.js"),
    include_str!("page/words.js"),
    include_str!("page/model.js"),
    include_str!("page/canvas.js"),
    include_str!("page/timeline.js"),
    include_str!("page/memory.js"),
    include_str!("page/tables.js"),
    include_str!("page/details.js"),
    include_str!("page/summary.js"),
    include_str!("page/main.js"),
];

/// No page but this one, and nothing from anywhere: a browser refuses all else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Writes the page.
pub(super) fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let Report { title, facts, columns, stories } = report;
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} - vidmm report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{BODY}",
        escaped(title)
    )?;
    out.write_all(b"<script type=\"application/json\" id=\"facts\">")?;
    out.write_all(data(&facts.to_string()).as_bytes())?;
    out.write_all(b"</script>\n<script type=\"text/plain\" id=\"columns\">")?;
    in_letters(&compressed(columns), out)?;
    out.write_all(b"</script>\n")?;
    for (number, block) in stories.iter().enumerate() {
        write!(out, "<script type=\"text/plain\" id=\"stories-{number}\">")?;
        in_letters(block, out)?;
        out.write_all(b"</script>\n")?;
    }
    out.write_all(b"<script>\n'use strict';\n")?;
    for part in PROGRAM {
        out.write_all(part.as_bytes())?;
    }
    out.write_all(b"</script>\n</body>\n</html>\n")
}

/// Bytes as the page unpacks them.
pub(super) fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = ZlibEncoder::new(Vec::new(), Compression::new(6));
    let written = compressor.write_all(bytes).and_then(|()| compressor.finish());
    written.expect("memory takes all that is written")
}

/// Writes bytes as letters.
fn in_letters(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    let mut encoder = EncoderWriter::new(out, &STANDARD);
    encoder.write_all(bytes)?;
    encoder.finish()?;
    Ok(())
}

/// Text as content of an element.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// JSON as content of a script element, which nothing in it can end: the letter `<` stands only in strings of JSON.
fn data(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn text_is_never_markup() {
        let hostile = "</title></script><img src=x onerror=alert(1)>";
        let mut page = Vec::new();
        let facts = Value::from(hostile);
        let report = Report { title: hostile.to_owned(), facts, columns: Vec::new(), stories: Vec::new() };
        write(&report, &mut page).expect("it is memory");
        let page = String::from_utf8(page).expect("it is text");
        assert!(!page.contains("<img"), "a name has become markup");
        assert_eq!(page.matches("</title>").count(), 1);
        let json = page.split("id=\"facts\">").nth(1).and_then(|rest| rest.split("</script>").next());
        let read: Value = serde_json::from_str(json.expect("the facts are there")).expect("they are JSON");
        assert_eq!(read, Value::from(hostile), "and it is what it was");
    }
}
