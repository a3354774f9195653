//! What the two processes leave each other by value: a file in memory that both have open.
//!
//! Each writes to a half of its own, whenever it likes, and reads the other one, also after the other process has ended. A part is written to
//! two slots in turn, so that one of them is whole even if the process is killed while it writes. Nothing is mapped: neither can take
//! memory from under the other.

use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, memfd_create};

/// Room for a slot. What is not written takes no memory.
const ROOM: u64 = 32 << 20;
/// Sequence number, length and checksum, before the bytes of a part.
const HEAD: usize = 24;
/// Slots of a part.
const SLOTS: u64 = 2;
/// Attempts to read a part: of the slots, one is written at a time, and the other one may be next by the time that it is read.
const ATTEMPTS: usize = 3;

/// A part of what a process leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BequestPart {
    /// The page of its counters, and of those that were left to it.
    Counters = 0,
    /// The tokens of NEW_TOKEN frames that it has accepted.
    UsedTokens = 1,
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
    /// Sequence number of what was left last, of each part.
    written: [AtomicU64; 2],
}

impl Bequest {
    /// Makes the file, as the older process has it.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(crate) fn create() -> io::Result<Bequest> {
        let file = memfd_create("sluicegate-bequest", MemfdFlags::CLOEXEC)?;
        Ok(Bequest { file: file.into(), own: Half::Older, written: Default::default() })
    }

    /// Takes the file that the older process has passed.
    pub(crate) fn of(file: OwnedFd) -> Bequest {
        Bequest { file: file.into(), own: Half::Newer, written: Default::default() }
    }

    /// Returns another descriptor, for the newer process.
    ///
    /// # Errors
    /// There are no more.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Leaves a part to the other process, in place of what was left before. One thread at a time calls it.
    ///
    /// # Errors
    /// It is too large, or there is no memory. What was left before stays.
    pub(crate) fn leave(&self, part: BequestPart, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if length > ROOM - HEAD as u64 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = &self.written[part as usize];
        let sequence = written.load(Ordering::Relaxed) + 1;
        let head = Head { sequence, length, sum: checksum(sequence, bytes) };
        let place = place(self.own, part, sequence);
        self.file.write_all_at(bytes, place + HEAD as u64)?;
        self.file.write_all_at(&head.to_bytes(), place)?;
        written.store(sequence, Ordering::Relaxed);
        Ok(())
    }

    /// Returns a part that the other process has left, with a number that grows with each one; `None` if there is none, or none was read
    /// as a whole. Parts up to the number `known` are not read.
    pub(crate) fn left(&self, part: BequestPart, known: u64) -> Option<(u64, Vec<u8>)> {
        let other = match self.own {
            Half::Older => Half::Newer,
            Half::Newer => Half::Older,
        };
        (0..ATTEMPTS).find_map(|_| {
            let mut slots: Vec<_> = (0..SLOTS)
                .filter_map(|slot| {
                    let place = place(other, part, slot);
                    Some((self.head(place)?, place))
                })
                .filter(|(head, _)| head.sequence > known)
                .collect();
            slots.sort_by_key(|(head, _)| Reverse(head.sequence));
            slots.into_iter().find_map(|(head, place)| self.read(&head, place))
        })
    }

    fn head(&self, place: u64) -> Option<Head> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, place).ok()?;
        let [sequence, length, sum] = *head.as_chunks::<8>().0 else {
            return None;
        };
        let [sequence, length, sum] = [sequence, length, sum].map(u64::from_le_bytes);
        (sequence > 0 && length <= ROOM - HEAD as u64).then_some(Head { sequence, length, sum })
    }

    fn read(&self, head: &Head, place: u64) -> Option<(u64, Vec<u8>)> {
        // What is longer than the file was cut: no memory is taken for it.
        let end = self.file.metadata().ok()?.len();
        if place + HEAD as u64 + head.length > end {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(head.length).ok()?];
        self.file.read_exact_at(&mut bytes, place + HEAD as u64).ok()?;
        (checksum(head.sequence, &bytes) == head.sum).then_some((head.sequence, bytes))
    }
}

/// The fields before a part.
struct Head {
    /// Number of the part: the newest has the greatest.
    sequence: u64,
    length: u64,
    sum: u64,
}

impl Head {
    fn to_bytes(&self) -> Vec<u8> {
        [self.sequence, self.length, self.sum].map(u64::to_le_bytes).concat()
    }
}

