//! Three servers behind the balancer, each in a network of its own, with clients that move, while everything changes that an operator
//! changes: servers are upgraded, get a new key, and start again.
//!
//! The test runs this program again in a network namespace, with the ignored test of this file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sluicegate_dataplane::requirements::skip;
use sluicegate_raw_client::{Setup as RawSetup, Socket, http3};
use tokio::task::LocalSet;

use super::{Balancer, Named, SOME, configuration, folder, own, setup};
use crate::client::{Client, Counted, generated_sha256, run};
use crate::installed::installed;
use crate::namespace::{Namespace, run_ignored, sh};
use crate::relay::Relay;
use crate::server::{Folder, Setup, total};
use crate::transfer::python;
use crate::upgrade::load::{Load, Progress};
use crate::upgrade::{Line, assert_is_going_away, assert_none_failed};

const PORT: u16 = 4433;
/// Address of the balancer for clients.
const BALANCER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 97, 0, 1)), PORT);
/// Last numbers of the clients' addresses.
const CLIENTS: std::ops::Range<u8> = 10..18;
const MEMBERS: [(&str, &str); 3] = [
    ("server-a", "0102030405060708"),
    ("server-b", "0102030405060709"),
    ("server-c", "010203040506070a"),
];
const OLD: &str = "config = 0\nkey_file = \"old.key\"";
const NEW: &str = "config = 1\nkey_file = \"new.key\"";
/// Bytes of a download, between two moves of its client, and of a download by another program.
const DOWNLOAD: u64 = 3_000_000;
const PIECE: u64 = 400_000;
const FOREIGN: u64 = 1_000_000;
/// Requests between two moves of a client, and of a client that keeps to one connection for a while.
const BETWEEN_MOVES: usize = 5;
/// Datagrams of a client after which its NAT changes the port.
const STAY: usize = 60;
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

#[test]
fn three_servers_in_namespaces() {
    run_ignored("balance::fleet::in_namespaces::", 1);
}

/// The balancer's network, which clients reach, and those of the servers, which only the balancer reaches.
struct Networks {
    balancer: Namespace,
    servers: [Namespace; 3],
}

impl Networks {
    fn new() -> Networks {
        let balancer = Namespace::new();
        let holder = balancer.holder();
        sh(&format!(
            "ip link set lo up && ip link add outer type veth peer name inner netns {holder} && ip link set outer up"
        ));
        for number in CLIENTS {
            sh(&format!("ip addr add 10.97.0.{number}/24 dev outer"));
        }
        balancer
            .sh("ip link set lo up && ip addr add 10.97.0.1/24 dev inner && ip link set inner up");
        let servers = [1, 2, 3].map(|number| {
            let server = Namespace::new();
            let holder = server.holder();
            balancer.sh(&format!(
                "ip link add outer{number} type veth peer name inner netns {holder} && \
                 ip addr add 10.97.{number}.1/24 dev outer{number} && ip link set outer{number} up"
            ));
            server.sh(&format!(
                "ip link set lo up && ip addr add 10.97.{number}.2/24 dev inner && ip link set inner up"
            ));
            server
        });
        Networks { balancer, servers }
    }
}

/// Returns the configuration of a server with these tables of IDs. One has its clients retry.
fn member(backend: &str, place: usize, tables: &[&str]) -> Setup {
    let (name, server_id) = MEMBERS[place];
    let address = format!("10.97.{}.2:{PORT}", place + 1);
    let setup = setup(backend, name, server_id, (&address, tables))
        .replace("state_dir = \"state\"", "state_dir = \"state\"\nsecrets_file = \"secrets.txt\"");
    if place == 2 { setup.with("[quic]\nretry_above = 0") } else { setup }
}

/// Returns the balancer's file with these keys, where these servers drain.
fn file(servers: &[Named; 3], keys: &[&str], draining: &[&str]) -> String {
    let ids: Vec<_> = keys.iter().map(|key| format!("server_id_length = 8\n{key}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    configuration(&BALANCER.to_string(), &servers.each_ref(), &ids, draining)
}

/// Goes on from another address.
fn move_on(client: &Client, turn: usize) {
    let numbers = usize::from(CLIENTS.end - CLIENTS.start);
    let number = CLIENTS.start + u8::try_from(turn % numbers).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::new(10, 97, 0, number), 0)).unwrap();
    client.endpoint.rebind(socket).unwrap();
}

