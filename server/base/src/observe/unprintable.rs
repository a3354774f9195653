//! Characters that a line of a log contains only escaped, whatever strangers send: a reader could take them for the end of the line
//! or for a command to the terminal, or would not see them (Unicode Technical Report 36 §3.1).

/// Returns whether a line contains this character only escaped: control characters, separators of lines and paragraphs, characters
/// that change the direction of text or are not seen, combining marks, and code points without a character.
pub(super) fn is_unprintable(character: char) -> bool {
    if character.is_ascii() {
        return character.is_control();
    }
    is_escaped_by_debug(character) || is_default_ignorable(character)
}

/// Returns whether `Debug` of a string escapes a character beyond ASCII. It does so with all of these but some that are not seen.
fn is_escaped_by_debug(character: char) -> bool {
    character.escape_debug().len() > 1
}

/// Returns whether a character has the property Default_Ignorable_Code_Point of Unicode 16: terminals and fonts that do not know it
/// show nothing. Among these are all characters that change the direction of text (Bidi_Control), variation selectors, and the fillers
/// of Hangul, which count as letters.
fn is_default_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Writes a character as within a JSON string (RFC 8259 §7): `\u` and four digits, twice beyond the first plane.
pub(super) fn escape_json(out: &mut Vec<u8>, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
    }
}

/// Writes a character as `Debug` does: `\u` and its digits in braces, or `\n` and the like. One that `Debug` leaves as it is gets
/// digits, too.
pub(super) fn escape_text(out: &mut Vec<u8>, character: char) {
    let text = if is_escaped_by_debug(character) {
        character.escape_debug().to_string()
    } else {
        character.escape_unicode().to_string()
    };
    out.extend_from_slice(text.as_bytes());
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
        '\u{115f}',
        '\u{1160}',
        '\u{3164}',
        '\u{ffa0}', // letters that are not seen
        '\u{17b4}',
        '\u{180b}',
        '\u{180f}',
        '\u{2061}',
        '\u{2064}',
        '\u{2065}',
        '\u{206a}',
        '\u{fe00}',
        '\u{fff0}',
        '\u{1bca0}',
        '\u{1d173}',
        '\u{e0000}',
        '\u{e007f}',
        '\u{e0100}',
        '\u{e01ef}',
        '\u{e0fff}', // others that Unicode lets fonts ignore
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

    /// The ranges of DerivedCoreProperties.txt, first and last, of all that Unicode lets fonts ignore.
    #[test]
    fn every_character_that_fonts_may_ignore_is_unprintable_and_its_neighbours_are_not() {
        let ranges = [
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x17b4, 0x17b5),
            (0x180b, 0x180f),
            (0x200b, 0x200f),
            (0x202a, 0x202e),
            (0x2060, 0x206f),
            (0x3164, 0x3164),
            (0xfe00, 0xfe0f),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff0, 0xfff8),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe0fff),
        ];
        let is_ignorable = |code| ranges.iter().any(|(low, high)| (*low..=*high).contains(&code));
        for character in '\0'..=char::MAX {
            let expected = is_ignorable(u32::from(character));
            assert_eq!(is_default_ignorable(character), expected, "{character:?}");
            assert!(!expected || is_unprintable(character), "{character:?}");
        }
        for visible in "\u{ac}\u{ae}\u{115e}\u{1161}\u{3163}\u{3165}\u{ffa1}".chars() {
            assert!(!is_unprintable(visible), "{visible:?}");
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
    }

    #[test]
    fn a_character_is_escaped_in_text_whether_or_not_debug_escapes_it() {
        for (character, expected) in
            [('\u{202e}', "\\u{202e}"), ('\u{3164}', "\\u{3164}"), ('\n', "\\n")]
        {
            let mut out = Vec::new();
            escape_text(&mut out, character);
            assert_eq!(out, expected.as_bytes());
        }
        for character in MISLEADING {
            let mut out = Vec::new();
            escape_text(&mut out, *character);
            assert!(out.iter().all(u8::is_ascii_graphic), "{character:?}");
        }
    }
}
