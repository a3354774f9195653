//! A client's bytes within a line, so that nothing in them ends the line, a field or a terminal's patience.

use std::io::Write;

/// Longest piece of a client's making in bytes; what is longer is cut and ends with [`CUT`].
pub(super) const MAX_FIELD: usize = 4096;
/// Stands for what was cut off.
pub(super) const CUT: &str = "...";

fn cut(field: &[u8]) -> (&[u8], &'static str) {
    match field.split_at_checked(MAX_FIELD) {
        Some((start, rest)) if !rest.is_empty() => (start, CUT),
        _ => (field, ""),
    }
}

/// The content of a JSON string (RFC 8259 §7). Beyond what JSON asks for, everything that some reader may take for the end
/// of a line or for a command is escaped; what is not UTF-8 becomes U+FFFD.
pub(super) fn json(out: &mut Vec<u8>, field: &[u8]) {
    let (field, end) = cut(field);
    for chunk in field.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => out.extend_from_slice(&[b'\\', character as u8]),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                // Line and paragraph separators end a line, too (Unicode Standard Annex 14).
                _ if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') => {
                    // Writing to memory cannot fail. All of them are in the first plane.
                    let _ = write!(out, "\\u{:04x}", u32::from(character));
                }
                _ => {
                    let mut bytes = [0; 4];
                    out.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
                }
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.extend_from_slice(end.as_bytes());
}

/// Within quotes of the combined format: printable ASCII as it is, but quotes and backslashes; `\xHH` for every other byte.
pub(super) fn quoted(out: &mut Vec<u8>, field: &[u8]) {
    hex_unless(out, field, |byte| byte == b' ' || byte.is_ascii_graphic());
}

/// As [`quoted`], for a field that a space would end.
pub(super) fn word(out: &mut Vec<u8>, field: &[u8]) {
    hex_unless(out, field, |byte| byte.is_ascii_graphic());
}

fn hex_unless(out: &mut Vec<u8>, field: &[u8], plain: fn(u8) -> bool) {
    let (field, end) = cut(field);
    for &byte in field {
        if plain(byte) && byte != b'"' && byte != b'\\' {
            out.push(byte);
        } else {
            // Writing to memory cannot fail.
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
    out.extend_from_slice(end.as_bytes());
}