/// Progress of the tasks, and what they have seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Figures>>);

#[derive(Clone, Default)]
struct Figures {
    connections: u64,
    moves: u64,
    /// Responses of each server.
    answers: BTreeMap<String, u64>,
}

impl Seen {
    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected(&self) {
        self.figures().connections += 1;
    }

    fn moved(&self) {
        self.figures().moves += 1;
    }

    fn answered(&self, name: &str) {
        *self.figures().answers.entry(name.to_owned()).or_default() += 1;
    }
}

/// Sends requests in a row, over connections that end by GOAWAY alone, of which each stays at its server. The client may move.
async fn ask(client: Client, moves: bool, seen: Seen, progress: Progress) {
    let mut turn = 0;
    while progress.goes_on() {
        let mut session = client.connect(BALANCER).await;
        seen.connected();
        let mut name = None;
        while progress.goes_on() {
            match session.try_get("/").await {
                Ok(response) => {
                    let text = response.text().await;
                    assert_eq!(*name.get_or_insert_with(|| text.clone()), text);
                    seen.answered(&text);
                    progress.note();
                }
                Err(error) => {
                    assert_is_going_away(&error);
                    break;
                }
            }
            turn += 1;
            if moves && turn % BETWEEN_MOVES == 0 {
                move_on(&client, turn / BETWEEN_MOVES);
                seen.moved();
            }
        }
    }
}

/// Asks once over each of many connections, each from another port.
async fn ask_as_strangers(client: Client, seen: Seen, progress: Progress) {
    while progress.goes_on() {
        let mut session = client.elsewhere(Ipv4Addr::new(10, 97, 0, 10)).connect(BALANCER).await;
        seen.connected();
        match session.try_get("/").await {
            Ok(response) => seen.answered(&response.text().await),
            Err(error) => assert_is_going_away(&error),
        }
        progress.note();
    }
}

/// Downloads again and again, and moves meanwhile.
async fn download(client: Client, seen: Seen, progress: Progress) {
    while progress.goes_on() {
        let mut session = client.connect(BALANCER).await;
        seen.connected();
        let response = session.try_get(&format!("/bytes/{DOWNLOAD}")).await;
        let Ok(mut response) = response.inspect_err(assert_is_going_away) else { continue };
        let mut counted = Counted::default();
        for turn in 1.. {
            response.count(&mut counted, u64::try_from(turn).unwrap() * PIECE).await;
            if counted.bytes + PIECE >= DOWNLOAD {
                break;
            }
            move_on(&client, turn);
            seen.moved();
        }
        response.count_to_the_end(&mut counted, DOWNLOAD).await;
        progress.note();
    }
}

/// A program of others that downloads again and again behind a NAT whose port changes.
struct Program {
    thread: JoinHandle<u64>,
    is_over: Arc<AtomicBool>,
    _relay: Relay,
}

impl Program {
    /// Starts it with a command for an address of the NAT, whose output of a whole download holds `expected`.
    async fn start(
        command: impl Fn(SocketAddr) -> Command + Send + 'static,
        expected: String,
        seen: Seen,
    ) -> Program {
        let relay = Relay::start_restless(BALANCER, STAY).await;
        let address = relay.address;
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut downloads = 0;
            while !over.load(Ordering::Relaxed) {
                let output = command(address).output().unwrap();
                let said = [output.stdout, output.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                seen.connected();
                let is_whole = output.status.success() && said.contains(&expected);
                assert!(is_whole || is_rejected(&said), "{said}");
                downloads += u64::from(is_whole);
            }
            downloads
        });
        Program { thread, is_over, _relay: relay }
    }

    /// Waits for the last download. Returns how many there were.
    async fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        while !self.thread.is_finished() {
            tokio::time::sleep(PAUSE).await;
        }
        self.thread.join().unwrap()
    }
}

/// Returns whether a request crossed GOAWAY, and may be sent again (RFC 9114 §4.1.1).
fn is_rejected(said: &str) -> bool {
    said.contains("H3_REQUEST_REJECTED")
        || said.contains("broke off after 0 bytes: StreamReset(error_code=267")
}

fn quic_go(program: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.args(["-q", "-insecure"]).arg(format!("https://{address}/bytes/{FOREIGN}"));
    command
}

