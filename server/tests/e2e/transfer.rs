//! Downloads, by several clients, over paths that change.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::client::{Client, Counted, Session, generated_sha256, run};
use crate::installed::installed;
use crate::relay::Relay;
use crate::server::{Folder, PAGE, Process, Server, Setup, total};
use crate::skip;
use crate::{on_auto, on_every_backend};

on_every_backend!(
    a_large_body_arrives_unchanged,
    several_bodies_share_a_connection,
    a_client_may_change_its_socket,
    a_nat_may_change_its_port_during_downloads,
    a_server_that_never_sleeps_serves_and_stops,
    many_clients_at_once,
    #[ignore = "long"]
    a_thousand_clients_at_once,
    aioquic_is_served,
    the_own_client_is_served,
);
on_auto!(
    page_and_errors_have_their_heads,
    responses_that_a_client_leaves_unread_give_their_streams_back,
);

/// Runs an exchange over one connection to a server.
fn with_session(backend: &str, exchange: impl AsyncFnOnce(&Client, &mut Session)) {
    let folder = Folder::new();
    let server = Server::simple(backend, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        exchange(&client, &mut session).await;
    });
}

fn page_and_errors_have_their_heads(backend: &str) {
    with_session(backend, async |_, session| {
        let response = session.get("/").await;
        assert_eq!(response.head.status(), 200);
        assert_eq!(response.head.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(response.head.headers()["content-length"], PAGE.len().to_string().as_str());
        assert_eq!(response.text().await, PAGE);
        let response = session.get("/bytes/2TiB").await;
        assert_eq!(response.head.status(), 404);
    });
}

fn a_large_body_arrives_unchanged(backend: &str) {
    const LENGTH: u64 = 100_000_000;
    with_session(backend, async |_, session| {
        let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
        assert_eq!(response.head.status(), 200);
        assert_eq!(response.head.headers()["content-length"], LENGTH.to_string().as_str());
        response.count_to_the_end(&mut Counted::default(), LENGTH).await;
    });
}

fn several_bodies_share_a_connection(backend: &str) {
    const LENGTH: u64 = 1_000_003;
    with_session(backend, async |_, session| {
        let mut responses = Vec::new();
        for _ in 0..16 {
            responses.push(session.get(&format!("/bytes/{LENGTH}")).await);
        }
        // The other way round, so that none can lean on the order.
        for response in responses.iter_mut().rev() {
            response.count_to_the_end(&mut Counted::default(), LENGTH).await;
        }
    });
}

/// Four workers, of which any may receive what comes from a new port.
fn four_workers(backend: &str) -> Setup {
    Setup::new(backend).replace("[[group]]", "[[group]]\ncores = [0, 0, 0, 0]").listener(
        "main",
        "127.0.0.1:0",
        "cubic",
    )
}

fn a_client_may_change_its_socket(backend: &str) {
    const LENGTH: u64 = 50_000_000;
    let folder = Folder::new();
    let mut server = Server::start(&four_workers(backend), &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
        let mut counted = Counted::default();
        // More often than there are connection IDs at a time.
        for part in 1..10 {
            response.count(&mut counted, part * LENGTH / 10).await;
            let before = client.endpoint.local_addr().unwrap();
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            client.endpoint.rebind(socket).unwrap();
            assert_ne!(client.endpoint.local_addr().unwrap(), before);
        }
        response.count_to_the_end(&mut counted, LENGTH).await;
    });
    let said = server.process.last_words();
    assert_eq!(total(&said, "datagrams", "workers"), 4);
}

/// Unlike a client that moves, one behind a NAT knows nothing of it, and nothing sent to its old address arrives.
fn a_nat_may_change_its_port_during_downloads(backend: &str) {
    let folder = Folder::new();
    let mut server = Server::start(&four_workers(backend), &folder);
    run(async { nat_changes_ports(server.address(), Client::new(&folder)).await });
    let said = server.process.last_words();
    let warned = |line: &String| line.contains("more than one worker on a core");
    assert!(said.iter().any(warned), "{said:#?}");
    assert_eq!(total(&said, "datagrams", "workers"), 4);
}

