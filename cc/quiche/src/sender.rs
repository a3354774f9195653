//! What the engine's pacer drives.
//!
//! The build script places this file at `recovery/gcongestion/external/sender.rs` of the patched source.

use std::time::Duration;
use std::time::Instant;

use super::Controller;
use super::Event;
use super::Init;
use crate::recovery::bandwidth::Bandwidth;
use crate::recovery::gcongestion::bbr2::BBRv2;
use crate::recovery::gcongestion::Acked;
use crate::recovery::gcongestion::BbrParams;
use crate::recovery::gcongestion::CongestionControl;
use crate::recovery::gcongestion::Lost;
use crate::recovery::rtt::RttStats;
use crate::recovery::RecoveryConfig;
use crate::recovery::RecoveryStats;

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
    pub(in crate::recovery::gcongestion) fn is_external(&self) -> bool {
        matches!(self, Sender::External { .. })
    }

    pub(in crate::recovery::gcongestion) fn bbr2(
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

    pub(in crate::recovery::gcongestion) fn external(config: &RecoveryConfig) -> Self {
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

    pub(in crate::recovery::gcongestion) fn time_sent_set_to_now(&self) -> bool {
        match self {
            Sender::Bbr2(b) => b.time_sent_set_to_now(),
            Sender::External { .. } => true,
        }
    }

    pub(in crate::recovery::gcongestion) fn send_quantum(&self) -> Option<usize> {
        match self {
            Sender::Bbr2(_) => None,
            Sender::External { cc, .. } => Some(cc.send_quantum()),
        }
    }

    /// Packets that go unpaced when nothing is in flight, besides the one after them. The engine's `initial` is for a
    /// path whose rate is not known yet (RFC 9002 §7.7); afterwards they make one quantum with that one.
    pub(in crate::recovery::gcongestion) fn restart_burst(&self, initial: usize) -> usize {
        match self {
            Sender::External { cc, mss } if !cc.is_starting() => (cc.send_quantum() / *mss).max(2) - 1,
            _ => initial,
        }
    }

    pub(in crate::recovery::gcongestion) fn rtt_persistent_jump_count(&self) -> u64 {
        match self {
            Sender::Bbr2(b) => b.rtt_persistent_jump_count(),
            Sender::External { .. } => 0,
        }
    }

    #[cfg(feature = "qlog")]
    pub(in crate::recovery::gcongestion) fn send_rate(&self) -> Option<Bandwidth> {
        match self {
            Sender::Bbr2(b) => b.send_rate(),
            Sender::External { .. } => None,
        }
    }

    #[cfg(feature = "qlog")]
    pub(in crate::recovery::gcongestion) fn ack_rate(&self) -> Option<Bandwidth> {
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
