//! A sender whose timers are late keeps its pacing rate, and bounds the burst that makes up for it.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_cc::{Controller, Init, Layer, Options};
use sluicegate_test_support::{built_by, builtin, config, set_algorithm, Build, Pair};

/// Datagram size, bytes.
const DATAGRAM: usize = 1200;

/// Time between two turns of the sender.
const TURN: Duration = Duration::from_millis(5);

/// Turns of a round trip.
const ROUND_TRIP: usize = 40;

/// Turns that a timer is late by, fewer than those of a round trip: packets stay in flight.
const LATE: usize = 20;

/// Keeps its window and its pacing rate, whatever happens.
#[derive(Debug)]
struct Constant<const WINDOW: u64, const RATE: u64>(Box<dyn Controller>);

impl<const WINDOW: u64, const RATE: u64> Layer for Constant<WINDOW, RATE> {
    fn inner(&self) -> &dyn Controller {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.0
    }

    fn cwnd(&self) -> u64 {
        WINDOW
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(RATE)
    }

    /// A packet: what leaves with it is the pacer's decision.
    fn send_quantum(&self) -> u64 {
        DATAGRAM as u64
    }
}

fn constant<const WINDOW: u64, const RATE: u64>(
    init: &Init,
    options: &Options,
) -> Box<dyn Controller> {
    Box::new(Constant::<WINDOW, RATE>((builtin("reno").build)(init, options)))
}

/// A download whose packets take a round trip to the client and their acknowledgements none.
struct Download {
    pair: Pair,
    /// Datagrams of the latest turns, the last one's at the back.
    on_the_way: VecDeque<Vec<Vec<u8>>>,
}

impl Download {
    /// Returns a download that has found its pace: its burst at the start is over.
    fn new(build: Build) -> Self {
        let (mut client, mut server) = (config(10), config(10));
        server.enable_pacing(true);
        server.set_max_send_udp_payload_size(DATAGRAM);
        set_algorithm(&mut server, built_by("reno", build));
        let mut pair = Pair::connect(&mut client, &mut server);
        pair.client.stream_send(0, b"?", true).expect("request");
        pair.settle();
        let on_the_way = VecDeque::from(vec![Vec::new(); ROUND_TRIP]);
        let mut download = Self { pair, on_the_way };
        for _ in 0..5 * ROUND_TRIP {
            download.turn();
        }
        download
    }

    /// Makes a turn, with more data than it can send. Returns the number of bytes sent.
    fn turn(&mut self) -> usize {
        self.pass();
        self.send(usize::MAX)
    }

    /// Lets a turn's time pass in which the server receives and does not send.
    fn pass(&mut self) {
        self.pair.pass(TURN);
        self.on_the_way.push_back(Vec::new());
        self.deliver();
    }

    /// Delivers the oldest turn's datagrams, and their acknowledgements.
    fn deliver(&mut self) {
        let mut buffer = [0; 65_536];
        for datagram in self.on_the_way.pop_front().unwrap_or_default() {
            self.pair.client_receives(&datagram);
            while self.pair.client.stream_recv(0, &mut buffer).is_ok() {}
            while let Ok((len, _)) = self.pair.client.send(&mut buffer) {
                self.pair.server_receives(&buffer[..len]);
            }
        }
    }

    /// Sends what the window and the pacer allow of `data` bytes. Returns the number of bytes sent.
    fn send(&mut self, mut data: usize) -> usize {
        let mut buffer = [0; DATAGRAM];
        let mut sent = 0;
        loop {
            let chunk = [7; 4 * DATAGRAM];
            let chunk = &chunk[..data.min(chunk.len())];
            data -= self.pair.server.stream_send(0, chunk, false).unwrap_or(0);
            let release = self.pair.server.get_next_release_time();
            if release.is_some_and(|at| at.time(quiche::clock::now()).is_some()) {
                return sent;
            }
            let Ok((len, _)) = self.pair.server.send(&mut buffer) else {
                return sent;
            };
            sent += len;
            let last = self.on_the_way.back_mut().expect("the turn's datagrams");
            last.push(buffer[..len].to_vec());
        }
    }

    /// Returns the number of bytes that leave when the timer is late.
    fn burst_when_late(&mut self) -> usize {
        for _ in 0..LATE {
            self.pass();
        }
        self.send(usize::MAX)
    }
}

#[test]
fn late_turns_keep_the_pacing_rate() {
    const RATE: u64 = 1_000_000;
    let mut download = Download::new(constant::<1_000_000, RATE>);
    let turns = 400;
    let sent: usize = (0..turns).map(|_| download.turn()).sum();
    let paced = (RATE as f64 * (TURN * turns).as_secs_f64()) as usize;
    let within = paced - 2 * DATAGRAM..=paced + 2 * DATAGRAM;
    assert!(within.contains(&sent), "{sent} bytes, {paced} of the rate");
}

#[test]
fn delays_below_a_millisecond_are_not_made_up() {
    const INTERVAL: Duration = Duration::from_micros(1200);
    let mut download = Download::new(constant::<1_000_000, 1_000_000>);
    for packet in 0..10 {
        let now = quiche::clock::now();
        let release = download.pair.server.get_next_release_time();
        let release = release.and_then(|at| at.time(now)).expect("paced");
        let wait = release - now;
        // The first one is paced by the turns before.
        assert!(packet == 0 || wait >= INTERVAL * 9 / 10, "{wait:?}");
        download.pair.pass(wait + Duration::from_micros(900));
        let sent = download.send(usize::MAX);
        assert!((1..=DATAGRAM).contains(&sent), "{sent} bytes");
    }
}

#[test]
fn burst_after_a_late_timer_is_bounded() {
    // While the timer is late, the rate would send more than each bound.
    let cases: [(&str, Build, usize); 4] = [
        ("10 ms", constant::<2_000_000, 4_000_000>, 40_000),
        ("10 packets", constant::<200_000, 500_000>, 10 * DATAGRAM),
        ("256 packets", constant::<20_000_000, 32_000_000>, 256 * DATAGRAM),
        ("quarter of the window", constant::<40_000, 150_000>, 10_000),
    ];
    for (bound, build, bytes) in cases {
        let sent = Download::new(build).burst_when_late();
        let within = bytes - DATAGRAM..=bytes + 2 * DATAGRAM;
        assert!(within.contains(&sent), "{bound}: {sent} bytes");
    }
}

#[test]
fn sender_that_the_window_limited_does_not_burst() {
    // The window is full after half a round trip, but for part of a datagram.
    let mut download = Download::new(constant::<100_000, 1_000_000>);
    while download.turn() > 0 {}
    for _ in 0..LATE / 2 {
        download.pass();
    }
    // Nothing was sent in the other half; then a few turns' acknowledgements arrive at once.
    for _ in 0..LATE {
        download.deliver();
    }
    let sent = download.send(usize::MAX);
    assert!((1..=2 * DATAGRAM).contains(&sent), "{sent} bytes");
    let more: usize = (0..5).map(|_| download.turn()).sum();
    assert!(more > 10 * DATAGRAM, "{more} bytes of room");
}

#[test]
fn sender_that_data_limited_does_not_burst() {
    let mut download = Download::new(constant::<1_000_000, 1_000_000>);
    // It sends the rest of its data, and finds no more.
    download.pass();
    while download.send(0) > 0 {
        download.pass();
    }
    let sent = download.burst_when_late();
    assert!((1..=2 * DATAGRAM).contains(&sent), "{sent} bytes");
}
