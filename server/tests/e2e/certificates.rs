//! Certificates of a listener: by name, over TCP, with sessions that any instance resumes; and those about to expire.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::ssl::{SslConnector, SslMethod, SslVerifyMode};
use boring::x509::X509;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};
use sluicegate_base::self_signed;
use tokio::task::{LocalSet, spawn_local};

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, run};
use crate::on_every_backend;
use crate::server::{Folder, PAGE, Server, Setup};
use crate::tcp::{PROTOCOLS, curl};
use crate::transfer::{aioquic, get_by_aioquic};

on_every_backend!(handshakes_with_a_key_of_rsa_are_served);

/// Writes a certificate for `names` and its key into a folder; returns the table that names them.
pub(crate) fn certificate(folder: &Folder, file: &str, names: &[&str]) -> String {
    let key = self_signed::key().unwrap();
    let made = self_signed::certificate(&key, names, &[1], sluicegate_base::clock::unix()).unwrap();
    let write = |name: String, pem: Vec<u8>| {
        let path = folder.path(&name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    let certificate = write(format!("{file}.pem"), made.to_pem().unwrap());
    let key = key.private_key_to_pem_pkcs8().unwrap();
    let key = write(format!("{file}-key.pem"), key);
    format!("[[listener.tls]]\ncertificate = {certificate:?}\nkey = {key:?}\n")
}

/// Returns the names of the certificate that a client gets over TCP if it asks for `name` and has these groups alone.
fn presented(server: SocketAddr, name: &str, groups: &str) -> Vec<String> {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    connector.set_curves_list(groups).unwrap();
    let mut connector = connector.build().configure().unwrap();
    connector.set_verify_hostname(false);
    let stream = TcpStream::connect(server).unwrap();
    let stream = connector.connect(name, stream).unwrap();
    assert_eq!(stream.ssl().curve_name(), Some(groups));
    let certificate = stream.ssl().peer_certificate().unwrap();
    let names = certificate.subject_alt_names().unwrap();
    let names = names.iter().filter_map(|name| name.dnsname());
    names.map(str::to_owned).collect()
}

/// Connects over TCP; returns how the handshake was, once the server's tickets are there.
fn handshake(config: &Arc<ClientConfig>, server: SocketAddr, name: &str) -> HandshakeKind {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = TcpStream::connect(server).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    std::io::Write::write_all(&mut tls, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = Vec::new();
    tls.read_to_end(&mut response).unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"));
    connection.handshake_kind().unwrap()
}

#[test]
fn names_choose_certificates_over_tcp_and_every_worker_and_instance_resumes_sessions() {
    let folder = Folder::new();
    let mut listener = "[[listener]]\nname = \"main\"\naddress = \"127.0.0.1:0\"\n".to_owned();
    for (file, names) in [
        ("first", ["first.example", "a.wild.example"].as_slice()),
        ("wild", &["*.wild.example"]),
        ("other", &["other.example"]),
    ] {
        listener += &certificate(&folder, file, names);
    }
    let secrets = folder.path("secrets.txt");
    let secret: String = (0..32).map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&secrets, format!("{secret}\n")).unwrap();
    let setup = Setup::new("mio")
        .with(&format!("[server]\nsecrets_file = {secrets:?}\nopen_secrets = true"))
        .with(&listener);
    let mut instances = [(); 2].map(|()| Server::start(&setup, &folder));
    let [first, second] = instances.each_ref().map(Server::address);
    for (asked, expected) in [
        ("first.example", "first.example"),
        ("a.wild.example", "first.example"),
        ("B.wild.example", "*.wild.example"),
        ("other.example", "other.example"),
        ("nobody.example", "first.example"),
    ] {
        for groups in ["X25519MLKEM768", "X25519"] {
            assert_eq!(presented(first, asked, groups)[0], expected, "{asked}");
        }
    }
    let mut roots = RootCertStore::empty();
    let wild = std::fs::read(folder.path("wild.pem")).unwrap();
    let wild = X509::from_pem(&wild).unwrap().to_der().unwrap();
    roots.add(wild.into()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let name = "b.wild.example";
    assert_eq!(handshake(&config, first, name), HandshakeKind::Full);
    // The system distributes the connections among the workers.
    for server in [first, second, second, first, second, first, first, second] {
        assert_eq!(handshake(&config, server, name), HandshakeKind::Resumed);
    }
    // With a ticket of the first secret, as whoever has learnt it has one.
    let mut old = (*config).clone();
    old.resumption = Resumption::in_memory_sessions(8);
    let old = Arc::new(old);
    assert_eq!(handshake(&old, first, name), HandshakeKind::Full);
    let next: String = (32..64).map(|byte| format!("{byte:02x}")).collect();
    for lines in [[&*secret, &next].as_slice(), &[&next, &secret], &[&next]] {
        std::fs::write(&secrets, lines.join("\n")).unwrap();
        for instance in &mut instances {
            instance.process.signal("HUP");
            instance.process.line_with(&["configuration reloaded"]);
        }
        // Over each handshake the client gets a new ticket.
        for server in [first, second, first, second] {
            assert_eq!(handshake(&config, server, name), HandshakeKind::Resumed, "{lines:?}");
        }
    }
    assert_eq!(handshake(&old, first, name), HandshakeKind::Full);
}

/// A certificate of ten years, seen from its last days on.
#[test]
fn a_certificate_about_to_expire_is_warned_of_at_start_and_reload_and_shown_in_metrics() {
    let now = sluicegate_base::clock::unix();
    let day = Duration::from_secs(86_400);
    let years = day * 3650;
    for (left, word) in
        [(day * 3 + day / 2, "days=3"), (day / 2, "within a day"), (Duration::ZERO, "has expired")]
    {
        let folder = Folder::new();
        let key = self_signed::key().unwrap();
        let made =
            self_signed::certificate(&key, &["a.example", "b.example"], &[1], now + left - years);
        std::fs::write(folder.path("cert.pem"), made.unwrap().to_pem().unwrap()).unwrap();
        std::fs::write(folder.path("key.pem"), key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        let setup = Setup::new("mio").with(ADMIN).listener("main", "127.0.0.1:0", "cubic");
        let mut server = Server::start(&setup, &folder);
        let admin = address(&mut server);
        let parts = ["listener=main", "name=a.example", word];
        server.process.line_with(&parts);
        let sample =
            "sluicegate_certificate_expiry_timestamp_seconds{listener=\"main\",name=\"a.example\"}";
        let shown = metrics(admin)[sample];
        assert_eq!(shown, (now + left).as_secs_f64().floor(), "{word}");
        server.process.signal("HUP");
        server.process.line_with(&parts);
    }
}

/// Their signatures are made on other threads than the worker's, which meanwhile serves others.
fn handshakes_with_a_key_of_rsa_are_served(backend: &str) {
    let mut folder = Folder::new();
    let key = PKey::from_rsa(Rsa::generate(3072).unwrap()).unwrap();
    let names = ["localhost", "127.0.0.1"];
    let made = self_signed::certificate(&key, &names, &[7], sluicegate_base::clock::unix());
    let made = made.unwrap();
    std::fs::write(folder.path("cert.pem"), made.to_pem().unwrap()).unwrap();
    folder.certificate = made.to_der().unwrap().into();
    std::fs::write(folder.path("key.pem"), key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    let setup = Setup::new(backend).listener("main", "127.0.0.1:0", "cubic");
    let server = Server::start(&setup, &folder);
    let at = server.address();
    run(LocalSet::new().run_until(async {
        let clients = (0..20).map(|_| {
            let client = Client::new(&folder);
            spawn_local(async move { client.connect(at).await.get("/").await.text().await })
        });
        for page in clients.collect::<Vec<_>>() {
            assert_eq!(page.await.unwrap(), PAGE);
        }
    }));
    if let Some(aioquic) = aioquic() {
        get_by_aioquic(aioquic, (&server, &folder), 100_000, None);
    }
    for protocol in PROTOCOLS {
        let page = curl(&server, &folder, &[protocol], "/");
        assert!(page.is_none_or(|page| page == PAGE.as_bytes()));
    }
}
