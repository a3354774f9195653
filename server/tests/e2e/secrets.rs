//! Secrets that clients and upstreams send stand in nothing that the process writes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use crate::admin::{ADMIN, address, get};
use crate::client::{Client, run};
use crate::raw::{Act, CONTROL, DATA, ENCODER, Outcome, Raw, control, frame, headers, varint};
use crate::server::{Folder, Process, Server, Setup};

/// Stands in every value that is secret.
const MARK: &str = "S3CR3T";
/// A frame that no RFC defines.
const UNKNOWN: u64 = 0x21 + 0x1f * 1000;
/// Files of the test itself, which hold marks.
const OWN: [&str; 3] = ["sluicegate.toml", "site", "secrets.txt"];

/// Returns a server's configuration with everything on that writes something.
fn everything(upstream: SocketAddr) -> Setup {
    let tables = format!(
        "[server]\nstate_dir = \"state\"\n\
         [log]\nlevel = \"trace\"\n\
         [quic]\nretry_above = 0\nearly_data = true\n\
         [qlog]\nsample_rate = 1.0\ndirectory = \"traces\"\nlevel = \"extra\"\n\
         [access_log]\nfile = \"access.log\"\n\
         [[route]]\npath = \"/up/\"\nproxy = {{ upstreams = \"{upstream}\", retries = 0 }}\n\
         [[route]]\npath = \"/gone/\"\nproxy = {{ upstreams = \"127.0.0.1:1\" }}\n\
         [[route]]\npath = \"/files/\"\nfiles = {{ root = \"site\" }}\n\
         [[route]]\npath = \"/old/\"\nredirect = {{ location = \"https://{{host}}/new/{{rest}}{{query}}\" }}"
    );
    Setup::new("mio").with(ADMIN).with(&tables).listener("main", "127.0.0.1:0", "bbr3")
}

/// Serves responses full of marks, and others that are malformed. A path that contains `bad` gets a malformed one.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            respond(&stream);
        }
    });
    address
}

fn respond(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        (reader.read_line(&mut head).ok()? > 0).then_some(())?;
    }
    // All of a request is read, so that closing the connection resets nothing.
    let mut is_last = !head.starts_with("POST");
    let mut line = String::from("\r\n");
    while !(is_last && line == "\r\n") {
        line.clear();
        (reader.read_line(&mut line).ok()? > 0).then_some(())?;
        is_last |= line == "0\r\n";
    }
    // The marks did arrive.
    assert!(head.contains("cookie: id=S3CR3T") && head.contains("?q=S3CR3T"), "{head}");
    let response = if head.contains("/bad-head") {
        format!("HTTP/1.1 200 OK\r\n{MARK}\r\n{MARK} : {MARK}\r\n\r\n{MARK}")
    } else if head.contains("/bad-line") {
        format!("{MARK} {MARK} {MARK}\r\n\r\n")
    } else if head.contains("/bad-body") {
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-own: {MARK}\r\n\r\n{MARK}\r\n")
    } else {
        format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\nset-cookie: id={MARK}\r\nx-own: {MARK}\r\netag: \"{MARK}\"\r\ntrailer: x-late\r\n\
             transfer-encoding: chunked\r\n\r\n6\r\n{MARK}\r\n0\r\nx-late: {MARK}\r\n\r\n"
        )
    };
    stream.write_all(response.as_bytes()).ok()?;
    stream.shutdown(std::net::Shutdown::Both).ok()
}

/// Returns a request's head with marks in all places but its path.
fn marked(method: &str, path: &str) -> Vec<u8> {
    let path = format!("{path}?q={MARK}");
    let referer = format!("https://user:{MARK}@example.org/page?token={MARK}#{MARK}");
    let (cookie, key) = (format!("id={MARK}"), format!("Bearer {MARK}"));
    headers(&[
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", &path),
        ("cookie", &cookie),
        ("authorization", &key),
        ("x-own", MARK),
        ("referer", &referer),
        ("if-none-match", "\"S3CR3T\""),
        ("proxy-authorization", MARK),
    ])
}

