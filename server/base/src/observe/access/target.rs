//! Destinations of lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use sluicegate_config::LogTarget;

/// A destination that can be opened, and opened again. The writer thread alone uses it, and it may block.
pub trait LogDestination: Send {
    /// Opens it for lines behind those that are there.
    ///
    /// # Errors
    /// The system's error.
    fn open(&mut self) -> io::Result<Box<dyn Write + Send>>;

    /// Returns the name for messages.
    fn name(&self) -> String;
}

impl LogDestination for LogTarget {
    fn open(&mut self) -> io::Result<Box<dyn Write + Send>> {
        let file = match self {
            // Without the buffer of `Stdout`, which would hide what was not written.
            LogTarget::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            LogTarget::File(path) => append(path)?,
        };
        Ok(Box::new(file))
    }

    fn name(&self) -> String {
        match self {
            LogTarget::Stdout => "standard output".to_owned(),
            LogTarget::File(path) => path.display().to_string(),
        }
    }
}

/// Opens a file for appending, and creates it if it is missing. It may be a named pipe: the caller does not wait for its reader.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o640);
    options.custom_flags(libc::O_NONBLOCK);
    let file = match options.open(path) {
        // A pipe that nobody reads yet. Linux opens it for one who could read it himself (fifo(7)).
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
            options.read(true).open(path)?
        }
        opened => opened?,
    };
    // The thread that writes may wait for the reader.
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_without_a_reader_is_opened_at_once_and_keeps_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let mut target = LogTarget::File(path.clone());
        let mut sink = target.open().unwrap();
        sink.write_all(b"first\n").unwrap();
        let mut reader = File::open(&path).unwrap();
        sink.write_all(b"second\n").unwrap();
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "first\nsecond\n");
    }
}
