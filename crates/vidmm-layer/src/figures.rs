//! The figures of a device under the residency mode: a file of text, which `vidmm exec` reads behind the program's end.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;

/// Resources that stay in their homes, or memory that is no home, for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pinned {
    /// The number of resources, over the whole run.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The figures of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// The counts by name.
    counts: BTreeMap<String, u64>,
    /// The resources in place, by reason.
    pub pinned: BTreeMap<String, Pinned>,
    /// The reason why the device ran without residency, or ended it.
    pub without: Option<String>,
}

impl Figures {
    /// A count, 0 before the first.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Sets a count.
    pub fn set(&mut self, name: &str, value: u64) {
        self.counts.insert(name.to_owned(), value);
    }

    /// Adds to a count.
    pub fn add(&mut self, name: &str, value: u64) {
        *self.counts.entry(name.to_owned()).or_default() += value;
    }

    /// Adds to what stays in place for a reason. Returns whether the reason is new.
    pub fn pin(&mut self, reason: &str, bytes: u64) -> bool {
        let is_new = !self.pinned.contains_key(reason);
        let pinned = self.pinned.entry(reason.to_owned()).or_default();
        *pinned = Pinned { count: pinned.count + 1, bytes: pinned.bytes + bytes };
        is_new
    }

    /// Writes the figures to a file.
    pub fn write(&self, file: Option<&Path>) {
        let written = file.map(|file| fs::write(file, self.to_string())).transpose();
        if let Err(error) = written {
            eprintln!("vidmm: no figures: {error}");
        }
    }

    /// The figures in a text; lines that are not understood are left out.
    pub fn read(text: &str) -> Self {
        let mut figures = Self::default();
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut numbers = rest.splitn(3, ' ');
            match word {
                "without" => figures.without = Some(rest.to_owned()),
                "pinned" => {
                    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
                    let pinned = Pinned { count: number(), bytes: number() };
                    figures.pinned.insert(numbers.next().unwrap_or_default().to_owned(), pinned);
                }
                _ => figures.set(word, rest.parse().unwrap_or(0)),
            }
        }
        figures
    }
}

impl Display for Figures {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{name} {count}"))?;
        for (reason, Pinned { count, bytes }) in &self.pinned {
            writeln!(f, "pinned {count} {bytes} {reason}")?;
        }
        self.without.iter().try_for_each(|reason| writeln!(f, "without {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn figures_are_read_as_they_were_written() {
        let mut figures = Figures::default();
        figures.set("page-ins", 7);
        figures.add("page-ins", 1);
        assert!(figures.pin("small buffers", 100));
        assert!(!figures.pin("small buffers", 28));
        figures.without = Some("two queues".to_owned());
        assert_eq!(Figures::read(&figures.to_string()), figures);
        assert_eq!((figures.get("page-ins"), figures.pinned["small buffers"].bytes), (8, 128));
    }
}
