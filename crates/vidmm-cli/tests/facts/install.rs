//! An installation: the version, the completions of shells, and the manual pages.

use std::fs;

use crate::common::{Scratch, shell};

#[test]
fn the_version_tells_commit_and_features() {
    let run = shell("vidmm --version").expect(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let [version, commit, features] = lines[..] else { panic!("three lines: {run}") };
    assert_eq!(version, concat!("vidmm ", env!("CARGO_PKG_VERSION")), "{run}");
    let commit = commit.strip_prefix("commit ").unwrap_or_else(|| panic!("{run}"));
    let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_commit || commit == "unknown", "{run}");
    assert_eq!(features, "features none", "the program has no features: {run}");
    assert_eq!(shell("vidmm -V").expect(0).stdout.lines().count(), 1, "-V is for scripts");
}

#[test]
fn without_arguments_the_program_names_a_command_for_each_kind_of_user() {
    let run = shell("vidmm").expect(2);
    for command in ["vidmm check ./driver.so", "vidmm run scenarios/cyclic.toml", "vidmm replay scenarios/cyclic.toml"]
    {
        assert!(run.stderr.contains(command), "{command}: {run}");
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let complete = |words: &str| {
        // The shell gives the function the command, the word at the cursor and the word before.
        let line = format!(
            "bash -c 'source <(vidmm completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _vidmm vidmm \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo ${{COMPREPLY[@]}}'"
        );
        shell(&line).expect(0).stdout
    };
    assert_eq!(complete("vidmm expl"), "explain\n");
    assert_eq!(complete("vidmm run --events-l"), "--events-level\n");
    assert_eq!(complete("vidmm run --lifetimes o"), "offer\n");
}

#[test]
fn completions_exist_for_each_shell() {
    for name in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = shell(&format!("vidmm completions {name}")).expect(0);
        assert!(run.stdout.contains("explain") && run.stdout.contains("events-level"), "{name}");
    }
    let run = shell("vidmm completions tcsh").expect(2);
    assert!(run.stderr.contains("possible values"), "{run}");
}

#[test]
fn each_command_has_a_manual_page() {
    let scratch = Scratch::new();
    let folder = scratch.path("man/man1");
    shell(&format!("vidmm man {folder}")).expect(0);
    let help = shell("vidmm help").expect(0).stdout;
    let (_, commands) = help.split_once("Commands:\n").expect("there are commands");
    // A name is indented by two; lines below it go on further right.
    let commands = commands.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let mut pages = 0;
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|&command| command != "help") {
        let page = fs::read_to_string(format!("{folder}/vidmm-{command}.1"))
            .unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
        pages += 1;
    }
    assert!(pages >= 6, "{help}");
    let page = fs::read_to_string(format!("{folder}/vidmm-run.1")).expect("there is a page");
    assert!(page.contains(r"\fB\-\-local\-memory\fR"), "{page}");
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let run = shell("vidmm man /dev/null/man").expect(2);
    assert!(run.stderr.contains("cannot write /dev/null/man"), "{run}");
}
