//! `sluicegate balance` in front of servers: clients move, servers drain, fail and get new keys.

mod envoy;
mod fleet;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use crate::client::{Client, Counted, Session, run};
use crate::installed;
use crate::namespace::Namespace;
use crate::on_auto;
use crate::ports;
use crate::server::{Folder, PAGE, Process, Server, Setup, field, total};
use crate::upgrade::Line;

on_auto!(
    a_connection_that_moves_stays_with_its_server_under_every_scheme,
    a_server_that_drains_gets_no_new_connections,
    new_clients_avoid_a_server_that_was_killed_until_it_is_back,
    no_request_fails_while_all_servers_get_new_keys,
    connections_go_on_when_their_flows_give_way,
    connections_go_on_when_the_balancer_starts_again,
    the_id_of_the_controller_of_aws_leads_to_its_server,
    a_wrong_file_is_refused_with_its_place,
);

/// Clients of which some certainly meet each of three servers.
const MANY: usize = 60;
/// Clients that show that a server gets none.
const SOME: usize = 12;
/// Moves of each client that stays with its server.
const MOVES: u64 = 4;
/// Bytes of a download, and of one that lasts.
const LENGTH: u64 = 300_000;
const LONG: u64 = 2_000_000;

/// A server that says its name, and its line in the balancer's file.
struct Named {
    name: &'static str,
    server_id: &'static str,
    line: Line,
}

impl Named {
    /// Starts a server with the certificate of `folder` and its key files, at this address, with these tables of IDs.
    fn start(
        backend: &str,
        folder: &Folder,
        name: &'static str,
        server_id: &'static str,
        (address, tables): (&str, &[&str]),
    ) -> Named {
        let setup = setup(backend, name, server_id, (address, tables));
        Named { name, server_id, line: Line::start_in(&setup, own(folder)) }
    }

    fn address(&self) -> SocketAddr {
        self.line.server.address()
    }
}

/// Returns a folder of a server's own with the files of `folder`.
fn own(folder: &Folder) -> Folder {
    let own = Folder::new();
    for file in ["cert.pem", "key.pem", "old.key", "new.key", "secrets.txt"] {
        std::fs::copy(folder.path(file), own.path(file)).unwrap();
    }
    own
}

fn setup(backend: &str, name: &str, server_id: &str, (address, tables): (&str, &[&str])) -> Setup {
    let mut setup = Setup::new(backend)
        .replace(&format!("{PAGE:?}"), &format!("{name:?}"))
        .with("[server]\nstate_dir = \"state\"\ndrain_timeout = \"1m\"")
        .listener("main", address, "cubic");
    for table in tables {
        setup = setup.with(&format!(
            "[[quic.connection_ids]]\nformat = \"quic-lb\"\nserver_id = \"{server_id}\"\n{table}"
        ));
    }
    setup
}

/// Returns a folder with a certificate, two keys, and secrets for all servers.
fn folder() -> Folder {
    let folder = Folder::new();
    for (name, digits) in [
        ("old.key", "8f95f09245765f80256934e50c66207f"),
        ("new.key", "000102030405060708090a0b0c0d0e0f"),
        ("secrets.txt", "1f2e3d4c5b6a798897a6b5c4d3e2f1000f1e2d3c4b5a69788796a5b4c3d2e1f0"),
    ] {
        let mut file = std::fs::OpenOptions::new();
        let file = file.write(true).create(true).mode(0o600).open(folder.path(name));
        std::io::Write::write_all(&mut file.unwrap(), digits.as_bytes()).unwrap();
    }
    folder
}

/// A running balancer.
struct Balancer {
    process: Process,
    address: SocketAddr,
    file: std::path::PathBuf,
}

impl Balancer {
    fn start(folder: &Folder, servers: &[&Named], ids: &[&str], draining: &[&str]) -> Balancer {
        Balancer::of(folder, &configuration("127.0.0.1:0", servers, ids, draining))
    }

    fn of(folder: &Folder, configuration: &str) -> Balancer {
        let words = [installed::server()];
        Balancer::start_by(&words, folder, configuration)
    }

    /// Starts one in a network of its own.
    fn within(namespace: &Namespace, folder: &Folder, configuration: &str) -> Balancer {
        let words = ["nsenter", "-t", &namespace.holder(), "-n", installed::server()];
        Balancer::start_by(&words, folder, configuration)
    }

