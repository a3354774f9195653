//! The pair's QUIC half: what both ends allow, and packets from one to the other.

use std::net::SocketAddr;

use crate::quic::transport::Identity;

/// Small windows, no check of certificates.
fn transport() -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config
        .set_application_protos(quiche::h3::APPLICATION_PROTOCOL)
        .unwrap();
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_local(64 << 10);
    config.set_initial_max_stream_data_bidi_remote(64 << 10);
    config.set_initial_max_stream_data_uni(64 << 10);
    config.set_initial_max_streams_bidi(500);
    config.set_initial_max_streams_uni(8);
    config.verify_peer(false);
    config
}

/// With a certificate.
fn identified(mut config: quiche::Config) -> quiche::Config {
    let made = Identity::self_signed().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (cert, key) = (directory.path().join("c"), directory.path().join("k"));
    std::fs::write(&cert, made.chain).unwrap();
    std::fs::write(&key, made.key).unwrap();
    config
        .load_cert_chain_from_pem_file(cert.to_str().unwrap())
        .unwrap();
    config
        .load_priv_key_from_pem_file(key.to_str().unwrap())
        .unwrap();
    config
}

/// Whether there was anything.
pub(super) fn carry(from: &mut quiche::Connection, to: &mut quiche::Connection) -> bool {
    let mut buffer = [0; 1500];
    let mut moved = false;
    while let Ok((count, info)) = from.send(&mut buffer) {
        moved = true;
        let info = quiche::RecvInfo {
            from: info.from,
            to: info.to,
        };
        let _ = to.recv(&mut buffer[..count], info);
    }
    moved
}

/// A client and a server that have met.
pub(super) fn connected() -> (quiche::Connection, quiche::Connection) {
    met(&mut transport(), &mut identified(transport()))
}

/// A client that resumes a session, and a server that has received its first packets and sent none.
pub(super) fn in_early_data() -> (quiche::Connection, quiche::Connection) {
    let (mut near, mut far) = (transport(), identified(transport()));
    near.enable_early_data();
    far.enable_early_data();
    let (first, _) = met(&mut near, &mut far);
    let ticket = first.session().unwrap().to_vec();
    let (mut client, mut server) = strangers(&mut near, &mut far);
    client.set_session(&ticket).unwrap();
    carry(&mut client, &mut server);
    assert!(client.is_in_early_data() && server.is_in_early_data());
    (client, server)
}

fn met(
    near: &mut quiche::Config,
    far: &mut quiche::Config,
) -> (quiche::Connection, quiche::Connection) {
    let (mut client, mut server) = strangers(near, far);
    for _ in 0..10 {
        carry(&mut client, &mut server);
        carry(&mut server, &mut client);
    }
    assert!(client.is_established() && server.is_established());
    (client, server)
}

fn strangers(
    client: &mut quiche::Config,
    server: &mut quiche::Config,
) -> (quiche::Connection, quiche::Connection) {
    let [a, b]: [SocketAddr; 2] = ["127.0.0.1:1111", "127.0.0.1:2222"].map(|a| a.parse().unwrap());
    let (near, far) = ([1; 16], [2; 16]);
    let (near, far) = (
        quiche::ConnectionId::from_ref(&near),
        quiche::ConnectionId::from_ref(&far),
    );
    let client = quiche::connect(Some("localhost"), &near, a, b, client).unwrap();
    let server = quiche::accept(&far, None, b, a, server).unwrap();
    (client, server)
}
