//! Tests files that the server compresses.

use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;

fn folder() -> Folder {
    let settings = sluicegate_config::Config::embedded().compress;
    let folder = Folder {
        compress: Some(Arc::new(settings)),
        server: Rc::new(FileServer::new(8, 100_000, Rc::default())),
        ..Folder::new()
    };
    folder.write("a.html", html());
    folder
}

fn html() -> String {
    "<p>It works.\n".repeat(1000)
}

fn field<'a>(response: &'a ReceivedResponse, name: &str) -> Option<&'a str> {
    let fields = &response.head.as_ref().unwrap().fields;
    let mut values = fields.iter().filter(|(known, _)| known == name);
    let value = values.next().map(|(_, value)| value.to_str().unwrap());
    assert!(values.next().is_none(), "{name} twice");
    value
}

fn decoded(body: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(body).read_to_string(&mut text).unwrap();
    text
}

const GZIP: (&str, &str) = ("accept-encoding", "gzip");

#[test]
fn a_small_file_is_kept_compressed() {
    let folder = folder();
    let response = folder.ask("GET", "/a.html", &[GZIP]);
    assert_eq!(status(&response), 200);
    assert_eq!(decoded(&response.body), html());
    assert_eq!(field(&response, "content-encoding"), Some("gzip"));
    assert_eq!(field(&response, "vary"), Some("accept-encoding"));
    assert_eq!(field(&response, "accept-ranges"), None);
    let tag = field(&response, "etag").unwrap().to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    let length = response.head.as_ref().unwrap().length;
    assert_eq!(length, Some(response.body.len() as u64));
    let entry = folder.learnt.borrow_mut().take().unwrap();
    assert_eq!((&entry.bytes[..], entry.metadata.compressed), (&response.body[..], true));

    let unchanged = folder.ask("GET", "/a.html", &[GZIP, ("if-none-match", &tag)]);
    assert_eq!(status(&unchanged), 304);
    assert_eq!(field(&unchanged, "etag"), Some(&*tag));
    let failed = folder.ask("GET", "/a.html", &[GZIP, ("if-match", &tag)]);
    assert_eq!(status(&failed), 412);
}

#[test]
fn ranges_are_those_of_the_original() {
    let folder = folder();
    let range = ("range", "bytes=3-10");
    let response = folder.ask("GET", "/a.html", &[GZIP, range]);
    assert_eq!((status(&response), &*response.body), (206, &b"It works"[..]));
    assert_eq!(field(&response, "content-encoding"), None);
    // The worker has none of it in memory, even if it has the compressed file.
    let whole = folder.ask("GET", "/a.html", &[GZIP]);
    let entry = folder.learnt.borrow_mut().take().unwrap();
    let asked =
        |lines: &[_]| representation::reply_from_memory(&head("GET", "/a.html", lines), &entry);
    assert!(asked(&[GZIP, range]).is_none());
    let reply = asked(&[GZIP]).unwrap();
    assert_eq!(reply.body, crate::exchange::Body::Bytes(whole.body.into()));
    // A part that the client has of the compressed file cannot be continued.
    let tag = field(&folder.ask("GET", "/a.html", &[GZIP]), "etag").unwrap().to_owned();
    let response = folder.ask("GET", "/a.html", &[("if-range", &tag), range]);
    assert_eq!(status(&response), 200);
}

#[test]
fn request_for_a_range_leaves_the_compressed_file_in_the_cache() {
    let folder = folder();
    folder.write("a.png", html());
    let range = ("range", "bytes=3-10");
    let is_compressed = || folder.learnt.borrow().as_ref().unwrap().metadata.compressed;
    folder.ask("GET", "/a.html", &[GZIP]);
    assert!(is_compressed());
    assert_eq!(status(&folder.ask("GET", "/a.html", &[GZIP, range])), 206);
    assert!(is_compressed());
    // What everybody with the same preference gets uncompressed is kept.
    for (target, lines) in [("/a.png", &[GZIP, range][..]), ("/a.html", &[range])] {
        folder.learnt.take();
        assert_eq!(status(&folder.ask("GET", target, lines)), 206);
        assert!(!is_compressed(), "{target}");
    }
}

#[test]
fn a_client_that_refuses_the_original_gets_the_file_compressed() {
    let folder = folder();
    let lines = [("accept-encoding", "gzip, identity;q=0")];
    let response = folder.ask("GET", "/a.html", &lines);
    assert_eq!((status(&response), decoded(&response.body)), (200, html()));
}

#[test]
fn what_does_not_fit_is_kept_as_it_is() {
    let folder = folder();
    folder.write("short.html", "short");
    folder.write("a.png", html());
    for (target, varies) in [("/short.html", true), ("/a.png", true), ("/a.html", true)] {
        let lines: &[_] = if target == "/a.html" { &[] } else { &[GZIP] };
        let response = folder.ask("GET", target, lines);
        assert_eq!(field(&response, "content-encoding"), None, "{target}");
        // A variant may lie beside each.
        assert_eq!(field(&response, "vary").is_some(), varies, "{target}");
        let entry = folder.learnt.borrow_mut().take().unwrap();
        assert!(!entry.metadata.compressed);
        assert_eq!(entry.bytes, response.body);
    }
}

#[test]
fn a_variant_on_the_disk_comes_first() {
    let folder = folder();
    folder.write("a.html.gz", "from the disk");
    let response = folder.ask("GET", "/a.html", &[GZIP]);
    assert_eq!(response.body, b"from the disk");
    assert_eq!(field(&response, "accept-ranges"), Some("bytes"));
}
