//! Storage of trace files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::{Access, access};

/// End of every trace's file name.
pub(super) const SUFFIX: &str = ".sqlog";

/// A store of files by name. The writer thread alone uses it, and it may block.
pub trait Storage: Send {
    /// Creates the store if it is missing, and returns the trace files in it, the oldest first.
    ///
    /// # Errors
    /// The store is missing and cannot be made, or cannot be read.
    fn list(&mut self) -> io::Result<Vec<StoredFile>>;

    /// Creates a new file.
    ///
    /// # Errors
    /// `AlreadyExists`, or another error of the system.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn TraceFile>>;

    /// Deletes a file.
    ///
    /// # Errors
    /// `NotFound`, or another error of the system.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A file that a trace is appended to.
pub trait TraceFile: Write + Send {
    /// Truncates the file to `length` bytes, after a write that failed half-way.
    ///
    /// # Errors
    /// The system's error; the file is then closed.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

impl TraceFile for File {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// A file that existed before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// File name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change.
    pub modified: SystemTime,
}

/// A directory on a file system.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Returns the store of a directory, which need not exist yet.
    pub fn new(path: PathBuf) -> Directory {
        Directory(path)
    }
}

impl Storage for Directory {
    fn list(&mut self) -> io::Result<Vec<StoredFile>> {
        DirBuilder::new().recursive(true).mode(0o750).create(&self.0)?;
        access(&self.0, Access::WRITE_OK | Access::EXEC_OK)?;
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let name = entry.file_name().into_string();
            if let Ok(name) = name
                && metadata.is_file()
                && name.ends_with(SUFFIX)
            {
                files.push(StoredFile {
                    name,
                    bytes: metadata.len(),
                    modified: metadata.modified()?,
                });
            }
        }
        files.sort_by(|a, b| (a.modified, &a.name).cmp(&(b.modified, &b.name)));
        Ok(files)
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn TraceFile>> {
        let file =
            OpenOptions::new().create_new(true).append(true).mode(0o640).open(self.0.join(name))?;
        Ok(Box::new(file))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }
}
