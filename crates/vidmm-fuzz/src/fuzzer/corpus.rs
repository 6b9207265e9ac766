//! The inputs that are kept in files.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Target;

/// The folder with the inputs of a target that found something, or that are a good start.
#[derive(Clone, Debug)]
pub struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    /// The corpus of a target, beside this crate's sources.
    pub fn of(target: &Target) -> Self {
        Self { folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name) }
    }

    /// Its files with their content, by name.
    ///
    /// # Errors
    ///
    /// If a file cannot be read. A missing folder is an empty corpus.
    pub fn load(&self) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let mut files: Vec<PathBuf> =
            fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        files.sort();
        files.into_iter().map(|file| fs::read(&file).map(|input| (file, input))).collect()
    }

    /// Writes an input that failed to a file, whose name follows from the input, and returns the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn keep(&self, input: &[u8]) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.folder)?;
        // FNV-1a: equal inputs get one file.
        let hash = input
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let file = self.folder.join(format!("found-{hash:016x}"));
        fs::write(&file, input)?;
        Ok(file)
    }
}
