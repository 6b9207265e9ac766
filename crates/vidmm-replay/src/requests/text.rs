//! Requests as lines of text. The first line, the format and the options decide which columns count; a line of another form
//! is refused.

use std::{
    collections::HashMap,
    io::{self, Read},
};

use super::{Failure, Op, Request, RequestFormat, RequestOptions, format::Column, hash};

/// The columns that count, from 0.
#[derive(Clone, Debug, Default)]
struct Layout {
    time: Option<usize>,
    /// Several columns together name the object.
    id: Vec<usize>,
    /// The size is the sum; without a column it is 1.
    size: Vec<usize>,
    op: Option<usize>,
    process: Option<usize>,
    /// How often the request is made.
    count: Option<usize>,
    /// The number of columns on each line.
    fields: usize,
    /// The object's name may hold commas: more columns belong to the name.
    has_long_names: bool,
    /// Times must not decrease, since only the order of the columns says what they are.
    is_ordered: bool,
    /// The first line names the columns.
    has_names: bool,
}

/// A reader of lines.
pub(super) struct Lines {
    lines: csv::Reader<Box<dyn Read>>,
    line: csv::ByteRecord,
    layout: Layout,
    /// The first line is a request, and was read already.
    is_pending: bool,
    last_time: f64,
    name: Vec<u8>,
    /// The numbers of processes, in the order of their first requests.
    processes: HashMap<Vec<u8>, u32>,
}

/// The form that is read without options.
const FORM: &str = "the documented form is `time,id,size`, or a first line of such names";

/// The remedy for any other form.
const REMEDY: &str =
    "say the columns, as in `--columns time=1,id=2,size=3`, or the format, as in `--format msr` (`--help` lists all)";

/// Names of columns.
const TIMES: &[&str] = &["time", "timestamp", "clock_time", "op_time"];
const IDS: &[&str] = &["id", "obj_id", "object", "key", "lbn", "cachekey"];
const SIZES: &[&str] = &["size", "obj_size", "bytes", "objectsize"];
const OPS: &[&str] = &["op", "operation", "optype"];
const PROCESSES: &[&str] = &["process", "tenant"];
/// Columns without a meaning for a cache.
const IGNORED: &[&str] = &["version", "next_access_vtime", "next_access"];

impl Lines {
    pub fn open(bytes: Box<dyn Read>, format: RequestFormat, options: &RequestOptions) -> Result<Self, Failure> {
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(options.delimiter);
        builder.quoting(format != RequestFormat::Twitter);
        let (mut lines, mut line) = (builder.from_reader(bytes), csv::ByteRecord::new());
        let is_read = lines.read_byte_record(&mut line).map_err(|error| Failure::Io(error.into()))?;
        let layout = if is_read { Layout::of(&line, format, options)? } else { Layout::default() };
        let is_pending = is_read && !layout.has_names;
        Ok(Self { lines, line, layout, is_pending, last_time: 0.0, name: Vec::new(), processes: HashMap::new() })
    }

    /// The columns in words.
    pub fn reading(&self) -> String {
        self.layout.reading()
    }

    /// The line that was read last.
    pub fn line(&self) -> Option<u64> {
        self.line.position().map(csv::Position::line)
    }

    pub fn next(&mut self) -> Result<Option<Request>, Failure> {
        if !std::mem::take(&mut self.is_pending)
            && !self.lines.read_byte_record(&mut self.line).map_err(|error| Failure::Io(error.into()))?
        {
            return Ok(None);
        }
        let layout = &self.layout;
        let more = self.line.len().wrapping_sub(layout.fields);
        if self.line.len() < layout.fields || more > 0 && !layout.has_long_names {
            let (is, columns) = (self.line.len(), layout.fields);
            return Err(Failure::mistake(format!("it has {}, and {columns} are expected; {REMEDY}", columns_of(is))));
        }
        // Columns behind a name with commas are counted from the end.
        let field = |at: usize| self.line[if at > layout.id[0] { at + more } else { at }].trim_ascii();
        if let Some(at) = layout.time {
            let time = time(field(at)).ok_or_else(|| wrong("time", "a number", at, field(at)))?;
            if layout.is_ordered && time < self.last_time {
                let last = self.last_time;
                return Err(Failure::mistake(format!(
                    "its time {time} is before {last}, so the columns may not be `time,id,size`; {REMEDY}"
                )));
            }
            self.last_time = time;
        }
        let id = match &layout.id[..] {
            &[at] if more == 0 => field(at),
            ids => {
                self.name.clear();
                let all =
                    ids.iter().flat_map(|&at| if at == ids[0] { at..at + more + 1 } else { at + more..at + more + 1 });
                for at in all {
                    self.name.extend_from_slice(&self.line[at]);
                    self.name.push(0);
                }
                &self.name
            }
        };
        if id.is_empty() {
            return Err(Failure::mistake("it names no object"));
        }
        let mut size: u64 = if layout.size.is_empty() { 1 } else { 0 };
        for &at in &layout.size {
            let part = number(field(at)).ok_or_else(|| wrong("size", "a whole number of bytes", at, field(at)))?;
            size = size.checked_add(part).filter(|&size| size <= super::SIZE_MAX).ok_or_else(super::too_large)?;
        }
        let op = match layout.op {
            Some(at) => Op::named(field(at)).ok_or_else(|| {
                let text = String::from_utf8_lossy(field(at)).escape_debug().to_string();
                Failure::mistake(format!(
                    "its operation `{text}` is unknown; leave `op` out of `--columns` to count each request as a read"
                ))
            })?,
            None => Op::Read,
        };
        let times = match layout.count {
            Some(at) => {
                let count = number(field(at)).filter(|count| (1..=u64::from(u32::MAX)).contains(count));
                count.ok_or_else(|| wrong("count", "a whole number of at least 1", at, field(at)))? as u32
            }
            None => 1,
        };
        let (mut number, mut process) = (canonical(id).unwrap_or_else(|| hash(id)), 0);
        if let Some(at) = layout.process {
            let name = field(at);
            if name.is_empty() {
                return Err(Failure::mistake("it names no process"));
            }
            process = match self.processes.get(name) {
                Some(&known) => known,
                None => {
                    let new = self.processes.len() as u32;
                    self.processes.insert(name.to_owned(), new);
                    new
                }
            };
            number = hash((name, id));
        }
        Ok(Some(Request { id: number, size, op, process, times, next: None }))
    }
}

