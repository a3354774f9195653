//! Destinations of lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use sluicegate_config::LogTarget;

/// A destination that can be opened, and opened again. The writer thread alone uses it, and it may block.
pub trait Target: Send {
    /// Opens it for lines behind those that are there.
    ///
    /// # Errors
    /// The system's error.
    fn open(&mut self) -> io::Result<Box<dyn Write + Send>>;

    /// Returns the name for messages.
    fn name(&self) -> String;
}

impl Target for LogTarget {
    fn open(&mut self) -> io::Result<Box<dyn Write + Send>> {
        let file = match self {
            // Without the buffer of `Stdout`, which would hide what was not written.
            LogTarget::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            LogTarget::File(path) => OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o640)
                .open(path)?,
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
