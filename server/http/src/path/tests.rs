use super::*;

fn text(raw: &str) -> Result<String, PathError> {
    CanonicalPath::parse(raw).map(|path| path.to_string())
}

#[test]
fn each_path_has_one_spelling() {
    for (raw, canonical) in [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("//", "/"),
        ("//private/x", "/private/x"),
        ("/a///b//", "/a/b/"),
        ("/%70rivate/x", "/private/x"),
        ("/%7e%2D%5f", "/~-_"),
        ("/a%20b", "/a%20b"),
        ("/a%c3%a4", "/a%C3%A4"),
        ("/a|b\"[c]", "/a%7Cb%22%5Bc%5D"),
        ("/ä b", "/%C3%A4%20b"),
        ("/%252e%252e/x", "/%252e%252e/x"),
        ("/%25", "/%25"),
        ("/a;b=c,d:e@f!$&'()*+", "/a;b=c,d:e@f!$&'()*+"),
        ("/%3B%2b", "/;+"),
        ("/.hidden", "/.hidden"),
        ("/...", "/..."),
        ("/..a/a../b..", "/..a/a../b.."),
    ] {
        assert_eq!(text(raw).as_deref(), Ok(canonical), "{raw}");
    }
}

#[test]
fn dot_segments_are_removed_however_they_are_written() {
    for (raw, canonical) in [
        ("/a/b/c/./../../g", "/a/g"),
        ("/x/../private/", "/private/"),
        ("/x/%2e%2E/private/", "/private/"),
        ("/x/.%2e/private", "/private"),
        ("/x//../private", "/private"),
        ("/../../etc", "/etc"),
        ("/..", "/"),
        ("/.", "/"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a/b/../", "/a/"),
        ("/a%3B/../b", "/b"),
        ("/%61%3B/./b", "/a;/b"),
    ] {
        assert_eq!(text(raw).as_deref(), Ok(canonical), "{raw}");
    }
}

#[test]
fn paths_that_servers_read_differently_are_refused() {
    for (raw, error) in [
        ("", PathError::Relative),
        ("a", PathError::Relative),
        ("*", PathError::Relative),
        ("/%", PathError::Escape),
        ("/%2", PathError::Escape),
        ("/%g0", PathError::Escape),
        ("/%0g", PathError::Escape),
        ("/%/2e", PathError::Escape),
        ("/a%00.html", PathError::Nul),
        ("/private\\x", PathError::Separator),
        ("/x/..%5cprivate", PathError::DotSegment),
        ("/x%2f..", PathError::DotSegment),
        ("/x%2F%2e%2e/private", PathError::DotSegment),
        ("/x%2F..;a/private", PathError::DotSegment),
        ("/x%2F.%5Cy", PathError::DotSegment),
        ("/x/..;/private", PathError::DotParameters),
        ("/x/.;a=b/private", PathError::DotParameters),
        ("/x/%2e.%3b/private", PathError::DotParameters),
    ] {
        assert_eq!(text(raw), Err(error), "{raw}");
    }
}

#[test]
fn an_encoded_separator_is_data_and_known() {
    for (raw, canonical, forward) in [
        ("/group%2fproject", "/group%2Fproject", "/group%2Fproject"),
        ("/@scope%2fpkg/x", "/@scope%2Fpkg/x", "/@scope%2Fpkg/x"),
        ("/queues/%2F/q%40", "/queues/%2F/q@", "/queues/%2F/q%40"),
        ("/%2f%2F", "/%2F%2F", "/%2F%2F"),
        ("/a%5cb", "/a%5Cb", "/a%5Cb"),
        ("/..a%2F.b/", "/..a%2F.b/", "/..a%2F.b/"),
    ] {
        let path = CanonicalPath::parse(raw).unwrap();
        assert_eq!((&*path, path.forward(0)), (canonical, forward), "{raw}");
        assert_eq!(path.raw(), raw);
        assert!(path.has_separators(), "{raw}");
    }
    for raw in ["/a/b", "/a%252Fb", "/a%2Fb/..", "/a%2520b"] {
        assert!(!CanonicalPath::parse(raw).unwrap().has_separators(), "{raw}");
    }
}

#[test]
fn other_servers_may_see_separators_and_drop_parameters() {
    let readings = |raw| {
        let path = CanonicalPath::parse(raw).unwrap();
        let readings = path.other_readings().unwrap();
        readings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(readings("/a/b"), [""; 0]);
    assert_eq!(readings("/a;x/b"), ["/a/b"]);
    assert_eq!(readings("/a%2Fb%5Cc"), ["/a/b%5Cc", "/a%2Fb/c", "/a/b/c"]);
    assert_eq!(readings("/a;x%2Fb"), ["/a", "/a/b", "/a;x/b"]);
    assert!(CanonicalPath::parse("/x/..;y").is_err());
}

#[test]
fn an_upstream_gets_reserved_characters_as_the_client_wrote_them() {
    let forward = |raw: &str, from| {
        let path = CanonicalPath::parse(raw).unwrap();
        path.forward(from).to_owned()
    };
    assert_eq!(forward("/a+b/%2B", 0), "/a+b/%2B");
    assert_eq!(forward("/x/../%40%61//%3d", 0), "/%40a/%3D");
    // Behind the prefix `/a@b`, however it was written.
    assert_eq!(forward("/a%40b/c%2Bd", 4), "/c%2Bd");
    assert_eq!(forward("/a@b/c+d", 4), "/c+d");
    assert_eq!(forward("/a@b/%20", 4), "/%20");
    assert_eq!(forward("/%20%2B/x%2B", 5), "/x%2B");
    assert_eq!(forward("/a%40", 3), "");
}

#[test]
fn a_raw_path_is_the_client_s_spelling_unless_servers_read_that_differently() {
    for (raw, sent) in [
        ("/a", "/a"),
        ("/a///b/", "/a///b/"),
        ("//host/a", "/host/a"),
        ("///host//a%3d", "/host/a%3D"),
        ("//", "/"),
        ("/\t/host/a//b", "/%09/host/a/b"),
        ("/ä//b", "/%C3%A4/b"),
        ("/a//b\u{7f}", "/a/b%7F"),
        ("/%61+%2b%2B/b|c", "/%61+%2b%2B/b|c"),
        ("/a%2eb", "/a%2eb"),
        ("/a/../b%3d", "/b%3D"),
        ("/private/x//../../%79", "/y"),
        ("/x/%2e%2e/private/", "/private/"),
        ("/./a", "/a"),
    ] {
        let path = CanonicalPath::parse(raw).unwrap();
        assert_eq!(path.raw(), sent, "{raw}");
    }
}

#[test]
fn a_reference_has_the_client_s_spelling_without_excluded_characters() {
    for (raw, reference) in [
        ("/a//b;x=1/%61%2b!$&'()*+,=:@-._~", "/a//b;x=1/%61%2b!$&'()*+,=:@-._~"),
        ("/\"<>{}|^`[]", "/%22%3C%3E%7B%7D%7C%5E%60%5B%5D"),
        ("/\u{e4}/../<", "/%3C"),
    ] {
        let path = CanonicalPath::parse(raw).unwrap();
        assert_eq!(path.raw_reference(), reference, "{raw}");
        let again = CanonicalPath::parse(reference).unwrap();
        assert_eq!(again.as_str(), path.as_str(), "{raw}");
    }
}

/// Every path of up to five of the octets that matter, some of them encoded.
#[test]
fn a_canonical_path_is_its_own_canonical_path() {
    const PARTS: [&str; 11] = ["/", ".", "%2e", "%2F", "a", "%61", ";", "%3B", "%25", "%", "\\"];
    for length in 0..=5_u32 {
        for number in 0..PARTS.len().pow(length) {
            let mut raw = String::from("/");
            let mut left = number;
            for _ in 0..length {
                raw.push_str(PARTS[left % PARTS.len()]);
                left /= PARTS.len();
            }
            properties::path(raw.as_bytes());
        }
    }
}
