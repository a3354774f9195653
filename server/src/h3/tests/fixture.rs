//! A session with a handler that the test plays.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::observe::access::AccessWriter;
use sluicegate_config::{AccessFormat, LogTarget};

use http::{HeaderName, HeaderValue};
use sluicegate_http::exchange::Fields;
use sluicegate_http::exchange::accounts::Accounts;
use sluicegate_http::exchange::message::{Envelope, Head, Request, ToFront, ToHandler};
use sluicegate_http::exchange::ring::{WorkerRing, rings};

use super::Pair;

/// Credit of one exchange, bytes.
pub(super) const SHARE: u64 = 4096;

/// Returns the access log of what a client does.
pub(super) fn logged(format: AccessFormat, visit: impl FnOnce(&mut Bench)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let target = Box::new(LogTarget::File(file.clone()));
    let writer = AccessWriter::start(target, format, 1 << 20, Arc::default()).unwrap();
    let mut bench = Bench::new();
    bench.pair.context.logs.access = Some(writer.log("worker".to_owned()));
    visit(&mut bench);
    drop(bench);
    assert!(writer.shutdown(Duration::from_secs(60)));
    std::fs::read_to_string(file).unwrap()
}

/// A session, and the handler's end of its rings.
pub(super) struct Bench {
    pub(super) pair: Pair,
    pub(super) worker_ring: WorkerRing,
}

impl Bench {
    pub(super) fn new() -> Bench {
        Bench::of(Pair::new())
    }

    pub(super) fn of(mut pair: Pair) -> Bench {
        let (origin_ring, worker_ring) = rings(64, Accounts::new(SHARE, u64::MAX));
        pair.context.origin_ring = Some(origin_ring);
        Bench { pair, worker_ring }
    }

    pub(super) fn give(&mut self, exchange: u64, message: ToFront) {
        self.worker_ring.give(Envelope { exchange, message }).unwrap();
    }

    pub(super) fn head(&mut self, exchange: u64, length: Option<u64>, end: bool) {
        let fields = fields(&[("x-from", "origin"), ("server", "theirs")]);
        let head = Head { status: 200, fields, length, end };
        self.give(exchange, ToFront::Head(head));
    }

    /// Takes the next message, which opens an exchange.
    pub(super) fn opened(&mut self) -> (u64, Request) {
        let Envelope { exchange, message } = self.worker_ring.take().expect("a message");
        match message {
            ToHandler::Open { request, credit } => {
                assert_eq!(credit, SHARE);
                (exchange, *request)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Sends a request without a body, and takes it from the ring.
    pub(super) fn ask(&mut self, method: &str, path: &str) -> (u64, u64) {
        let stream = self.pair.request(method, path, &[], true);
        self.pair.settle();
        (stream, self.opened().0)
    }

    /// Begins a request whose body follows.
    pub(super) fn begin(&mut self, more: &[(&str, &str)]) -> u64 {
        self.pair.request("POST", "/app/x", more, false)
    }

    /// Sends as much of a body as the stream takes.
    pub(super) fn send(&mut self, stream: u64, body: &[u8], fin: bool) -> usize {
        let Pair { h3, client, .. } = &mut self.pair;
        h3.send_body(client, stream, body, fin).unwrap_or(0)
    }
}

pub(super) fn fields(list: &[(&'static str, &'static str)]) -> Fields {
    let lines = list
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    lines.collect()
}
