//! Turns the path of a request into a path below a folder, without a look at the disk.

/// Longest name of a file that Linux allows, bytes.
const MAX_NAME: usize = 255;
/// Longest path below the root, bytes: PATH_MAX less room for an index and for the suffix of a variant.
const MAX_PATH: usize = 3584;
/// The one hidden name that is served (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// A path below a route's root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FilePath {
    /// Names joined by `/`, with none in front or behind; empty for the root itself.
    pub(crate) path: Box<[u8]>,
    /// Whether the path ends with a slash and so means a folder.
    pub(crate) folder: bool,
}

/// Reason for which a path cannot name a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathRefusal {
    /// The path's syntax is wrong: bad percent-encoding, NUL, `.` or `..` for a name.
    Malformed,
    /// It is never served.
    NotFound,
}

impl FilePath {
    /// Decodes `rest`, the part of `path` behind a route's prefix, once; both are percent-encoded.
    ///
    /// Consecutive slashes count as one. Refuses names with an encoded slash or any backslash, since other systems and clients
    /// would see another path there. Hidden names (a dot in front) are not found, except `.well-known`, because tools leave
    /// files in a folder that are not meant for clients.
    pub(crate) fn of(path: &str, rest: &str) -> Result<FilePath, PathRefusal> {
        let prefix = path.strip_suffix(rest).unwrap_or_default();
        if !(rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/')) {
            // `/static` is not in front of `/statics`.
            return Err(PathRefusal::NotFound);
        }
        let mut found = Vec::with_capacity(rest.len());
        let mut verdict = Ok(());
        for segment in rest.split('/').filter(|segment| !segment.is_empty()) {
            if !found.is_empty() {
                found.push(b'/');
            }
            let start = found.len();
            decode(segment, &mut found)?;
            verdict = verdict.and(check(&found[start..])?);
        }
        verdict?;
        if found.len() > MAX_PATH {
            return Err(PathRefusal::NotFound);
        }
        Ok(FilePath { path: found.into_boxed_slice(), folder: path.ends_with('/') })
    }
}

/// Returns whether a decoded name may be looked up. The outer error is a malformed name, which outweighs all others of the path.
fn check(name: &[u8]) -> Result<Result<(), PathRefusal>, PathRefusal> {
    if name == b"." || name == b".." || name.contains(&0) {
        return Err(PathRefusal::Malformed);
    }
    let hidden = name.starts_with(b".") && name != WELL_KNOWN;
    let ambiguous = name.iter().any(|byte| matches!(byte, b'/' | b'\\'));
    let refused = hidden || ambiguous || name.len() > MAX_NAME;
    Ok(if refused { Err(PathRefusal::NotFound) } else { Ok(()) })
}

fn decode(segment: &str, out: &mut Vec<u8>) -> Result<(), PathRefusal> {
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let (high, low) = (hex(bytes.next()), hex(bytes.next()));
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(PathRefusal::Malformed);
                };
                high << 4 | low
            }
            plain => plain,
        });
    }
    Ok(())
}

fn hex(digit: Option<u8>) -> Option<u8> {
    match digit? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below_root(path: &str) -> Result<FilePath, PathRefusal> {
        FilePath::of(path, &path[1..])
    }

    fn target(path: &str, folder: bool) -> Result<FilePath, PathRefusal> {
        let path = path.as_bytes().into();
        Ok(FilePath { path, folder })
    }

    #[test]
    fn paths_are_decoded_once() {
        for (asked, path, folder) in [
            ("/", "", true),
            ("/a", "a", false),
            ("/a/", "a", true),
            ("/a//b///c", "a/b/c", false),
            ("//", "", true),
            ("/%61%2E%62", "a.b", false),
            ("/%2561", "%61", false),
            ("/%252e%252e/%252f", "%2e%2e/%2f", false),
            ("/a+b%20c", "a+b c", false),
            ("/%C3%A4", "ä", false),
            ("/.well-known/acme", ".well-known/acme", false),
            ("/a..b/c.", "a..b/c.", false),
        ] {
            assert_eq!(below_root(asked), target(path, folder), "{asked}");
        }
        assert_eq!(&*below_root("/%ff").unwrap().path, [0xff]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for asked in [
            "/%",
            "/%2",
            "/%g0",
            "/%0g",
            "/a%",
            "/%00",
            "/a%00.html",
            "/..",
            "/.",
            "/a/../b",
            "/%2e%2E/x",
            "/.%2e",
            "/%2e",
            "/a/./b",
            "/../",
            "/.git/..",
            "/a\\b/..",
        ] {
            assert_eq!(below_root(asked), Err(PathRefusal::Malformed), "{asked}");
        }
        for asked in [
            "/a%2fb",
            "/%2F",
            "/..%2f..",
            "/a\\b",
            "/a%5cb",
            "/.git/config",
            "/.env",
            "/a/.b",
            "/...",
            "/..a",
            "/%2egit",
            "/.well-known2",
            "/.well-known/.b",
        ] {
            assert_eq!(below_root(asked), Err(PathRefusal::NotFound), "{asked}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let longest = format!("/{}", "n".repeat(MAX_NAME));
        assert!(below_root(&longest).is_ok());
        assert_eq!(below_root(&format!("{longest}n")), Err(PathRefusal::NotFound));
        // What counts is the name, not how it was written.
        assert!(below_root(&format!("/{}", "%6e".repeat(MAX_NAME))).is_ok());
        let path = "/name".repeat(MAX_PATH / 5);
        assert!(below_root(&path).is_ok());
        assert_eq!(below_root(&format!("{path}{path}")), Err(PathRefusal::NotFound));
    }

    #[test]
    fn a_prefix_ends_where_a_name_does() {
        let of = |prefix: &str, rest: &str| FilePath::of(&format!("{prefix}{rest}"), rest);
        assert_eq!(of("/static", ""), target("", false));
        assert_eq!(of("/static", "/"), target("", true));
        assert_eq!(of("/static", "/a"), target("a", false));
        assert_eq!(of("/static/", ""), target("", true));
        assert_eq!(of("/static/", "a"), target("a", false));
        assert_eq!(of("/static", "s"), Err(PathRefusal::NotFound));
        assert_eq!(of("/static", "../etc"), Err(PathRefusal::NotFound));
        assert_eq!(of("/static/", "../etc"), Err(PathRefusal::Malformed));
    }

    /// Tries every path of up to six of the bytes that matter.
    #[test]
    fn no_path_leads_anywhere_but_down() {
        const ALPHABET: &[u8] = b"./%2e5cCfF\\0a";
        for length in 0..=5_u32 {
            for number in 0..ALPHABET.len().pow(length) {
                let mut path = String::from("/");
                let mut left = number;
                for _ in 0..length {
                    path.push(char::from(ALPHABET[left % ALPHABET.len()]));
                    left /= ALPHABET.len();
                }
                let Ok(FilePath { path: found, .. }) = below_root(&path) else {
                    continue;
                };
                let mut names = found.split(|byte| *byte == b'/');
                let sound = |name: &[u8]| {
                    !name.is_empty() && name[0] != b'.' && !name.iter().any(|b| b"\\\0".contains(b))
                };
                assert!(found.is_empty() || names.all(sound), "{path}");
                // A slash in a name would show as one name more than the request had.
                let asked = path.split('/').filter(|name| !name.is_empty()).count();
                let names = found.split(|byte| *byte == b'/').count();
                assert!(found.is_empty() || names == asked, "{path}");
            }
        }
    }
}