    fn start_by(words: &[&str], folder: &Folder, configuration: &str) -> Balancer {
        let file = folder.path("balance.toml");
        std::fs::write(&file, configuration).unwrap();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["balance", "-c", "balance.toml"]).stdin(Stdio::null());
        let mut process = Process::spawn(command, &folder.path(""));
        let line = process.line_with(&["listening", "address="]);
        Balancer { process, address: field(&line, "address").parse().unwrap(), file }
    }

    fn reload(&mut self, servers: &[&Named], ids: &[&str], draining: &[&str]) {
        self.reread(&configuration("127.0.0.1:0", servers, ids, draining));
    }

    fn reread(&mut self, configuration: &str) {
        std::fs::write(&self.file, configuration).unwrap();
        self.process.signal("HUP");
        self.process.line_with(&["configuration reloaded"]);
    }
}

fn configuration(listen: &str, servers: &[&Named], ids: &[&str], draining: &[&str]) -> String {
    let checks = "[health_check]\ninterval = \"50ms\"\nfalls = 2";
    let mut text = format!("listen = \"{listen}\"\n{checks}\n");
    for table in ids {
        let header = if table.starts_with('[') { "" } else { "[[connection_ids]]\n" };
        writeln!(text, "{header}{table}").unwrap();
    }
    for Named { name, server_id, line } in servers {
        let (address, drain) = (line.server.address(), draining.contains(name));
        writeln!(
            text,
            "[[server]]\nname = \"{name}\"\nserver_id = \"{server_id}\"\naddress = \"{address}\"\n\
             health = \"{address}\"\ndrain = {drain}"
        )
        .unwrap();
    }
    text
}

/// Returns the name of the server that responds.
async fn responding(session: &mut Session) -> String {
    session.get("/").await.text().await
}

/// Gives a client another port.
fn move_on(client: &Client) {
    client.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
}

/// Returns a client, its connection, and the name of the server that it was led to.
async fn connected(client: Client, balancer: &Balancer) -> (Client, Session, String) {
    let mut session = client.connect(balancer.address).await;
    let name = responding(&mut session).await;
    (client, session, name)
}

/// Returns clients, each at a port of its own.
async fn clients(
    count: usize,
    folder: &Folder,
    balancer: &Balancer,
) -> Vec<(Client, Session, String)> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(connected(Client::new(folder), balancer).await);
    }
    clients
}

fn names(clients: &[(Client, Session, String)]) -> BTreeSet<&str> {
    clients.iter().map(|(_, _, name)| name.as_str()).collect()
}

/// Each server has another scheme, and the balancer all.
fn a_connection_that_moves_stays_with_its_server_under_every_scheme(backend: &str) {
    let folder = folder();
    let start =
        |name, id, table: &str| Named::start(backend, &folder, name, id, ("127.0.0.1:0", &[table]));
    let plain = start("a", "0102030405060708", "config = 0\nnonce = 7");
    let one_block = start("b", "0102030405060709", "config = 1\nnonce = 8\nkey_file = \"old.key\"");
    let four_passes = start("c", "01020a", "config = 6\nnonce = 9\nkey_file = \"new.key\"");
    let ids = [
        "config = 0\nserver_id_length = 8\nnonce = 7",
        "config = 1\nserver_id_length = 8\nkey_file = \"old.key\"",
        "config = 6\nserver_id_length = 3\nnonce = 9\nkey_file = \"new.key\"",
    ];
    let servers = [&plain, &one_block, &four_passes];
    let mut balancer = Balancer::start(&folder, &servers, &ids, &[]);
    run(async {
        let mut clients = clients(MANY, &folder, &balancer).await;
        assert_eq!(names(&clients), BTreeSet::from(["a", "b", "c"]));
        for (client, session, name) in &mut clients {
            let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
            let mut counted = Counted::default();
            response.count(&mut counted, LENGTH / 2).await;
            move_on(client);
            response.count_to_the_end(&mut counted, LENGTH).await;
            move_on(client);
            assert_eq!(responding(session).await, *name);
        }
    });
    let said = balancer.process.last_words();
    let of = |counter| total(&said, "datagrams", counter);
    assert!(of("by_id") > of("by_flow") && of("from_servers") > 0, "{said:#?}");
    assert_eq!(of("by_hash"), u64::try_from(MANY).unwrap(), "one for each client: {said:#?}");
    assert_eq!((of("malformed"), of("no_server"), of("no_socket")), (0, 0, 0));
}

const PLAIN: &str = "config = 0\nserver_id_length = 2\nnonce = 8";

fn two(backend: &str, folder: &Folder) -> [Named; 2] {
    [("a", "0001"), ("b", "0002")]
        .map(|(name, id)| Named::start(backend, folder, name, id, ("127.0.0.1:0", &["nonce = 8"])))
}

