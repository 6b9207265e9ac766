//! The C headers have WDDM's layouts: in C and in C++, by the compilers that are there.
//!
//! `layout.json` has the size of each struct and the offset of each field, or first bit and width, as independent sources give
//! them. A struct of one source is compared too, and listed in the guide.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::are_there;

const TABLE: &str = include_str!("../layout.json");

/// A C program that prints a line for each field: the struct, the field, and where it is.
fn program(table: &BTreeMap<String, Value>) -> String {
    let mut program = String::from(
        "#include <stdio.h>\n#include <string.h>\n#include \"dispmprt.h\"\n\
         static void bits(const char *name, const char *field, const void *bytes, size_t size) {\n\
         \x20   size_t bit, first = 0, count = 0;\n\
         \x20   for (bit = 0; bit < size * 8; bit++) {\n\
         \x20       if (((const unsigned char *)bytes)[bit / 8] >> (bit % 8) & 1) {\n\
         \x20           if (count++ == 0) first = bit;\n\
         \x20       }\n\
         \x20   }\n\
         \x20   printf(\"%s %s %zu %zu\\n\", name, field, first, count);\n\
         }\n\
         int main(void) {\n",
    );
    for (name, layout) in table {
        writeln!(program, "    printf(\"{name} - %zu 0\\n\", sizeof({name}) * 8);").expect("a string grows");
        for (field, place) in layout["fields"].as_object().expect("fields are an object") {
            let line = match place {
                Value::Array(_) => format!(
                    "{{ {name} s; memset(&s, 0, sizeof(s)); s.{field} = ~s.{field}; bits(\"{name}\", \"{field}\", &s, sizeof(s)); }}"
                ),
                _ => format!("printf(\"{name} {field} %zu 0\\n\", offsetof({name}, {field}) * 8);"),
            };
            writeln!(program, "    {line}").expect("a string grows");
        }
    }
    program + "    return 0;\n}\n"
}

/// The lines that the program must print.
fn expected(table: &BTreeMap<String, Value>) -> Vec<String> {
    let number = |value: &Value| value.as_u64().expect("it is a number");
    let mut lines = Vec::new();
    for (name, layout) in table {
        lines.push(format!("{name} - {} 0", number(&layout["size"]) * 8));
        for (field, place) in layout["fields"].as_object().expect("fields are an object") {
            lines.push(match place.as_array() {
                Some(bits) => {
                    format!("{name} {field} {} {}", number(&bits[0]) * 8 + number(&bits[1]), number(&bits[2]))
                }
                None => format!("{name} {field} {} 0", number(place) * 8),
            });
        }
    }
    lines
}

fn compare(compiler: &str, extension: &str) {
    if !are_there(&[compiler]) {
        return;
    }
    let table: BTreeMap<String, Value> = serde_json::from_str(TABLE).expect("the table is JSON");
    let folder = tempfile::tempdir().expect("there is a folder for files");
    let (source, out) = (folder.path().join(format!("layout.{extension}")), folder.path().join("layout"));
    std::fs::write(&source, program(&table)).expect("the program is written");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let build = Command::new(compiler).arg("-I").arg(include).arg(&source).arg("-o").arg(&out).output();
    let build = build.unwrap_or_else(|error| panic!("{compiler} does not run: {error}"));
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let run = Command::new(&out).output().expect("the program runs");
    let found = String::from_utf8(run.stdout).expect("the program prints text");
    let wanted = expected(&table);
    let wrong: Vec<_> = found.lines().zip(&wanted).filter(|(found, wanted)| found != wanted).collect();
    assert!(wrong.is_empty(), "(found, wanted): {wrong:#?}");
    assert_eq!(found.lines().count(), wanted.len());
}

#[test]
fn headers_have_the_documented_layouts_in_c() {
    compare("cc", "c");
}

#[test]
fn headers_have_the_documented_layouts_in_cpp() {
    compare("c++", "cpp");
}
