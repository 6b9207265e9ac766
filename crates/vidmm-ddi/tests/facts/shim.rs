//! The small kernel, as a program in C sees it.

use std::path::Path;
use std::process::Command;

use crate::common::are_there;

/// Compiles and runs the program, as a file of a driver with this compiler these flags and these libraries.
fn run(compiler: &str, flags: &str, libraries: &str) {
    if !are_there(&["cc", compiler]) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shim-test-{compiler}"));
    let flags = format!("-g -Wall -Wextra -Werror -pthread -Iinclude -Ishim {flags}");
    let command = format!(
        "{compiler} {flags} -c tests/facts/shim.c -o \"$0.o\" && cc -pthread -Iinclude -Ishim shim/*.c \"$0.o\" {libraries} -o \"$0\" && exec \"$0\""
    );
    let run = Command::new("sh").args(["-c", &command]).arg(&program).current_dir(root).output();
    let run = run.expect("there is a shell");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn dpcs_work_items_timers_and_exceptions_run_as_a_driver_in_c_asks() {
    run("cc", "", "");
}

#[test]
fn dpcs_work_items_timers_and_exceptions_run_as_a_driver_in_cpp_asks() {
    run("c++", "-std=c++17 -x c++", "-lstdc++");
}

/// A driver with `__finally`, and a `__leave` outside of every `__try`, do not compile.
#[test]
fn words_that_there_are_not_are_refused_by_the_compiler() {
    if !are_there(&["cc"]) {
        return;
    }
    let refused = [
        ("void f(void) { __try { } __finally { } }", "vidmm has no __finally"),
        ("void f(void) { __leave; }", "vidmm_leave"),
        ("void f(int a) { if (a) __try { } __except (1) { } else { } }", "else"),
    ];
    for (text, message) in refused {
        let folder = tempfile::tempdir().expect("there is a folder for files");
        let source = folder.path().join("refused.c");
        std::fs::write(&source, format!("#include \"ntddk.h\"\n{text}\n")).expect("the program is written");
        let mut compiler = Command::new("cc");
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let run = compiler.args(["-fsyntax-only", "-I"]).arg(include).arg(&source).output().expect("cc is there");
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && errors.contains(message), "{text}: {errors}");
    }
}
