//! Clients behind a NAT that changes their port during downloads. What the server sends to a former port is lost.

use std::collections::BTreeSet;

use super::*;

const LENGTH: usize = 300_000;
const STEP: Duration = Duration::from_millis(5);
/// Time of silence after which the client sends a PING: only it can tell the server of its new port.
const KEEP_ALIVE: Duration = Duration::from_millis(500);
/// Connection IDs that a client issues at first, where it issues any.
const SPARE: u64 = 3;
/// Steps in which the port may change, and those after them.
const UNSTEADY: usize = 1000;
const STEADY: usize = 4000;

/// Decisions of a network, the same for each seed.
struct Random(u64);

impl Random {
    /// Returns whether an event of that probability happens, in thousandths.
    fn happens(&mut self, thousandths: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % 1000 < thousandths
    }
}

/// Behaviour of a client and its network.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    /// Whether the client issues connection IDs: spare ones, and another for each that the server retires.
    issues: bool,
    /// Datagrams lost on the way, in either direction, in thousandths.
    loss: u64,
    /// Probability of another port in each step, in thousandths.
    changes: u64,
}

struct Nat {
    attack: Attack,
    peer: Peer,
    random: Random,
    case: Case,
    heard: Instant,
    issued: u64,
    retired: BTreeSet<u64>,
}

impl Nat {
    fn new(case: Case) -> Nat {
        let mut attack = Attack::new(|_| {});
        let mut peer = attack.connect(PEER, Setup::new(1));
        let mut issued = 0;
        if case.issues {
            for _ in 0..SPARE {
                issued += 1;
                peer.client.send(&[issue(issued, 0)]);
            }
            attack.exchange(&mut peer);
        }
        let heard = attack.now;
        let random = Random(case.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        peer.client.frames.clear();
        Nat { attack, peer, random, case, heard, issued, retired: BTreeSet::new() }
    }

    fn change_port(&mut self) {
        let next = self.peer.meta.peer.port() + 1;
        self.peer.meta.peer.set_port(next);
    }

    /// Passes datagrams in both directions, and time.
    fn step(&mut self, changes: u64) {
        for datagram in self.peer.client.take_datagrams() {
            if !self.random.happens(self.case.loss) {
                self.attack.ingest(&self.peer.meta, datagram);
            }
        }
        let said = self.attack.turn();
        if self.random.happens(changes) {
            self.change_port();
        }
        for datagram in said {
            if datagram.0 == self.peer.meta.peer && !self.random.happens(self.case.loss) {
                self.heard = self.attack.now;
                hear(&mut self.peer, vec![datagram]);
            }
        }
        for frame in std::mem::take(&mut self.peer.client.frames) {
            if let Frame::RetireConnectionId(sequence) = frame
                && self.retired.insert(sequence)
                && self.case.issues
            {
                self.issued += 1;
                self.peer.client.send(&[issue(self.issued, 0)]);
            }
            assert!(!matches!(frame, Frame::Close { .. }), "{frame:?}, {:?}", self.case);
        }
        if self.attack.now >= self.heard + KEEP_ALIVE {
            self.heard = self.attack.now;
            self.peer.client.send(&[Frame::Ping]);
        }
        self.attack.now += STEP;
        quiche::clock::set(Some(self.attack.now));
        self.attack.metered(|endpoint, _, now| endpoint.on_deadline(1000, now));
    }

    fn is_complete(&self) -> bool {
        let stream = self.peer.client.streams.get(&0);
        stream.is_some_and(|stream| stream.is_finished())
            && self.peer.response(0) == (Some(200), LENGTH)
    }

    /// Downloads while the port changes, and goes on without changes. Returns whether the download became complete.
    fn download(mut self) -> bool {
        let head = http3::get(&format!("/bytes/{LENGTH}"), &[]);
        self.peer.client.write(0, &head, true);
        self.attack.speak(&mut self.peer);
        let mut changes = vec![self.case.changes; UNSTEADY];
        changes.resize(UNSTEADY + STEADY, 0);
        for changes in changes {
            if self.is_complete() {
                self.attack.endpoint().check();
                return true;
            }
            self.step(changes);
        }
        false
    }
}

#[test]
fn downloads_survive_changes_of_the_port_at_any_time() {
    let mut lost = Vec::new();
    for seed in 1..=5 {
        for (issues, loss) in [(true, 0), (true, 100), (false, 0), (false, 100)] {
            for changes in [50, 300] {
                let case = Case { seed, issues, loss, changes };
                if !Nat::new(case).download() {
                    lost.push(case);
                }
            }
        }
    }
    assert!(lost.is_empty(), "{lost:?}");
}