/// Sends requests that are served, and expects their statuses.
fn send_valid(raw: &mut Raw) {
    for (method, path, status) in [
        ("GET", "/", 200),
        ("GET", "/bytes/100", 200),
        ("GET", "/up/ok", 200),
        ("POST", "/up/ok", 200),
        ("GET", "/up/bad-head", 502),
        ("GET", "/up/bad-line", 502),
        ("GET", "/gone/", 502),
        ("GET", "/files/page.html", 200),
        ("GET", "/files/none.html", 404),
        ("GET", "/old/page", 308),
        ("GET", "/%2fpath", 400),
    ] {
        let mut frames = marked(method, path);
        if method == "POST" {
            frames.extend(frame(DATA, MARK.as_bytes()));
            frames.extend(frame(UNKNOWN, MARK.as_bytes()));
            frames.extend(headers(&[("x-late", MARK)]));
        }
        assert_eq!(raw.exchange(&frames), Outcome::Status(status), "{path}");
    }
    assert!(matches!(raw.exchange(&marked("GET", "/up/bad-body")), Outcome::Reset(_)));
}

/// Sends requests that are malformed, each with marks. None is served.
fn send_malformed(raw: &mut Raw) {
    let pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost")];
    let (user, query, fragment) =
        (format!("user:{MARK}@localhost"), format!("/?q={MARK}"), format!("/#{MARK}"));
    let absolute = format!("https://{user}/");
    let lines = format!("{MARK}\r\nx: {MARK}");
    for (name, value) in [
        ("Cookie", MARK),
        ("x-own", lines.as_str()),
        ("content-length", "+5"),
        ("connection", MARK),
        (":unknown", MARK),
        (":path", query.as_str()),
        ("host", MARK),
    ] {
        let mut all = pseudo.to_vec();
        all.extend([(":path", query.as_str()), (name, value)]);
        let outcome = raw.exchange(&headers(&all));
        assert!(!matches!(outcome, Outcome::Status(200)), "{name}: {outcome:?}");
    }
    for (authority, path) in
        [(user.as_str(), "/"), ("localhost", fragment.as_str()), ("localhost", absolute.as_str())]
    {
        let all = [pseudo[0], pseudo[1], (":authority", authority), (":path", path)];
        let outcome = raw.exchange(&headers(&all));
        assert!(!matches!(outcome, Outcome::Status(200)), "{path}: {outcome:?}");
    }
}

/// Sends marks wherever QUIC and HTTP/3 have room for them, on several connections.
fn send_everywhere(server: SocketAddr) {
    let mut raw = Raw::ready(server);
    send_valid(&mut raw);
    send_malformed(&mut raw);
    raw.act(&Act::Send(CONTROL, frame(UNKNOWN, MARK.as_bytes())));
    // A stream of a type that no RFC defines.
    raw.act(&Act::Send(14, [varint(UNKNOWN), MARK.into()].concat()));
    raw.settle();
    raw.close(MARK.as_bytes());
    // An instruction of QPACK that inserts a field.
    let mut raw = Raw::ready(server);
    let insert = [vec![2, 0x40 | 6], MARK.into(), vec![6], MARK.into()].concat();
    raw.act(&Act::Send(ENCODER, insert));
    raw.closed();
    // Names and values by which a field section is no section.
    let mut raw = Raw::ready(server);
    raw.exchange(&frame(1, &[&[0xff, 0xff][..], MARK.as_bytes()].concat()));
    // SETTINGS that are none.
    let mut raw = Raw::connect(server);
    raw.act(&Act::Send(CONTROL, [control(&[]), frame(4, MARK.as_bytes())].concat()));
    raw.closed();
}

/// Sends an Initial with a token full of marks, to a server that sends Retry.
fn send_token(server: SocketAddr, folder: &Folder) {
    run(async {
        let client = Client::new(folder);
        for token in [MARK.repeat(14), MARK.to_owned()] {
            let session = client.connect_with_token(server, token.into_bytes()).await;
            session.connection.close(1u32.into(), MARK.as_bytes());
        }
        client.endpoint.wait_idle().await;
    });
}

