//! Characters that a line of a log contains only escaped, whatever strangers send: a reader could take them for the end of the line
//! or for a command to the terminal, or would not see them (Unicode Technical Report 36 §3.1).

/// Returns whether a line contains this character only escaped: control characters, separators of lines and paragraphs, characters
/// that change the direction of text or have no width, combining marks, and code points without a character.
pub(super) fn is_unprintable(character: char) -> bool {
    // What `Debug` of a string escapes beyond ASCII is just this.
    character.is_control() || (!character.is_ascii() && character.escape_debug().len() > 1)
}

/// Writes a character as within a JSON string (RFC 8259 §7): `\u` and four digits, twice beyond the first plane.
pub(super) fn escape_json(out: &mut Vec<u8>, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
    }
}

/// Writes a character as `Debug` does: `\u` and its digits in braces, or `\n` and the like.
pub(super) fn escape_text(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.escape_debug().to_string().as_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Characters of each kind that could mislead a reader of a log.
    pub(in super::super) const MISLEADING: &[char] = &[
        '\u{0}',
        '\u{7}',
        '\u{8}',
        '\u{b}',
        '\u{c}',
        '\u{1b}',
        '\u{7f}', // C0 and DEL
        '\u{80}',
        '\u{85}',
        '\u{8d}',
        '\u{9b}',
        '\u{9f}', // C1
        '\u{2028}',
        '\u{2029}', // separators
        '\u{61c}',
        '\u{200e}',
        '\u{200f}',
        '\u{202a}',
        '\u{202b}',
        '\u{202c}',
        '\u{202d}',
        '\u{202e}',
        '\u{2066}',
        '\u{2067}',
        '\u{2068}',
        '\u{2069}', // direction
        '\u{ad}',
        '\u{34f}',
        '\u{180e}',
        '\u{200b}',
        '\u{200c}',
        '\u{200d}',
        '\u{2060}',
        '\u{2063}',
        '\u{feff}',
        '\u{fff9}',
        '\u{e0001}',
        '\u{e0041}', // no width
        '\u{301}',
        '\u{fe0f}',
        '\u{a0}',
        '\u{2003}',
        '\u{e000}',
        '\u{ffff}', // others that are not seen
    ];

    #[test]
    fn what_could_mislead_a_reader_is_unprintable_and_writing_is_not() {
        for character in MISLEADING {
            assert!(is_unprintable(*character), "{character:?}");
        }
        for character in " ~aé€ßЖ漢字한글العربيةעברית😀\u{fffd}".chars() {
            assert!(!is_unprintable(character), "{character:?}");
        }
    }

    #[test]
    fn an_escaped_character_is_read_as_itself_by_a_reader_of_json() {
        for character in MISLEADING {
            let mut out = vec![b'"'];
            escape_json(&mut out, *character);
            out.push(b'"');
            assert!(out.is_ascii());
            let read: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(read, character.to_string());
        }
        let mut out = Vec::new();
        escape_text(&mut out, '\u{202e}');
        assert_eq!(out, b"\\u{202e}");
    }
}
