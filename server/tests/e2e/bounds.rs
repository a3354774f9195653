//! Limits on what a client may hold open, and for how long.

use quinn::ConnectionError;

use crate::client::{Client, run};
use crate::on_auto;
use crate::relay::Relay;
use crate::server::{Folder, PAGE, Server, Setup, total};

on_auto!(
    a_client_with_its_share_of_connections_is_refused_until_one_of_them_ends,
    a_handshake_that_takes_too_long_is_ended,
);

/// Starts a server with one worker and these limits.
fn start(backend: &str, limits: &str, folder: &Folder) -> Server {
    let setup = Setup::new(backend)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&format!("[limits]\n{limits}"));
    Server::start(&setup, folder)
}

fn a_client_with_its_share_of_connections_is_refused_until_one_of_them_ends(backend: &str) {
    let folder = Folder::new();
    let mut server = start(backend, "connections_per_client = 2", &folder);
    run(async {
        let client = Client::new(&folder);
        let first = client.connect(server.address()).await;
        let mut second = client.connect(server.address()).await;
        let address = server.address();
        // The refusal is the server's word and no time-out.
        let ConnectionError::ConnectionClosed(close) = client.refusal(address).await else {
            panic!("not refused by the server's transport")
        };
        assert_eq!(u64::from(close.error_code), 0x2);
        let other = Client::bound(&folder, [127, 0, 0, 2].into());
        for _ in 0..3 {
            let mut session = other.connect(address).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
            assert_eq!(second.get("/").await.text().await, PAGE);
            drop(session);
            other.endpoint.wait_idle().await;
        }
        drop(first);
        let mut third = client.connect_when_accepted(address).await;
        assert_eq!(third.get("/").await.text().await, PAGE);
    });
    let said = server.process.last_words();
    assert!(total(&said, "connections", "refused") >= 1);
    let mut reasons = said.iter().filter(|line| line.contains("connections refused"));
    let reason = "reason=\"connections_per_client\"";
    assert!(reasons.all(|line| line.contains(reason)), "{said:#?}");
    assert_eq!(total(&said, "connections", "established"), 6);
}

/// The client hears the server's words and takes the handshake for done; what it sends is lost.
fn a_handshake_that_takes_too_long_is_ended(backend: &str) {
    let folder = Folder::new();
    // Long enough for the second client on a busy machine.
    let mut server = start(backend, "handshake_timeout = \"3s\"", &folder);
    run(async {
        let relay = Relay::start_for(server.address(), 1).await;
        let client = Client::new(&folder);
        let connection = client.dial(relay.address).await;
        let ConnectionError::ConnectionClosed(close) = connection.closed().await else {
            panic!("not closed by the server's transport")
        };
        assert_eq!(u64::from(close.error_code), 0x2);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
    });
    let said = server.process.last_words();
    assert_eq!(total(&said, "connections", "handshake_timeouts"), 1);
    assert_eq!(total(&said, "connections", "established"), 1);
}
