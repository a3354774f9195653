//! The socket that a congestion controller from outside plugs into, exported as `quiche::cc`.
//!
//! The build script places this file at `recovery/gcongestion/external.rs` of the patched source.

mod sender;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::recovery::rtt::RttStats;

pub use super::Acked;
pub use super::Lost;
pub use self::sender::Sender;

impl Acked {
    /// One counter over all packet number spaces.
    pub fn packet_number(&self) -> u64 {
        self.pkt_num
    }

    /// When the packet left.
    pub fn time_sent(&self) -> Instant {
        self.time_sent
    }

    /// Size on the wire. Packets that hold nothing but ACKs are reported too, without a send before.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Lost {
    /// One counter over all packet number spaces.
    pub fn packet_number(&self) -> u64 {
        self.packet_number
    }

    /// When the packet left.
    pub fn time_sent(&self) -> Instant {
        self.time_sent
    }

    /// Size on the wire; 0 is no signal.
    pub fn bytes(&self) -> usize {
        self.bytes_lost
    }
}

/// The engine's round-trip estimate.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    /// Newest sample.
    pub latest: Duration,
    /// Smoothed; the configured initial value before the first sample.
    pub smoothed: Duration,
    /// Mean deviation.
    pub var: Duration,
    /// Smallest; `None` before the first sample.
    pub min: Option<Duration>,
    /// The peer's.
    pub max_ack_delay: Duration,
}

impl From<&RttStats> for Rtt {
    fn from(s: &RttStats) -> Self {
        Rtt {
            latest: s.latest_rtt,
            smoothed: s.smoothed_rtt,
            var: s.rttvar,
            min: s.min_rtt(),
            max_ack_delay: s.max_ack_delay,
        }
    }
}

/// What is known when a path, and so its controller, is made.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    /// Largest datagram, bytes of UDP payload.
    pub mss: usize,
    /// As configured.
    pub initial_window_packets: usize,
}

/// One ACK frame, or one expiry of the loss timer.
#[derive(Debug)]
pub struct Event<'a> {
    /// When it was processed.
    pub now: Instant,
    /// Estimate, this event's sample included.
    pub rtt: Rtt,
    /// Whether there was a sample.
    pub rtt_updated: bool,
    /// Bytes in flight before.
    pub in_flight_before: usize,
    /// Bytes in flight after.
    pub in_flight: usize,
    /// Newly acknowledged, in order.
    pub acked: &'a [Acked],
    /// Newly lost, in order.
    pub lost: &'a [Lost],
    /// Smallest packet number still out.
    pub least_unacked: u64,
}

/// A congestion controller for one path of one connection.
pub trait Controller: Debug + Send + Sync {
    /// Congestion window, bytes.
    fn window(&self) -> usize;

    /// Bytes per second; `None` is unpaced.
    fn pacing_rate(&self) -> Option<u64>;

    /// Bytes that may leave back to back.
    fn send_quantum(&self) -> usize;

    /// Whether the path's rate is still searched for, as in slow start.
    fn is_starting(&self) -> bool;

    /// For qlog's `congestion_state_updated`.
    fn state(&self) -> &'static str;

    /// For qlog's `recovery_metrics_updated`.
    fn ssthresh(&self) -> Option<u64>;

    /// Whether losses of the present episode were acted upon already.
    fn in_recovery(&self) -> bool;

    /// A packet that counts as in flight left.
    fn on_sent(
        &mut self, now: Instant, in_flight_before: usize, packet_number: u64,
        bytes: usize, has_data: bool,
    );

    /// Packets were acknowledged or lost.
    fn on_event(&mut self, event: &Event);

    /// A packet will be neither acknowledged nor lost.
    fn on_discarded(&mut self, packet_number: u64);

    /// There was room in the window and nothing to send.
    fn on_app_limited(&mut self, in_flight: usize);

    /// The datagram size changed.
    fn on_mss(&mut self, mss: usize);
}

/// Makes one controller per path.
pub trait Factory: Send + Sync {
    /// Called when a path is created.
    fn build(&self, init: &Init) -> Box<dyn Controller>;
}

impl<F> Factory for F
where
    F: Fn(&Init) -> Box<dyn Controller> + Send + Sync,
{
    fn build(&self, init: &Init) -> Box<dyn Controller> {
        self(init)
    }
}

/// A factory inside a configuration.
#[derive(Clone)]
pub struct FactoryHandle(Arc<dyn Factory>);

impl PartialEq for FactoryHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl crate::Config {
    /// Overrides `set_cc_algorithm()`.
    pub fn set_cc_factory(&mut self, factory: Arc<dyn Factory>) {
        self.cc_factory = Some(FactoryHandle(factory));
    }
}
