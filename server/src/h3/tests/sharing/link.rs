//! A link of 19.2 Mbit/s and 40 ms between a client and a session.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluicegate_base::clock;
use sluicegate_config::Limits;
use sluicegate_http::exchange::message::ToFront;
use sluicegate_http::route::Site;
use sluicegate_test_support::config;

use crate::h3::tests::fixture::Bench;
use crate::h3::tests::{Pair, limits};

/// Time of a packet on its way, ms.
const DELAY: u64 = 20;

/// Round trip, ms.
pub(super) const ROUND_TRIP: u64 = 2 * DELAY;

/// Packets that the link carries each millisecond.
const PACKETS: usize = 2;

/// Largest packet, bytes.
const PACKET: usize = 1200;

/// Bytes that the link carries each millisecond.
pub(super) const RATE: u64 = (PACKETS * PACKET) as u64;

/// Length of a download, bytes.
pub(super) const DOWNLOAD: u64 = 60_000_000;

/// Bytes of a response that the client takes before it reads them.
const STREAM_WINDOW: u64 = 1 << 20;

type InFlight = VecDeque<(u64, Vec<u8>, quiche::RecvInfo)>;

/// A session and its client, with the packets between them.
pub(super) struct Link {
    pub(super) bench: Bench,
    start: Instant,
    /// Time since the start, ms.
    pub(super) now: u64,
    up: InFlight,
    down: InFlight,
    /// Time of each request, ms.
    asked: BTreeMap<u64, u64>,
    /// Time at which each response was complete, ms.
    done: BTreeMap<u64, u64>,
    /// Exchange whose handler sends all the time.
    pub(super) endless: Option<u64>,
}

fn site(more: &str) -> Arc<Site> {
    let head = "x".repeat(4000);
    let text = format!(
        "[[route]]\npath = \"/bytes/\"\ngenerate = {{ max_size = \"1GiB\" }}\n\
         [[route]]\npath = \"/app/\"\nproxy = {{ upstreams = \"127.0.0.1:1\" }}\n\
         [[route]]\npath = \"/page\"\nfixed = {{ body = \"hello\" }}\n\
         [[route]]\npath = \"/long-head\"\nfixed = {{ body = \"hello\" }}\n\
         response_headers = {{ add = {{ x-long = \"{head}\" }} }}\n{more}"
    );
    let limits =
        Limits { connection_send_buffer: 256 << 10, max_concurrent_streams: 100, ..limits() };
    Site::of_routes(&text, &limits)
}

impl Link {
    pub(super) fn new() -> Link {
        Link::with_routes("")
    }

    /// Returns a link to a session with further routes.
    pub(super) fn with_routes(routes: &str) -> Link {
        let mut near = config(10);
        near.set_initial_max_stream_data_bidi_local(STREAM_WINDOW);
        let ends = sluicegate_test_support::Pair::connect(&mut near, &mut config(10));
        let mut pair = Pair::of((ends.client, ends.server));
        pair.context.adopt(site(routes));
        pair.settle();
        Link {
            bench: Bench::of(pair),
            start: clock::now(),
            now: 0,
            up: VecDeque::new(),
            down: VecDeque::new(),
            asked: BTreeMap::new(),
            done: BTreeMap::new(),
            endless: None,
        }
    }

    /// Returns a link to a session whose window is open already.
    pub(super) fn warm() -> Link {
        let mut link = Link::new();
        let first = link.bytes(2_000_000, "");
        link.wait(first);
        link
    }

    /// Sends a request without a body.
    pub(super) fn ask(&mut self, path: &str, priority: &str) -> u64 {
        let field = [("priority", priority)];
        let more = if priority.is_empty() { &field[..0] } else { &field };
        let stream = self.bench.pair.request("GET", path, more, true);
        self.asked.insert(stream, self.now);
        stream
    }

    /// Sends a request for so many bytes.
    pub(super) fn bytes(&mut self, count: u64, priority: &str) -> u64 {
        self.ask(&format!("/bytes/{count}"), priority)
    }

    /// Sends a request to a handler, whose exchange it returns once it has arrived.
    pub(super) fn app(&mut self, priority: &str) -> (u64, u64) {
        let stream = self.ask("/app/x", priority);
        self.pass(ROUND_TRIP);
        (stream, self.bench.opened().0)
    }

    /// Lets time pass, in ms.
    pub(super) fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.tick();
        }
    }

    /// Lets time pass until a response is complete. Returns how long that took from its request, in ms.
    pub(super) fn wait(&mut self, stream: u64) -> u64 {
        for _ in 0..120_000 {
            if let Some(done) = self.done.get(&stream) {
                return done - self.asked[&stream];
            }
            self.tick();
        }
        panic!("stream {stream}: {} bytes", self.received(stream));
    }

    /// Returns when a response was complete, in ms from the start.
    pub(super) fn done(&self, stream: u64) -> Option<u64> {
        self.done.get(&stream).copied()
    }

    /// Returns how many bytes of a response's body have arrived.
    pub(super) fn received(&self, stream: u64) -> u64 {
        let seen = self.bench.pair.streams.get(&stream);
        seen.map_or(0, |seen| seen.body.len() as u64)
    }

    fn tick(&mut self) {
        self.now += 1;
        let now = self.start + Duration::from_millis(self.now);
        quiche::clock::set(Some(now));
        let pair = &mut self.bench.pair;
        // The context's time is that of the clock and what has passed.
        pair.passed = now.saturating_duration_since(clock::now());
        for end in [&mut pair.client, &mut pair.server] {
            if end.timeout_instant().is_some_and(|at| at <= now) {
                end.on_timeout();
            }
        }
        deliver(&mut self.up, self.now, &mut pair.server);
        deliver(&mut self.down, self.now, &mut pair.client);
        pair.watch();
        for (stream, seen) in &pair.streams {
            if seen.finished {
                self.done.entry(*stream).or_insert(self.now);
            }
        }
        if let Some(exchange) = self.endless {
            let block = Bytes::from_static(&[0; 4096]);
            self.bench.give(exchange, ToFront::Data(block));
        }
        let pair = &mut self.bench.pair;
        pair.turn();
        send(&mut pair.client, usize::MAX, self.now, &mut self.up);
        send(&mut pair.server, PACKETS, self.now, &mut self.down);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        quiche::clock::set(None);
    }
}

fn deliver(link: &mut InFlight, now: u64, to: &mut quiche::Connection) {
    while link.front().is_some_and(|(at, ..)| *at <= now)
        && let Some((_, mut packet, info)) = link.pop_front()
    {
        let _ = to.recv(&mut packet, info);
    }
}

fn send(from: &mut quiche::Connection, most: usize, now: u64, link: &mut InFlight) {
    let mut buffer = [0; PACKET];
    for _ in 0..most {
        let Ok((count, info)) = from.send(&mut buffer) else {
            return;
        };
        let info = quiche::RecvInfo { from: info.from, to: info.to };
        link.push_back((now + DELAY, buffer[..count].to_vec(), info));
    }
}
