//! The formats of requests, and the options that say how a file is read.

use std::{fmt, str::FromStr};

use vidmm_trace::packed::Packing;

/// A format of requests to a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestFormat {
    /// `time,id,size` on each line, or columns that the first line names.
    Csv,
    /// The same, and `time,id,size,next` without names.
    LibCacheSimCsv,
    /// An id on each line; each object has 1 byte.
    LibCacheSimTxt,
    /// Block traces of Microsoft Research Cambridge.
    Msr,
    /// Traces of Twitter's clusters.
    Twitter,
    /// Traces of CacheLib, with named columns.
    CacheLib,
    /// Block traces of VMware, in both versions.
    Vscsi,
    /// libCacheSim's own format, with a header.
    Lcs,
    /// libCacheSim's format of 24 bytes for each request.
    OracleGeneral,
}

impl RequestFormat {
    /// Every format.
    pub const ALL: [Self; 9] = [
        Self::Csv,
        Self::LibCacheSimCsv,
        Self::LibCacheSimTxt,
        Self::Msr,
        Self::Twitter,
        Self::CacheLib,
        Self::Vscsi,
        Self::Lcs,
        Self::OracleGeneral,
    ];

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::LibCacheSimCsv => "libcachesim-csv",
            Self::LibCacheSimTxt => "libcachesim-txt",
            Self::Msr => "msr",
            Self::Twitter => "twitter",
            Self::CacheLib => "cachelib",
            Self::Vscsi => "vscsi",
            Self::Lcs => "lcs",
            Self::OracleGeneral => "oracleGeneral",
        }
    }

    /// Whether a file of the format is text.
    pub fn is_text(self) -> bool {
        !matches!(self, Self::Vscsi | Self::Lcs | Self::OracleGeneral)
    }

    /// Whether requests may state the next request to the object.
    pub(super) fn may_state_next_uses(self) -> bool {
        matches!(self, Self::Lcs | Self::OracleGeneral)
    }

    /// The format that the end of a file's name states: `.csv`, `.vscsi`, `.lcs`, `.oracleGeneral` or `.oracleGeneral.bin`, each
    /// with `.gz` or `.zst` where the file is packed.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = Packing::of_name(name).0.to_ascii_lowercase();
        let ends = [
            (".csv", Self::Csv),
            (".vscsi", Self::Vscsi),
            (".lcs", Self::Lcs),
            (".oraclegeneral", Self::OracleGeneral),
            (".oraclegeneral.bin", Self::OracleGeneral),
        ];
        ends.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| format)
    }
}

/// The size of an object whose requests state different sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sizes {
    /// The size of the first request.
    #[default]
    First,
    /// The largest size of all requests.
    Largest,
    /// A request of another size replaces the object by a new object.
    New,
}

/// How a file of requests is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestOptions {
    /// The number of requests that make a submission.
    pub batch: u32,
    /// The page size to which sizes are rounded up, in bytes.
    pub page: u64,
    /// The size of an object whose requests state different sizes.
    pub sizes: Sizes,
    /// The format; if none, the file's name decides.
    pub format: Option<RequestFormat>,
    /// The columns of text; if none, the format decides.
    pub columns: Option<Columns>,
    /// The character between columns of text.
    pub delimiter: u8,
    /// The share of the objects that are read, in millionths; the hash of an object's name decides (SHARDS).
    pub sample: Option<u32>,
}

impl Default for RequestOptions {
    fn default() -> Self {
        let (sizes, format, columns) = (Sizes::First, None, None);
        Self { batch: 1, page: crate::PAGE, sizes, format, columns, delimiter: b',', sample: None }
    }
}

/// A column of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column {
    /// The position; the first column is 1.
    Number(usize),
    /// The name in the first line.
    Name(String),
}

/// The columns that count, written as `time=2,id=5,size=4,op=3,process=1`, with numbers from 1 or names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    /// The time, which is checked to be a number.
    pub time: Option<Column>,
    /// The object, by any text.
    pub id: Column,
    /// The size in bytes; without the column each object has 1 byte.
    pub size: Option<Column>,
    /// The operation: a read, a write or a deletion; without the column each request is a read.
    pub op: Option<Column>,
    /// The process, by any text; objects of two processes are different objects. Without the column there is one process.
    pub process: Option<Column>,
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const KNOWN: [&str; 5] = ["time", "id", "size", "op", "process"];
        let mut found = [const { None }; KNOWN.len()];
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || {
                format!(
                    "`{part}` is no column; write time, id, size, op or process, and a number or a name, as in `id=5`"
                )
            };
            let (what, column) = part.split_once('=').ok_or_else(wrong)?;
            let at = KNOWN.iter().position(|&known| known == what.trim()).ok_or_else(wrong)?;
            let column = match column.trim().parse() {
                Ok(0) => return Err(format!("`{part}`: the first column is 1")),
                Ok(number @ 1..=4096) => Column::Number(number),
                _ if column.trim().is_empty() => return Err(wrong()),
                _ => Column::Name(column.trim().to_owned()),
            };
            if found[at].replace(column).is_some() {
                return Err(format!("`{what}` stands twice; one column has it"));
            }
        }
        let [time, id, size, op, process] = found;
        let id = id.ok_or("`id` is missing; say which column names the object, as in `id=5`")?;
        Ok(Self { time, id, size, op, process })
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}
