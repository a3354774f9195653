//! Certificates by ACME, from pebble, an authority for tests that nobody here wrote. It refuses one nonce in twenty.

mod pebble;

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use boring::x509::X509;

use self::pebble::{Pebble, Ports};
use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::{Client, run};
use crate::server::{Folder, PAGE, Server, Setup};

/// Validity of a certificate that no test waits for, seconds.
const QUARTER: u64 = 7_776_000;
const NAMES: &str = "[\"localhost\", \"a.example\"]";
const ISSUED: &str = "sluicegate_acme_certificates_issued_total";
const EXPIRY: &str = "sluicegate_certificate_expiry_timestamp_seconds{listener=\"main\"";
const IN_USE: [&str; 1] = ["certificates of ACME are in use"];

/// Returns the setup of a server that obtains a certificate for `names` from an authority, and listens where it validates.
fn setup(folder: &Folder, ports: &Ports, port: u16, names: &str, keys: &str) -> Setup {
    let state = folder.path("state");
    Setup::new("mio")
        .with(ADMIN)
        .with(&format!("[server]\nstate_dir = {state:?}"))
        .with(&ports.table(folder, keys))
        .with(&format!(
            "[[listener]]\nname = \"main\"\naddress = \"127.0.0.1:{port}\"\n[listener.tls]\nacme = {names}"
        ))
}

/// Gets the page over TCP by curl, which trusts `root` alone; returns whether it trusts the server.
fn is_trusted(server: &Server, folder: &Folder, root: &str) -> bool {
    let file = folder.path("root.pem");
    std::fs::write(&file, root).unwrap();
    let port = server.address().port();
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--cacert"])
        .arg(file)
        .args(["--resolve", &format!("a.example:{port}:127.0.0.1")])
        .arg(format!("https://a.example:{port}/"))
        .output()
        .unwrap();
    // 60: the certificate is not trusted.
    assert!(matches!(output.status.code(), Some(0 | 60)), "{output:?}");
    output.status.success() && output.stdout == PAGE.as_bytes()
}

/// Asserts that a client of HTTP/3 that trusts `root` alone gets the page.
fn assert_trusted_over_quic(server: &Server, root: &str) {
    let mut folder = Folder::new();
    let root = X509::from_pem(root.as_bytes()).unwrap();
    folder.certificate = root.to_der().unwrap().into();
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
}

#[test]
fn certificate_is_obtained_by_tls_alpn_01_and_kept_over_a_restart() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    let root = pebble.root(&folder);
    let setup = setup(&folder, &ports, ports.tls, NAMES, "challenges = \"tls-alpn-01\"");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    server.process.line_with(&["no certificate yet", "localhost"]);
    server.process.line_with(&IN_USE);
    assert!(is_trusted(&server, &folder, &root));
    assert_trusted_over_quic(&server, &root);
    let found = metrics(admin);
    assert_eq!(found[ISSUED], 1.0);
    let renewal = found["sluicegate_acme_next_attempt_timestamp_seconds{name=\"localhost\"}"];
    assert!(0.0 < renewal && renewal < sum(&found, EXPIRY), "{found:?}");
    drop(server);
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    assert!(is_trusted(&server, &folder, &root));
    assert_eq!(metrics(admin)[ISSUED], 0.0);
    assert!(!server.process.has_said("no certificate yet"));
}

/// Sends everybody who asks over plain HTTP to `port`, by HTTPS.
fn redirect(http: u16, port: u16) {
    let socket = TcpListener::bind(("127.0.0.1", http)).unwrap();
    std::thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            let mut host = String::new();
            while stream.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(path) = line.strip_prefix("GET ") {
                    let path = path.split(' ').next().unwrap();
                    host = format!("https://localhost:{port}{path}");
                }
                line.clear();
            }
            let head = "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\nConnection: close\r\n";
            let _ = write!(stream.get_mut(), "{head}Location: {host}\r\n\r\n");
        }
    });
}

