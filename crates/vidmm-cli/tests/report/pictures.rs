//! Pictures, compared with those that stand beside the tests.

use std::fs;
use std::path::{Path, PathBuf};

use zune_png::PngDecoder;
use zune_png::zune_core::bytestream::ZCursor;

/// The difference of a colour from which on a pixel is another: fonts are smoothed a little differently on other machines.
const ANOTHER_COLOUR: u8 = 48;

/// The pixels that may be others, of a thousand.
const OTHERS_PER_MILLE: usize = 10;

/// Width, height, and three bytes for each pixel.
type Pixels = (usize, usize, Vec<[u8; 3]>);

fn pixels(bytes: &[u8]) -> Pixels {
    let mut decoder = PngDecoder::new(ZCursor::new(bytes));
    let samples = decoder.decode_raw().expect("it is a whole PNG");
    let (width, height) = decoder.dimensions().expect("its header is read");
    let pixels = samples.chunks_exact(samples.len() / (width * height)).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    (width, height, pixels.collect())
}

/// Compares a picture with the expected one; `UPDATE_EXPECTED=1` makes that again.
#[track_caller]
pub fn is_as_expected(name: &str, picture: &[u8]) {
    is_as_in("tests/report/expected", name, picture);
}

/// Compares a picture with the one that the documents show.
#[track_caller]
pub fn is_as_documented(name: &str, picture: &[u8]) {
    is_as_in("../../docs/pictures", name, picture);
}

/// Compares a picture with that of a folder. One that differs is left among the files of the build.
#[track_caller]
fn is_as_in(folder: &str, name: &str, picture: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, picture).expect("the picture can be written");
    }
    let expected = fs::read(&path).unwrap_or_else(|_| panic!("{name} is missing; set UPDATE_EXPECTED=1 and run again"));
    let (width, height, found) = pixels(picture);
    let (expected_width, expected_height, expected) = pixels(&expected);
    let is_other = |(a, b): &(&[u8; 3], &[u8; 3])| a.iter().zip(*b).any(|(a, b)| a.abs_diff(*b) > ANOTHER_COLOUR);
    let others = found.iter().zip(&expected).filter(is_other).count();
    let is_same =
        (width, height) == (expected_width, expected_height) && others * 1000 <= OTHERS_PER_MILLE * found.len();
    if !is_same {
        let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&kept, picture).expect("the picture can be written");
        panic!(
            "{others} of {} pixels are others than in {name}; see {}, and set UPDATE_EXPECTED=1 if that is meant",
            found.len(),
            kept.display()
        );
    }
}