fn a_server_that_drains_gets_no_new_connections(backend: &str) {
    let folder = folder();
    let [a, b] = two(backend, &folder);
    let mut balancer = Balancer::start(&folder, &[&a, &b], &[PLAIN], &[]);
    run(async {
        let mut before = clients(MANY, &folder, &balancer).await;
        assert_eq!(names(&before), BTreeSet::from(["a", "b"]));
        balancer.reload(&[&a, &b], &[PLAIN], &["a"]);
        let new = clients(SOME, &folder, &balancer).await;
        assert_eq!(names(&new), BTreeSet::from(["b"]));
        for (client, session, name) in &mut before {
            move_on(client);
            assert_eq!(responding(session).await, *name);
        }
    });
}

fn new_clients_avoid_a_server_that_was_killed_until_it_is_back(backend: &str) {
    let folder = folder();
    let [mut a, b] = two(backend, &folder);
    let mut balancer = Balancer::start(&folder, &[&a, &b], &[PLAIN], &[]);
    run(async {
        let mut before = clients(MANY, &folder, &balancer).await;
        assert_eq!(names(&before), BTreeSet::from(["a", "b"]));
        let address = a.address();
        a.line.server.process.kill();
        balancer.process.line_with(&["the server is down", "server=\"a\""]);
        let new = clients(SOME, &folder, &balancer).await;
        assert_eq!(names(&new), BTreeSet::from(["b"]));
        for (client, session, _) in before.iter_mut().filter(|(_, _, name)| name == "b") {
            move_on(client);
            assert_eq!(responding(session).await, "b");
        }
        let place = address.to_string();
        let _again = Named::start(backend, &folder, "a", "0001", (&place, &["nonce = 8"]));
        balancer.process.line_with(&["the server is up", "server=\"a\""]);
        let new = clients(MANY, &folder, &balancer).await;
        assert_eq!(names(&new), BTreeSet::from(["a", "b"]));
    });
}

/// The balancer learns the new key, then the servers change to it by upgrades, then the balancer forgets the old one. Downloads go on
/// meanwhile, and their clients move.
fn no_request_fails_while_all_servers_get_new_keys(backend: &str) {
    const OLD: &str = "config = 0\nkey_file = \"old.key\"";
    const NEW: &str = "config = 1\nkey_file = \"new.key\"";
    let length = |keys: &str| format!("server_id_length = 2\n{keys}");
    let (old, new) = (length(OLD), length(NEW));
    let folder = folder();
    let mut servers = [("a", "0001"), ("b", "0002")]
        .map(|(name, id)| Named::start(backend, &folder, name, id, ("127.0.0.1:0", &[OLD])));
    let both = |servers: &[Named; 2], ids: &[&str]| {
        let [a, b] = servers;
        configuration("127.0.0.1:0", &[a, b], ids, &[])
    };
    let mut balancer = Balancer::of(&folder, &both(&servers, &[&old]));
    run(async {
        let before = clients(SOME, &folder, &balancer).await;
        let mut downloads = Vec::new();
        for (client, mut session, _) in before {
            let response = session.get(&format!("/bytes/{LONG}")).await;
            downloads.push((client, session, response, Counted::default()));
        }
        balancer.reread(&both(&servers, &[&old, &new]));
        for (part, server) in (1..).zip(&mut servers) {
            let ids = ("127.0.0.1:0", &[NEW, OLD][..]);
            server.line.rewrite(&setup(backend, server.name, server.server_id, ids));
            server.line.upgrade_beside().await;
            for (client, _, response, counted) in &mut downloads {
                move_on(client);
                response.count(counted, part * LONG / 3).await;
            }
        }
        let mut after = clients(SOME, &folder, &balancer).await;
        for (_client, _session, mut response, mut counted) in downloads {
            response.count_to_the_end(&mut counted, LONG).await;
        }
        balancer.reread(&both(&servers, &[&new]));
        for (client, session, name) in &mut after {
            move_on(client);
            assert_eq!(responding(session).await, *name);
        }
    });
    let said = balancer.process.last_words();
    assert_eq!(total(&said, "datagrams", "malformed"), 0);
    for server in servers {
        server.line.end();
    }
}

/// A flow outlasts what its exchange leaves behind, such as the validation of the new path at the server, and ends before the next one.
fn connections_go_on_when_their_flows_give_way(backend: &str) {
    let folder = folder();
    let [a, b] = two(backend, &folder);
    let mut balancer = Balancer::start(&folder, &[&a, &b], &[PLAIN, "[flows]\nmax = 40"], &[]);
    run(async {
        let mut clients = Vec::new();
        for _ in 0..MANY {
            clients.push(connected(Client::new(&folder).quiet(), &balancer).await);
        }
        for (_, session, name) in &mut clients {
            assert_eq!(responding(session).await, *name);
        }
    });
    let said = balancer.process.last_words();
    assert!(total(&said, "flows", "evicted") >= u64::try_from(MANY).unwrap(), "{said:#?}");
    assert!(total(&said, "flows", "open") <= 40);
}

