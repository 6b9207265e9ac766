//! The headers and the shim have the names that drivers use: types, functions, values and words, in C and in C++.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::common::are_there;

/// A program that uses each name as its kind says.
fn program(names: &str) -> String {
    let (mut types, mut uses) = (String::from("#include \"dispmprt.h\"\n"), String::from("int main(void) {\n"));
    let rows = names.lines().filter(|line| !line.starts_with('#'));
    for (kind, name) in rows.map(|row| row.split_once(' ').expect("a row has a kind and a name")) {
        match kind {
            // The compiler knows this word by itself.
            "word" if name == "__inline" => Ok(()),
            "word" => writeln!(types, "#ifndef {name}\n#error {name}\n#endif"),
            "type" => writeln!(types, "typedef {name} *type_{name};"),
            "value" => writeln!(uses, "    (void)({name});"),
            _ => writeln!(uses, "    {{ void *volatile place = (void *)&{name}; (void)place; }}"),
        }
        .expect("a string grows");
    }
    types + &uses + "    return 0;\n}\n"
}

fn compile(compiler: &[&str], extension: &str) {
    if !are_there(&[compiler[0]]) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("there is a folder for files");
    let source = folder.path().join(format!("names.{extension}"));
    std::fs::write(&source, program(include_str!("../names.txt"))).expect("the program is written");
    let shim = std::fs::read_dir(root.join("shim")).expect("the shim has a folder");
    let shim = shim.map(|file| file.expect("the folder can be read").path());
    let shim = Vec::from_iter(shim.filter(|path| path.extension().is_some_and(|extension| extension == "c")));
    let including = |compiler| {
        let mut command = Command::new(compiler);
        command
            .current_dir(folder.path())
            .arg("-I")
            .arg(root.join("include"))
            .arg("-I")
            .arg(root.join("shim"))
            .args(["-w", "-c"]);
        command
    };
    run(including(compiler[0]).args(&compiler[1..]).arg(&source));
    run(including("cc").args(shim));
    let mut link = Command::new("sh");
    run(link.args(["-ec", "cc -pthread *.o -o names && ./names"]).current_dir(folder.path()));
}

fn run(command: &mut Command) {
    let run = command.output().expect("there is a compiler");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn names_of_drivers_are_declared_and_linked_in_c() {
    compile(&["cc"], "c");
}

#[test]
fn names_of_drivers_are_declared_and_linked_in_cpp() {
    compile(&["c++", "-std=c++17", "-fpermissive"], "cpp");
}