/// Returns the place of the slot in which a part of this number stands.
fn place(half: Half, part: BequestPart, sequence: u64) -> u64 {
    let half = match half {
        Half::Older => 0,
        Half::Newer => 2,
    };
    ((half + part as u64) * SLOTS + sequence % SLOTS) * ROOM
}

/// Returns a checksum of a part and its number (FNV-1a by words): enough to tell a part from one that is being written.
fn checksum(sequence: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0100_0000_01b3);
    [sequence, bytes.len() as u64].into_iter().chain(words).fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Bequest; 2] {
        let older = Bequest::create().unwrap();
        let newer = Bequest::of(older.duplicate().unwrap());
        [older, newer]
    }

    fn left(process: &Bequest, part: BequestPart) -> Option<Vec<u8>> {
        process.left(part, 0).map(|(_, bytes)| bytes)
    }

    #[test]
    fn each_reads_what_the_other_has_left_last() {
        let [older, newer] = both();
        for (one, other) in [(&older, &newer), (&newer, &older)] {
            assert_eq!(left(other, BequestPart::Counters), None);
            one.leave(BequestPart::Counters, b"a longer page").unwrap();
            one.leave(BequestPart::UsedTokens, &[7; 9 << 20]).unwrap();
            one.leave(BequestPart::Counters, b"a page").unwrap();
            assert_eq!(left(other, BequestPart::Counters).unwrap(), b"a page");
            assert_eq!(left(other, BequestPart::UsedTokens).unwrap(), [7; 9 << 20]);
            for text in [&b"1"[..], b"", b"a third page"] {
                one.leave(BequestPart::Counters, text).unwrap();
                assert_eq!(left(other, BequestPart::Counters).unwrap(), text);
            }
        }
        drop(older);
        let page = left(&newer, BequestPart::Counters).unwrap();
        assert_eq!(page, b"a third page", "it outlives the process");
    }

    #[test]
    fn what_is_known_is_not_read_again() {
        let [older, newer] = both();
        let part = BequestPart::UsedTokens;
        older.leave(part, b"1").unwrap();
        let (first, _) = newer.left(part, 0).unwrap();
        assert_eq!(newer.left(part, first), None);
        older.leave(part, b"2").unwrap();
        let (second, bytes) = newer.left(part, first).unwrap();
        assert!(second > first && bytes == b"2");
        assert_eq!(newer.left(part, second), None);
    }

    /// As where the process is killed, or stopped, at any byte.
    #[test]
    fn a_part_that_is_half_written_leaves_the_one_before() {
        let [older, newer] = both();
        let part = BequestPart::Counters;
        for number in 1..=4_u8 {
            older.leave(part, &[number; 100]).unwrap();
            let (next, bytes) = (u64::from(number) + 1, [number + 1; 100]);
            let place = place(Half::Older, part, next);
            let head = Head { sequence: next, length: 100, sum: checksum(next, &bytes) };
            let whole = [&head.to_bytes()[..], &bytes].concat();
            let order = (HEAD..HEAD + 100).chain(0..HEAD);
            for at in order.clone().take(HEAD + 99) {
                older.file.write_all_at(&whole[at..=at], place + at as u64).unwrap();
                let page = left(&newer, part).unwrap();
                assert!(page == [number; 100] || page == bytes, "{page:?}");
                // The last bytes of the numbers are 0 before and after.
                assert!(page == [number; 100] || at >= 16, "{number} {at}");
            }
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_not_read() {
        let [older, newer] = both();
        let part = BequestPart::Counters;
        let first = || place(Half::Older, part, 1);
        older.leave(part, b"a page").unwrap();
        older.file.write_all_at(b"b", first() + HEAD as u64).unwrap();
        assert_eq!(newer.left(part, 0), None);
        older.file.write_all_at(b"a", first() + HEAD as u64).unwrap();
        assert_eq!(left(&newer, part).unwrap(), b"a page");
        for at in 0..3 {
            let [older, newer] = both();
            older.leave(part, b"a page").unwrap();
            older.file.write_all_at(&u64::MAX.to_le_bytes(), first() + at * 8).unwrap();
            assert_eq!(newer.left(part, 0), None);
        }
        older.leave(BequestPart::UsedTokens, b"tokens").unwrap();
        older.file.set_len(place(Half::Older, BequestPart::UsedTokens, 1) + 26).unwrap();
        assert_eq!(newer.left(BequestPart::UsedTokens, 0), None);
        let large = vec![0; usize::try_from(ROOM).unwrap()];
        assert!(older.leave(part, &large).is_err());
        assert_eq!(left(&newer, part).unwrap(), b"a page");
    }
}
