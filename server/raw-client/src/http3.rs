//! Frames of HTTP/3 (RFC 9114 §7.2), field sections without a dynamic table (RFC 9204), and the responses' statuses.

use crate::varint::{Reader, varint};

/// DATA.
pub const DATA: u64 = 0x0;
/// HEADERS.
pub const HEADERS: u64 = 0x1;
/// SETTINGS.
pub const SETTINGS: u64 = 0x4;
/// The client's first unidirectional stream, for control.
pub const CONTROL: u64 = 2;

/// Statuses in QPACK's static table, by index.
const STATUSES: [(u8, u16); 14] = [
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];

/// Returns a frame.
#[must_use]
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&varint(kind), &varint(payload.len() as u64), payload].concat()
}

/// Returns a control stream's beginning, with these settings.
#[must_use]
pub fn control(settings: &[(u64, u64)]) -> Vec<u8> {
    let pairs = settings.iter();
    let pairs = pairs.map(|(name, value)| [varint(*name), varint(*value)].concat());
    [vec![0], frame(SETTINGS, &pairs.collect::<Vec<_>>().concat())].concat()
}

/// Returns an integer behind the bits of `first` (RFC 7541 §5.1).
fn integer(first: u8, prefix: u32, value: usize) -> Vec<u8> {
    let byte = |value: usize| u8::try_from(value).expect("seven bits");
    let most = (1 << prefix) - 1;
    let Some(mut rest) = value.checked_sub(most) else {
        return vec![first | byte(value)];
    };
    let mut bytes = vec![first | byte(most)];
    while rest >= 0x80 {
        bytes.push(byte(rest % 0x80) | 0x80);
        rest /= 0x80;
    }
    bytes.push(byte(rest));
    bytes
}

/// Returns a field section of literals (RFC 9204 §4.5.6), with any names and values.
#[must_use]
pub fn section(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in lines {
        section.extend(integer(0x20, 3, name.len()));
        section.extend(name.as_bytes());
        section.extend(integer(0, 7, value.len()));
        section.extend(value.as_bytes());
    }
    section
}

/// Returns a HEADERS frame whose fields are all literals, with any names and values.
#[must_use]
pub fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, &section(lines))
}

/// Returns a GET request's HEADERS frame, with further fields.
#[must_use]
pub fn get(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let head =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    headers(&[&head, more].concat())
}

/// Returns the status of each head that a response has so far, and the bytes of its body.
#[must_use]
pub fn response(bytes: &[u8]) -> (Vec<u16>, usize) {
    let mut reader = Reader(bytes);
    let (mut statuses, mut body) = (Vec::new(), 0);
    while let Some(kind) = reader.varint()
        && let Some(length) = reader.varint()
    {
        let there = usize::try_from(length).map_or(reader.0.len(), |n| n.min(reader.0.len()));
        let payload = reader.take(there).unwrap_or_default();
        match kind {
            DATA => body += payload.len(),
            HEADERS => statuses.extend(status(payload)),
            _ => {}
        }
    }
    (statuses, body)
}

/// Returns the status of a field section, if it is the first field.
fn status(section: &[u8]) -> Option<u16> {
    match section.get(2..)? {
        [index, ..] if index & 0xc0 == 0xc0 => {
            let index = if *index == 0xff { 63 + section.get(3)? } else { index & 0x3f };
            let found = STATUSES.iter().find(|(known, _)| *known == index)?;
            Some(found.1)
        }
        // A literal whose name has an index, below 15 or in two bytes, and a value in Huffman code or none.
        [first, rest @ ..] if first & 0xf0 == 0x50 => {
            let rest = if first & 0xf == 0xf { rest.get(1..)? } else { rest };
            let (length, value) = rest.split_first()?;
            let value = value.get(..usize::from(length & 0x7f))?;
            let digits = if length & 0x80 == 0 {
                value.iter().map(|digit| u16::from(digit.wrapping_sub(b'0'))).collect()
            } else {
                huffman_digits(value)
            };
            Some(digits.iter().fold(0, |sum, digit| sum * 10 + digit))
        }
        _ => None,
    }
}

/// Decodes three digits (RFC 7541 §B): 0 to 2 have five bits, the others six.
fn huffman_digits(bytes: &[u8]) -> Vec<u16> {
    let bits = bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let mut left = 8 * bytes.len();
    let mut take = |count: usize| {
        left = left.saturating_sub(count);
        u16::try_from(bits >> left & ((1 << count) - 1)).expect("few bits")
    };
    let mut digit = || match take(5) {
        short @ 0..=2 => short,
        long => (long << 1 | take(1)).wrapping_sub(22),
    };
    vec![digit(), digit(), digit()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_in_every_form() {
        for (section, status) in [
            (&[0, 0, 0xc0 | 25][..], 200),
            (&[0, 0, 0xff, 8], 500),
            (&[0, 0, 0x5f, 9, 3, b'4', b'3', b'1'], 431),
            // 416: 011010, 00001, 011100, then ones.
            (&[0, 0, 0x5f, 9, 0x83, 0b0110_1000, 0b0010_1110, 0x7f], 416),
        ] {
            let response = [frame(HEADERS, section), frame(DATA, b"abc")].concat();
            assert_eq!(super::response(&response), (vec![status], 3));
        }
    }
}
