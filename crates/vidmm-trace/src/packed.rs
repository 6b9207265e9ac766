//! Files packed by gzip or zstd, unpacked as a stream.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// The room of the buffers between file, decoder and reader, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// gzip, with one member or several.
    Gzip,
    /// zstd, with one frame or several, and skippable frames between the frames.
    Zstd,
}

impl Packing {
    /// The first bytes of a packed file.
    fn magic(self) -> &'static [u8] {
        match self {
            Self::Gzip => &[0x1f, 0x8b],
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        }
    }

    /// The name of the program that unpacks such a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The packing of content, by the first bytes; none for plain content.
    pub fn of_content(start: &[u8]) -> Option<Self> {
        let found = [Self::Gzip, Self::Zstd].into_iter().find(|packing| start.starts_with(packing.magic()));
        found.or(is_skippable(start).then_some(Self::Zstd))
    }

    /// The packing that the end of a file's name states, `.gz` or `.zst`, and the name without that end.
    pub fn of_name(name: &str) -> (&str, Option<Self>) {
        let without = |end: &str| {
            let (name, last) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
            last.eq_ignore_ascii_case(end).then_some(name)
        };
        match (without(".gz"), without(".zst")) {
            (Some(name), _) => (name, Some(Self::Gzip)),
            (_, Some(name)) => (name, Some(Self::Zstd)),
            (None, None) => (name, None),
        }
    }

    /// Unpacks content as a stream.
    pub fn unpack<'a>(self, packed: impl BufRead + 'a) -> Box<dyn Read + 'a> {
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(Frames { state: Some(State::Between(packed)) }),
        }
    }
}

/// Opens a file, and unpacks a packed file as a stream. A file named `.gz` or `.zst` must be packed so. If `is_text`, a packed file
/// of any other name is known by the content; plain text never begins as packed content does.
///
/// # Errors
///
/// If the file cannot be opened, or has another packing than the name states.
pub fn open(path: &Path, is_text: bool) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let found = Packing::of_content(file.fill_buf()?);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let packing = match (Packing::of_name(&name).1, found) {
        (Some(stated), _) if found != Some(stated) => {
            let name = stated.name();
            return Err(io::Error::other(format!("it is not compressed with {name}, as the end of its name says")));
        }
        (None, found) => found.filter(|_| is_text),
        (stated, _) => stated,
    };
    Ok(match packing {
        Some(packing) => Box::new(BufReader::with_capacity(BUFFER_BYTES, packing.unpack(file))),
        None => Box::new(file),
    })
}

/// The frames of zstd, one behind the other.
struct Frames<R: Read> {
    state: Option<State<R>>,
}

/// A frame, behind the first bytes that were read already.
type Frame<R> = StreamingDecoder<io::Chain<io::Cursor<[u8; 4]>, R>, FrameDecoder>;

enum State<R: Read> {
    Within(Box<Frame<R>>),
    Between(R),
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(state) = self.state.take() {
            match state {
                State::Within(mut decoder) => {
                    let read = decoder.read(buffer)?;
                    if read > 0 || buffer.is_empty() {
                        self.state = Some(State::Within(decoder));
                        return Ok(read);
                    }
                    let sums = (decoder.decoder.get_checksum_from_data(), decoder.decoder.get_calculated_checksum());
                    if matches!(sums, (Some(stated), Some(counted)) if stated != counted) {
                        return Err(io::Error::other("a check sum is wrong"));
                    }
                    self.state = Some(State::Between(decoder.into_inner().into_inner().1));
                }
                State::Between(rest) => self.state = next_frame(rest)?,
            }
        }
        Ok(0)
    }
}

/// Begins the next frame, or passes over a skippable frame; none at the end.
fn next_frame<R: BufRead>(mut rest: R) -> io::Result<Option<State<R>>> {
    if rest.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let (mut magic, mut length) = ([0; 4], [0; 4]);
    rest.read_exact(&mut magic)?;
    if is_skippable(&magic) {
        rest.read_exact(&mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        if io::copy(&mut rest.by_ref().take(length), &mut io::sink())? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        return Ok(Some(State::Between(rest)));
    }
    let frame = StreamingDecoder::new(io::Cursor::new(magic).chain(rest));
    Ok(Some(State::Within(Box::new(frame.map_err(|error| io::Error::other(error.to_string()))?))))
}

/// Whether the first bytes of a frame of zstd say that a decoder passes over the frame.
fn is_skippable(magic: &[u8]) -> bool {
    magic.len() >= 4 && magic[0] & 0xf0 == 0x50 && magic[1..4] == [0x2a, 0x4d, 0x18]
}
