//! Connection IDs for load balancers: connections stay with their worker when the client's port changes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};
use sluicegate_cid::{HostId, KEY_LEN, Lengths, MAX_PLAINTEXT, MIN_NONCE, QuicLb, SelfLength};

use crate::client::{Client, Counted, run};
use crate::on_auto;
use crate::server::{Folder, PAGE, Process, Server, Setup, total};
use crate::skip;
use crate::transfer::{nat_changes_ports, python};

on_auto!(
    clients_stay_with_their_worker_under_ids_of_every_format,
    clients_get_in_after_a_retry_with_ids_of_every_format,
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
/// Decodes IDs without any code of the server.
const DECODER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/connection_ids.py");
/// IDs that clients must not migrate with.
const UNROUTABLE: &str = "[quic.connection_ids]\nformat = \"quic-lb\"";

/// Returns a folder with a key.
fn folder() -> Folder {
    let folder = Folder::new();
    let mut key = std::fs::OpenOptions::new();
    let key = key.write(true).create(true).mode(0o600).open(folder.path("key"));
    let digits = b"8f95f09245765f80256934e50c66207f\n";
    key.unwrap().write_all(digits).unwrap();
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

/// The longest IDs leave least room in the handshake's parameters, which hold three of them.
fn clients_get_in_after_a_retry_with_ids_of_every_format(backend: &str) {
    let folder = folder();
    let longest = "[quic.connection_ids]\nformat = \"quic-lb\"\nserver_id = \"01\"\nnonce = 16";
    for tables in FORMATS.iter().chain([&longest]) {
        let tables = format!("{tables}\n[quic]\nretry_above = 0");
        let mut server = Server::start(&four_workers(backend, &tables), &folder);
        run(async {
            let mut session = Client::new(&folder).connect(server.address()).await;
            assert_eq!(session.get("/").await.text().await, PAGE);
        });
        let said = server.process.last_words();
        assert!(total(&said, "connections", "retries") > 0, "{tables}");
        assert_eq!(total(&said, "connections", "refused"), 0, "{tables}");
    }
}

fn a_server_id_comes_from_the_environment(backend: &str) {
    let folder = folder();
    let tables = "[quic]\nconnection_ids = { format = \"quic-lb\", nonce = 7, \
                  server_id = { env = \"AWS_LBC_QUIC_SERVER_ID\", encoding = \"base64\" } }";
    let setup = four_workers(backend, tables);
    let told = [("AWS_LBC_QUIC_SERVER_ID", "LWV1oW+gjqQ=")];
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

/// Bytes that differ for each number.
fn bytes(number: usize) -> [u8; 32] {
    Sha256::digest(number.to_be_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").unwrap();
        digits
    })
}

/// Returns an ID of QUIC-LB for the decoder, and what it says of it.
fn of_quic_lb(number: usize, lengths: Lengths, has_key: bool) -> (String, String) {
    let (random, config) = (bytes(number), u8::try_from(number % 7).unwrap());
    let key: Option<[u8; KEY_LEN]> = has_key.then(|| random[..KEY_LEN].try_into().unwrap());
    let texts = bytes(!number);
    let (server_id, rest) = texts.split_at(lengths.server_id);
    let nonce = &rest[..lengths.nonce];
    let mut format = QuicLb::new(config, lengths, key.as_ref()).unwrap();
    let mut id = vec![0; format.routing_len()];
    format.encode(SelfLength::Random(random[31]), server_id, nonce, &mut id).unwrap();
    let key = key.map_or("-".to_owned(), |key| hex(&key));
    (
        format!("quic-lb {key} {} {}", lengths.server_id, hex(&id)),
        format!("{config} {} {}", hex(server_id), hex(nonce)),
    )
}

/// Returns an ID of Katran for the decoder, and what it says of it.
fn of_katran(number: usize, version: usize) -> (String, String) {
    let (mut id, host) = (bytes(number), bytes(!number));
    let host = &host[..=version];
    HostId::from_bytes(host).unwrap().encode(&mut id).unwrap();
    (format!("katran {}", hex(&id[..8])), format!("{version} {}", hex(host)))
}

/// The decoder was written from the draft and from Katran's documents alone.
#[test]
fn an_independent_decoder_agrees_on_10_000_ids_of_each_scheme() {
    const EACH: usize = 10_000;
    let Some(python) = python() else {
        skip("aioquic", &"no Python with aioquic and cryptography; `make venv` makes one");
        return;
    };
    let all: Vec<Lengths> = (1..MAX_PLAINTEXT)
        .flat_map(|server_id| {
            (MIN_NONCE..MAX_PLAINTEXT).map(move |nonce| Lengths { server_id, nonce })
        })
        .filter(|lengths| lengths.server_id + lengths.nonce <= MAX_PLAINTEXT)
        .collect();
    let (one_block, other): (Vec<Lengths>, Vec<Lengths>) =
        all.iter().partition(|lengths| lengths.server_id + lengths.nonce == KEY_LEN);
    let mut cases = Vec::new();
    for number in 0..EACH {
        cases.push(of_quic_lb(number, all[number % all.len()], false));
        cases.push(of_quic_lb(number, one_block[number % one_block.len()], true));
        cases.push(of_quic_lb(number, other[number % other.len()], true));
        cases.extend((1..=3).map(|version| of_katran(number, version)));
    }
    let mut decoder = Command::new(python);
    let decoder = decoder.arg(DECODER).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut decoder = decoder.spawn().unwrap();
    let (ids, expected): (Vec<String>, Vec<String>) = cases.into_iter().unzip();
    let mut input = decoder.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all((ids.join("\n") + "\n").as_bytes()));
    let output = decoder.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let said: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert_eq!(said.len(), 6 * EACH);
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!(said, expected);
    }
}
