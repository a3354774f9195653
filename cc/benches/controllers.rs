//! Measures the cost of a controller per packet, each registered algorithm beside one that does nothing.
//!
//! Path: 50 Mbit/s, round trip 40 ms and what the queue adds, one packet in 10,000 lost, an ACK for every second packet,
//! the window always in use. `sent` is one packet leaving, with the questions that pacing asks; `acked` is one ACK of two packets; `packet` is one packet
//! from leaving to being acknowledged, all included. The transport's own records are in each of them, and the
//! controller that does nothing shows how much they are.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use sluicegate_cc::{
    Controller, EcnCounts, Event, Init, Packet, PacketState, PathChange, Registry, Rtt, Sent,
    Snapshot, State, Time,
};

const MTU: u64 = 1_200;
const RTT: Duration = Duration::from_millis(40);
/// Service time of the packets of one ACK at the bottleneck, at 50 Mbit/s.
const SERVICE: Duration = Duration::from_nanos(PACKETS_PER_ACK as u64 * MTU * 8 * 20);
const LOSS_EVERY: u64 = 10_000;
const PACKETS_PER_ACK: usize = 2;

/// Packets on the path before anything is measured: a hundred losses.
const WARM_UP: u64 = 1_000_000;

/// A fixed window, the size of those that the others have on this path.
#[derive(Debug)]
struct Nothing;

const NOTHING: u64 = 150 * MTU;

impl Controller for Nothing {
    fn on_sent(&mut self, _now: Time, _sent: &Sent) -> PacketState {
        PacketState::default()
    }
    fn on_path_changed(&mut self, _now: Time, _change: PathChange) {}
    fn on_event(&mut self, _event: &Event<'_>) {}
    fn on_app_limited(&mut self, _now: Time, _in_flight: u64) {}
    fn on_persistent_congestion(&mut self, _now: Time) {}
    fn on_discarded(&mut self, _now: Time, _packet_number: u64) {}
    fn on_mtu(&mut self, _mtu: u64) {}
    fn cwnd(&self) -> u64 {
        NOTHING
    }
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    fn send_quantum(&self) -> u64 {
        10 * MTU
    }
    fn state(&self) -> State {
        State::CongestionAvoidance
    }
    fn ssthresh(&self) -> Option<u64> {
        None
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cwnd: NOTHING,
            ssthresh: None,
            pacing_rate: None,
            state: State::CongestionAvoidance,
            epoch: None,
            idle_excluded: Duration::ZERO,
            congestion_events: 0,
            model: None,
        }
    }
}

/// A controller on the path.
struct Path {
    controller: Box<dyn Controller>,
    now: Time,
    srtt: Duration,
    next_number: u64,
    in_flight: u64,
    packets: VecDeque<Packet>,
    acked: Vec<Packet>,
    lost: Vec<Packet>,
}

impl Path {
    fn new(controller: Box<dyn Controller>) -> Self {
        let mut path = Self {
            controller,
            now: Time::ZERO,
            srtt: RTT,
            next_number: 0,
            in_flight: 0,
            packets: VecDeque::new(),
            acked: Vec::new(),
            lost: Vec::new(),
        };
        while path.next_number < WARM_UP {
            path.fill();
            path.acknowledge_half();
        }
        path
    }

    /// Sends what the window has room for and returns the number of packets.
    fn fill(&mut self) -> u64 {
        let first = self.next_number;
        while self.in_flight + MTU <= self.controller.cwnd() {
            let sent = Sent {
                packet_number: self.next_number,
                bytes: MTU,
                in_flight_before: self.in_flight,
                has_data: true,
            };
            self.packets.push_back(Packet {
                packet_number: sent.packet_number,
                time_sent: self.now,
                bytes: MTU,
                state: self.controller.on_sent(self.now, black_box(&sent)),
            });
            self.next_number += 1;
            self.in_flight += MTU;
            black_box(self.controller.pacing_rate());
            black_box(self.controller.send_quantum());
        }
        self.next_number - first
    }

    /// Acknowledges the older half of the packets in flight and returns the number of ACKs.
    fn acknowledge_half(&mut self) -> u64 {
        let acks = (self.packets.len() / 2).div_ceil(PACKETS_PER_ACK);
        (0..acks).for_each(|_| self.acknowledge());
        acks as u64
    }

    fn acknowledge(&mut self) {
        self.acked.clear();
        self.lost.clear();
        let newest = PACKETS_PER_ACK.min(self.packets.len()) - 1;
        let time_sent = self.packets[newest].time_sent;
        self.now = (self.now + SERVICE).max(time_sent + RTT);
        let latest = self.now.saturating_since(time_sent);
        self.srtt = (self.srtt * 7 + latest) / 8;
        for packet in self.packets.drain(..=newest) {
            if packet.packet_number % LOSS_EVERY == LOSS_EVERY - 1 {
                self.lost.push(packet);
            } else {
                self.acked.push(packet);
            }
        }
        let in_flight_before = self.in_flight;
        self.in_flight = self.packets.len() as u64 * MTU;
        self.controller.on_event(black_box(&Event {
            now: self.now,
            acked: &self.acked,
            lost: &self.lost,
            late_acked: &[],
            in_flight_before,
            in_flight: self.in_flight,
            rtt: Rtt {
                latest,
                smoothed: self.srtt,
                var: Duration::ZERO,
                min: Some(RTT),
                max_ack_delay: Duration::from_millis(25),
            },
            rtt_updated: true,
            ecn: EcnCounts::NONE,
            least_unacked: self
                .packets
                .front()
                .map_or(self.next_number, |p| p.packet_number),
        }));
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(spent: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *spent += start.elapsed();
    done
}

/// Returns the time for `times` of what is counted, measured over half windows.
fn measure(times: u64, mut half_window: impl FnMut(&mut Duration) -> u64) -> Duration {
    let (mut spent, mut done) = (Duration::ZERO, 0);
    while done < times {
        done += half_window(&mut spent);
    }
    spent.mul_f64(times as f64 / done as f64)
}

fn controllers(criterion: &mut Criterion) {
    let init = Init {
        mtu: MTU,
        initial_window_packets: 10,
        seed: 1,
    };
    let registry = Registry::builtin();
    let listed = registry.iter().map(|algorithm| {
        (
            algorithm.name,
            algorithm.controller(&init, &algorithm.defaults()),
        )
    });
    let nothing: Box<dyn Controller> = Box::new(Nothing);
    let mut paths: Vec<_> = std::iter::once(("nothing", nothing))
        .chain(listed)
        .map(|(name, controller)| (name, Path::new(controller)))
        .collect();
    let mut group = criterion.benchmark_group("sent");
    for (name, path) in &mut paths {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|times| {
                measure(times, |spent| {
                    path.acknowledge_half();
                    timed(spent, || path.fill())
                })
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("acked");
    for (name, path) in &mut paths {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|times| {
                measure(times, |spent| {
                    path.fill();
                    timed(spent, || path.acknowledge_half())
                })
            });
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("packet");
    for (name, path) in &mut paths {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|times| {
                measure(times, |spent| {
                    timed(spent, || {
                        path.acknowledge_half();
                        path.fill()
                    })
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, controllers);
criterion_main!(benches);
