//! The socket that a congestion controller plugs into, exported as `quiche::cc`.
//!
//! The build script places this file at `recovery/gcongestion/external.rs` of the patched source.

mod lost;
mod sender;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use sluicegate_cc::AdoptedWindow;
use sluicegate_cc::Algorithm;
use sluicegate_cc::CarefulResume;
use sluicegate_cc::Controller;
use sluicegate_cc::EcnCounts;
use sluicegate_cc::Event;
use sluicegate_cc::Init;
use sluicegate_cc::Model;
use sluicegate_cc::Options;
use sluicegate_cc::Packet;
use sluicegate_cc::PacketState;
use sluicegate_cc::PathMemory;
use sluicegate_cc::PersistentCongestion;
use sluicegate_cc::Rtt;
use sluicegate_cc::Sent;
use sluicegate_cc::Time;

pub use self::lost::LostPackets;
pub use self::sender::Sender;
use super::Acked;
use super::Lost;
use crate::ecn::Ecn;
use crate::recovery::bandwidth::Bandwidth;
use crate::recovery::rtt::RttStats;
use crate::recovery::RecoveryConfig;

/// Packets of an event whose memory a thread keeps for the next event. Few ACK frames acknowledge more.
const KEPT: usize = 256;

thread_local! {
    /// Memory for the packets of an event. No path needs it between its events, so all paths of a thread share it.
    static EVENT_PACKETS: Cell<EventPackets> = const { Cell::new(EventPackets::new()) };
}

/// Packets of an event, in the controller's types.
#[derive(Default)]
struct EventPackets {
    acked: Vec<Packet>,
    lost: Vec<Packet>,
}

impl EventPackets {
    const fn new() -> Self {
        EventPackets { acked: Vec::new(), lost: Vec::new() }
    }

    /// Puts the memory back for the thread's next event.
    fn put_back(mut self) {
        for packets in [&mut self.acked, &mut self.lost] {
            packets.clear();
            packets.shrink_to(KEPT);
        }
        EVENT_PACKETS.set(self);
    }
}

/// An algorithm with its options: makes a controller for each path.
#[derive(Clone, Debug)]
pub struct Factory {
    algorithm: Arc<(Algorithm, Options)>,
    /// Memory of a connection's first path, until its controller is made.
    first_path: Option<Arc<Mutex<Option<Known>>>>,
}

/// The memory of a path, and the most bytes that a controller may try of it.
#[derive(Debug)]
struct Known {
    memory: Box<dyn PathMemory>,
    max_jump: u64,
}

impl Factory {
    /// Makes a factory of an algorithm's controllers.
    pub fn new(algorithm: Algorithm, options: Options) -> Self {
        Factory {
            algorithm: Arc::new((algorithm, options)),
            first_path: None,
        }
    }

    /// Returns a factory for one connection, whose controller for its first path resumes from `memory`, with at most
    /// `max_jump` bytes in flight at once. An algorithm without a window law cannot resume, and one that shrinks the window at
    /// every mark would seldom come to the end of a try: they get no memory.
    pub fn resuming(&self, memory: Box<dyn PathMemory>, max_jump: u64) -> Self {
        let known = self.algorithm.0.can_resume().then(|| {
            Arc::new(Mutex::new(Some(Known { memory, max_jump })))
        });
        Factory {
            algorithm: Arc::clone(&self.algorithm),
            first_path: known,
        }
    }

    /// Makes a path's controller.
    fn controller(&self, init: &Init) -> Box<dyn Controller> {
        let (algorithm, options) = &*self.algorithm;
        let controller = (algorithm.build)(init, options);
        let known = self.first_path.as_ref().and_then(|known| {
            known.lock().unwrap_or_else(PoisonError::into_inner).take()
        });
        match known {
            Some(Known { memory, max_jump }) =>
                Box::new(CarefulResume::new(controller, init.mtu, max_jump, memory)),
            None => controller,
        }
    }

    /// Returns whether the response to CE marks is scalable.
    fn is_scalable(&self) -> bool {
        self.algorithm.0.scalable
    }
}

