//! Every fault of an upstream, from every front: the client gets the status that names it or sees the response break off, and
//! nothing is left of it.

mod http1;
mod http2;
mod peer;
mod tls;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::admin::{ADMIN, address, metrics, sum};
use crate::client::run;
use crate::fronts::{FRONTS, Front, Outcome};
use crate::server::{Folder, Server, Setup};
use peer::{Protocol, start};
use tls::Certificate;

/// Response that the client of a faulty upstream gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The server's own, with this status and this error in `proxy-status`.
    Status(u16, &'static str),
    /// One that breaks off. The fault may overtake its head: then 502.
    Broken,
    /// The upstream's, with this body.
    Whole(&'static str),
}

/// Fault of an upstream that accepts connections.
struct Fault {
    name: &'static str,
    /// Serves a request, and fails where no other may follow.
    serve: fn(&mut peer::Peer) -> std::io::Result<()>,
    expected: Expected,
}

const fn fault(
    name: &'static str,
    serve: fn(&mut peer::Peer) -> std::io::Result<()>,
    expected: Expected,
) -> Fault {
    Fault { name, serve, expected }
}

const TERMINATED: Expected = Expected::Status(502, "connection_terminated");
const MALFORMED: Expected = Expected::Status(502, "http_protocol_error");
const TOO_LARGE: Expected = Expected::Status(502, "http_response_header_section_size");
const TOO_SLOW: Expected = Expected::Status(504, "http_response_timeout");
const REFUSED: Expected = Expected::Status(502, "connection_refused");
const NO_TLS: Expected = Expected::Status(502, "tls_protocol_error");
const DISTRUSTED: Expected = Expected::Status(502, "tls_certificate_error");
const NOT_OPEN: Expected = Expected::Status(504, "connection_timeout");

/// Request of the table.
struct Row {
    front: Front,
    path: String,
    expected: Expected,
}

/// Routes to upstreams, and what clients get by them.
struct Table {
    routes: String,
    rows: Vec<Row>,
    /// Connections that the upstreams have open.
    open: Arc<AtomicUsize>,
}

impl Table {
    /// Adds an upstream, as `upstreams` names it, with further keys of its pool.
    fn add(&mut self, front: Front, name: &str, upstream: &str, keys: &str, expected: Expected) {
        let path = format!("/{front:?}/{name}/").to_lowercase();
        write!(
            self.routes,
            "[[route]]\npath = \"{path}\"\n[route.proxy]\nupstreams = \"{upstream}\"\n\
             max_fails = 0\nconnect_timeout = \"1s\"\nhead_timeout = \"1s\"\nidle_timeout = \"1s\"\n\
             keepalive_timeout = \"500ms\"\n{keys}\n"
        )
        .unwrap();
        self.rows.push(Row { front, path, expected });
    }

    /// Adds the faults of a protocol, with TLS and without. Each front has upstreams of its own, so that none meets the faults that
    /// another one has brought about.
    fn add_faults(&mut self, protocol: Protocol, faults: &[Fault], certificate: &Certificate) {
        let plain = match protocol {
            Protocol::Http1 => "http",
            Protocol::Http2 => "h2c",
        };
        let acceptor = certificate.acceptor(protocol);
        for front in FRONTS {
            for (scheme, tls) in [(plain, None), ("https", Some(&acceptor))] {
                for fault in faults {
                    let upstream = start(fault.serve, tls.cloned(), &self.open);
                    let keys = if tls.is_some() { tls::TRUSTED } else { "" };
                    let name = format!("{protocol:?}/{scheme}/{}", fault.name);
                    let upstream = format!("{scheme}://{upstream}");
                    self.add(front, &name, &upstream, keys, fault.expected);
                }
                let name = format!("{protocol:?}/{scheme}/refused");
                self.add(front, &name, &format!("{scheme}://127.0.0.1:1"), "", REFUSED);
            }
        }
    }

    /// Makes the requests of all fronts at the same time, those to slow upstreams beside the others or not at all, and compares what
    /// clients get.
    fn check(&self, server: SocketAddr, folder: &Folder, slow: bool) {
        let check = |front: Front, is_slow: bool| {
            let rows = self.rows.iter().filter(move |row| row.front == front);
            let rows = rows.filter(|row| row.path.contains("/slow") == is_slow);
            let others = rows.filter_map(|row| {
                let outcome = front.get(server, folder, &row.path);
                let expected = row.expected;
                (!expected.is(&outcome))
                    .then(|| format!("{}: {outcome:?} is not {expected:?}", row.path))
            });
            others.collect::<Vec<_>>()
        };
        let others = std::thread::scope(|scope| {
            let spawn = |is_slow| FRONTS.map(|front| scope.spawn(move || check(front, is_slow)));
            let (quick, slow) = (spawn(false), slow.then(|| spawn(true)));
            let threads = quick.into_iter().chain(slow.into_iter().flatten());
            let others = threads.flat_map(|thread| thread.join().unwrap());
            others.collect::<Vec<_>>()
        });
        assert!(others.is_empty(), "{others:#?}");
    }
}

impl Expected {
    /// Returns whether a client got this.
    fn is(self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Expected::Broken, Outcome::Broken) => true,
            (Expected::Broken, Outcome::Whole(status, ..)) => *status == 502,
            (Expected::Whole(expected), Outcome::Whole(200, None, body)) => {
                body == expected.as_bytes()
            }
            (Expected::Status(expected, error), Outcome::Whole(status, Some(cause), _)) => {
                let cause = cause.strip_prefix("sluicegate; error=");
                *status == expected && cause == Some(error)
            }
            _ => false,
        }
    }
}