fn aioquic(python: &Path, certificate: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(python);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aioquic_get.py"))
        .arg(format!("https://localhost:{}/bytes/{FOREIGN}", address.port()))
        .arg(certificate)
        .args(["", &address.ip().to_string()]);
    command
}

/// Starts those that are installed.
async fn programs(certificate: PathBuf, seen: &Seen) -> Vec<Program> {
    let mut programs = Vec::new();
    match installed("quic-go/client") {
        Some(client) => {
            let expected = format!("Response Body: {FOREIGN} bytes");
            let command = move |address| quic_go(&client, address);
            programs.push(Program::start(command, expected, seen.clone()).await);
        }
        None => skip("quic-go", &"`make quic-go` installs its client, if there is Go"),
    }
    match python() {
        Some(python) => {
            let expected = format!("200 {FOREIGN} {}", generated_sha256(FOREIGN));
            let command = move |address| aioquic(&python, &certificate, address);
            programs.push(Program::start(command, expected, seen.clone()).await);
        }
        None => skip("aioquic", &"no Python has it; `make venv` makes one that does"),
    }
    programs
}

/// Asks by a client that keeps its connection ID when it moves, which no other does.
fn ask_under_one_id(number: u64) {
    let from = |number| (Ipv4Addr::new(10, 97, 0, number), 0).into();
    let mut socket = Socket::open(from(10), BALANCER, RawSetup::new(number)).unwrap();
    assert!(socket.establish());
    socket.client.write(http3::CONTROL, &http3::control(&[]), false);
    let id = socket.client.dcid.clone();
    let mut names = BTreeSet::new();
    for (stream, number) in [(0, 11), (4, 12), (8, 13)] {
        socket.move_to(from(number)).unwrap();
        socket.client.write(stream, &http3::get("/", &[]), true);
        let whole = |client: &mut sluicegate_raw_client::Client| {
            let received = client.streams.get(&stream)?;
            received.is_finished().then(|| String::from_utf8_lossy(&received.bytes).into_owned())
        };
        let text = socket.until(whole).unwrap();
        names.extend(MEMBERS.iter().map(|(name, _)| *name).filter(|name| text.contains(name)));
        assert_eq!(socket.client.dcid, id);
    }
    assert_eq!(names.len(), 1, "{names:?}");
}

/// A fleet, and what an operator does with it.
struct Fleet {
    backend: &'static str,
    folder: Folder,
    networks: Networks,
    servers: [Named; 3],
    balancer: Balancer,
    load: Load,
    seen: Seen,
}

impl Fleet {
    /// Starts servers and balancer with the old key, and the load.
    fn start(backend: &'static str) -> Fleet {
        let (networks, folder, seen) = (Networks::new(), folder(), Seen::default());
        let servers = std::array::from_fn(|place| {
            let (name, server_id) = MEMBERS[place];
            let setup = member(backend, place, &[OLD]);
            let line = Line::start_within(&networks.servers[place], &setup, own(&folder));
            Named { name, server_id, line }
        });
        let balancer = Balancer::within(&networks.balancer, &folder, &file(&servers, &[OLD], &[]));
        let load = load(&folder, &seen);
        Fleet { backend, folder, networks, servers, balancer, load, seen }
    }

    /// Lets requests come, and a few of a client that does not change its ID.
    async fn go_on(&mut self, requests: u64) {
        self.load.go_on(requests).await;
        self.seen.connected();
        let number = self.seen.figures().connections;
        tokio::task::spawn_blocking(move || ask_under_one_id(number)).await.unwrap();
    }

    /// Has the balancer read these keys again, where these servers drain.
    fn reread(&mut self, keys: &[&str], draining: &[&str]) {
        self.balancer.reread(&file(&self.servers, keys, draining));
    }

    /// Upgrades each server to IDs of these keys, the first of which makes new ones.
    async fn upgrade_all(&mut self, keys: &[&str]) {
        for place in 0..MEMBERS.len() {
            let line = &mut self.servers[place].line;
            line.rewrite(&member(self.backend, place, keys));
            line.upgrade_beside().await;
            self.go_on(50).await;
        }
    }

