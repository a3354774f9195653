//! Heads of responses: what they say, and those of the last ones, which most others repeat byte by byte.

use http::HeaderMap;
use quiche::h3::{Header, NameValue as _};

/// Number of heads that a thread remembers. A server that counts its responses in their heads repeats none, and each costs a
/// comparison with all that are remembered.
const REMEMBERED: usize = 16;

/// What counts of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedHead {
    /// Status, if it is that of a final response.
    pub(crate) status: Option<u16>,
    /// Value of `content-length`.
    pub(crate) announced: Option<u64>,
    /// Length of its names and values, bytes.
    pub(crate) plain: u64,
    /// Length as it was received, bytes.
    pub(crate) encoded: u64,
}

impl CountedHead {
    /// Returns what the head with these fields says, which was received in `encoded` bytes.
    pub(crate) fn new(fields: &[Header], encoded: usize) -> CountedHead {
        let value = |name: &[u8]| fields.iter().find(|f| f.name() == name).map(Header::value);
        let status = value(b":status").and_then(number);
        let status = status.and_then(|status| u16::try_from(status).ok());
        let plain = fields.iter().map(|f| f.name().len() + f.value().len());
        CountedHead {
            status: status.filter(|status| (200..1000).contains(status)),
            announced: value(b"content-length").and_then(number),
            plain: plain.sum::<usize>() as u64,
            encoded: encoded as u64,
        }
    }

    /// Returns what a head without compression says; trailers have no status.
    pub(crate) fn of_fields(status: Option<u16>, fields: &HeaderMap) -> CountedHead {
        let announced = fields.get("content-length");
        let lengths = fields.iter().map(|(n, v)| n.as_str().len() + v.len());
        let plain = lengths.sum::<usize>() as u64;
        CountedHead {
            status,
            announced: announced.and_then(|value| number(value.as_bytes())),
            plain,
            encoded: plain,
        }
    }

    /// Returns the length of the pseudo-header fields of a response, bytes.
    pub(crate) fn pseudo(&self) -> u64 {
        self.status.map_or(0, |_| ":status200".len() as u64)
    }
}

/// The last different heads, with the bytes in which they were received. Equal bytes mean the same, since no table changes them.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: Vec<(Vec<u8>, CountedHead)>,
    /// Index of the oldest, once there is no room for more.
    oldest: usize,
}

impl Heads {
    /// Returns what a head says, if it is remembered.
    pub(crate) fn find(&self, section: &[u8]) -> Option<CountedHead> {
        let known = self.known.iter().find(|(bytes, _)| bytes == section);
        known.map(|(_, head)| *head)
    }

    /// Remembers a head, in place of the oldest one.
    pub(crate) fn remember(&mut self, section: &[u8], head: CountedHead) {
        if self.known.len() < REMEMBERED {
            self.known.push((section.to_vec(), head));
            return;
        }
        let (bytes, said) = &mut self.known[self.oldest];
        bytes.clear();
        bytes.extend_from_slice(section);
        *said = head;
        self.oldest = (self.oldest + 1) % REMEMBERED;
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> CountedHead {
        let field = |(n, v): &(&str, &str)| Header::new(n.as_bytes(), v.as_bytes());
        CountedHead::new(&fields.iter().map(field).collect::<Vec<_>>(), 9)
    }

    #[test]
    fn a_head_has_status_length_and_sizes() {
        let expected = CountedHead { status: Some(200), announced: Some(5), plain: 25, encoded: 9 };
        assert_eq!(head(&[(":status", "200"), ("content-length", "5")]), expected);
    }

    #[test]
    fn any_status_is_taken() {
        for status in ["", "x", "-1", "103", "2000", "99999999999999999999", "\u{fffd}"] {
            assert_eq!(head(&[(":status", status)]).status, None, "{status}");
        }
    }

    #[test]
    fn the_last_heads_are_remembered() {
        let mut heads = Heads::default();
        let of = |n: usize| (n.to_string(), CountedHead::new(&[], n));
        for n in 0..=REMEMBERED {
            let (section, head) = of(n);
            assert_eq!(heads.find(section.as_bytes()), None);
            heads.remember(section.as_bytes(), head);
        }
        let found = |n: usize| heads.find(of(n).0.as_bytes());
        assert_eq!(found(0), None);
        assert!((1..=REMEMBERED).all(|n| found(n) == Some(of(n).1)));
    }
}