/// Downloads through a NAT that changes its port all the time, on several connections at once.
pub(crate) async fn nat_changes_ports(server: SocketAddr, client: Client) {
    const LENGTH: u64 = 2_000_000;
    let client = Arc::new(client);
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let client = Arc::clone(&client);
        tasks.spawn(async move {
            let relay = Relay::start(server).await;
            let mut session = client.connect(relay.address).await;
            let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
            let mut counted = Counted::default();
            for part in 1..20 {
                response.count(&mut counted, part * LENGTH / 20).await;
                relay.change_port();
            }
            response.count_to_the_end(&mut counted, LENGTH).await;
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

fn a_server_that_never_sleeps_serves_and_stops(backend: &str) {
    const LENGTH: u64 = 1_000_003;
    let folder = Folder::new();
    let setup = Setup::new(backend)
        .replace("[[group]]", "[[group]]\ncores = [0]\nspin_always = true")
        .listener("public", "127.0.0.1:0", "cubic");
    let mut server = Server::start(&setup, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        assert_eq!(session.get("/").await.text().await, PAGE);
        let mut response = session.get(&format!("/bytes/{LENGTH}")).await;
        response.count_to_the_end(&mut Counted::default(), LENGTH).await;
    });
    server.process.terminate();
    assert!(server.process.wait().success());
}

fn many_clients_at_once(backend: &str) {
    clients_at_once(backend, 200);
}

fn a_thousand_clients_at_once(backend: &str) {
    clients_at_once(backend, 1000);
}

/// All are connected before the first asks.
fn clients_at_once(backend: &str, count: usize) {
    let folder = Folder::new();
    let server = Server::simple(backend, &folder);
    run(async {
        let client = Arc::new(Client::new(&folder));
        let all = Arc::new(Barrier::new(count));
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (client, all, address) = (Arc::clone(&client), Arc::clone(&all), server.address());
            tasks.spawn(async move {
                let mut session = client.connect_in_turn(address).await;
                all.wait().await;
                assert_eq!(session.get("/").await.text().await, PAGE);
            });
        }
        let mut served = 0;
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
            served += 1;
        }
        assert_eq!(served, count);
    });
}

/// Takes long: the body is larger than the windows of 16 MiB with which aioquic begins, and aioquic is slow.
fn aioquic_is_served(backend: &str) {
    let folder = Folder::new();
    let server = Server::simple(backend, &folder);
    if let Some(aioquic) = aioquic() {
        get_by_aioquic(aioquic, (&server, &folder), 20_000_000, None);
    }
}

/// Returns a command that runs aioquic, or `None`, reported as missing.
pub(crate) fn aioquic() -> Option<Command> {
    let Some(python) = python() else {
        let remedy = "no Python has it; `make venv` makes one that does";
        skip("aioquic", &remedy);
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aioquic_get.py");
    let mut command = Command::new(python);
    command.arg(script);
    Some(command)
}

/// Lets aioquic get `length` of the generator's bytes from a server. `token` is the file of its token, if it keeps one.
pub(crate) fn get_by_aioquic(
    mut aioquic: Command,
    (server, folder): (&Server, &Folder),
    length: u64,
    token: Option<&Path>,
) {
    let port = server.address().port();
    aioquic
        .arg(format!("https://localhost:{port}/bytes/{length}"))
        .arg(folder.path("cert.pem"))
        .args(token);
    let output = aioquic.output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said.trim(), format!("200 {length} {}", generated_sha256(length)), "{errors}");
    assert!(output.status.success(), "{errors}");
}

/// `$SLUICEGATE_TEST_PYTHON`, or the one that `make venv` made in the target folder.
pub(crate) fn python() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "tests have no main to read the environment in")]
    let named = std::env::var_os("SLUICEGATE_TEST_PYTHON").map(PathBuf::from);
    named.or_else(|| installed("venv/bin/python"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn the_own_client_is_served(backend: &str) {
    const LENGTH: u64 = 3_000_001;
    let folder = Folder::new();
    let server = Server::simple(backend, &folder);
    let (port, body) = (server.address().port(), folder.path("body"));
    let url = |path: &str| format!("https://127.0.0.1:{port}{path}");
    let get = |arguments: &[&str]| {
        let arguments = [&["get", "--max-time", "60"], arguments].concat();
        let mut process = Process::start(&arguments, &folder.path(""));
        let code = process.wait().code();
        (code, std::mem::take(&mut process.said))
    };
    let (code, said) = get(&["--cacert", "cert.pem", &url("/")]);
    assert_eq!((code, said), (Some(0), vec![PAGE.trim_end().to_owned()]));

    let (code, said) = get(&[&url("/")]);
    assert_eq!((code, said.len()), (Some(1), 1), "{said:?}");
    assert!(said[0].contains("not trusted"), "{said:?}");

    let (code, said) = get(&["-k", "--timing", "-o", "body", &url(&format!("/bytes/{LENGTH}"))]);
    assert_eq!((code, said.len()), (Some(0), 1), "{said:?}");
    assert!(said[0].contains(&format!("{LENGTH} bytes")), "{said:?}");
    let mut counted = Counted::default();
    counted.check(&std::fs::read(body).unwrap());
    assert_eq!(counted.bytes, LENGTH);

    let (code, _) = get(&["-k", "-f", &url("/bytes/none")]);
    assert_eq!(code, Some(22));
}

/// The client stops each response when it has its head; by then the server has often sent all of it, and waits for acknowledgements.
fn responses_that_a_client_leaves_unread_give_their_streams_back(backend: &str) {
    // Far more than the streams that a client may have open, 100.
    const REQUESTS: usize = 600;
    let folder = Folder::new();
    let server = Server::simple(backend, &folder);
    run(async {
        let client = Client::new(&folder);
        let mut session = client.connect(server.address()).await;
        for _ in 0..REQUESTS {
            assert_eq!(session.get("/").await.head.status(), 200);
        }
    });
}
