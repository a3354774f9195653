//! Files that the configuration names: certificates, keys, pages, passwords.
//!
//! They are read at start, by `check`, and at a reload on the main thread, which also takes signals. So nothing but a regular file is
//! opened, no open waits, and no more is read than a file of its kind may have.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sluicegate_config::check_regular;

/// Largest PEM file: the authorities of a whole distribution take a quarter of a megabyte.
pub const PEM: u64 = 4 << 20;
/// Largest file of secrets.
pub const SECRET: u64 = 64 << 10;
/// Largest page, and largest file of users.
pub const PAGE: u64 = 64 << 20;

/// Opens a regular file for reading. It does not wait for a writer of a named pipe.
///
/// # Errors
/// Errors of the system; the path is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // To open a device may have effects.
    check_regular(&fs::metadata(path)?)?;
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    // The path may lead elsewhere by now.
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads an open file from where it stands, if that is at most `most` bytes.
///
/// # Errors
/// Errors of the system; the file is larger.
pub fn read_open(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("larger than {} KiB", most >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// Errors of the system; the path is no regular file, or a larger one.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_open(&open(path)?, most)
}

/// Reads a text in the same way.
///
/// # Errors
/// The same, and text that is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, most)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn regular_files_are_read_up_to_their_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read(&link, 5).unwrap(), b"12345");
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(
            read(&folder.path().join("none"), 5).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn pipes_devices_and_folders_are_refused_without_a_wait() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            let error = read(path, 1 << 20).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
    }
}
