//! Certificates of clients, over TCP and QUIC.

mod certified;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use self::certified::{Certified, now};
use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::server::{Folder, PAGE, Server, Setup};
use crate::tcp::program;

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

pub(crate) fn setup(keys: &str) -> Setup {
    Setup::new("mio")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .with(ADMIN)
        .with("[access_log]\nfile = \"access.log\"")
        .listener("main", "127.0.0.1:0", "cubic")
        .replace("[listener.tls]", &format!("{keys}\n[listener.tls]"))
}

/// Has a server apply another configuration: whoever connects next is served by it.
pub(crate) fn reload(server: &mut Server, admin: SocketAddr, setup: &Setup, folder: &Folder) {
    server.reload(setup, folder, "reloaded");
    // Fronts respond behind the reload.
    metrics(admin);
}

/// Response to openssl's s_client, which is not of this repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    is_served: bool,
    is_resumed: bool,
}

const REFUSED: Opened = Opened { is_served: false, is_resumed: false };

pub(crate) const FULL: Opened = Opened { is_served: true, is_resumed: false };

const RESUMED: Opened = Opened { is_served: true, is_resumed: true };

/// Gets the page over TCP by openssl, with a certificate if given; `None`, reported as missing, where the host does not have it.
pub(crate) fn open(
    server: &Server,
    folder: &Folder,
    shown: Option<&Certified>,
    words: &[&str],
) -> Option<Opened> {
    let mut command = program("openssl")?;
    command.current_dir(folder.path("")).args(["s_client", "-ign_eof", "-connect"]);
    command.arg(server.address().to_string()).args(words);
    if let Some(Certified { certificate, key }) = shown {
        let pem = [certificate.to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap()];
        std::fs::write(folder.path("shown.pem"), pem.concat()).unwrap();
        command.args(["-cert", "shown.pem", "-key", "shown.pem"]);
    }
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = pipes.spawn().unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // A refused client may have gone.
    let _ = process.stdin.take().unwrap().write_all(request);
    let said = process.wait_with_output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let is_served = said.contains(PAGE);
    Some(Opened { is_served, is_resumed: is_served && said.contains("\nReused, TLS") })
}

/// Returns a client over QUIC.
fn quic_client(folder: &Folder, shown: Option<&Certified>) -> Client {
    match shown {
        None => Client::new(folder),
        Some(Certified { certificate, key }) => {
            let certificate = certificate.to_der().unwrap().into();
            let key = key.private_key_to_der_pkcs8().unwrap();
            Client::showing(folder, certificate, key)
        }
    }
}

/// Returns whether a client over QUIC gets the page.
pub(crate) fn is_served_over_quic(
    server: SocketAddr,
    folder: &Folder,
    shown: Option<&Certified>,
) -> bool {
    run(async { gets_page(&quic_client(folder, shown), server).await })
}

async fn gets_page(client: &Client, server: SocketAddr) -> bool {
    // A client learns of its refusal after its own side of the handshake; one that is served gets a control stream.
    let connection = client.dial(server).await;
    if let Err(error) = connection.accept_uni().await {
        assert!(matches!(error, quinn::ConnectionError::ConnectionClosed(_)), "{error}");
        return false;
    }
    let mut session = client.connect(server).await;
    session.get("/").await.text().await == PAGE
}

/// Returns the subjects in the access log.
fn subjects(folder: &Folder) -> Vec<Value> {
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let records = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.map(|record| record["tls_client"].clone()).collect()
}

#[test]
fn every_client_shows_a_valid_certificate_of_the_authority() {
    let folder = Folder::new();
    let (authority, other) = (Certified::authority("own"), Certified::authority("other"));
    authority.write(&folder, "clients.pem");
    let right = authority.client("app", 1);
    let mut server = Server::start(&setup("client_ca = \"clients.pem\""), &folder);
    let admin = address(&mut server);
    let address = server.address();
    let refused = [None, Some(other.client("app", 1)), Some(authority.client("old", -1))];
    for shown in refused.iter().map(Option::as_ref) {
        for version in VERSIONS {
            let Some(opened) = open(&server, &folder, shown, &[version]) else {
                return;
            };
            assert_eq!(opened, REFUSED);
        }
        assert!(!is_served_over_quic(address, &folder, shown));
    }
    let reason = |reason: &str| {
        let name = "sluicegate_tcp_handshakes_failed_total";
        metrics(admin)[&format!("{name}{{reason=\"{reason}\"}}")]
    };
    assert_eq!((reason("client_certificate"), reason("error")), (6.0, 0.0));
    for version in VERSIONS {
        let opened = open(&server, &folder, Some(&right), &[version]);
        assert_eq!(opened, Some(FULL));
    }
    assert!(is_served_over_quic(address, &folder, Some(&right)));
    server.process.last_words();
    assert_eq!(subjects(&folder), ["CN=app,O=Test"; 3]);
}

#[test]
fn optional_certificates_are_verified_where_clients_show_them() {
    let folder = Folder::new();
    let (authority, other) = (Certified::authority("own"), Certified::authority("other"));
    authority.write(&folder, "clients.pem");
    let keys = "client_ca = \"clients.pem\"\nclient_auth = \"optional\"";
    let mut server = Server::start(&setup(keys), &folder);
    let (right, wrong) = (authority.client("app", 1), other.client("app", 1));
    for (shown, expected) in [(None, FULL), (Some(&right), FULL), (Some(&wrong), REFUSED)] {
        match open(&server, &folder, shown, &[]) {
            None => return,
            Some(opened) => assert_eq!(opened, expected),
        }
    }
    server.process.last_words();
    assert_eq!(subjects(&folder), [Value::Null, "CN=app,O=Test".into()]);
}