impl PartialEq for Factory {
    fn eq(&self, other: &Self) -> bool {
        let known = |factory: &Self| factory.first_path.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.algorithm, &other.algorithm) && known(self) == known(other)
    }
}

impl crate::Config {
    /// Sets the controllers of the connection's paths. Overrides `set_cc_algorithm()`.
    pub fn set_cc_factory(&mut self, factory: Factory) {
        self.cc_factory = Some(factory);
    }
}

impl RecoveryConfig {
    /// Returns the mark of packets on paths that pass validation. ECT(1) promises a scalable response (RFC 9331 §4.1).
    pub(crate) fn ecn_mark(&self) -> Ecn {
        match &self.cc_factory {
            Some(factory) if self.ecn && factory.is_scalable() => Ecn::Ect1,
            Some(_) if self.ecn => Ecn::Ect0,
            // quiche's own do not respond to marks.
            _ => Ecn::NotCapable,
        }
    }
}

/// Makes a controller's time of the transport's. It keeps the latest one: the packets of a burst leave at the same time.
#[derive(Debug)]
struct ControllerClock {
    origin: Instant,
    latest: (Instant, Time),
}

impl ControllerClock {
    fn start(origin: Instant) -> Self {
        ControllerClock { origin, latest: (origin, Time::ZERO) }
    }

    fn read(&mut self, at: Instant) -> Time {
        if self.latest.0 != at {
            self.latest = (at, Time::between(self.origin, at));
        }
        self.latest.1
    }
}

/// One path's controller, and what it needs of a transport beyond what quiche has.
#[derive(Debug)]
pub struct External {
    controller: Box<dyn Controller>,
    persistent: PersistentCongestion,
    /// Time of the controller, which counts from when the path was created.
    clock: ControllerClock,
    /// Datagram size, bytes.
    mss: usize,
    /// Controller's window after its latest report, bytes. Each packet asks for it several times.
    window: usize,
    /// A timer was late, and what it should have sent has not left yet.
    pub(super) catches_up: bool,
    /// State of the packet sent last.
    latest: PacketState,
    /// Packets acknowledged late since the event before. It holds no memory while it is empty, as they are rare.
    late: Vec<Packet>,
    /// Marked packets that the peer has counted since the event before, and whether their mark is ECT(1).
    ecn: EcnCounts,
    is_scalable: bool,
}

impl External {
    fn new(config: &RecoveryConfig, factory: &Factory) -> Self {
        Self::with_datagrams(config.max_send_udp_payload_size, config, factory)
    }

    /// Makes a controller for a path with datagrams of `mss` bytes.
    fn with_datagrams(mss: usize, config: &RecoveryConfig, factory: &Factory) -> Self {
        let init = Init {
            mtu: mss as u64,
            initial_window_packets: config.initial_congestion_window_packets as u64,
            seed: crate::rand::rand_u64(),
        };
        let controller = factory.controller(&init);
        External {
            window: bytes(controller.cwnd()),
            controller,
            persistent: PersistentCongestion::new(),
            clock: ControllerClock::start(crate::clock::now()),
            mss,
            catches_up: false,
            latest: PacketState::default(),
            late: Vec::new(),
            ecn: EcnCounts::NONE,
            is_scalable: factory.is_scalable(),
        }
    }

    /// Makes the controller that takes the place of this one, by `factory`. It knows the path's round trip, and begins with a window
    /// no larger than this one's, or with the smallest that its algorithm has. What is in flight has yet to be reported to it.
    fn successor(
        &self, config: &RecoveryConfig, factory: &Factory, in_flight: usize,
        rtt: &RttStats,
    ) -> Self {
        let mut next = Self::with_datagrams(self.mss, config, factory);
        let now = next.now();
        let min = rtt.min_rtt();
        let event = Event {
            now,
            acked: &[],
            lost: &[],
            late_acked: &[],
            in_flight_before: in_flight as u64,
            in_flight: in_flight as u64,
            rtt: Rtt { latest: min.unwrap_or(rtt.latest_rtt), ..rtt_of(rtt) },
            rtt_updated: min.is_some(),
            ecn: EcnCounts::NONE,
            least_unacked: 0,
        };
        let former = self.controller.snapshot();
        next.report(|controller| {
            controller.on_event(&event);
            controller.adopt(now, AdoptedWindow::after(&former, controller.cwnd()));
        });
        next
    }

