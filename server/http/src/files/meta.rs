//! Metadata of a file, as response fields.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderValue;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, VARY,
};
use sluicegate_config::Files;

use super::field_value::visible;
use super::kind;
use crate::exchange::{Coding, Fields, compress};

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
    pub(crate) fn of(metadata: &Metadata) -> FileStat {
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

/// Facts about a file in the head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Length in bytes.
    pub size: u64,
    /// Entity tag, strong unless the server has compressed the bytes, different for each encoding and each state of the file, and the same on all servers that have the file
    /// with the same time of change. It is strong, because ranges need that (RFC 9110 §13.1.5).
    pub etag: HeaderValue,
    /// Time of the last change, in seconds since 1970 and as text; `None` for a time in the future, which RFC 9110 §8.8.2.1 forbids to
    /// send.
    pub modified: Option<(u64, HeaderValue)>,
    /// Media type by the name without the suffix of the encoding.
    pub content_type: HeaderValue,
    /// Encoding of the bytes.
    pub encoding: Coding,
    /// Whether clients with other preferences may get another file.
    pub varies: bool,
    /// Whether the server has compressed the bytes. Then the tag is that of the original, but weak, and there are no ranges.
    pub compressed: bool,
}

impl Meta {
    /// Describes the file at `path` in the folder of `files`; `now` is the time since 1970.
    pub(crate) fn new(
        path: &[u8],
        stat: &FileStat,
        encoding: Coding,
        files: &Files,
        now: Duration,
    ) -> Meta {
        let etag = format!(
            "\"{:x}-{:x}.{:x}{}\"",
            stat.size,
            stat.seconds,
            stat.nanoseconds,
            encoding.suffix()
        );
        let modified = u64::try_from(stat.seconds).ok();
        Meta {
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

    /// Describes the same file in `size` bytes of another encoding.
    pub(crate) fn compressed(&self, encoding: Coding, size: u64) -> Meta {
        let mut etag = self.etag.clone();
        compress::weaken(&mut etag);
        Meta { size, etag, encoding, compressed: true, ..self.clone() }
    }

    /// Returns the fields of every response that leaves the client with this state of the file, 304 included.
    pub(super) fn validators(&self) -> Fields {
        let mut fields: Fields = vec![(ETAG, self.etag.clone())];
        if let Some((_, text)) = &self.modified {
            fields.push((LAST_MODIFIED, text.clone()));
        }
        if self.varies {
            fields.push(vary());
        }
        fields
    }

    /// Adds the fields that accompany the file's bytes, except their type.
    pub(super) fn describe(&self, fields: &mut Fields) {
        if !self.compressed {
            fields.push((ACCEPT_RANGES, HeaderValue::from_static("bytes")));
        }
        if let Some(encoding) = self.encoding.field() {
            fields.push((CONTENT_ENCODING, encoding));
        }
    }

    /// Returns the fields of a response with the file's bytes.
    pub(super) fn fields(&self) -> Fields {
        let mut fields = self.validators();
        fields.push(self.kind());
        self.describe(&mut fields);
        fields
    }

    pub(super) fn kind(&self) -> (HeaderName, HeaderValue) {
        (CONTENT_TYPE, self.content_type.clone())
    }
}

/// Returns the field which says that the response depends on what the client accepts.
pub(super) fn vary() -> (HeaderName, HeaderValue) {
    (VARY, HeaderValue::from_static("accept-encoding"))
}

/// Snapshot of a whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Metadata of the file.
    pub meta: Meta,
    /// Content, `meta.size` bytes.
    pub bytes: Bytes,
    /// Fields of the responses with the whole content.
    pub(super) fields: Arc<Fields>,
}

impl Entry {
    /// Takes a file's metadata and content.
    pub fn new(meta: Meta, bytes: Bytes) -> Entry {
        let mut fields = meta.fields();
        fields.shrink_to_fit();
        let fields = Arc::new(fields);
        Entry { meta, bytes, fields }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::files;
    use super::*;

    const STAT: FileStat = FileStat { size: 0x1234, seconds: 784_111_777, nanoseconds: 0x9a };
    const NOW: Duration = Duration::from_secs(784_111_777);

    fn meta(stat: FileStat, encoding: Coding) -> Meta {
        Meta::new(b"a/b.html", &stat, encoding, &files(true), NOW)
    }

    #[test]
    fn a_file_is_described() {
        let mut fields = meta(STAT, Coding::Brotli).validators();
        meta(STAT, Coding::Brotli).describe(&mut fields);
        fields.push(meta(STAT, Coding::Brotli).kind());
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            fields,
            [
                ("etag", "\"1234-2ebc98a1.9a.br\""),
                ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ("vary", "accept-encoding"),
                ("accept-ranges", "bytes"),
                ("content-encoding", "br"),
                ("content-type", "text/html; charset=utf-8"),
            ]
        );
    }

    /// Servers behind one name have copies of a file: same bytes and time, another inode.
    #[test]
    fn copies_of_a_file_have_the_same_tag() {
        let folder = tempfile::tempdir().unwrap();
        let [one, copy] = ["one", "copy"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "text").unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + NOW).unwrap();
            file.metadata().unwrap()
        });
        assert_ne!(one.ino(), copy.ino());
        let etag = |metadata| meta(FileStat::of(metadata), Coding::Identity).etag;
        assert_eq!(etag(&one), etag(&copy));
    }

    #[test]
    fn each_state_and_each_encoding_has_its_own_tag() {
        let of = |change: fn(&mut FileStat)| {
            let mut stat = STAT;
            change(&mut stat);
            meta(stat, Coding::Identity).etag
        };
        let mut tags = vec![
            of(|_| ()),
            of(|stat| stat.size += 1),
            of(|stat| stat.seconds += 1),
            of(|stat| stat.nanoseconds += 1),
            meta(STAT, Coding::Gzip).etag,
            meta(STAT, Coding::Zstd).etag,
        ];
        let count = tags.len();
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), count);
    }

    #[test]
    fn a_date_that_is_to_come_or_cannot_be_written_is_left_out() {
        let at = |seconds| meta(FileStat { seconds, ..STAT }, Coding::Identity).modified;
        assert!(at(STAT.seconds).is_some());
        assert_eq!(at(STAT.seconds + 1), None);
        assert_eq!(at(i64::MAX), None);
        assert_eq!(at(-1), None);
        assert_eq!(at(0).unwrap().1, "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
