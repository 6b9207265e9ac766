//! The program printed the runs that documents show: a block of text that follows the comment `<!-- vidmm run FILE -->`
//! is the output of that command. `UPDATE_EXPECTED=1 cargo test -p vidmm-cli --test facts docs` makes it again.

use std::{fs, path::PathBuf};

use crate::common::{vidmm_run, workspace};

const UPDATE: &str = "UPDATE_EXPECTED";
const COMMAND: &str = "<!-- vidmm run ";
const OPEN: &str = "```text\n";
const CLOSE: &str = "```";

fn documents() -> Vec<PathBuf> {
    let in_docs = fs::read_dir(workspace().join("docs")).expect("there are documents");
    let in_docs = in_docs.map(|file| file.expect("the folder can be read").path());
    let in_docs = in_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    in_docs.chain([workspace().join("README.md")]).collect()
}

/// The document with the present output of every run that it shows, and their number.
fn printed_anew(text: &str) -> (String, usize) {
    let mut anew = String::new();
    let mut rest = text;
    let mut runs = 0;
    while let Some(at) = rest.find(COMMAND) {
        let (before, command) = rest.split_at(at);
        let (arguments, after) = command[COMMAND.len()..].split_once(" -->").expect("the comment ends");
        let opening = after.find(OPEN).expect("a block of text follows") + OPEN.len();
        let closing = opening + after[opening..].find(CLOSE).expect("the block ends");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let printed = vidmm_run(&arguments).expect(0).stdout;
        anew += &format!("{before}{COMMAND}{} -->{}{printed}", arguments.join(" "), &after[..opening]);
        rest = &after[closing..];
        runs += 1;
    }
    (anew + rest, runs)
}

#[test]
fn documents_show_the_output_of_the_program() {
    let mut runs = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("the document can be read");
        let (anew, shown) = printed_anew(&text);
        runs += shown;
        if std::env::var_os(UPDATE).is_some() && anew != text {
            fs::write(&path, &anew).expect("the document can be written");
        } else {
            assert!(
                anew == text,
                "{} shows something else than is printed; set {UPDATE}=1 and run again",
                path.display()
            );
        }
    }
    assert!(runs > 0, "no document shows a run");
}