    /// Reports something to the controller.
    fn report<T>(&mut self, report: impl FnOnce(&mut dyn Controller) -> T) -> T {
        let result = report(&mut *self.controller);
        self.window = bytes(self.controller.cwnd());
        result
    }

    fn send_quantum(&self) -> usize {
        bytes(self.controller.send_quantum())
    }

    fn is_in_recovery(&self) -> bool {
        self.controller.state().is_recovering()
    }

    /// Returns a rate of the controller's model, or zero without a model.
    fn rate(&self, rate: impl FnOnce(&Model) -> u64) -> Bandwidth {
        let model = self.controller.snapshot().model;
        Bandwidth::from_bytes_per_second(model.as_ref().map_or(0, rate).min(u64::MAX / 8))
    }

    fn now(&mut self) -> Time {
        self.clock.read(crate::clock::now())
    }

    fn on_sent(&mut self, now: Instant, sent: &Sent) {
        let now = self.clock.read(now);
        self.latest = self.report(|controller| controller.on_sent(now, sent));
    }

    /// Keeps packets that were acknowledged late for the next event.
    fn on_late_acked(&mut self, packets: impl Iterator<Item = Acked>) {
        let clock = &mut self.clock;
        let packets = packets.filter(|p| p.bytes > 0);
        self.late.extend(packets.map(|p| packet(clock, p.pkt_num, p.time_sent, p.bytes, p.state)));
    }

    #[allow(clippy::too_many_arguments)]
    fn on_event(
        &mut self, now: Instant, in_flight_before: usize, in_flight: usize,
        acked: &[Acked], lost: &[Lost], least_unacked: u64, rtt: &RttStats,
        rtt_updated: bool,
    ) {
        let clock = &mut self.clock;
        // Packets that hold nothing but ACKs have no bytes in flight, and are no signal.
        let mut packets = EVENT_PACKETS.take();
        packets.acked.reserve(acked.len());
        for p in acked.iter().filter(|p| p.bytes > 0) {
            packets.acked.push(packet(clock, p.pkt_num, p.time_sent, p.bytes, p.state));
        }
        for p in lost.iter().filter(|p| p.bytes_lost > 0) {
            packets.lost.push(packet(clock, p.packet_number, p.time_sent, p.bytes_lost, p.state));
        }
        let mut late = std::mem::take(&mut self.late);
        late.sort_unstable_by_key(|p| p.packet_number);
        let event = Event {
            now: self.clock.read(now),
            acked: &packets.acked,
            lost: &packets.lost,
            late_acked: &late,
            in_flight_before: in_flight_before as u64,
            in_flight: in_flight as u64,
            rtt: rtt_of(rtt),
            rtt_updated,
            ecn: std::mem::take(&mut self.ecn),
            least_unacked,
        };
        self.controller.on_event(&event);
        if self.persistent.on_event(&event) {
            self.controller.on_persistent_congestion(event.now);
        }
        self.window = bytes(self.controller.cwnd());
        packets.put_back();
    }
}

/// Returns the path's round trip in the controller's type.
fn rtt_of(rtt: &RttStats) -> Rtt {
    Rtt {
        latest: rtt.latest_rtt,
        smoothed: rtt.smoothed_rtt,
        var: rtt.rttvar,
        min: rtt.min_rtt(),
        max_ack_delay: rtt.max_ack_delay,
    }
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns a packet of an event in the controller's types.
fn packet(
    clock: &mut ControllerClock, packet_number: u64, time_sent: Instant, bytes: usize,
    state: PacketState,
) -> Packet {
    Packet {
        packet_number,
        time_sent: clock.read(time_sent),
        bytes: bytes as u64,
        state,
    }
}