#[test]
fn certificate_is_obtained_by_http_01_in_front_of_all_routes() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    redirect(ports.http, ports.tls);
    let setup = setup(&folder, &ports, ports.tls, NAMES, "challenges = \"http-01\"");
    let mut server = Server::start(&setup, &folder);
    server.process.line_with(&IN_USE);
    assert!(is_trusted(&server, &folder, &pebble.root(&folder)));
}

#[test]
fn certificate_is_obtained_by_http_01_at_an_address_without_tls() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    let http = format!("http_address = \"127.0.0.1:{}\"\n[listener.tls]", ports.http);
    let setup = setup(&folder, &ports, 0, NAMES, "challenges = \"http-01\"");
    let mut server = Server::start(&setup.replace("[listener.tls]", &http), &folder);
    server.process.line_with(&IN_USE);
    assert!(is_trusted(&server, &folder, &pebble.root(&folder)));
}

/// Nothing leads to this server: its port is another than the authority would ask at.
#[test]
fn wildcard_and_its_domain_are_proved_by_dns_01() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    let hook = ports.dns_hook(&folder);
    let keys = format!("challenges = \"dns-01\"\ndns_hook = {hook:?}\ndns_delay = \"0s\"");
    let setup = setup(&folder, &ports, 0, "[\"*.a.example\", \"a.example\"]", &keys);
    let mut server = Server::start(&setup, &folder);
    server.process.line_with(&IN_USE);
    assert!(is_trusted(&server, &folder, &pebble.root(&folder)));
    let calls = std::fs::read_to_string(folder.path("calls")).unwrap();
    for action in ["present", "cleanup"] {
        // They share a name in the DNS, which has a record for each.
        let call = format!("{action} _acme-challenge.a.example.");
        assert_eq!(calls.lines().filter(|line| *line == call).count(), 2, "{calls}");
    }
}

#[test]
fn failure_of_the_program_for_dns_is_in_the_log() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(_pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    let hook = folder.path("dns-hook");
    std::fs::write(&hook, "#!/bin/sh\necho no such zone >&2; exit 7\n").unwrap();
    std::fs::set_permissions(&hook, Permissions::from_mode(0o700)).unwrap();
    let keys = format!("challenges = \"dns-01\"\ndns_hook = {hook:?}");
    let mut server = Server::start(&setup(&folder, &ports, 0, "\"*.example\"", &keys), &folder);
    server.process.line_with(&[
        "present _acme-challenge.example.",
        "exit status: 7",
        "no such zone",
    ]);
}

#[test]
fn tls_alpn_01_proves_names_where_clients_must_show_certificates() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(_pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    let keys = "challenges = \"tls-alpn-01\"";
    let setup = setup(&folder, &ports, ports.tls, NAMES, keys)
        .replace("[listener.tls]", "client_ca = \"cert.pem\"\n[listener.tls]");
    let mut server = Server::start(&setup, &folder);
    server.process.line_with(&IN_USE);
}

/// Takes up to 25 s: a certificate that is valid for 30 s is renewed when it is 10 s to 25 s old.
#[test]
fn short_lived_certificate_is_renewed_while_the_server_runs() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(pebble) = Pebble::start(&folder, ports, 30, "") else {
        return;
    };
    let setup = setup(&folder, &ports, ports.tls, NAMES, "email = \"admin@example.com\"");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    server.process.line_with(&IN_USE);
    let first = sum(&metrics(admin), EXPIRY);
    server.process.line_with(&IN_USE);
    assert!(is_trusted(&server, &folder, &pebble.root(&folder)));
    let found = metrics(admin);
    assert!(sum(&found, EXPIRY) > first);
    // What the server renews itself needs no warning.
    assert!(!server.process.has_said("renew it and reload"));
    assert_eq!(sum(&found, "sluicegate_acme_failures_total"), 0.0);
}

