//! The event loop: turns of both ends, with the clock jumping between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::client::Client;
use super::clock::{VirtualClock, earliest};
use super::random::Seeded;
use super::server::Server;
use super::wire::Wire;
use super::{Control, Outcome, Sample, Scenario, SimulationError, tls, trace, watch};
use crate::conventions::{ENDS_SEED, SAMPLE_EVERY, UP_SEED};

const CLIENT: SocketAddr = address(1, 40_000);
const SERVER: SocketAddr = address(2, 443);

/// A run that needs more has stopped making progress.
const MAX_TURNS: u64 = 20_000_000;

/// The control whose states are read from its trace. Writing one costs time, so the others go without.
const SPECIMEN: Control = Control::QuicheCubic { idle_fix: false };

const fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// Runs one download on this thread.
///
/// # Errors
///
/// [`SimulationError`] when an end could not be set up, or broke the protocol. Not finishing in time is an outcome.
pub fn run(scenario: &Scenario) -> Result<Outcome, SimulationError> {
    let _random = Seeded::new(scenario.seed ^ ENDS_SEED);
    let mut net = Net::new(scenario)?;
    let mut completed = None;
    for _ in 0..MAX_TURNS {
        net.turn()?;
        if net.client.finished() {
            completed = Some(net.clock.elapsed());
        }
        if completed.is_some() || net.client.quic.is_closed() || net.server.quic.is_closed() {
            break;
        }
        let Some(next) = net.next_event() else { break };
        if next > scenario.limit {
            break;
        }
        net.clock.advance_to(next);
        net.deliver();
        net.expire();
    }
    let counts = net.server.counts();
    Ok(Outcome {
        completed,
        received: net.client.received(),
        final_cwnd: counts.cwnd,
        lost_packets: counts.lost,
        pages: Vec::new(),
        inside: watch::inside(),
        trace: net.trace,
    })
}

struct Net {
    clock: VirtualClock,
    client: Client,
    server: Server,
    up: Wire,
    down: Wire,
    /// Earliest time at which pacing lets an end go on.
    release: Option<Instant>,
    scratch: Vec<u8>,
    next_sample: Duration,
    trace: Vec<Sample>,
}

impl Net {
    fn new(scenario: &Scenario) -> Result<Self, SimulationError> {
        let clock = VirtualClock::start();
        let client = Client::connect(&mut tls::client()?, CLIENT, SERVER)?;
        let mut config = tls::server(scenario.control)?;
        let mut server = Server::accept(&mut config, SERVER, CLIENT, scenario.body.clone())?;
        trace::forget();
        if scenario.control == SPECIMEN {
            trace::tap(&mut server.quic);
        }
        Ok(Self {
            clock,
            client,
            server,
            up: Wire::new(&scenario.up, scenario.seed ^ UP_SEED),
            down: Wire::new(&scenario.down, scenario.seed),
            release: None,
            scratch: vec![0; 64 * 1024],
            next_sample: Duration::ZERO,
            trace: Vec::new(),
        })
    }

    /// Lets both applications work, then sends all that may leave now.
    fn turn(&mut self) -> Result<(), SimulationError> {
        self.client.on_turn(&mut self.scratch)?;
        self.server.on_turn(self.clock.elapsed())?;
        let clock = &self.clock;
        let scratch = &mut self.scratch;
        let server = send_all(&mut self.server.quic, &mut self.down, clock, scratch)?;
        let client = send_all(&mut self.client.quic, &mut self.up, clock, scratch)?;
        self.release = earliest([server, client]);
        self.sample();
        Ok(())
    }

    fn sample(&mut self) {
        let at = self.clock.elapsed();
        if at < self.next_sample {
            return;
        }
        self.next_sample = at + SAMPLE_EVERY;
        let counts = self.server.counts();
        let view = watch::view();
        let traced = trace::state();
        self.trace.push(Sample {
            at,
            cwnd: counts.cwnd,
            in_flight: self.down.bytes(),
            received: self.client.received(),
            sent_packets: counts.sent,
            lost_packets: counts.lost,
            srtt: counts.srtt,
            burst: self.down.take_burst(),
            state: view.map(|view| view.state.name()).or(traced),
            view,
        });
    }

    /// Returns when something happens next, since the start.
    fn next_event(&self) -> Option<Duration> {
        let timers = earliest([
            self.client.quic.timeout_instant(),
            self.server.quic.timeout_instant(),
            self.release,
        ]);
        earliest([
            timers.map(|at| self.clock.since_start(at)),
            self.server.next_offer(self.clock.elapsed()),
            self.up.next_arrival(),
            self.down.next_arrival(),
        ])
    }

    /// Hands over what arrived. An end may refuse a packet, which is then gone.
    fn deliver(&mut self) {
        let now = self.clock.elapsed();
        let (to_client, to_server) = (&mut self.client.quic, &mut self.server.quic);
        while let Some(mut packet) = self.down.take_arrived(now) {
            let (from, to) = (SERVER, CLIENT);
            let _ = to_client.recv(&mut packet, quiche::RecvInfo { from, to });
            self.down.recycle(packet);
        }
        while let Some(mut packet) = self.up.take_arrived(now) {
            let (from, to) = (CLIENT, SERVER);
            let _ = to_server.recv(&mut packet, quiche::RecvInfo { from, to });
            self.up.recycle(packet);
        }
    }

    fn expire(&mut self) {
        let now = self.clock.now();
        for quic in [&mut self.client.quic, &mut self.server.quic] {
            if quic.timeout_instant().is_some_and(|at| at <= now) {
                quic.on_timeout();
            }
        }
    }
}

/// Sends until quiche has no more or pacing says wait; returns until when.
fn send_all(
    quic: &mut quiche::Connection,
    wire: &mut Wire,
    clock: &VirtualClock,
    scratch: &mut [u8],
) -> Result<Option<Instant>, SimulationError> {
    loop {
        let release = quic.get_next_release_time().and_then(|decision| decision.time(clock.now()));
        if release.is_some() {
            return Ok(release);
        }
        match quic.send(scratch) {
            Ok((size, _)) => wire.depart(clock.elapsed(), &scratch[..size]),
            Err(quiche::Error::Done) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
