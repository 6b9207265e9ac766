//! The text: steps in lines, repeated rounds once, and sums at the end.

use std::collections::BTreeMap;
use std::fmt::Write;

use vidmm::DeviceId;

use super::cycles::{Cycle, cycles};
use super::subject::Subject;
use super::tale::{Sentence, Shape, Taker, Tale};
use super::words::{list, time, times};
use super::world::World;
use crate::ByteSize;

/// Columns of a line.
const WIDTH: usize = 110;

/// The whole explanation.
pub(super) fn text(subject: &Subject, tale: &Tale, world: &World) -> String {
    let mut text = life(subject, tale, world);
    text.push_str(&end(world.events, &at_the_end(subject, world)));
    text
}

/// The last lines of an explanation: the state at the end of a log with so many events.
pub(super) fn end(events: u64, state: &str) -> String {
    let mut text = String::new();
    Columns { number: 0, at: 0 }.paragraph(&mut text, "", &format!("At the end of the log ({events} events) {state}."));
    text
}

/// The state at the end of an allocation that is gone.
pub(super) const GONE: &str = "it was gone";

/// The explanation without its last lines.
pub(super) fn life(subject: &Subject, tale: &Tale, world: &World) -> String {
    let mut text = format!("{}, {}, of {}\n\n", subject.id, ByteSize(subject.size), world.device(subject.owner));
    let sentences = &tale.sentences;
    let columns = Columns::of(sentences);
    let shapes: Vec<&Shape> = sentences.iter().map(|sentence| &sentence.shape).collect();
    for cycle in cycles(&shapes) {
        let first = &sentences[cycle.start..cycle.start + cycle.period];
        first.iter().for_each(|sentence| columns.line(&mut text, Some(sentence), &told(sentence)));
        if cycle.rounds > 1 {
            columns.line(&mut text, None, &repeated(cycle, sentences, world));
        }
    }
    if tale.untold > 0 {
        let untold = format!("{} more steps are left out here; `vidmm explain` tells them.", tale.untold);
        columns.line(&mut text, None, &untold);
    }
    text.push('\n');
    for line in sums(tale, world) {
        columns.paragraph(&mut text, "", &line);
    }
    text
}

/// A step, and the allocations that took the room which it gave up.
fn told(sentence: &Sentence) -> String {
    match sentence.takers.as_slice() {
        [] => sentence.text.clone(),
        takers => format!("{} Into its room came {}.", sentence.text, list(takers)),
    }
}

/// The rounds after the first.
fn repeated(Cycle { start, period, rounds }: Cycle, sentences: &[Sentence], world: &World) -> String {
    let rest = &sentences[start + period..start + period * rounds];
    let steps = if period == 1 { "This".to_owned() } else { format!("These {period} steps") };
    let happened = times(rounds as u64 - 1).replace(" times", " more times");
    let mut text = format!("{steps} then happened {happened}");
    if let Some(last) = rest.last() {
        let _ = write!(text, ", up to event {} at {}", last.number, time(last.at));
    }
    let (takers, wanted) = benefits(rest);
    if let Some(takers) = counted(&takers, Taker::to_string) {
        let _ = write!(text, "; into its room came {takers}");
    }
    if let Some(wanted) = counted(&wanted, |&device| world.device(device)) {
        let _ = write!(text, "; wanted for {wanted}");
    }
    text.push('.');
    text
}

/// How often each allocation took the room, and how often it was given up for each device.
fn benefits(sentences: &[Sentence]) -> (BTreeMap<Taker, u64>, BTreeMap<DeviceId, u64>) {
    let (mut takers, mut wanted) = (BTreeMap::new(), BTreeMap::new());
    for sentence in sentences {
        sentence.takers.iter().for_each(|&taker| *takers.entry(taker).or_default() += 1);
        sentence.wanted_by.inspect(|&device| *wanted.entry(device).or_default() += 1);
    }
    (takers, wanted)
}