    /// Waits until so many processes of each server have ended, and the one that serves knows it: then it lets go of their key.
    async fn until_ended(&mut self, processes: [usize; 3]) {
        for (server, count) in self.servers.iter_mut().zip(processes) {
            while server.line.server.process.count_said("the former process has ended") < count {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Returns the server that a new client is led to.
    async fn choose(&self) -> String {
        let client = Client::bound(&self.folder, Ipv4Addr::new(10, 97, 0, 10));
        let mut session = client.connect(BALANCER).await;
        self.seen.connected();
        session.get("/").await.text().await
    }

    /// Takes a server out, as docs/balance.md says, starts it again, and has it back.
    async fn start_again(&mut self, place: usize, keys: &[&str]) {
        let name = MEMBERS[place].0;
        self.reread(keys, &[name]);
        for _ in 0..SOME {
            assert_ne!(self.choose().await, name);
        }
        self.servers[place].line.terminate();
        while !self.servers[place].line.server.process.has_ended() {
            tokio::time::sleep(PAUSE).await;
        }
        self.go_on(50).await;
        let line = &mut self.servers[place].line;
        assert_eq!(line.server.process.wait().code(), Some(0));
        assert_none_failed(&line.server.process.said);
        line.start_again(&self.networks.servers[place], &member(self.backend, place, keys));
        self.reread(keys, &[]);
        while self.choose().await != name {}
        self.go_on(50).await;
    }

    /// Ends all. Returns what the balancer said.
    async fn end(self, programs: Vec<Program>) -> Vec<String> {
        let Fleet { servers, mut balancer, load, seen, .. } = self;
        load.end().await;
        let mut downloads = Vec::new();
        for program in programs {
            downloads.push(program.end().await);
        }
        for server in servers {
            assert_none_failed(&server.line.end());
        }
        let Figures { connections, moves, answers } = seen.figures().clone();
        println!(
            "{connections} connections, {moves} moves, responses {answers:?}, downloads of other programs {downloads:?}"
        );
        assert!(answers.len() == MEMBERS.len() && downloads.iter().all(|count| *count > 0));
        balancer.process.last_words()
    }
}

fn load(folder: &Folder, seen: &Seen) -> Load {
    let mut tasks = 0..;
    Load::start(8, |progress| {
        let client = Client::bound(folder, Ipv4Addr::new(10, 97, 0, 10));
        let seen = seen.clone();
        let task: Pin<Box<dyn Future<Output = ()>>> = match tasks.next() {
            Some(0 | 1) => Box::pin(ask(client, false, seen, progress)),
            Some(2..=4) => Box::pin(ask(client, true, seen, progress)),
            Some(5) => Box::pin(ask_as_strangers(client, seen, progress)),
            _ => Box::pin(download(client, seen, progress)),
        };
        task
    })
}

mod in_namespaces {
    use super::*;

    #[test]
    #[ignore = "run by three_servers_in_namespaces"]
    fn no_request_fails_while_all_are_upgraded_get_a_new_key_and_start_again() {
        let (said, seen) = run(LocalSet::new().run_until(async {
            let mut fleet = Fleet::start("auto");
            let seen = fleet.seen.clone();
            let programs = programs(fleet.folder.path("cert.pem"), &seen).await;
            fleet.go_on(100).await;
            // A new key, as docs/connection-ids.md says: first to the balancer, then to the servers.
            fleet.reread(&[OLD, NEW], &[]);
            fleet.upgrade_all(&[NEW, OLD]).await;
            fleet.start_again(1, &[NEW, OLD]).await;
            fleet.until_ended([1, 0, 1]).await;
            fleet.upgrade_all(&[NEW]).await;
            fleet.until_ended([2, 1, 2]).await;
            fleet.reread(&[NEW], &[]);
            fleet.go_on(100).await;
            (fleet.end(programs).await, seen)
        }));
        let Figures { connections, moves, .. } = seen.figures().clone();
        let of = |counter| total(&said, "datagrams", counter);
        for dropped in [
            "malformed",
            "unanswerable",
            "no_server",
            "no_room",
            "rate_limited",
            "no_socket",
            "foreign",
        ] {
            assert_eq!(of(dropped), 0, "{dropped}: {said:#?}");
        }
        // Where a client moves, its ID leads on, and nothing is chosen.
        assert!(moves > 100 && of("by_hash") <= connections, "{connections} {moves} {said:#?}");
        let opened = total(&said, "flows", "opened");
        assert!(opened > of("by_hash") + 100 && of("by_id") > of("by_flow"), "{said:#?}");
    }
}
