//! An upstream that comes and goes all the time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::admin::{ADMIN, address, metrics};
use crate::client::{Client, Session, run};
use crate::on_auto;
use crate::server::{Folder, Server, Setup};

on_auto!(each_request_to_a_flapping_upstream_is_answered_whole_or_failed);

/// Length of a whole response.
const LENGTH: usize = 200_000;
/// Time that the upstream stays as it is.
const PERIOD: Duration = Duration::from_millis(100);

/// Behaviour of the upstream at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It responds.
    Up,
    /// Nobody listens, and open connections are closed.
    Refusing,
    /// It closes each connection in the middle of the response's body.
    Resetting,
}

/// A flapping upstream, until it is made steady.
struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    is_steady: AtomicBool,
    open: AtomicUsize,
}

impl Upstream {
    fn start() -> Upstream {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Up),
            is_steady: AtomicBool::new(false),
            open: AtomicUsize::new(0),
        });
        let kept = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut listener = Some(first);
            let states = [State::Up, State::Refusing, State::Resetting];
            for state in states.into_iter().cycle() {
                let is_steady = kept.is_steady.load(Ordering::SeqCst);
                let state = if is_steady { State::Up } else { state };
                *kept.state.lock().unwrap() = state;
                if state == State::Refusing {
                    listener = None;
                    std::thread::park_timeout(PERIOD);
                } else {
                    accept(listener.get_or_insert_with(|| bind(address)), &kept);
                }
            }
        });
        Upstream { address, shared }
    }
}

/// Binds the port again, which nobody else is likely to have taken.
fn bind(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).unwrap()
}

/// Accepts the connections of one period.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    const STEP: Duration = Duration::from_millis(5);
    listener.set_nonblocking(true).unwrap();
    for _ in 0..PERIOD.as_millis() / STEP.as_millis() {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            let shared = Arc::clone(shared);
            std::thread::spawn(move || {
                shared.open.fetch_add(1, Ordering::SeqCst);
                while respond(&stream, &shared).is_some() {}
                shared.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
        std::thread::park_timeout(STEP);
    }
}

/// Responds to one request; `None` where the connection is over.
fn respond(mut stream: &TcpStream, shared: &Shared) -> Option<()> {
    let mut request = [0; 4096];
    stream.read(&mut request).ok().filter(|read| *read > 0)?;
    let state = *shared.state.lock().unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
    let (body, end) = match state {
        State::Up => (LENGTH, Some(())),
        State::Refusing => return None,
        State::Resetting => (LENGTH / 2, None),
    };
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&vec![b'.'; body]).ok()?;
    end
}

/// Makes a request, and returns whether its response is whole; an error is the other way to end.
async fn ask(session: &mut Session) -> bool {
    let Ok(mut response) = session.try_get("/app/").await else {
        return false;
    };
    let status = response.head.status().as_u16();
    let mut length = 0;
    loop {
        match response.try_piece().await {
            Ok(Some(piece)) => length += piece.len(),
            Ok(None) => break,
            // A response that has begun is reset.
            Err(_) => return false,
        }
    }
    match status {
        200 => assert_eq!(length, LENGTH, "a truncated response looks whole"),
        status => assert!((502..=504).contains(&status), "{status}"),
    }
    status == 200
}

/// Takes long: the upstream goes and returns while 300 requests are made.
fn each_request_to_a_flapping_upstream_is_answered_whole_or_failed(backend: &str) {
    const REQUESTS: usize = 300;
    let folder = Folder::new();
    let upstream = Upstream::start();
    let setup = Setup::new(backend)
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&format!(
            "[[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"{}\", fail_timeout = \"200ms\" }}",
            upstream.address
        ));
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    run(async {
        let client = Client::new(&folder);
        let before = metrics(admin)["process_open_fds"];
        let mut sessions = Vec::new();
        for _ in 0..4 {
            let mut session = client.connect(server.address()).await;
            sessions.push(tokio::spawn(async move {
                let (mut whole, mut failed) = (0, 0);
                while whole + failed < REQUESTS || whole == 0 || failed == 0 {
                    if ask(&mut session).await {
                        whole += 1;
                    } else {
                        failed += 1;
                        // As a client would that tries again.
                        tokio::time::sleep(PERIOD / 20).await;
                    }
                }
                (session, whole, failed)
            }));
        }
        let mut session = None;
        for task in sessions {
            let (last, whole, failed) = task.await.unwrap();
            println!("{whole} whole, {failed} failed");
            session = Some(last);
        }
        upstream.shared.is_steady.store(true, Ordering::SeqCst);
        let mut session = session.unwrap();
        // A response that was begun in the last period may still be reset, and the upstream be out of rotation.
        let mut in_a_row = 0;
        while in_a_row < 50 {
            in_a_row = if ask(&mut session).await { in_a_row + 1 } else { 0 };
        }
        loop {
            let found = metrics(admin);
            let left = |name: &str| found[&format!("sluicegate_{name}")];
            let open = upstream.shared.open.load(Ordering::SeqCst);
            let quiet = left("origin_exchanges") == 0.0 && left("origin_reserved_bytes") == 0.0;
            // Idle connections to the upstream are all that may stay.
            if quiet && found["process_open_fds"] <= before + open as f64 && open <= 4 {
                break;
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
}
