//! What `check` and the log say before it hurts.

use boring::asn1::Asn1Time;
use boring::hash::MessageDigest;
use boring::x509::X509;

use crate::server::{Folder, Process, Server, Setup, field};

const LISTENER: &str = "[[listener]]\nname = \"main\"\naddress = \"127.0.0.1:0\"\n\
                        tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n";
const ROUTE: &str = "[[route]]\npath = \"/\"\nfixed = {}\n";

/// Returns the exit code and the lines of `sluicegate check` with these arguments.
fn check(folder: &Folder, text: &str, arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    std::fs::write(folder.path("checked.toml"), text).unwrap();
    let arguments = [&["check", "checked.toml"], arguments].concat();
    let mut process = Process::start(&arguments, &folder.path(""));
    let code = process.wait().code();
    (code, std::mem::take(&mut process.said))
}

/// Replaces the folder's certificate by one with other times, in seconds since 1970.
fn valid(folder: &Folder, from: i64, to: i64) {
    let pem = std::fs::read(folder.path("cert.pem")).unwrap();
    let key = std::fs::read(folder.path("key.pem")).unwrap();
    let key = boring::pkey::PKey::private_key_from_pem(&key).unwrap();
    let old = X509::from_pem(&pem).unwrap();
    let mut new = X509::builder().unwrap();
    new.set_version(2).unwrap();
    new.set_pubkey(&key).unwrap();
    new.set_subject_name(old.subject_name()).unwrap();
    new.set_issuer_name(old.subject_name()).unwrap();
    let time = |seconds| Asn1Time::from_unix(seconds).unwrap();
    new.set_not_before(&time(from)).unwrap();
    new.set_not_after(&time(to)).unwrap();
    new.sign(&key, MessageDigest::sha256()).unwrap();
    std::fs::write(folder.path("cert.pem"), new.build().to_pem().unwrap()).unwrap();
}

#[test]
fn a_configuration_without_mistakes_is_ok_in_one_line() {
    let folder = Folder::new();
    let text = format!("{LISTENER}{ROUTE}");
    assert_eq!(check(&folder, &text, &[]), (Some(0), vec!["ok".to_owned()]));
    let (code, said) = check(&folder, &text, &["--print"]);
    assert_eq!(code, Some(0));
    assert!(said.iter().any(|line| line == "[quic]") && said.len() > 100, "{said:?}");
}

#[test]
fn check_warns_of_what_is_likely_to_be_a_mistake() {
    let folder = Folder::new();
    let variable = "request_headers.set = { x-host = \"$host\" }\n";
    let php = |path: &str, limit: u64| {
        format!(
            "[[route]]\npath = \"{path}\"\n\
             fastcgi = {{ server = \"127.0.0.1\", root = \".\", max_connections = {limit} }}\n"
        )
    };
    for (text, parts) in [
        (LISTENER.to_owned(), &["WARN", "no [[route]]", "404"][..]),
        (format!("{LISTENER}{ROUTE}{variable}"), &["WARN", "x-host", "$host", "write {host}"]),
        (
            format!("{LISTENER}{}{}", php("/", 16), php("/login/", 0)),
            &["WARN", "fastcgi://127.0.0.1:9000", "`max_connections`"],
        ),
        (
            format!("{LISTENER}[[route]]\npath = [\"/a/*\", \"~ ^/b*$\"]\nfixed = {{}}\n"),
            &["WARN", "path=/a/*", "regular expression"],
        ),
    ] {
        // Whatever the server itself would log.
        for log in ["", "[log]\nlevel = \"error\"\nformat = \"json\"\n"] {
            let (code, said) = check(&folder, &format!("{text}{log}"), &[]);
            assert_eq!((code, said.len()), (Some(0), 2), "{said:?}");
            let warning = said.iter().find(|line| *line != "ok").unwrap();
            for part in parts {
                assert!(warning.contains(part), "{part}: {said:?}");
            }
        }
    }
}

#[test]
fn certificates_out_of_their_time_are_named_with_the_date() {
    let folder = Folder::new();
    let text = format!("{LISTENER}{ROUTE}");
    for (from, to, parts) in [
        (0, 1_700_000_000, &["has expired", "2023-11-14T22:13:20Z"][..]),
        (4_000_000_000, 4_100_000_000, &["not valid yet", "2096-10-02T07:06:40Z"]),
    ] {
        valid(&folder, from, to);
        let (code, said) = check(&folder, &text, &[]);
        assert_eq!(code, Some(0), "{said:?}");
        for part in parts {
            assert!(said.iter().any(|line| line.contains(part)), "{part}: {said:?}");
        }
        let mut server = Server::start(&Setup::of(text.clone()), &folder);
        server.process.line_with(parts);
        server.process.last_words();
    }
}

#[test]
fn a_name_without_an_address_is_named_at_the_start_and_by_check_if_asked() {
    let folder = Folder::new();
    let proxy = "[[route]]\npath = \"/\"\nproxy = { upstreams = \"app.invalid:80\" }\n";
    let text = format!("{LISTENER}{proxy}");
    // No network is needed.
    assert_eq!(check(&folder, &text, &[]), (Some(0), vec!["ok".to_owned()]));
    let (code, said) = check(&folder, &text, &["--resolve"]);
    assert_eq!((code, said.len()), (Some(2), 1), "{said:?}");
    assert!(said[0].contains("app.invalid has no address"), "{said:?}");
    let known = text.replace("app.invalid", "localhost");
    assert_eq!(check(&folder, &known, &["--resolve"]).0, Some(0));
    let mut server = Server::start(&Setup::of(text), &folder);
    server.process.line_with(&["WARN", "app.invalid", "has no address"]);
    server.process.last_words();
}