fn columns_of(count: usize) -> String {
    if count == 1 { "one column".to_owned() } else { format!("{count} columns") }
}

fn wrong(what: &str, expected: &str, at: usize, found: &[u8]) -> Failure {
    let found = String::from_utf8_lossy(&found[..found.len().min(40)]).escape_debug().to_string();
    Failure::mistake(format!(
        "its {what} `{found}` in column {} is no {}; {FORM}; {REMEDY}",
        at + 1,
        expected.trim_start_matches("a ")
    ))
}

impl Layout {
    fn of(first: &csv::ByteRecord, format: RequestFormat, options: &RequestOptions) -> Result<Self, Failure> {
        let all = Self { fields: first.len(), ..Self::default() };
        let of_first = |at: usize| first.get(at).map(<[u8]>::trim_ascii).unwrap_or_default();
        if let Some(columns) = &options.columns {
            let place = |column: &Column| all.place(first, column);
            let layout = Self {
                time: columns.time.as_ref().map(place).transpose()?,
                id: vec![place(&columns.id)?],
                size: columns.size.as_ref().map(place).transpose()?.into_iter().collect(),
                op: columns.op.as_ref().map(place).transpose()?,
                process: columns.process.as_ref().map(place).transpose()?,
                ..all
            };
            let is_name = |column: &Column| matches!(column, Column::Name(_));
            let given = [&columns.time, &columns.size, &columns.op, &columns.process].into_iter().flatten();
            // Where numbers are due, words are names of columns.
            let numbers = layout.size.iter().chain(&layout.time);
            let is_word =
                |&at: &usize| matches!(of_first(at), [first, ..] if first.is_ascii_alphabetic() || *first == b'#');
            let has_words = numbers.clone().next().is_some() && numbers.clone().all(is_word);
            return Ok(Self { has_names: given.chain([&columns.id]).any(is_name) || has_words, ..layout });
        }
        match format {
            RequestFormat::Msr => {
                let layout = Self { time: Some(0), id: vec![1, 2, 4], size: vec![5], op: Some(3), fields: 7, ..all };
                let form = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
                let has_names = of_first(0).eq_ignore_ascii_case(b"timestamp");
                Self { has_names, ..layout }.of_length(first, form)
            }
            RequestFormat::Twitter => {
                let layout = Self { time: Some(0), id: vec![1], size: vec![2, 3], op: Some(5), fields: 7, ..all };
                let form = "timestamp,key,key size,value size,client id,operation,TTL";
                Self { has_long_names: true, ..layout }.of_length(first, form)
            }
            RequestFormat::LibCacheSimTxt => Ok(Self { id: vec![0], fields: 1, ..all }),
            RequestFormat::CacheLib => {
                let layout = all.named(first)?.ok_or_else(|| {
                    Failure::mistake("it names no columns; CacheLib's traces begin with names such as `key,op,size,op_count,key_size`")
                })?;
                let sizes = position(first, &["key_size"]).into_iter().chain(layout.size);
                Ok(Self { size: sizes.collect(), count: position(first, &["op_count"]), ..layout })
            }
            _ => {
                if let Some(layout) = all.named(first)? {
                    let known = [TIMES, IDS, SIZES, OPS, PROCESSES, IGNORED].concat();
                    let unknown = (0..first.len()).find(|&at| !known.iter().any(|name| is_named(of_first(at), name)));
                    return match unknown {
                        Some(at) => {
                            let name = String::from_utf8_lossy(of_first(at)).escape_debug().to_string();
                            Err(Failure::mistake(format!("its column `{name}` is unknown, and may matter; {REMEDY}")))
                        }
                        None => Ok(layout),
                    };
                }
                // A fourth column is the next use, which is counted anew.
                let has_next = format == RequestFormat::LibCacheSimCsv && first.len() == 4;
                if first.len() != 3 && !has_next {
                    return Err(Failure::mistake(format!("it has {}; {FORM}; {REMEDY}", columns_of(first.len()))));
                }
                Ok(Self { time: Some(0), id: vec![1], size: vec![2], is_ordered: true, ..all })
            }
        }
    }

