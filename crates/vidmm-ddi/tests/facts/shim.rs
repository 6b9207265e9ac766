//! The small kernel, as a program in C sees it.

use std::path::Path;
use std::process::Command;

use crate::common::are_there;

#[test]
fn dpcs_work_items_and_timers_run_when_they_may() {
    if !are_there(&["cc"]) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shim-test");
    let command =
        "cc -g -Wall -Wextra -Werror -pthread -Iinclude -Ishim tests/facts/shim.c shim/*.c -o \"$0\" && exec \"$0\"";
    let run = Command::new("sh").args(["-c", command]).arg(&program).current_dir(root).output();
    let run = run.expect("there is a shell");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
