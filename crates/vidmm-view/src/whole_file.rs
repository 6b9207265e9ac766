//! Files that are whole, or not there.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile};

/// A file that gets its name when it is whole. Until then the bytes are in a temporary file of the same folder, so that a run that
/// is interrupted, or has no space left, leaves the name as it was. A device or a pipe is written to directly.
#[derive(Debug)]
pub struct WholeFile(Form);

#[derive(Debug)]
enum Form {
    Temporary(NamedTempFile, PathBuf),
    Direct(File),
}

impl WholeFile {
    /// Begins a file that is to be at `path`.
    ///
    /// # Errors
    ///
    /// If no file can be written there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut builder = Builder::new();
        builder.prefix(".vidmm-");
        let place = match path.metadata() {
            // A name below /dev stands for an open file, such as /dev/stdout.
            Ok(data) if !data.is_file() || path.starts_with("/dev") => {
                return Ok(Self(Form::Direct(File::create(path)?)));
            }
            Ok(data) => {
                OpenOptions::new().write(true).open(path)?;
                builder.permissions(data.permissions());
                path.canonicalize()?
            }
            Err(_) => {
                #[cfg(unix)]
                builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
                path.to_owned()
            }
        };
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The system would name the temporary file in its error.
        let file = builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()))?;
        Ok(Self(Form::Temporary(file, place)))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// If the file cannot have that name.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Form::Temporary(file, path) => file.persist(path).map(drop).map_err(|error| error.error),
            Form::Direct(mut file) => file.flush(),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Form::Temporary(file, _) => file.as_file_mut().write(bytes),
            Form::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Form::Temporary(file, _) => file.as_file_mut().flush(),
            Form::Direct(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of a file that is not whole");
        std::fs::write(&path, "before").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        file.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_to_directly() {
        let mut full = WholeFile::create(Path::new("/dev/full")).unwrap();
        assert!(full.write_all(b"a").is_err());
        WholeFile::create(Path::new("/dev/null")).unwrap().finish().unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}
