//! Limits change while clients are served.

use super::TAKEN;
use crate::client::{Client, run};
use crate::server::{Folder, Server, Setup};

fn setup(limits: &str) -> Setup {
    Setup::new("mio").listener("main", "127.0.0.1:0", "cubic").with(limits)
}

/// The drain would outlive the test.
#[test]
fn a_drain_takes_as_long_as_the_last_reload_says() {
    let folder = Folder::new();
    let mut server = Server::start(&setup("[server]\ndrain_timeout = \"1h\""), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let mut response = session.get("/bytes/1GiB").await;
        response.piece().await.unwrap();
        server.reload(&setup("[server]\ndrain_timeout = \"10ms\""), &folder, TAKEN);
        server.process.terminate();
        assert!(server.process.wait().success());
    });
}

#[test]
fn limits_of_the_cache_and_of_packets_are_taken() {
    let folder = Folder::new();
    let mut server = Server::start(&setup(""), &folder);
    let limits = "[limits]\nfile_cache = 0\nfile_cache_entry = \"1KiB\"\nfile_cache_valid = \"0s\"\n\
                  [quic]\nretries_per_second = 7\nconnection_refusals_per_second = 7\nstateless_reset_per_second = 7";
    server.reload(&setup(limits), &folder, TAKEN);
}