    /// A line has the columns of a format.
    fn of_length(self, first: &csv::ByteRecord, form: &str) -> Result<Self, Failure> {
        if first.len() == self.fields || self.has_long_names && first.len() > self.fields {
            return Ok(self);
        }
        Err(Failure::mistake(format!("it has {}; the form is `{form}`", columns_of(first.len()))))
    }

    /// The place of a column that the options give.
    fn place(&self, first: &csv::ByteRecord, column: &Column) -> Result<usize, Failure> {
        match column {
            Column::Number(number) if *number <= self.fields => Ok(number - 1),
            Column::Number(number) => Err(Failure::mistake(format!(
                "it has {}, and `--columns` asks for column {number}",
                columns_of(self.fields)
            ))),
            Column::Name(name) => {
                let mut places = (0..first.len()).filter(|&at| is_named(first[at].trim_ascii(), name));
                match (places.next(), places.next()) {
                    (Some(at), None) => Ok(at),
                    (None, _) => Err(Failure::mistake(format!("it names no column `{name}`; give a number, from 1"))),
                    _ => Err(Failure::mistake(format!("it names two columns `{name}`; give a number, from 1"))),
                }
            }
        }
    }

    /// The columns that the line names, if the line names an object and a size.
    fn named(&self, first: &csv::ByteRecord) -> Result<Option<Self>, Failure> {
        let (Some(id), Some(size)) = (position(first, IDS), position(first, SIZES)) else { return Ok(None) };
        for names in [TIMES, IDS, SIZES, OPS, PROCESSES] {
            let is_one = |at: &usize| names.iter().any(|name| is_named(first[*at].trim_ascii(), name));
            if (0..first.len()).filter(is_one).count() > 1 {
                return Err(Failure::mistake(format!("it names two columns that could be `{}`; {REMEDY}", names[0])));
            }
        }
        let (time, op, process) = (position(first, TIMES), position(first, OPS), position(first, PROCESSES));
        Ok(Some(Self { time, id: vec![id], size: vec![size], op, process, has_names: true, ..self.clone() }))
    }

    fn reading(&self) -> String {
        if self.fields == 0 {
            return "no line".to_owned();
        }
        let columns = |what: &str, places: &[usize]| match places {
            [] => None,
            [at] => Some(format!("{what} in column {}", at + 1)),
            all => {
                let numbers = Vec::from_iter(all.iter().map(|at| (at + 1).to_string()));
                let by = if what == "size" { " + " } else { ", " };
                Some(format!("{what} in columns {}", numbers.join(by)))
            }
        };
        let one = |what: &str, place: Option<usize>| columns(what, place.as_slice());
        let size = columns("size", &self.size).unwrap_or_else(|| "each object of 1 byte".to_owned());
        let parts = [
            self.has_names.then(|| "a first line of names".to_owned()),
            one("time", self.time),
            columns("id", &self.id),
            Some(size),
            one("op", self.op),
            one("process", self.process),
            one("repetitions", self.count),
        ];
        Vec::from_iter(parts.into_iter().flatten()).join(", ")
    }
}

fn is_named(field: &[u8], name: &str) -> bool {
    let field = field.strip_prefix(b"#").map_or(field, <[u8]>::trim_ascii);
    field.eq_ignore_ascii_case(name.as_bytes())
}

fn position(first: &csv::ByteRecord, names: &[&str]) -> Option<usize> {
    (0..first.len()).find(|&at| names.iter().any(|name| is_named(first[at].trim_ascii(), name)))
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_whole)?.parse().ok()
}

/// The number that a name is, if no other name is the same number.
fn canonical(name: &[u8]) -> Option<u64> {
    if name.len() > 1 && name[0] == b'0' { None } else { number(name) }
}

fn time(text: &[u8]) -> Option<f64> {
    match number(text) {
        Some(whole) => Some(whole as f64),
        None => str::from_utf8(text).ok()?.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0),
    }
}

/// An error of the reader below.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