/// Sends marks to the admin address.
fn send_to_admin(admin: SocketAddr) {
    for request in [
        format!("GET /metrics?{MARK} HTTP/1.1\r\nhost: {MARK}\r\ncookie: {MARK}\r\n\r\n"),
        format!("GET /{MARK} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("{MARK}\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        // It may close without a response.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

/// Sends everything to a server, and returns all that it wrote: each text with its origin.
fn written(change: impl Fn(Setup) -> Setup) -> Vec<(String, String)> {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("site")).unwrap();
    std::fs::write(folder.path("site/page.html"), MARK).unwrap();
    let setup = change(everything(upstream()));
    let mut server = Server::start(&setup, &folder);
    let (at, admin) = (server.address(), address(&mut server));
    send_token(at, &folder);
    send_everywhere(at);
    send_to_admin(admin);
    // A reload that is refused, because of a field's value.
    let wrong = change(everything(upstream())).with(&format!(
        "[[route]]\npath = \"/x\"\nfixed = {{ status = 204 }}\nresponse_headers = {{ set = {{ x-own = \"{MARK}\\u0007\" }} }}"
    ));
    server.reload(&wrong, &folder, "configuration refused");
    // Early data; a Retry would delay it.
    let calm = change(everything(upstream())).replace("retry_above = 0", "retry_above = 1000");
    server.reload(&calm, &folder, "configuration reloaded");
    let mut raw = Raw::ready(at);
    raw.exchange(&marked("GET", "/"));
    let session = raw.session();
    drop(raw);
    let mut early = Raw::resume(at, &session, &marked("GET", "/files/page.html"));
    assert_eq!(early.outcome(0), Outcome::Status(200));
    assert!(early.is_resumed());
    drop(early);
    let mut all = vec![("metrics".to_owned(), get(admin, "/metrics").1)];
    all.push(("log".to_owned(), server.process.last_words().join("\n")));
    let mut check = Process::start(&["check", "sluicegate.toml"], &folder.path(""));
    assert_eq!(check.wait().code(), Some(0));
    all.push(("check".to_owned(), check.said.join("\n")));
    files(&folder.path(""), &mut all);
    all
}

/// Adds the content of every file below `folder` that the test did not write.
fn files(folder: &Path, all: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if OWN.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), all);
        } else {
            let bytes = std::fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            all.push((format!("{}", entry.path().display()), text));
        }
    }
}

/// Returns the forms in which a mark may be written: as it is, in hexadecimal digits, and as Rust prints bytes.
fn forms() -> [String; 4] {
    let bytes = MARK.as_bytes();
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let printed = [format!("{bytes:?}"), format!("{bytes:x?}")];
    let [decimal, hexadecimal] = printed.map(|text| text.trim_matches(['[', ']']).to_owned());
    [MARK.to_owned(), hex, decimal, hexadecimal]
}

fn find<'a>(all: &'a [(String, String)], name: &str) -> impl Iterator<Item = &'a str> {
    let found = all.iter().filter(move |(origin, _)| origin.contains(name));
    found.map(|(_, text)| text.as_str())
}

#[test]
fn no_secret_stands_in_anything_that_the_process_writes() {
    let all = written(|setup| setup);
    for (origin, text) in &all {
        for form in forms() {
            let lines: Vec<&str> = text.lines().filter(|line| line.contains(&form)).collect();
            assert!(lines.is_empty(), "{origin}: {lines:#?}");
        }
    }
    // Secrets of the server's own are in its state directory alone.
    let kept = find(&all, "/state/").flat_map(str::split_whitespace);
    let kept: Vec<&str> = kept.filter(|word| word.len() == 64).collect();
    assert!(!kept.is_empty());
    let others = all.iter().filter(|(origin, _)| !origin.contains("/state/"));
    for (origin, text) in others {
        assert!(kept.iter().all(|secret| !text.contains(secret)), "{origin}");
    }
    // What is searched is there, and tells of the requests.
    let traces: Vec<&str> = find(&all, "/traces/").collect();
    for part in [
        "\"cookie\"",
        "\"set-cookie\"",
        "\"x-late\"",
        "/up/ok?<redacted>",
        "\"reason\":\"<redacted>\"",
    ] {
        assert!(traces.iter().any(|trace| trace.contains(part)), "{part}");
    }
    let log: String = find(&all, "log").collect();
    for part in ["an upstream failed", "configuration refused", "/up/bad-head", "/files/none.html"]
    {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(
        find(&all, "metrics").any(|page| page.contains("sluicegate_connections_accepted_total"))
    );
}

/// What the search finds where an operator asks for values: the marks do reach the writers.
#[test]
fn secrets_that_are_asked_for_are_found() {
    let all = written(|setup| {
        setup
            .replace(
                "level = \"extra\"",
                "level = \"extra\"\nfields = [\"cookie\", \"x-late\"]\nquery = true",
            )
            .replace("file = \"access.log\"", "file = \"access.log\"\nquery = true")
    });
    for part in ["id=S3CR3T", "/up/ok?q=S3CR3T", "\"x-late\",\"value\":\"S3CR3T\""] {
        assert!(find(&all, "/traces/").any(|trace| trace.contains(part)), "{part}");
    }
    assert!(find(&all, "access.log").any(|log| log.contains("/up/ok?q=S3CR3T")));
    assert!(find(&all, "/traces/").all(|trace| !trace.contains("Bearer")));
}
