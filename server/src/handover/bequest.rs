//! What the two processes leave each other by value: a file in memory that both have open.
//!
//! Each writes to a half of its own, whenever it likes, and reads the other one, also after the other process has ended. Nothing is mapped:
//! neither can take memory from under the other.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, memfd_create};

/// Room for a part. What is not written takes no memory.
const ROOM: u64 = 32 << 20;
/// Length and checksum, before the bytes of a part.
const HEAD: usize = 16;
/// Attempts to read a part while it is written.
const ATTEMPTS: usize = 3;

/// A part of what a process leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BequestPart {
    /// The page of its counters, and of those that were left to it.
    Counters,
    /// The tokens of NEW_TOKEN frames that it has accepted.
    UsedTokens,
}

/// Whose half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// That of the process that was there before.
    Older,
    /// That of the process that the older one has started.
    Newer,
}

/// The file, as one of the processes has it.
#[derive(Debug)]
pub(crate) struct Bequest {
    file: File,
    own: Half,
}

impl Bequest {
    /// Makes the file, as the older process has it.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn create() -> io::Result<Bequest> {
        let file = memfd_create("sluicegate-bequest", MemfdFlags::CLOEXEC)?;
        Ok(Bequest { file: file.into(), own: Half::Older })
    }

    /// Takes the file that the older process has passed.
    pub(crate) fn of(file: OwnedFd) -> Bequest {
        Bequest { file: file.into(), own: Half::Newer }
    }

    /// Returns another descriptor, for the newer process.
    ///
    /// # Errors
    /// There are no more.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Leaves a part to the other process, in place of what was left before.
    ///
    /// # Errors
    /// It is too large, or there is no memory.
    pub(crate) fn leave(&self, part: BequestPart, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        if len > ROOM - HEAD as u64 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let place = place(self.own, part);
        self.file.write_all_at(bytes, place + HEAD as u64)?;
        let mut head = [0; HEAD];
        let (length, sum) = head.split_at_mut(8);
        length.copy_from_slice(&len.to_le_bytes());
        sum.copy_from_slice(&checksum(bytes).to_le_bytes());
        self.file.write_all_at(&head, place)
    }

    /// Returns a part that the other process has left; `None` if there is none, or only a piece of one.
    pub(crate) fn left(&self, part: BequestPart) -> Option<Vec<u8>> {
        let other = match self.own {
            Half::Older => Half::Newer,
            Half::Newer => Half::Older,
        };
        let place = place(other, part);
        (0..ATTEMPTS).find_map(|_| self.read(place))
    }

    fn read(&self, place: u64) -> Option<Vec<u8>> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, place).ok()?;
        let (length, sum) = head.split_first_chunk()?;
        let len = u64::from_le_bytes(*length);
        if len == 0 || len > ROOM - HEAD as u64 {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.file.read_exact_at(&mut bytes, place + HEAD as u64).ok()?;
        (checksum(&bytes).to_le_bytes() == *sum).then_some(bytes)
    }
}

fn place(half: Half, part: BequestPart) -> u64 {
    let half = match half {
        Half::Older => 0,
        Half::Newer => 2,
    };
    let part = match part {
        BequestPart::Counters => 0,
        BequestPart::UsedTokens => 1,
    };
    (half + part) * ROOM
}

/// Returns a checksum (FNV-1a): enough to tell a part from one that is being written.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Bequest; 2] {
        let older = Bequest::create().unwrap();
        let newer = Bequest::of(older.duplicate().unwrap());
        [older, newer]
    }

    #[test]
    fn each_reads_what_the_other_has_left_last() {
        let [older, newer] = both();
        for (one, other) in [(&older, &newer), (&newer, &older)] {
            assert_eq!(other.left(BequestPart::Counters), None);
            one.leave(BequestPart::Counters, b"a longer page").unwrap();
            one.leave(BequestPart::UsedTokens, &[7; 9 << 20]).unwrap();
            one.leave(BequestPart::Counters, b"a page").unwrap();
            assert_eq!(other.left(BequestPart::Counters).unwrap(), b"a page");
            assert_eq!(other.left(BequestPart::UsedTokens).unwrap(), [7; 9 << 20]);
        }
        drop(older);
        assert_eq!(
            newer.left(BequestPart::Counters).unwrap(),
            b"a page",
            "it outlives the process"
        );
    }

    #[test]
    fn what_is_cut_or_changed_is_not_read() {
        let [older, newer] = both();
        older.leave(BequestPart::Counters, b"a page").unwrap();
        older.file.write_all_at(b"b", HEAD as u64).unwrap();
        assert_eq!(newer.left(BequestPart::Counters), None);
        older.leave(BequestPart::Counters, b"a page").unwrap();
        older.file.write_all_at(&u64::MAX.to_le_bytes(), 0).unwrap();
        assert_eq!(newer.left(BequestPart::Counters), None);
        older.leave(BequestPart::UsedTokens, b"tokens").unwrap();
        older.file.set_len(ROOM + 18).unwrap();
        assert_eq!(newer.left(BequestPart::UsedTokens), None);
        let large = vec![0; usize::try_from(ROOM).unwrap()];
        assert!(older.leave(BequestPart::Counters, &large).is_err());
    }
}
