//! State of a file, and the metadata that follow from it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use sluicegate_config::Files;

use super::kind;
use crate::exchange::Coding;
use crate::representation::{Metadata, visible};

/// State of a file. Two states of a file differ in it, unless the file is written twice within a tick of the file system's clock, or
/// gets back its earlier time of change, and keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    /// Length in bytes.
    pub(crate) size: u64,
    /// Time of the last change since 1970; the nanoseconds are those within the second.
    pub(super) seconds: i64,
    pub(super) nanoseconds: i64,
}

impl FileStat {
    pub(crate) fn of(metadata: &fs::Metadata) -> FileStat {
        FileStat {
            size: metadata.size(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }

    /// Returns whether it changed before the other one did.
    pub(crate) fn is_older(&self, other: &FileStat) -> bool {
        (self.seconds, self.nanoseconds) < (other.seconds, other.nanoseconds)
    }
}

/// Describes the file at `path` in the folder of `files`; `now` is the time since 1970.
///
/// The entity tag is the same on all servers that have the file with the same time of change. The media type is that of the name
/// without the suffix of the encoding.
pub(crate) fn describe(
    path: &[u8],
    stat: &FileStat,
    encoding: Coding,
    files: &Files,
    now: Duration,
) -> Metadata {
    let etag = format!(
        "\"{:x}-{:x}.{:x}{}\"",
        stat.size,
        stat.seconds,
        stat.nanoseconds,
        encoding.suffix()
    );
    let modified = u64::try_from(stat.seconds).ok();
    Metadata {
        size: stat.size,
        etag: visible(etag),
        modified: modified.filter(|seconds| *seconds <= now.as_secs()).map(|seconds| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            (seconds, visible(httpdate::fmt_http_date(time)))
        }),
        content_type: kind::content_type(path, &files.mime_types),
        encoding,
        varies: files.precompressed,
        compressed: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::files;
    use super::*;

    const STAT: FileStat = FileStat { size: 0x1234, seconds: 784_111_777, nanoseconds: 0x9a };
    const NOW: Duration = Duration::from_secs(784_111_777);

    fn metadata(stat: FileStat, encoding: Coding) -> Metadata {
        describe(b"a/b.html", &stat, encoding, &files(true), NOW)
    }

    #[test]
    fn a_file_is_described() {
        let fields = metadata(STAT, Coding::Brotli).fields();
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            fields,
            [
                ("etag", "\"1234-2ebc98a1.9a.br\""),
                ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ("vary", "accept-encoding"),
                ("content-type", "text/html; charset=utf-8"),
                ("accept-ranges", "bytes"),
                ("content-encoding", "br"),
            ]
        );
    }

    /// Servers behind one name have copies of a file: same bytes and time, another inode.
    #[test]
    fn copies_of_a_file_have_the_same_tag() {
        let folder = tempfile::tempdir().unwrap();
        let [one, copy] = ["one", "copy"].map(|name| {
            let path = folder.path().join(name);
            fs::write(&path, "text").unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + NOW).unwrap();
            file.metadata().unwrap()
        });
        assert_ne!(one.ino(), copy.ino());
        let etag = |of| metadata(FileStat::of(of), Coding::Identity).etag;
        assert_eq!(etag(&one), etag(&copy));
    }

    #[test]
    fn each_state_and_each_encoding_has_its_own_tag() {
        let of = |change: fn(&mut FileStat)| {
            let mut stat = STAT;
            change(&mut stat);
            metadata(stat, Coding::Identity).etag
        };
        let mut tags = vec![
            of(|_| ()),
            of(|stat| stat.size += 1),
            of(|stat| stat.seconds += 1),
            of(|stat| stat.nanoseconds += 1),
            metadata(STAT, Coding::Gzip).etag,
            metadata(STAT, Coding::Zstd).etag,
        ];
        let count = tags.len();
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), count);
    }

    #[test]
    fn a_date_that_is_to_come_or_cannot_be_written_is_left_out() {
        let at = |seconds| metadata(FileStat { seconds, ..STAT }, Coding::Identity).modified;
        assert!(at(STAT.seconds).is_some());
        assert_eq!(at(STAT.seconds + 1), None);
        assert_eq!(at(i64::MAX), None);
        assert_eq!(at(-1), None);
        assert_eq!(at(0).unwrap().1, "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
