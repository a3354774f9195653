//! The socket that a congestion controller from outside plugs into, exported as `quiche::cc`.
//!
//! The build script places this file at `recovery/gcongestion/external.rs` of the patched source.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use super::bbr2::BBRv2;
use super::BbrParams;
use super::CongestionControl;
use crate::recovery::bandwidth::Bandwidth;
use crate::recovery::rtt::RttStats;
use crate::recovery::RecoveryConfig;
use crate::recovery::RecoveryStats;

pub use super::Acked;
pub use super::Lost;

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

/// What the engine's pacer drives: its own BBRv2, or a controller from outside.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Sender {
    /// The engine's own.
    Bbr2(BBRv2),
    /// From outside.
    External {
        /// The controller.
        cc: Box<dyn Controller>,
        /// Datagram size, bytes.
        mss: usize,
    },
}

/// `None` and rates beyond the engine's range are unpaced.
fn bandwidth(rate: Option<u64>) -> Bandwidth {
    match rate {
        Some(rate) if rate < u64::MAX / 8 => Bandwidth::from_bytes_per_second(rate),
        _ => Bandwidth::infinite(),
    }
}

impl Sender {
    /// Whether the controller is from outside.
    pub(super) fn is_external(&self) -> bool {
        matches!(self, Sender::External { .. })
    }

    pub(super) fn bbr2(
        initial_window_packets: usize, max_window_packets: usize, mss: usize,
        initial_rtt: Duration, params: Option<&BbrParams>,
    ) -> Self {
        Sender::Bbr2(BBRv2::new(
            initial_window_packets,
            max_window_packets,
            mss,
            initial_rtt,
            params,
        ))
    }

    pub(super) fn external(config: &RecoveryConfig) -> Self {
        let factory = &config.cc_factory.as_ref().expect("checked by caller").0;
        let mss = config.max_send_udp_payload_size;
        Sender::External {
            cc: factory.build(&Init {
                mss,
                initial_window_packets: config.initial_congestion_window_packets,
            }),
            mss,
        }
    }

    pub(super) fn time_sent_set_to_now(&self) -> bool {
        match self {
            Sender::Bbr2(b) => b.time_sent_set_to_now(),
            Sender::External { .. } => true,
        }
    }

    pub(super) fn send_quantum(&self) -> Option<usize> {
        match self {
            Sender::Bbr2(_) => None,
            Sender::External { cc, .. } => Some(cc.send_quantum()),
        }
    }

    pub(super) fn rtt_persistent_jump_count(&self) -> u64 {
        match self {
            Sender::Bbr2(b) => b.rtt_persistent_jump_count(),
            Sender::External { .. } => 0,
        }
    }

    #[cfg(feature = "qlog")]
    pub(super) fn send_rate(&self) -> Option<Bandwidth> {
        match self {
            Sender::Bbr2(b) => b.send_rate(),
            Sender::External { .. } => None,
        }
    }

    #[cfg(feature = "qlog")]
    pub(super) fn ack_rate(&self) -> Option<Bandwidth> {
        match self {
            Sender::Bbr2(b) => b.ack_rate(),
            Sender::External { .. } => None,
        }
    }
}

