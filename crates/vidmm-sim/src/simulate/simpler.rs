//! Simplifications of a value of a scenario file: without a key, with a shorter list, or with a smaller number.

use toml::{Table, Value};
use vidmm_trace::ByteSize;

use crate::exact::exact;
use crate::scenario::Duration;

/// A page; sizes are whole pages.
const PAGE: u64 = 4096;

/// A fault that hits at random is tried at one occasion each, up to this one.
const FIRST_OCCASIONS: u64 = 32;

/// Tables that are simpler than `table` in one thing, the greatest simplification of each key first.
pub(super) fn simpler_tables(table: &Table) -> Vec<Table> {
    let mut tables = Vec::new();
    for (key, value) in table {
        let mut without = table.clone();
        without.remove(key);
        tables.push(without);
        tables.extend(simpler_values(value).into_iter().map(|value| {
            let mut table = table.clone();
            table.insert(key.clone(), value);
            table
        }));
    }
    tables
}

fn simpler_values(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => simpler_texts(text).into_iter().map(Value::String).collect(),
        Value::Integer(number) => {
            smaller(u64::try_from(*number).unwrap_or(0), 1).map(|number| Value::Integer(number as i64)).collect()
        }
        Value::Array(values) => simpler_arrays(values).into_iter().map(Value::Array).collect(),
        Value::Table(table) => simpler_tables(table).into_iter().map(Value::Table).collect(),
        Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => Vec::new(),
    }
}

/// Shorter arrays, halves first, and then arrays with a simpler element.
fn simpler_arrays(values: &[Value]) -> Vec<Vec<Value>> {
    let (count, half) = (values.len(), values.len() / 2);
    let mut arrays = if count > 2 { vec![values[..half].to_vec(), values[half..].to_vec()] } else { Vec::new() };
    // The first of a group stay, so that the group can become smaller.
    for at in (0..count).rev() {
        arrays.push([&values[..at], &values[at + 1..]].concat());
    }
    for (at, value) in values.iter().enumerate() {
        arrays.extend(simpler_values(value).into_iter().map(|simpler| {
            let mut values = values.to_vec();
            values[at] = simpler;
            values
        }));
    }
    arrays
}

/// Smaller sizes, shorter times, faults that hit once, and kernels that name fewer allocations. Names, which have no
/// blanks, stay.
fn simpler_texts(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    if let ([_, _], Ok(size)) = (&words[..], text.parse::<ByteSize>()) {
        return smaller(size.bytes(), PAGE).map(exact).collect();
    }
    if let ([_, _], Ok(time)) = (&words[..], text.parse::<Duration>()) {
        return smaller(time.ns, 1).map(|ns| Duration { ns }.to_string()).collect();
    }
    // A fault that hits now and then may be needed only once.
    if let ([_], Some((fault, _))) = (&words[..], text.split_once("@1/")) {
        return (1..=FIRST_OCCASIONS).map(|nth| format!("{fault}@{nth}")).collect();
    }
    let bound = (0..words.len()).filter(|&at| words[at].contains('@'));
    bound.map(|at| [&words[..at], &words[at + 1..]].concat().join(" ")).collect()
}

/// Numbers below `number`, from one unit up to half of it, in whole units.
fn smaller(number: u64, unit: u64) -> impl Iterator<Item = u64> {
    let half = (number / 2).next_multiple_of(unit);
    let mut candidates = vec![unit, number.isqrt().next_multiple_of(unit), half];
    candidates.retain(|&candidate| (unit..number).contains(&candidate));
    candidates.dedup();
    candidates.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simpler tables, each on one line.
    fn simpler(text: &str) -> Vec<String> {
        let tables = simpler_tables(&text.parse().expect("it is TOML"));
        tables.iter().map(|table| toml::to_string(table).expect("a table").trim_end().replace('\n', "; ")).collect()
    }

    #[test]
    fn keys_go_one_by_one_at_any_depth() {
        let texts = ["[tdr]; delay = true", "[tdr]; quantum = true"];
        assert_eq!(simpler("tdr = { delay = true, quantum = true }")[1..], [texts[1], texts[0]]);
        assert_eq!(simpler("a = true\nb = \"name\""), ["b = \"name\"", "a = true"]);
    }

    #[test]
    fn lists_lose_halves_before_they_lose_one() {
        let lists =
            ["[1, 2]", "[3, 4]", "[1, 2, 3]", "[1, 2, 4]", "[1, 3, 4]", "[2, 3, 4]"].map(|list| format!("a = {list}"));
        assert_eq!(simpler("a = [1, 2, 3, 4]")[1..7], lists);
    }

    #[test]
    fn sizes_stay_pages_and_times_stay_times() {
        assert_eq!(simpler("size = \"1 MiB\"")[1..], ["size = \"4 KiB\"", "size = \"512 KiB\""]);
        assert_eq!(simpler("wait = \"10 ms\"")[1..], ["wait = \"1 ns\"", "wait = \"3162 ns\"", "wait = \"5 ms\""]);
        assert_eq!(simpler("size = \"4 KiB\"")[1..], [""; 0], "nothing is smaller than a page");
    }

    #[test]
    fn faults_hit_once() {
        let faults = simpler("a = \"lose-interrupt@1/50\"");
        assert_eq!(faults[1..3], ["a = \"lose-interrupt@1\"", "a = \"lose-interrupt@2\""]);
    }

    #[test]
    fn kernels_of_command_buffers_name_less() {
        let kernels = ["read B@1 write C@2", "read A@0 write C@2", "read A@0 B@1 write"]
            .map(|kernel| format!("a = \"{kernel}\""));
        assert_eq!(simpler("a = \"read A@0 B@1 write C@2\"")[1..], kernels);
    }
}
