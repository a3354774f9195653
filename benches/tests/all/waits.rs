//! What connections wait for over paths and clients whose limit is known, from many seeds.
//!
//! Nothing here has a handler that waits: `server/http/src/exchange/front/tests/causes.rs` does the same for upstreams and disks, and
//! `server/quic/src/endpoint/tests/waits.rs` for a busy worker, whose turns take no time here. The client's limit of streams binds no
//! server, which opens none for responses.

use std::time::Duration;

use sluicegate_base::observe::account::Wait;
use sluicegate_benches::virtual_net::{Control, Download, Scenario, Server, sweep};
use sluicegate_sim::{Bottleneck, LossWindow, ReceiveWindow, Source};

const LIMIT: Duration = Duration::from_secs(20);
const THREADS: usize = 2;
/// Part of the time that the right waits have at least.
const SHARE: f64 = 0.95;
/// Seeds of a run beside other tests, and of a long one.
const FEW: u64 = 10;
const MANY: u64 = 100;

/// A limit that is known.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// The client has a window of 64 KiB, which the path empties at once.
    SmallWindow,
    /// The client reads next to nothing.
    SlowReader,
    /// The path has a rate, and a queue for a controller that fills it.
    Bottleneck,
    /// Packets are lost at random.
    Loss,
    /// The client asks for a little now and then.
    IdleClient,
    /// The certificate is long, and nothing of the client arrives but its first packet.
    UnprovedAddress,
    /// The server's socket takes nothing any more.
    FullSocket,
}

impl Cause {
    const ALL: [Cause; 7] = [
        Cause::SmallWindow,
        Cause::SlowReader,
        Cause::Bottleneck,
        Cause::Loss,
        Cause::IdleClient,
        Cause::UnprovedAddress,
        Cause::FullSocket,
    ];

    /// Returns the waits that say so. A controller that paces waits for its rate, one without for its window.
    fn waits(self) -> &'static [Wait] {
        match self {
            Cause::SmallWindow | Cause::SlowReader => &[Wait::StreamFlow, Wait::ConnectionFlow],
            Cause::Bottleneck | Cause::Loss => &[Wait::Congestion, Wait::Pacing],
            Cause::IdleClient => &[Wait::Client],
            Cause::UnprovedAddress => &[Wait::Amplification],
            Cause::FullSocket => &[Wait::Scheduling],
        }
    }

    /// Returns the path's delay, one way.
    fn delay(self, seed: u64) -> Duration {
        let least = match self {
            Cause::SmallWindow => 50,
            _ => 10,
        };
        Duration::from_millis(least + 17 * seed % 60)
    }

    /// Returns a scenario with a path that follows from the seed.
    fn scenario(self, control: Control, seed: u64) -> Scenario {
        let delay = self.delay(seed);
        let rate = |bits| vec![(Duration::ZERO, bits)];
        let wide = Bottleneck { rate: rate(200_000_000), ..Bottleneck::unlimited(delay) };
        let narrow = 1_000_000 + 150_000 * (seed % 20);
        let (path, window, source) = match self {
            Cause::SmallWindow => (wide, Some((64 << 10, u64::MAX)), Source::Endless),
            Cause::SlowReader => (wide, Some((64 << 10, 80_000)), Source::Endless),
            Cause::Bottleneck => {
                let queue_bytes = 60_000;
                let path =
                    Bottleneck { rate: rate(narrow), queue_bytes, ..Bottleneck::unlimited(delay) };
                (path, None, Source::Endless)
            }
            Cause::Loss => {
                let path = Bottleneck {
                    rate: rate(narrow),
                    queue_bytes: 60_000,
                    loss: vec![LossWindow::always(0.01)],
                    ..Bottleneck::unlimited(delay)
                };
                (path, None, Source::Endless)
            }
            Cause::IdleClient => {
                let every = Duration::from_secs(5);
                (wide, None, Source::Periodic { bytes: 1000, every, times: 4 })
            }
            Cause::UnprovedAddress | Cause::FullSocket => (wide, None, Source::Endless),
        };
        let mut download = Download::new(control, source);
        download.receive_window =
            window.map(|(bytes, bits_per_second)| ReceiveWindow { bytes, bits_per_second });
        let mut scenario =
            Scenario::new(Server::default(), vec![download], &path, self.limit(), seed);
        match self {
            Cause::UnprovedAddress => {
                scenario.large_certificate = true;
                let (from, until) = (Duration::from_millis(1), Duration::MAX);
                scenario.up.loss = vec![LossWindow { from, until, probability: 1.0 }];
            }
            Cause::FullSocket => {
                scenario.socket_full_from = Some(Duration::from_millis(200 + 7 * seed % 300));
            }
            _ => {}
        }
        scenario
    }

    /// Returns the time in which another limit stands in its place: in each five seconds BBR halves its window for 200 ms and a round
    /// trip, to see the path without its own queue (ProbeRTT, draft-ietf-ccwg-bbr §5.3.4). Its account says so.
    fn other(self, control: &Control, seed: u64) -> Duration {
        let probe = Duration::from_millis(200) + 2 * self.delay(seed);
        match self {
            Cause::SmallWindow if control.to_string().starts_with("bbr") => {
                (0..self.limit().as_secs() / 5).map(|_| probe).sum()
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns the length of a run. The server gives a handshake up after ten seconds. Before a small window limits a connection, its
    /// congestion window does: for a second, where round trips are long.
    fn limit(self) -> Duration {
        match self {
            Cause::UnprovedAddress => Duration::from_secs(9),
            Cause::SmallWindow => 2 * LIMIT,
            _ => LIMIT,
        }
    }
}

/// Checks that each connection's time stands for its cause, and that all of it stands for something.
fn check(seeds: u64) {
    for cause in Cause::ALL {
        for control in Control::ours() {
            let runs = sweep(0..seeds, THREADS, |seed| cause.scenario(control, seed));
            for (seed, outcome) in runs.expect("both ends can be set up").runs {
                let all: Duration = outcome.waits.iter().map(|(_, time)| *time).sum();
                let right = outcome.waits.iter().filter(|(wait, _)| cause.waits().contains(wait));
                let right: Duration = right.map(|(_, time)| *time).sum();
                let least = all.saturating_sub(cause.other(&control, seed));
                assert!(
                    right >= least.mul_f64(SHARE) && all > cause.limit().mul_f64(0.7),
                    "{cause:?}, {control}, seed {seed}: {:?}",
                    outcome.waits
                );
            }
        }
    }
}

#[test]
fn known_causes_are_named() {
    check(FEW);
}

#[test]
#[ignore = "long: a hundred seeds"]
fn known_causes_are_named_from_every_seed() {
    check(MANY);
}
