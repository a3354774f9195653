//! Properties of every request's path.

use super::CanonicalPath;

/// Reads a path. Returns whether it is one.
pub fn path(bytes: &[u8]) -> bool {
    let raw = String::from_utf8_lossy(bytes);
    let Ok(path) = CanonicalPath::parse(&raw) else {
        return false;
    };
    let forward = path.forward(0);
    check(&path);
    check(forward);
    // An upstream that resolves dot segments, or reads a host after two slashes, finds neither in a raw path.
    assert!(!path.raw().split('/').any(is_dots), "{raw}");
    assert!(!path.raw().starts_with("//"), "{raw}");
    assert!(path.raw().bytes().all(|byte| byte.is_ascii_graphic()), "{raw}");
    for spelling in [&*path, forward, path.raw()] {
        let again = CanonicalPath::parse(spelling);
        assert_eq!(again.as_deref(), Ok(&*path), "{raw}");
    }
    let again = CanonicalPath::parse(path.raw());
    assert_eq!(again.as_ref(), Ok(&path), "{raw}");
    assert_eq!(decoded(&path), decoded(forward), "{raw}");
    let segments: Vec<_> = path.split('/').skip(1).map(decoded).collect();
    assert_eq!(resolved(&raw), segments, "{raw}");
    let has_separators = segments.iter().flatten().any(|byte| b"/\\".contains(byte));
    assert_eq!(path.has_separators(), has_separators, "{raw}");
    for (at, _) in path.match_indices('/') {
        let rest = decoded(path.forward(at));
        assert_eq!(rest, decoded(&path[at..]), "{raw}");
    }
    true
}

/// Checks that each octet has one spelling, and that no segment is left that a server could resolve.
fn check(path: &str) {
    assert!(path.starts_with('/') && !path.contains("//"), "{path}");
    let allowed = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>?[\\]^`{|}".contains(&byte);
    assert!(path.bytes().all(allowed), "{path}");
    assert!(!path.split('/').any(is_dots), "{path}");
    for octet in path.split('%').skip(1).map(|part| &part[..2]) {
        assert_eq!(octet, octet.to_ascii_uppercase(), "{path}");
        assert_ne!(octet, "00", "{path}");
    }
}

/// Returns whether a segment has a dot segment in any spelling, without its parameters and between encoded separators.
fn is_dots(segment: &str) -> bool {
    let decoded = decoded(segment);
    let mut parts = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
    parts.any(|part| {
        let name = part.split(|byte| *byte == b';').next();
        matches!(name, Some(b"." | b".."))
    })
}

fn decoded(path: &str) -> Vec<u8> {
    let mut parts = path.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let octet = u8::from_str_radix(&part[..2], 16);
        bytes.push(octet.expect("two digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// Returns the octets of each segment of a path, as read by a server that splits it, decodes its names, and then walks down a tree
/// of folders.
fn resolved(raw: &str) -> Vec<Vec<u8>> {
    let mut folders: Vec<Vec<u8>> = Vec::new();
    let mut ends_in_slash = false;
    for name in raw.split('/').map(decoded) {
        ends_in_slash = matches!(&*name, b"" | b"." | b"..");
        match &*name {
            b"" | b"." => {}
            b".." => {
                folders.pop();
            }
            _ => folders.push(name),
        }
    }
    if ends_in_slash {
        folders.push(Vec::new());
    }
    folders
}