#[test]
fn sessions_are_not_resumed_under_another_authority_or_demand() {
    let folder = Folder::new();
    let (authority, other) = (Certified::authority("own"), Certified::authority("other"));
    authority.write(&folder, "clients.pem");
    let client = authority.client("app", 1);
    let required = setup("client_ca = \"clients.pem\"");
    let optional = setup("client_ca = \"clients.pem\"\nclient_auth = \"optional\"");
    let mut server = Server::start(&optional, &folder);
    let admin = address(&mut server);
    for version in VERSIONS {
        let first = |server: &Server, shown| {
            open(server, &folder, shown, &[version, "-sess_out", "session.pem"])
        };
        // Whoever resumes shows no certificate again.
        let again =
            |server: &Server| open(server, &folder, None, &[version, "-sess_in", "session.pem"]);
        if first(&server, None).is_none() {
            return;
        }
        assert_eq!(again(&server), Some(RESUMED), "{version}");
        reload(&mut server, admin, &required, &folder);
        assert_eq!(again(&server), Some(REFUSED), "{version}");
        assert_eq!(first(&server, Some(&client)), Some(FULL), "{version}");
        assert_eq!(again(&server), Some(RESUMED), "{version}");
        other.write(&folder, "clients.pem");
        reload(&mut server, admin, &required, &folder);
        assert_eq!(again(&server), Some(REFUSED), "{version}");
        authority.write(&folder, "clients.pem");
        reload(&mut server, admin, &optional, &folder);
    }
    server.process.last_words();
    let (without, with) = (Value::Null, Value::from("CN=app,O=Test"));
    let expected = [&without, &without, &with, &with].map(Clone::clone);
    assert_eq!(subjects(&folder), [expected.clone(), expected].concat());
}

#[test]
fn sessions_over_quic_are_not_resumed_under_another_authority() {
    let folder = Folder::new();
    let (authority, other) = (Certified::authority("own"), Certified::authority("other"));
    authority.write(&folder, "clients.pem");
    let setup = setup("client_ca = \"clients.pem\"").with("[quic]\nearly_data = true");
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    let Certified { certificate, key } = authority.client("app", 1);
    run(async {
        let certificate = certificate.to_der().unwrap().into();
        let key = key.private_key_to_der_pkcs8().unwrap();
        let client = Client::showing(&folder, certificate, key);
        for _ in 0..2 {
            let mut session = client.connect(server.address()).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
            drop(session);
            client.endpoint.wait_idle().await;
        }
        other.write(&folder, "clients.pem");
        reload(&mut server, admin, &setup, &folder);
        let connection = client.dial(server.address()).await;
        let refused = connection.accept_uni().await.unwrap_err();
        assert!(matches!(refused, quinn::ConnectionError::ConnectionClosed(_)), "{refused}");
    });
    server.process.last_words();
    let log = std::fs::read_to_string(folder.path("access.log")).unwrap();
    let resumed: Vec<Value> = { log.lines() }
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["tls_resumed"].clone())
        .collect();
    assert_eq!(resumed, [false, true]);
    assert_eq!(subjects(&folder), ["CN=app,O=Test"; 2]);
}

/// Takes more than 10 s: it waits for the end of a certificate, which must be valid until all sessions are open.
#[test]
fn sessions_end_when_the_certificate_of_their_client_expires() {
    let folder = Folder::new();
    let authority = Certified::authority("own");
    authority.write(&folder, "clients.pem");
    let mut server = Server::start(&setup("client_ca = \"clients.pem\""), &folder);
    let address = server.address();
    let renewed = authority.client("app", 1);
    // A busy host may need longer than the first certificate is valid.
    let is_shown = [10, 60].into_iter().any(|seconds| {
        let end = now() + seconds;
        let client = authority.client_until("app", end);
        let resume = |version: &str, shown: Option<&Certified>| {
            let file = format!("session{version}.pem");
            let words = [version, "-sess_in", &file, "-sess_out", &file];
            open(&server, &folder, shown, &words)
        };
        for version in VERSIONS {
            let file = format!("session{version}.pem");
            let words = [version, "-sess_out", &file];
            let Some(opened) = open(&server, &folder, Some(&client), &words) else {
                return true;
            };
            // The ticket of a resumed session is no better.
            if opened != FULL || resume(version, None) != Some(RESUMED) {
                return false;
            }
        }
        run(async {
            let quic = quic_client(&folder, Some(&client));
            if !gets_page(&quic, address).await {
                return false;
            }
            while now() <= end {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            assert!(!gets_page(&quic, address).await);
            true
        }) && VERSIONS.iter().all(|version| {
            assert_eq!(resume(version, None), Some(REFUSED), "{version}");
            assert_eq!(resume(version, Some(&renewed)), Some(FULL), "{version}");
            true
        })
    });
    assert!(is_shown, "the host is too busy");
    server.process.last_words();
}

#[test]
fn files_without_authorities_refuse_a_reload_with_their_key() {
    let folder = Folder::new();
    let mut server = Server::start(&setup(""), &folder);
    std::fs::write(folder.path("clients.pem"), "no PEM").unwrap();
    for file in ["none.pem", "clients.pem"] {
        let line = server.reload(&setup(&format!("client_ca = {file:?}")), &folder, "refused");
        assert!(line.contains(file), "{line}");
    }
    assert!(is_served_over_quic(server.address(), &folder, None));
}