impl CongestionControl for Sender {
    #[cfg(feature = "qlog")]
    fn state_str(&self) -> &'static str {
        match self {
            Sender::Bbr2(b) => b.state_str(),
            Sender::External { cc, .. } => cc.state(),
        }
    }

    fn get_congestion_window(&self) -> usize {
        match self {
            Sender::Bbr2(b) => b.get_congestion_window(),
            Sender::External { cc, .. } => cc.window(),
        }
    }

    fn get_congestion_window_in_packets(&self) -> usize {
        match self {
            Sender::Bbr2(b) => b.get_congestion_window_in_packets(),
            Sender::External { cc, mss } => cc.window() / *mss,
        }
    }

    fn can_send(&self, in_flight: usize) -> bool {
        match self {
            Sender::Bbr2(b) => b.can_send(in_flight),
            Sender::External { cc, .. } => in_flight < cc.window(),
        }
    }

    fn on_packet_sent(
        &mut self, now: Instant, in_flight: usize, pkt_num: u64, bytes: usize,
        has_data: bool,
    ) {
        match self {
            Sender::Bbr2(b) => b.on_packet_sent(now, in_flight, pkt_num, bytes, has_data),
            Sender::External { cc, .. } => cc.on_sent(now, in_flight, pkt_num, bytes, has_data),
        }
    }

    fn on_packet_neutered(&mut self, pkt_num: u64) {
        match self {
            Sender::Bbr2(b) => b.on_packet_neutered(pkt_num),
            Sender::External { cc, .. } => cc.on_discarded(pkt_num),
        }
    }

    fn on_congestion_event(
        &mut self, rtt_updated: bool, prior_in_flight: usize, in_flight: usize,
        now: Instant, acked: &[Acked], lost: &[Lost], least_unacked: u64,
        rtt: &RttStats, stats: &mut RecoveryStats,
    ) {
        match self {
            Sender::Bbr2(b) => b.on_congestion_event(
                rtt_updated, prior_in_flight, in_flight, now, acked, lost,
                least_unacked, rtt, stats,
            ),
            Sender::External { cc, .. } => cc.on_event(&Event {
                now,
                rtt: rtt.into(),
                rtt_updated,
                in_flight_before: prior_in_flight,
                in_flight,
                acked,
                lost,
                least_unacked,
            }),
        }
    }

    // A probe timeout is no congestion signal (RFC 9002 §7.5).
    fn on_retransmission_timeout(&mut self, retransmitted: bool) {
        if let Sender::Bbr2(b) = self {
            b.on_retransmission_timeout(retransmitted);
        }
    }

    fn on_connection_migration(&mut self) {}

    // Follows from `set_max_pacing_rate()`, which stays the engine's own matter.
    fn limit_cwnd(&mut self, max: usize) {
        if let Sender::Bbr2(b) = self {
            b.limit_cwnd(max);
        }
    }

    fn is_in_recovery(&self) -> bool {
        match self {
            Sender::Bbr2(b) => b.is_in_recovery(),
            Sender::External { cc, .. } => cc.in_recovery(),
        }
    }

    fn is_cwnd_limited(&self, in_flight: usize) -> bool {
        match self {
            Sender::Bbr2(b) => b.is_cwnd_limited(in_flight),
            Sender::External { cc, .. } => in_flight >= cc.window(),
        }
    }

    fn pacing_rate(&self, in_flight: usize, rtt: &RttStats) -> Bandwidth {
        match self {
            Sender::Bbr2(b) => b.pacing_rate(in_flight, rtt),
            Sender::External { cc, .. } => bandwidth(cc.pacing_rate()),
        }
    }

    fn bandwidth_estimate(&self, rtt: &RttStats) -> Bandwidth {
        match self {
            Sender::Bbr2(b) => b.bandwidth_estimate(rtt),
            // For statistics, and for the pacer's choice between single packets and pairs.
            Sender::External { cc, .. } => {
                let nanos = rtt.smoothed_rtt.as_nanos().max(1);
                let rate = cc.window() as u128 * 1_000_000_000 / nanos;
                bandwidth(Some(u64::try_from(rate).unwrap_or(u64::MAX / 8 - 1)))
            },
        }
    }

    fn max_bandwidth(&self) -> Bandwidth {
        match self {
            Sender::Bbr2(b) => b.max_bandwidth(),
            Sender::External { .. } => Bandwidth::zero(),
        }
    }

    fn update_mss(&mut self, new: usize) {
        match self {
            Sender::Bbr2(b) => b.update_mss(new),
            Sender::External { cc, mss } => {
                *mss = new;
                cc.on_mss(new);
            },
        }
    }

    fn on_app_limited(&mut self, in_flight: usize) {
        match self {
            Sender::Bbr2(b) => b.on_app_limited(in_flight),
            Sender::External { cc, .. } => cc.on_app_limited(in_flight),
        }
    }

    #[cfg(feature = "qlog")]
    fn ssthresh(&self) -> Option<u64> {
        match self {
            Sender::Bbr2(b) => b.ssthresh(),
            Sender::External { cc, .. } => cc.ssthresh(),
        }
    }
}