/// Counts in words, the largest first.
fn counted<K: Ord>(counts: &BTreeMap<K, u64>, name: impl Fn(&K) -> String) -> Option<String> {
    let mut counts: Vec<(&K, u64)> = counts.iter().map(|(key, &count)| (key, count)).collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let named: Vec<String> = counts.iter().map(|(key, count)| format!("{} ({})", name(key), times(*count))).collect();
    (!named.is_empty()).then(|| list(&named))
}

/// The sums at the end.
fn sums(tale: &Tale, world: &World) -> Vec<String> {
    let sums = &tale.sums;
    let mut lines = vec![format!(
        "In all it got a place {} ({} copied in) and left one {} ({} copied out, content discarded {}); MakeResidents that named \
         it were refused {}.",
        times(sums.came_in),
        ByteSize(sums.bytes_in),
        times(sums.left),
        ByteSize(sums.bytes_out),
        times(sums.discarded),
        times(sums.refused)
    )];
    if sums.waited > 0 {
        lines.push(format!(
            "Callers waited for it for {}, at the longest {}.",
            time(sums.waited),
            time(sums.longest_wait)
        ));
    }
    if sums.bus_ns > 0 {
        lines.push(format!(
            "{} over the bus, in system memory, made kernels {} longer ({}).",
            ByteSize(sums.bus_bytes),
            time(sums.bus_ns),
            times(sums.bus_kernels)
        ));
    }
    if let Some(wanted) = counted(&sums.wanted_by, |&device| world.device(device)) {
        lines.push(format!("Its room was wanted for {wanted}."));
    }
    if let Some(takers) = counted(&sums.takers, Taker::to_string) {
        lines.push(format!("Into its room came {takers}."));
    }
    lines
}

fn at_the_end(subject: &Subject, world: &World) -> String {
    let place = subject
        .place
        .map_or_else(|| "resident nowhere".to_owned(), |place| format!("in {}", world.segments.name(place)));
    let named: Vec<String> =
        subject.counts.iter().filter(|(_, count)| **count > 0).map(|(device, _)| world.device(*device)).collect();
    let listed = if named.is_empty() { "on no list".to_owned() } else { format!("on the list of {}", list(&named)) };
    match (subject.gone, subject.destroyed_at, subject.offered) {
        (true, ..) => GONE.to_owned(),
        (_, Some(_), _) => format!("it was destroyed, and {place}"),
        (.., true) => format!("it was offered, and {place}"),
        _ => format!("it was {place} and {listed}"),
    }
}

/// The columns of numbers and times.
struct Columns {
    number: usize,
    at: usize,
}

impl Columns {
    fn of(sentences: &[Sentence]) -> Self {
        let widest = |width: &dyn Fn(&Sentence) -> usize| sentences.iter().map(width).max().unwrap_or(0);
        Self { number: widest(&|of| of.number.to_string().len()), at: widest(&|of| time(of.at).len()) }
    }

    fn line(&self, text: &mut String, sentence: Option<&Sentence>, said: &str) {
        let Self { number, at } = *self;
        let start = match sentence {
            Some(of) => format!("event {:>number$}  {:>at$}  ", of.number, time(of.at)),
            None => " ".repeat("event ".len() + number + at + 4),
        };
        self.paragraph(text, &start, said);
    }

    /// A text in lines, each as far in as the first.
    fn paragraph(&self, text: &mut String, start: &str, said: &str) {
        let margin = start.chars().count();
        let mut line = start.to_owned();
        let mut column = margin;
        for word in said.split(' ') {
            let width = word.chars().count();
            if column > margin && column + 1 + width > WIDTH {
                text.push_str(line.trim_end());
                text.push('\n');
                (line, column) = (" ".repeat(margin), margin);
            }
            if column > margin {
                line.push(' ');
                column += 1;
            }
            line.push_str(word);
            column += width;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
