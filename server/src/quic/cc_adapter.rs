//! Our congestion controllers in quiche's socket.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use sluicegate_cc::{
    Algorithm, Controller, EcnCounts, Event, Init, Options, Packet, PacketState,
    PersistentCongestion, Rtt, Sent, State, Time,
};

/// Packets reported per event that fit without growing a buffer.
const BATCH: usize = 256;

thread_local! {
    /// Shared by all paths of a thread, which would otherwise keep 12 KiB each.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        acked: Vec::with_capacity(BATCH),
        lost: Vec::with_capacity(BATCH),
    });
}

/// The packets of one event, translated; nothing in it outlives the event.
struct Scratch {
    acked: Vec<Packet>,
    lost: Vec<Packet>,
}

/// What quiche asks for a controller for each path.
pub fn factory(algorithm: Algorithm, options: Options) -> Arc<dyn quiche::cc::Factory> {
    Arc::new(
        move |init: &quiche::cc::Init| -> Box<dyn quiche::cc::Controller> {
            let init = Init {
                mtu: init.mss as u64,
                initial_window_packets: init.initial_window_packets as u64,
                seed: seed(),
            };
            Box::new(Adapter::new((algorithm.build)(&init, &options)))
        },
    )
}

fn seed() -> u64 {
    let mut bytes = [0; 8];
    super::entropy::draw(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// One path's controller, with the state that translation needs.
#[derive(Debug)]
struct Adapter {
    controller: Box<dyn Controller>,
    persistent: PersistentCongestion,
    /// State of the packets in flight, by ascending number: quiche's own record has no room for it.
    states: VecDeque<(u64, PacketState)>,
    /// The controller's time begins here.
    origin: Instant,
}

impl Adapter {
    fn new(controller: Box<dyn Controller>) -> Self {
        Self {
            controller,
            persistent: PersistentCongestion::new(),
            states: VecDeque::new(),
            origin: quiche::clock::now(),
        }
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.origin)
    }

    fn now(&self) -> Time {
        self.time(quiche::clock::now())
    }

    /// Returns a packet with the state that the controller gave it.
    fn packet(&self, number: u64, sent: Instant, bytes: usize) -> Packet {
        let at = self.states.binary_search_by_key(&number, |state| state.0);
        let state = at.ok().and_then(|at| self.states.get(at));
        Packet {
            packet_number: number,
            time_sent: self.time(sent),
            bytes: bytes as u64,
            state: state.map(|state| state.1).unwrap_or_default(),
        }
    }

    /// Hands an event of quiche on to the controller.
    fn translate(&mut self, event: &quiche::cc::Event<'_>, scratch: &mut Scratch) {
        let Scratch { acked, lost } = scratch;
        acked.clear();
        lost.clear();
        // Packets that hold only ACKs are reported with 0 bytes: no signal.
        acked.extend(
            event
                .acked
                .iter()
                .filter(|p| p.bytes() > 0)
                .map(|p| self.packet(p.packet_number(), p.time_sent(), p.bytes())),
        );
        lost.extend(
            event
                .lost
                .iter()
                .filter(|p| p.bytes() > 0)
                .map(|p| self.packet(p.packet_number(), p.time_sent(), p.bytes())),
        );
        while let Some((number, _)) = self.states.front()
            && *number < event.least_unacked
        {
            self.states.pop_front();
        }
        let translated = Event {
            now: self.time(event.now),
            acked,
            lost,
            late_acked: &[],
            in_flight_before: event.in_flight_before as u64,
            in_flight: event.in_flight as u64,
            rtt: Rtt {
                latest: event.rtt.latest,
                smoothed: event.rtt.smoothed,
                var: event.rtt.var,
                min: event.rtt.min,
                max_ack_delay: event.rtt.max_ack_delay,
            },
            rtt_updated: event.rtt_updated,
            // quiche does not report ECN counts, and no ECT mark is sent.
            ecn: EcnCounts::NONE,
            least_unacked: event.least_unacked,
        };
        self.controller.on_event(&translated);
        if self.persistent.on_event(&translated) {
            self.controller.on_persistent_congestion(translated.now);
        }
    }
}

impl quiche::cc::Controller for Adapter {
    fn window(&self) -> usize {
        usize::try_from(self.controller.cwnd()).unwrap_or(usize::MAX)
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.controller.pacing_rate()
    }

    fn send_quantum(&self) -> usize {
        usize::try_from(self.controller.send_quantum()).unwrap_or(usize::MAX)
    }

    fn is_starting(&self) -> bool {
        self.controller.state().is_starting()
    }

    fn state(&self) -> &'static str {
        self.controller.state().name()
    }

    fn ssthresh(&self) -> Option<u64> {
        self.controller.ssthresh()
    }

    fn in_recovery(&self) -> bool {
        self.controller.state() == State::Recovery
    }

    fn on_sent(
        &mut self,
        now: Instant,
        in_flight_before: usize,
        packet_number: u64,
        bytes: usize,
        has_data: bool,
    ) {
        let now = self.time(now);
        let state = self.controller.on_sent(
            now,
            &Sent {
                packet_number,
                bytes: bytes as u64,
                in_flight_before: in_flight_before as u64,
                has_data,
            },
        );
        self.states.push_back((packet_number, state));
    }

    fn on_event(&mut self, event: &quiche::cc::Event<'_>) {
        SCRATCH.with_borrow_mut(|scratch| self.translate(event, scratch));
    }

    fn on_discarded(&mut self, packet_number: u64) {
        let now = self.now();
        self.controller.on_discarded(now, packet_number);
    }

    fn on_app_limited(&mut self, in_flight: usize) {
        let now = self.now();
        self.controller.on_app_limited(now, in_flight as u64);
    }

    fn on_mss(&mut self, mss: usize) {
        self.controller.on_mtu(mss as u64);
    }
}