#[test]
fn the_log_says_who_is_ready_and_who_has_stopped() {
    let folder = Folder::new();
    let mut server = Server::start(&Setup::of(format!("{LISTENER}{ROUTE}")), &folder);
    let line = server.process.line_with(&["ready"]);
    assert_eq!(field(&line, "version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(field(&line, "pid"), server.process.id().to_string());
    assert_eq!(field(&line, "config"), folder.path("sluicegate.toml").display().to_string());
    let said = server.process.last_words();
    assert!(said.last().unwrap().contains("stopped"), "{said:?}");
}

#[test]
fn run_takes_a_file_as_check_does() {
    let folder = Folder::new();
    std::fs::write(folder.path("edge.toml"), format!("{LISTENER}{ROUTE}")).unwrap();
    let mut process = Process::start(&["run", "edge.toml"], &folder.path(""));
    let line = process.line_with(&["ready"]);
    assert!(field(&line, "config").ends_with("/edge.toml"), "{line}");
    process.last_words();
}

#[test]
fn a_port_in_use_is_said_once() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = format!("{LISTENER}{ROUTE}").replace("127.0.0.1:0", &address);
    std::fs::write(folder.path("taken.toml"), text).unwrap();
    let mut process = Process::start(&["run", "-c", "taken.toml"], &folder.path(""));
    assert_ne!(process.wait().code(), Some(0));
    let said = process.said.join("\n").to_lowercase();
    assert_eq!(said.matches("already in use").count(), 1, "{said}");
}

#[test]
fn secrets_in_fields_are_not_printed() {
    let folder = Folder::new();
    let secret =
        "request_headers.set = { authorization = \"Bearer hidden\", x-edge = \"shown\" }\n";
    let text = format!("{LISTENER}{ROUTE}{secret}");
    let (code, said) = check(&folder, &text, &["--print"]);
    let said = said.join("\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("shown") && said.contains("<redacted>"), "{said}");
    assert!(!said.contains("hidden"), "{said}");
}

/// Other programs of the server's user may not read its memory: the kernel gives its files in /proc to root.
#[test]
fn memory_is_private_unless_core_dumps_are_wanted() {
    use std::os::unix::fs::MetadataExt as _;
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    for (server_table, is_private) in [("", true), ("[server]\ncore_dumps = true\n", false)] {
        let folder = Folder::new();
        let text = format!("{LISTENER}{ROUTE}{server_table}");
        let mut server = Server::start(&Setup::of(text), &folder);
        let limits = format!("/proc/{}/environ", server.process.id());
        let owner = std::fs::metadata(&limits).unwrap().uid();
        // Root owns its files in any case, so only others can tell.
        let expected = if is_private { 0 } else { own };
        assert_eq!(owner, expected);
        server.process.last_words();
    }
}

/// The flags of a download: methods, fields, data and redirects.
#[test]
fn get_sends_data_and_follows_redirects() {
    let folder = Folder::new();
    let text = format!(
        "{LISTENER}[[route]]\npath = \"/new\"\nfixed = {{ body = \"new\" }}\n\
         [[route]]\npath = \"/old\"\nredirect = {{ location = \"/new\", status = 307 }}\n\
         [[route]]\npath = \"/loop\"\nredirect = {{ location = \"/loop\", status = 302 }}\n\
         [[route]]\npath = \"/post\"\nmethod = \"POST\"\nfixed = {{ body = \"posted\" }}\n\
         [[route]]\npath = \"/beta\"\nmatch_headers = \"x-beta: 1\"\nfixed = {{ body = \"beta\" }}\n"
    );
    let mut server = Server::start(&Setup::of(text), &folder);
    let at = format!("https://{}", server.address());
    let get = |arguments: &[&str], path: &str| {
        let url = format!("{at}{path}");
        let arguments = [&["get", "-k"], arguments, &[&*url]].concat();
        let mut process = Process::start(&arguments, &folder.path(""));
        let code = process.wait().code();
        (code, process.said.join("\n"))
    };
    assert_eq!(get(&["-d", "a=1"], "/post"), (Some(0), "posted".to_owned()));
    assert_eq!(get(&["-X", "POST"], "/post"), (Some(0), "posted".to_owned()));
    assert_eq!(get(&["-H", "X-Beta: 1"], "/beta"), (Some(0), "beta".to_owned()));
    let (code, said) = get(&["-i"], "/old");
    assert!(code == Some(0) && said.contains("307") && said.contains("location: "), "{said}");
    let (code, said) = get(&["-iL", "-H", "x-beta: 1"], "/old");
    assert!(code == Some(0) && said.contains("307") && said.contains("HTTP/3 200"), "{said}");
    let (code, said) = get(&["-L"], "/loop");
    assert!(code == Some(1) && said.contains("more than 50 redirects"), "{said}");
    // A large body arrives whole.
    std::fs::write(folder.path("large"), vec![b'x'; 900 << 10]).unwrap();
    let (code, said) = get(&["--data-binary", "@large"], "/post");
    assert_eq!((code, &*said), (Some(0), "posted"));
    let (code, said) = get(&["-d", "@none"], "/post");
    assert!(code == Some(1) && said.contains("cannot read none"), "{said}");
    server.process.last_words();
}