#[test]
fn instances_share_certificates_and_respond_to_each_others_challenges() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    let root = pebble.root(&folder);
    let keys = "challenges = \"tls-alpn-01\"";
    // The one to which the authority connects has a certificate already when the other asks for its own.
    let other = "\"b.example\"";
    let mut first = Server::start(&setup(&folder, &ports, ports.tls, other, keys), &folder);
    first.process.line_with(&IN_USE);
    let second = Folder::new();
    let state = format!("state_dir = {:?}", folder.path("state"));
    let of_second = setup(&second, &ports, 0, NAMES, keys)
        .replace(&format!("state_dir = {:?}", second.path("state")), &state)
        .replace(
            second.path("cert.pem").to_str().unwrap(),
            folder.path("cert.pem").to_str().unwrap(),
        );
    let mut second_server = Server::start(&of_second, &second);
    let admin = address(&mut second_server);
    second_server.process.line_with(&IN_USE);
    assert_eq!(metrics(admin)[ISSUED], 1.0);
    assert!(is_trusted(&second_server, &folder, &root));
    // A third one finds the certificate, and so does one that reads it in a reload.
    let both = setup(&folder, &ports, ports.tls, NAMES, keys);
    first.reload(&both, &folder, "reloaded");
    assert!(is_trusted(&first, &folder, &root));
}

#[test]
fn without_a_directory_clients_get_a_self_signed_certificate_until_a_reload_finds_it() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let setup = setup(&folder, &ports, ports.tls, NAMES, "");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let line = server.process.line_with(&["no certificate was obtained"]);
    assert!(line.contains("clients get a self-signed one"), "{line}");
    assert!(line.contains("check acme.directory"), "{line}");
    let failures = "sluicegate_acme_failures_total{reason=\"directory\"}";
    assert_eq!(metrics(admin)[failures], 1.0);
    let Some(pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    let root = pebble.root(&folder);
    assert!(!is_trusted(&server, &folder, &root));
    server.reload(&setup, &folder, "reloaded");
    server.process.line_with(&IN_USE);
    assert!(is_trusted(&server, &folder, &root));
}

#[test]
fn failed_challenge_is_logged_with_cause_and_remedy() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let Some(_pebble) = Pebble::start(&folder, ports, QUARTER, "") else {
        return;
    };
    // Nobody listens where the authority connects to.
    let setup = setup(&folder, &ports, 0, NAMES, "challenges = \"tls-alpn-01\"");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let line = server.process.line_with(&["no certificate was obtained"]);
    for part in ["TlsAlpn01 for ", "Failed to connect", "at port 443 for tls-alpn-01"] {
        assert!(line.contains(part), "{line}");
    }
    let failures = "sluicegate_acme_failures_total{reason=\"challenge\"}";
    assert_eq!(metrics(admin)[failures], 1.0);
    let left = std::fs::read_dir(folder.path("state/acme/challenges")).unwrap();
    assert_eq!(left.count(), 0, "its response is withdrawn");
}

#[test]
fn account_of_the_operator_is_bound_where_the_authority_wants_one() {
    let (folder, ports) = (Folder::new(), Ports::free());
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let external = format!(
        "\"externalAccountBindingRequired\": true, \"externalAccountMACKeys\": {{ \"kid-1\": {key:?} }},"
    );
    let Some(pebble) = Pebble::start(&folder, ports, QUARTER, &external) else {
        return;
    };
    let without = setup(&folder, &ports, ports.tls, NAMES, "");
    let mut server = Server::start(&without, &folder);
    let line = server.process.line_with(&["no certificate was obtained"]);
    assert!(line.contains("check acme.email, acme.external_id"), "{line}");
    std::fs::write(folder.path("external.key"), key).unwrap();
    let keys = "external_id = \"kid-1\"\nexternal_key = \"external.key\"";
    let with = setup(&folder, &ports, ports.tls, NAMES, keys);
    server.reload(&with, &folder, "reloaded");
    server.process.line_with(&IN_USE);
    assert!(is_trusted(&server, &folder, &pebble.root(&folder)));
}
