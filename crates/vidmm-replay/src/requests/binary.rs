//! Requests as records of a fixed length, little-endian: three formats of libCacheSim.

use std::io::{self, Read};

use super::{Failure, Op, Request, RequestFormat};

/// The number at both ends of an lcs header.
const LCS_MAGIC: u64 = 0x1234_5678_9abc_def0;

/// The lengths of an lcs header in older and newer files.
const LCS_HEADERS: [usize; 2] = [1024, 8192];

/// The layout of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    OracleGeneral,
    /// A version from 1 to 8.
    Lcs(u64),
    Vscsi(u16),
}

/// A reader of records.
pub(super) struct Records {
    bytes: Box<dyn Read>,
    layout: Layout,
    record: Vec<u8>,
    /// The number of requests so far, and the number that the header states.
    read: u64,
    stated: Option<u64>,
}

impl Records {
    pub fn open(mut bytes: Box<dyn Read>, format: RequestFormat) -> Result<Self, Failure> {
        let mut stated = None;
        let layout = match format {
            RequestFormat::Lcs => {
                let mut header = vec![0; LCS_HEADERS[0]];
                read_header(&mut *bytes, &mut header)?;
                if word(&header, 0, 8) != LCS_MAGIC {
                    return Err(Failure::mistake("the header does not begin as that of an lcs file"));
                }
                if word(&header, LCS_HEADERS[0] - 8, 8) != LCS_MAGIC {
                    header.resize(LCS_HEADERS[1], 0);
                    read_header(&mut *bytes, &mut header[LCS_HEADERS[0]..])?;
                    if word(&header, LCS_HEADERS[1] - 8, 8) != LCS_MAGIC {
                        return Err(Failure::mistake("the header does not end as that of an lcs file"));
                    }
                }
                let (version, count) = (word(&header, 8, 8), word(&header, 24, 8));
                if !(1..=8).contains(&version) {
                    return Err(Failure::mistake(format!(
                        "the header states version {version}; versions 1 to 8 are read: write the file anew with libCacheSim"
                    )));
                }
                stated = Some(count).filter(|&count| count > 0);
                Layout::Lcs(version)
            }
            RequestFormat::Vscsi => {
                let mut start = Vec::new();
                (&mut *bytes).take(80).read_to_end(&mut start).map_err(Failure::Io)?;
                let has = |version: u16, at: usize, length: usize| {
                    let mut versions = start.chunks_exact(length).map(|record| word(record, at, 2) as u16 >> 8);
                    start.len() >= length && versions.all(|found| found == version)
                };
                let layout = if has(2, 2, 40) {
                    Layout::Vscsi(2)
                } else if has(1, 14, 32) {
                    Layout::Vscsi(1)
                } else if start.is_empty() {
                    Layout::Vscsi(2)
                } else {
                    return Err(Failure::mistake("it has no version of a vscsi trace, 1 or 2"));
                };
                bytes = Box::new(io::Cursor::new(start).chain(bytes));
                layout
            }
            _ => Layout::OracleGeneral,
        };
        Ok(Self { bytes, layout, record: vec![0; layout.length()], read: 0, stated })
    }

    /// How a record is read.
    pub fn reading(&self) -> String {
        match self.layout {
            Layout::OracleGeneral => "records of time, id, size and next request".to_owned(),
            Layout::Lcs(1) => "version 1, records of time, id, size and next request".to_owned(),
            Layout::Lcs(version) => format!("version {version}, records of time, id, size, operation and next request"),
            Layout::Vscsi(version) => {
                format!("version {version}, id is the block, size the length, op the SCSI command")
            }
        }
    }

    pub fn next(&mut self) -> Result<Option<Request>, Failure> {
        let mut filled = 0;
        while filled < self.record.len() {
            match self.bytes.read(&mut self.record[filled..]) {
                Ok(0) if filled == 0 => return self.end(),
                Ok(0) => return Err(Failure::mistake("the file ends within it")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Io(error)),
            }
        }
        self.read += 1;
        let part = |from: usize, length: usize| word(&self.record, from, length);
        let (id, size, op, next) = match self.layout {
            Layout::OracleGeneral | Layout::Lcs(1) => (part(4, 8), part(12, 4), Op::Read, Some(part(16, 8))),
            Layout::Lcs(version) => {
                let (bytes, next) = if version == 2 { (4, 20) } else { (8, 28) };
                let op = part(12 + bytes, 1);
                let op = Op::numbered(op).ok_or_else(|| Failure::mistake(format!("its operation {op} is unknown")))?;
                (part(4, 8), part(12, bytes), op, Some(part(next, 8)))
            }
            Layout::Vscsi(version) => {
                let (command, at, size) = if version == 1 { (12, 14, 4) } else { (0, 2, 8) };
                if part(at, 2) as u16 >> 8 != version {
                    return Err(Failure::mistake(format!("it is of another version than {version}, as the first is")));
                }
                let command = part(command, 2);
                let op = u8::try_from(command).ok().and_then(Op::of_scsi);
                let op = op.ok_or_else(|| {
                    Failure::mistake(format!("its SCSI command {command:#x} neither reads, writes nor unmaps"))
                })?;
                (part(16, 8), part(size, 4), op, None)
            }
        };
        if size > super::SIZE_MAX {
            return Err(super::too_large());
        }
        // Two numbers stand for never: -1, and the largest.
        let next = next.map(|next| if next >= i64::MAX as u64 { u64::MAX } else { next });
        Ok(Some(Request { id, size, op, process: 0, times: 1, next }))
    }

    fn end(&self) -> Result<Option<Request>, Failure> {
        match self.stated {
            Some(stated) if stated != self.read => Err(Failure::mistake(format!(
                "the file ends after {} requests, and the header states {stated}; fetch the file again",
                self.read
            ))),
            _ => Ok(None),
        }
    }
}

impl Layout {
    fn length(self) -> usize {
        match self {
            Self::OracleGeneral | Self::Lcs(1) => 24,
            Self::Lcs(2) => 28,
            Self::Lcs(3) => 36,
            // One feature of 4 bytes in version 4, and twice as many in each further version.
            Self::Lcs(version) => 36 + (4 << (version - 4)),
            Self::Vscsi(1) => 32,
            Self::Vscsi(_) => 40,
        }
    }
}

fn read_header(bytes: &mut dyn Read, header: &mut [u8]) -> Result<(), Failure> {
    bytes.read_exact(header).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Failure::mistake("the file ends within the header"),
        _ => Failure::Io(error),
    })
}

/// The number of some bytes, the first of which is the lowest.
fn word(bytes: &[u8], from: usize, length: usize) -> u64 {
    bytes[from..from + length].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
