//! Connection IDs for load balancers: connections stay with their worker when the client's port changes.

use std::os::unix::fs::OpenOptionsExt as _;

use crate::client::{Client, Counted, run};
use crate::on_auto;
use crate::server::{Folder, Process, Server, Setup, total};
use crate::transfer::nat_changes_ports;

on_auto!(
    clients_stay_with_their_worker_under_ids_of_every_format,
    a_server_id_comes_from_the_environment,
    the_layout_is_shown_and_what_does_not_fit_is_refused,
);

/// Tables for every shape of ID.
const FORMATS: &[&str] = &[
    "[quic.connection_ids]\nformat = \"plain\"",
    "[quic.connection_ids]\nformat = \"katran\"\nserver_id = \"0102\"",
    "[quic.connection_ids]\nformat = \"katran\"\nserver_id = \"010203\"",
    "[quic.connection_ids]\nformat = \"katran\"\nserver_id = \"01020304\"",
    "[quic.connection_ids]\nformat = \"quic-lb\"\nserver_id = \"0102030405060708\"\nnonce = 7",
    "[quic.connection_ids]\nformat = \"quic-lb\"\nserver_id = \"0102030405060708\"\nkey_file = \"key\"",
    "[[quic.connection_ids]]\nformat = \"quic-lb\"\nserver_id = \"010203\"\nconfig = 1\nkey_file = \"key\"\n\
     [[quic.connection_ids]]\nformat = \"quic-lb\"\nserver_id = \"0102030405\"",
];
/// IDs that clients must not migrate with.
const UNROUTABLE: &str = "[quic.connection_ids]\nformat = \"quic-lb\"";

/// Returns a folder with a key.
fn folder() -> Folder {
    let folder = Folder::new();
    let mut key = std::fs::OpenOptions::new();
    let key = key.write(true).create(true).mode(0o600).open(folder.path("key"));
    let digits = b"8f95f09245765f80256934e50c66207f\n";
    std::io::Write::write_all(&mut key.unwrap(), digits).unwrap();
    folder
}

/// Four workers, of which any may receive what comes from a new port.
fn four_workers(backend: &str, tables: &str) -> Setup {
    let setup = Setup::new(backend).replace("[[group]]", "[[group]]\ncores = [0, 0, 0, 0]");
    setup.listener("main", "127.0.0.1:0", "cubic").with(tables)
}

/// Downloads on connections of a client that moves them all to other ports.
async fn client_moves(client: &Client, server: &Server) {
    const LENGTH: u64 = 2_000_000;
    let mut downloads = Vec::new();
    for _ in 0..4 {
        let mut session = client.connect(server.address()).await;
        let response = session.get(&format!("/bytes/{LENGTH}")).await;
        downloads.push((session, response, Counted::default()));
    }
    for part in 1..4 {
        for (_, response, counted) in &mut downloads {
            response.count(counted, part * LENGTH / 4).await;
        }
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.endpoint.rebind(socket).unwrap();
    }
    for (_, response, counted) in &mut downloads {
        response.count_to_the_end(counted, LENGTH).await;
    }
}

/// Returns how many datagrams came to a worker that they do not belong to.
fn misrouted(mut server: Server) -> u64 {
    let said = server.process.last_words();
    assert_eq!(total(&said, "datagrams", "workers"), 4);
    total(&said, "connections", "misrouted")
}

/// Returns the exit code of a command that ends by itself, and what it said.
fn ended(command: &str, setup: &Setup, folder: &Folder) -> (Option<i32>, String) {
    let file = Server::write(setup, folder);
    let mut process = Process::start(&[command, "-c", &file], &folder.path(""));
    let code = process.wait().code();
    (code, process.said.join("\n"))
}

/// The kernel selects the worker by the ID, so none has to pass a datagram on.
fn clients_stay_with_their_worker_under_ids_of_every_format(backend: &str) {
    let folder = folder();
    for tables in FORMATS {
        let server = Server::start(&four_workers(backend, tables), &folder);
        run(async { client_moves(&Client::new(&folder), &server).await });
        assert_eq!(misrouted(server), 0, "{tables}");
    }
    for tables in [UNROUTABLE, FORMATS[5]] {
        let server = Server::start(&four_workers(backend, tables), &folder);
        run(async { nat_changes_ports(server.address(), Client::new(&folder)).await });
        assert_eq!(misrouted(server), 0, "{tables}");
    }
}

fn a_server_id_comes_from_the_environment(backend: &str) {
    let folder = folder();
    let tables = "[quic]\nconnection_ids = { format = \"quic-lb\", nonce = 7, \
                  server_id = { env = \"AWS_LBC_QUIC_SERVER_ID\", encoding = \"base64\" } }";
    let setup = four_workers(backend, tables);
    let told = [("AWS_LBC_QUIC_SERVER_ID", "AQIDBAUGBwg=")];
    let server = Server::start_told(&setup, &folder, &told);
    run(async { client_moves(&Client::new(&folder), &server).await });
    assert_eq!(misrouted(server), 0);
    let (code, said) = ended("run", &setup, &folder);
    let reason = "the environment has no variable AWS_LBC_QUIC_SERVER_ID; set it";
    assert!(code == Some(2) && said.contains(reason) && said.contains("toml:"), "{said}");
}

fn the_layout_is_shown_and_what_does_not_fit_is_refused(backend: &str) {
    let folder = folder();
    let check = |tables: &str| ended("check", &four_workers(backend, tables), &folder);
    let (code, said) = check(FORMATS[4]);
    let layout = "connection IDs: 19 bytes: octet (configuration 0) 1, server ID 8, nonce 7, worker 1, generation 1, random 1\nok";
    assert!(code == Some(0) && said.ends_with(layout), "{said}");
    let (code, said) = check("");
    assert!(code == Some(0) && !said.contains("connection IDs"), "{said}");
    let too_long = FORMATS[4].replace("nonce = 7", "nonce = 10");
    let (code, said) = check(&too_long);
    let reason =
        "21 bytes (octet 1, server ID 8, nonce 10, worker 1, generation 1) do not fit into the 20";
    assert!(code == Some(2) && said.contains(reason) && said.contains("toml:"), "{said}");
}
