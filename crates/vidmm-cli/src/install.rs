//! `vidmm completions` and `vidmm man`: files for an installation.

use std::{error::Error, io::Write};

use clap::CommandFactory;

use crate::{
    args::{Args, CompletionsArgs, ManArgs, program},
    report::unless_closed,
};

/// Prints the completions of a shell, for the name of this program.
pub fn completions(args: &CompletionsArgs) -> Result<bool, Box<dyn Error>> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), program(), &mut script);
    unless_closed(std::io::stdout().lock().write_all(&script))?;
    Ok(true)
}

/// Writes a manual page for the program and one for each command.
pub fn man(args: &ManArgs) -> Result<bool, Box<dyn Error>> {
    let folder = &args.folder;
    let pages = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Args::command(), folder));
    let remedy = "check that the folder can be written to";
    pages.map_err(|error| format!("cannot write {}: {error}; {remedy}", folder.display()))?;
    Ok(true)
}
