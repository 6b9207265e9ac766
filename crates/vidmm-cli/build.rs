//! Tells the program the commit and the features that it is built with, for `vidmm --version` and the rows of `vidmm
//! replay`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=VIDMM_COMMIT={}",
        commit_of_package().or_else(commit_of_checkout).unwrap_or("unknown".into())
    );
    println!("cargo::rustc-env=VIDMM_FEATURES={}", features());
}

/// The commit that cargo wrote into a package: its folder may lie in a repository of somebody else's.
fn commit_of_package() -> Option<String> {
    let info = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, commit) = info.split_once("\"sha1\": \"")?;
    Some(commit.split_once('"')?.0.to_owned())
}

/// The commit of the repository, if it is one and there is git.
fn commit_of_checkout() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // The log of HEAD changes with each commit and each checkout.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"])
}

/// The features of this package that are on.
fn features() -> String {
    let of_variable = |name: String| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-"));
    let mut features: Vec<String> = std::env::vars().filter_map(|(name, _)| of_variable(name)).collect();
    features.sort();
    if features.is_empty() { "none".to_owned() } else { features.join(", ") }
}