/// Waits until no more descriptors are open than before, and no exchange or connection is left.
fn until_nothing_is_left(admin: SocketAddr, descriptors: f64, open: &AtomicUsize) {
    run(async {
        loop {
            let found = metrics(admin);
            let left = [
                "sluicegate_origin_exchanges",
                "sluicegate_origin_reserved_bytes",
                "sluicegate_tcp_exchanges",
                "sluicegate_tcp_reserved_bytes",
                "sluicegate_tcp_connections",
                "sluicegate_connections",
            ];
            let left: f64 = left.iter().map(|name| found[*name]).sum();
            let more = found["process_open_fds"] - descriptors;
            if left == 0.0 && more <= 0.0 && open.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

/// Takes long: each front makes about a hundred requests, and repeats twice those that do not go to slow upstreams. The server waits for
/// a second for each request to a slow one.
#[test]
fn faults_of_upstreams_have_their_status_or_break_off_and_leave_nothing() {
    /// Growth of memory beyond the first time, KiB.
    const GROWTH: u64 = 8 << 10;
    let folder = Folder::new();
    let mut table = Table { routes: String::new(), rows: Vec::new(), open: Arc::default() };
    let certificate = Certificate::write(&folder);
    table.add_faults(Protocol::Http1, http1::FAULTS, &certificate);
    table.add_faults(Protocol::Http2, http2::FAULTS, &certificate);
    tls::add(&mut table, &certificate);
    let setup = Setup::new("mio")
        .with(ADMIN)
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&table.routes);
    let mut server = Server::start(&setup, &folder);
    let admin = address(&mut server);
    for front in FRONTS {
        assert!(matches!(front.get(server.address(), &folder, "/"), Outcome::Whole(200, None, _)));
    }
    until_nothing_is_left(admin, f64::MAX, &table.open);
    let descriptors = metrics(admin)["process_open_fds"];
    table.check(server.address(), &folder, true);
    until_nothing_is_left(admin, descriptors, &table.open);
    let failures = sum(&metrics(admin), "sluicegate_proxy_failures_total");
    let expected = |row: &&Row| !matches!(row.expected, Expected::Whole(_));
    let count = table.rows.iter().filter(expected).count();
    assert!(failures >= count as f64, "{failures} of {count} are counted");
    let memory = server.process.anonymous_kib();
    for _ in 0..2 {
        table.check(server.address(), &folder, false);
    }
    until_nothing_is_left(admin, descriptors, &table.open);
    let more = server.process.anonymous_kib().saturating_sub(memory);
    assert!(more < GROWTH, "{more} KiB more than after the first time");
    // Nothing of it concerns other requests.
    for front in FRONTS {
        assert!(matches!(front.get(server.address(), &folder, "/"), Outcome::Whole(200, None, _)));
    }
}
