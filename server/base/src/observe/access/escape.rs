//! Escapes a client's bytes within a line, so that they end neither the line nor a field and send no command to a terminal.

use std::io::Write;

use crate::observe::unprintable::{escape_json, is_unprintable};

/// Longest piece of a client's text, bytes; a longer one is cut and ends with [`CUT`].
pub(super) const MAX_FIELD: usize = 4096;
/// Marks a field that was cut off.
pub(super) const CUT: &str = "...";

fn cut(field: &[u8]) -> (&[u8], &'static str) {
    match field.split_at_checked(MAX_FIELD) {
        Some((start, rest)) if !rest.is_empty() => (start, CUT),
        _ => (field, ""),
    }
}

/// Writes the content of a JSON string (RFC 8259 §7). Escapes more than JSON requires: everything that could mislead a reader. Bytes that are not UTF-8 become U+FFFD.
pub(super) fn json(out: &mut Vec<u8>, field: &[u8]) {
    let (field, end) = cut(field);
    match std::str::from_utf8(field) {
        Ok(text) => json_text(out, text),
        Err(_) => json_text(out, &String::from_utf8_lossy(field)),
    }
    out.extend_from_slice(end.as_bytes());
}

fn json_text(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    let plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    while let Some(at) = rest.bytes().position(|byte| !plain(byte)) {
        let (start, end) = rest.split_at(at);
        out.extend_from_slice(start.as_bytes());
        let mut characters = end.chars();
        match characters.next() {
            Some('"') => out.extend_from_slice(b"\\\""),
            Some('\\') => out.extend_from_slice(b"\\\\"),
            Some('\n') => out.extend_from_slice(b"\\n"),
            Some('\r') => out.extend_from_slice(b"\\r"),
            Some('\t') => out.extend_from_slice(b"\\t"),
            Some(c) if is_unprintable(c) => escape_json(out, c),
            _ => out.extend_from_slice(&end.as_bytes()[..end.len() - characters.as_str().len()]),
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Writes a field for the quotes of the combined format: printable ASCII as it is, except quotes and backslashes; every
/// other byte as `\xHH`.
pub(super) fn quoted(out: &mut Vec<u8>, field: &[u8]) {
    hex_unless(out, field, |byte| byte == b' ' || byte.is_ascii_graphic());
}

/// Writes a field as [`quoted`] does, with spaces escaped too: one would end it.
pub(super) fn word(out: &mut Vec<u8>, field: &[u8]) {
    hex_unless(out, field, |byte| byte.is_ascii_graphic());
}

fn hex_unless(out: &mut Vec<u8>, field: &[u8], plain: fn(u8) -> bool) {
    let (mut rest, end) = cut(field);
    let special = |byte: &u8| !plain(*byte) || matches!(byte, b'"' | b'\\');
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        // Writing to memory cannot fail.
        let _ = write!(out, "\\x{:02X}", rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(end.as_bytes());
}

/// Writes two digits for each byte.
pub(super) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 0xf)]);
    }
}
