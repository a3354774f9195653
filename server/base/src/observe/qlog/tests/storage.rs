//! Storage for tests: in memory, obedient or not, and on a full device.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::observe::qlog::{QlogOptions, QlogWriter, Storage, StoredFile, TraceFile};

/// A test storage's treatment of writes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Work,
    /// Half of the bytes arrive, then an error.
    FailHalfway,
}

/// Tells of a write, and waits for leave.
type Gate = Arc<Mutex<(Sender<()>, Receiver<()>)>>;

/// Files in memory.
#[derive(Clone)]
pub(super) struct Memory {
    pub(super) files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    pub(super) mode: Arc<Mutex<Mode>>,
    /// Receives each write, which then waits until the other end is dropped.
    gate: Option<Gate>,
}

impl Memory {
    pub(super) fn new() -> Memory {
        Memory { files: Arc::default(), mode: Arc::new(Mutex::new(Mode::Work)), gate: None }
    }

    /// Holds each write: reports it, and waits for permission.
    pub(super) fn gated() -> (Memory, Receiver<()>, Sender<()>) {
        let ((entered, told), (leave, wait)) = (channel(), channel());
        let gate = Some(Arc::new(Mutex::new((entered, wait))));
        let memory = Memory { gate, ..Memory::new() };
        (memory, told, leave)
    }

    pub(super) fn start(&self, options: &QlogOptions) -> QlogWriter {
        QlogWriter::start_with(options, Box::new(self.clone()), Arc::default()).unwrap()
    }

    pub(super) fn only_file(&self) -> Vec<u8> {
        let files = self.files.lock().unwrap();
        assert_eq!(files.len(), 1);
        files.values().next().unwrap().clone()
    }
}

impl Storage for Memory {
    fn list(&mut self) -> io::Result<Vec<StoredFile>> {
        Ok(Vec::new())
    }

    fn create(&mut self, name: &str) -> io::Result<Box<dyn TraceFile>> {
        let mut files = self.files.lock().unwrap();
        assert!(files.insert(name.to_owned(), Vec::new()).is_none());
        Ok(Box::new(MemoryFile(name.to_owned(), self.clone())))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
}

struct MemoryFile(String, Memory);

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(gate) = &self.1.gate {
            let (entered, wait) = &*gate.lock().unwrap();
            let _ = entered.send(());
            let _ = wait.recv();
        }
        let mode = *self.1.mode.lock().unwrap();
        let mut files = self.1.files.lock().unwrap();
        let file = files.get_mut(&self.0).unwrap();
        if mode == Mode::FailHalfway {
            file.extend(&bytes[..bytes.len() / 2]);
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TraceFile for MemoryFile {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut files = self.1.files.lock().unwrap();
        let file = files.get_mut(&self.0).unwrap();
        file.truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

/// A file system without a byte left.
pub(super) struct Full;

impl Storage for Full {
    fn list(&mut self) -> io::Result<Vec<StoredFile>> {
        Ok(Vec::new())
    }

    fn create(&mut self, _: &str) -> io::Result<Box<dyn TraceFile>> {
        Ok(Box::new(OpenOptions::new().write(true).open("/dev/full")?))
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
}
