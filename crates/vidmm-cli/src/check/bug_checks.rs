//! The bug checks with which Windows ends on a mistake (DRV-16).

use super::findings::Found;

/// The bug check of each rule: the code, and the first parameter where the code has a table.
const BUG_CHECKS: [(&str, &str); 18] = [
    ("BPB-01", "0x10E, B"),
    ("DDI-SUBMIT", "0x119, 2"),
    ("PAT-15", "0x119, 3"),
    ("DDI-CANCEL", "0x119, 9"),
    ("FLT-21", "0x119, A"),
    ("FLT-23", "0x119, 5"),
    ("FLT-31", "0x116"),
    ("FLT-32", "0x116"),
    ("BPB-02", "0x10E, 12"),
    ("SYN-13", "0x119, 1"),
    ("SHIM-DEFERRED", "0xC4"),
    ("SHIM-IRQL", "0xC4"),
    ("SHIM-LOCK", "0xC4"),
    ("SHIM-POOL-FREE", "0xC4"),
    ("SHIM-POOL-LEAK", "0xC4"),
    ("SHIM-POOL-OVERRUN", "0xC4"),
    ("SHIM-POOL-PAGED", "0xC4"),
    ("SHIM-POOL-TAG", "0xC4"),
];

/// The bug check of a finding; none where the documents name none.
pub fn of(found: &Found) -> Option<&'static str> {
    let tells = |text| found.message.contains(text);
    match found.rule.as_str() {
        "BPB-02" if tells("private data, and") => Some("0x10E, 13"),
        "DDI-HOST-APERTURE" if tells("DxgkDdiMapCpuHostAperture failed") => Some("0x10E, 2D"),
        "DDI-HOST-APERTURE" if tells("DxgkDdiUnmapCpuHostAperture failed") => Some("0x10E, 2E"),
        // The packet hangs, and the adapter is reset.
        "SYN-13" if tells("has not reported its end") => Some("0x116"),
        rule => BUG_CHECKS.iter().find(|(of, _)| *of == rule).map(|&(_, code)| code),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::RULES;
    use super::*;

    #[test]
    fn bug_checks_are_of_rules() {
        for (rule, code) in BUG_CHECKS {
            assert!(RULES.iter().any(|(name, _)| *name == rule), "{rule}");
            assert_eq!(of(&Found::new(rule, "a mistake".to_owned())), Some(code));
        }
        let private = "DxgkDdiRender has 24 bytes of private data, and the byte behind the end was written";
        assert_eq!(of(&Found::new("BPB-02", private.to_owned())), Some("0x10E, 13"));
        assert_eq!(of(&Found::new("PAT-10", String::new())), None);
    }
}