fn connections_go_on_when_the_balancer_starts_again(backend: &str) {
    let folder = folder();
    let [a, b] = two(backend, &folder);
    let listen = ports::free().local_addr().unwrap().to_string();
    let text = configuration(&listen, &[&a, &b], &[PLAIN], &[]);
    let mut balancer = Balancer::of(&folder, &text);
    run(async {
        let mut clients = clients(SOME, &folder, &balancer).await;
        balancer.process.last_words();
        balancer = Balancer::of(&folder, &text);
        for (_, session, name) in &mut clients {
            assert_eq!(responding(session).await, *name);
        }
    });
    assert_eq!(total(&balancer.process.last_words(), "datagrams", "by_hash"), 0);
}

/// Connects clients until both servers have some, and moves them: each stays with its server, by its ID alone.
fn clients_stay_with(names_of_both: [&str; 2], folder: &Folder, mut balancer: Balancer) {
    let mut connections = 0;
    run(async {
        let mut all = Vec::new();
        while names(&all) != BTreeSet::from(names_of_both) || all.len() < SOME {
            all.push(connected(Client::new(folder), &balancer).await);
            connections += 1;
        }
        for _ in 0..MOVES {
            for (client, session, name) in &mut all {
                move_on(client);
                assert_eq!(responding(session).await, *name);
            }
        }
    });
    let said = balancer.process.last_words();
    assert_eq!(total(&said, "datagrams", "by_hash"), connections, "one for each: {said:#?}");
    // Most moves open one; a port that had a flow before has it still.
    let opened = total(&said, "flows", "opened");
    assert!(opened > MOVES * connections && opened <= (1 + MOVES) * connections, "{said:#?}");
}

/// The server has the value that the controller injects, and the balancer that by which the controller registers it.
fn the_id_of_the_controller_of_aws_leads_to_its_server(backend: &str) {
    let folder = folder();
    let place = "server_id = { env = \"AWS_LBC_QUIC_SERVER_ID\", encoding = \"base64\" }";
    let setup = setup(backend, "aws", "0102030405060708", ("127.0.0.1:0", &["nonce = 7"]))
        .replace("server_id = \"0102030405060708\"", place);
    let told = [("AWS_LBC_QUIC_SERVER_ID", "LWV1oW+gjqQ=")];
    let server = Server::start_told(&setup, &folder, &told);
    let address = server.address();
    let aws = format!(
        "[[server]]\nname = \"aws\"\nserver_id = \"0x2d6575a16fa08ea4\"\naddress = \"{address}\""
    );
    let id = "0102030405060708";
    let other = Named::start(backend, &folder, "other", id, ("127.0.0.1:0", &["nonce = 7"]));
    let ids = ["server_id_length = 8\nnonce = 7", &aws];
    let balancer = Balancer::start(&folder, &[&other], &ids, &[]);
    clients_stay_with(["aws", "other"], &folder, balancer);
}

fn a_wrong_file_is_refused_with_its_place(_: &str) {
    let folder = folder();
    let check = |text: &str| {
        std::fs::write(folder.path("balance.toml"), text).unwrap();
        let words = ["--check", "-c", "balance.toml"];
        let output = installed::output_in(&folder.path(""), "balance", &words);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let server = "[[server]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\nserver_id = \"01\"\n";
    let ids =
        |key: &str| format!("[[connection_ids]]\nserver_id_length = 1\nkey_file = \"{key}\"\n");
    let whole = |key| format!("listen = \"127.0.0.1:0\"\n{server}{}", ids(key));
    assert_eq!(check(&whole("old.key")), (Some(0), "ok\n".to_owned()));
    let cases = [
        (whole("cert.pem"), "balance.toml:8:12: `connection_ids.key_file`: "),
        (whole("none.key"), "No such file"),
        (
            format!("listen = \"127.0.0.1:0\"\n{server}"),
            "balance.toml:5:13: `server_id` of 1 bytes",
        ),
        ("listen = \"nowhere\"\n".to_owned(), "balance.toml:1:10: string \"nowhere\" for `listen`"),
    ];
    for (text, expected) in cases {
        let (code, said) = check(&text);
        assert!(code == Some(2) && said.contains(expected), "{said} has no {expected}");
    }
    let words = ["-c", "nowhere.toml"];
    let output = installed::output_in(&folder.path(""), "balance", &words);
    assert_eq!(output.status.code(), Some(2));
}
