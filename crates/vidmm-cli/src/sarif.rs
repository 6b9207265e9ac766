//! Findings in SARIF, the format in which build servers and editors take the findings of any tool.

use std::{error::Error, path::Path};

use serde_json::{Value, json};

use crate::output::write_file;

/// A finding at a line of a scenario.
pub struct Entry {
    /// The rule that is broken.
    pub rule: String,
    pub message: String,
    /// The line, counted from 1; 0 is the file as a whole.
    pub line: usize,
    /// The part that stays the same when the file changes elsewhere.
    pub key: String,
    /// Whether the file of known findings has it.
    pub is_known: bool,
}

/// Writes the findings of a run of `scenario` to the file `to`.
pub fn write(to: &Path, scenario: &Path, entries: &[Entry]) -> Result<(), Box<dyn Error>> {
    let text = serde_json::to_string_pretty(&log(scenario, entries))? + "\n";
    Ok(write_file(to, text)?)
}

/// The findings of a run of `scenario`, or about a driver's library, as one log of SARIF 2.1.0.
pub fn log(scenario: &Path, entries: &[Entry]) -> Value {
    let mut rules: Vec<&str> = entries.iter().map(|entry| entry.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let rules: Vec<Value> = rules.into_iter().map(|rule| json!({ "id": rule })).collect();
    let results: Vec<Value> = entries.iter().map(|entry| result(scenario, entry)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "vidmm", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    })
}

fn result(scenario: &Path, entry: &Entry) -> Value {
    let mut location = json!({ "artifactLocation": { "uri": uri(scenario) } });
    if entry.line > 0 {
        location["region"] = json!({ "startLine": entry.line });
    }
    let mut result = json!({
        "ruleId": entry.rule,
        "level": "error",
        "message": { "text": entry.message },
        "locations": [{ "physicalLocation": location }],
        "partialFingerprints": { "vidmmKey/v1": entry.key },
    });
    if entry.is_known {
        result["suppressions"] = json!([{ "kind": "external" }]);
    }
    result
}

/// A path as a reference of a URI: relative paths stay relative to where the run began.
fn uri(path: &Path) -> String {
    let mut uri = if path.is_absolute() { "file://".to_owned() } else { String::new() };
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(byte.into()),
            byte => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: usize, is_known: bool) -> Entry {
        Entry { rule: "RES-20".into(), message: "m".into(), line, key: "RES-20 D A".into(), is_known }
    }

    #[test]
    fn a_finding_has_its_rule_its_line_and_its_key() {
        let log = log(Path::new("my scenarios/a.toml"), &[entry(7, false), entry(0, true)]);
        let results = &log["runs"][0]["results"];
        assert_eq!(log["runs"][0]["tool"]["driver"]["rules"], json!([{ "id": "RES-20" }]));
        let location = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "my%20scenarios/a.toml");
        assert_eq!(location["region"]["startLine"], 7);
        assert_eq!(results[0]["partialFingerprints"]["vidmmKey/v1"], "RES-20 D A");
        assert!(results[0].get("suppressions").is_none());
        assert_eq!(results[1]["suppressions"][0]["kind"], "external");
        assert!(results[1]["locations"][0]["physicalLocation"].get("region").is_none());
    }
}
