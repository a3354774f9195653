//! The congestion control that quiche's pacer drives.
//!
//! The build script places this file at `recovery/gcongestion/external/sender.rs` of the patched source.

use std::time::Duration;
use std::time::Instant;

use sluicegate_cc::EcnCounts;
use sluicegate_cc::PacketState;
use sluicegate_cc::Sent;

use super::External;
use crate::recovery::bandwidth::Bandwidth;
use crate::recovery::gcongestion::bbr2::BBRv2;
use crate::recovery::gcongestion::Acked;
use crate::recovery::gcongestion::BbrParams;
use crate::recovery::gcongestion::CongestionControl;
use crate::recovery::gcongestion::Lost;
use crate::recovery::rtt::RttStats;
use crate::recovery::RecoveryConfig;
use crate::recovery::RecoveryStats;

/// The congestion control of one path: quiche's own BBRv2, or a controller from outside.
#[derive(Debug)]
pub enum Sender {
    /// quiche's own BBRv2, which is several times as large as a controller from outside.
    Bbr2(Box<BBRv2>),
    /// A controller from outside of quiche.
    External(External),
}

/// Delay of a timer from which on it is made up for. Shorter ones are usual: so long is a turn of the server. To make up for
/// them would keep the exact rate of a controller whose rate is too high, and its queue.
const LATE: Duration = Duration::from_millis(1);

/// Time for which a late timer is made up for.
const CATCH_UP_TIME: Duration = Duration::from_millis(10);

/// Fewest packets of a catch-up burst, at rates that send less in that time.
const MIN_CATCH_UP_PACKETS: usize = 10;

/// Most packets of a catch-up burst.
const MAX_CATCH_UP_PACKETS: usize = 256;

/// Returns a rate in quiche's type; `None` and rates beyond its range are unpaced.
fn bandwidth(rate: Option<u64>) -> Bandwidth {
    match rate {
        Some(rate) if rate < u64::MAX / 8 => Bandwidth::from_bytes_per_second(rate),
        _ => Bandwidth::infinite(),
    }
}

/// Returns a time in nanoseconds, at least one.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl Sender {
    /// Returns whether the controller is from outside.
    pub(in crate::recovery::gcongestion) fn is_external(&self) -> bool {
        matches!(self, Sender::External(_))
    }

    pub(in crate::recovery::gcongestion) fn bbr2(
        initial_window_packets: usize, max_window_packets: usize, mss: usize,
        initial_rtt: Duration, params: Option<&BbrParams>,
    ) -> Self {
        Sender::Bbr2(Box::new(BBRv2::new(
            initial_window_packets,
            max_window_packets,
            mss,
            initial_rtt,
            params,
        )))
    }

    pub(in crate::recovery::gcongestion) fn external(config: &RecoveryConfig) -> Self {
        let factory = config.cc_factory.as_ref().expect("checked by caller");
        Sender::External(External::new(config, factory))
    }

    /// Puts another controller, by the configuration's factory, in the place of one from outside. Returns whether it did.
    pub(in crate::recovery::gcongestion) fn switch(
        &mut self, config: &RecoveryConfig, in_flight: usize, rtt: &RttStats,
    ) -> bool {
        let (Sender::External(former), Some(factory)) = (&*self, &config.cc_factory) else {
            return false;
        };
        *self = Sender::External(former.successor(config, factory, in_flight, rtt));
        true
    }

    /// Returns the state that the controller gave the packet sent last.
    pub(in crate::recovery::gcongestion) fn packet_state(&self) -> PacketState {
        match self {
            Sender::Bbr2(_) => PacketState::default(),
            Sender::External(external) => external.latest,
        }
    }

    /// Takes packets that were acknowledged after they were declared lost.
    pub(in crate::recovery::gcongestion) fn on_late_acked(&mut self, packets: impl Iterator<Item = Acked>) {
        if let Sender::External(external) = self {
            external.on_late_acked(packets);
        }
    }

    /// Reports packets that were acknowledged late, if there are any: the ACK frame brought nothing else.
    pub(in crate::recovery::gcongestion) fn report_late_acked(
        &mut self, now: Instant, in_flight: usize, least_unacked: u64,
        rtt: &RttStats,
    ) {
        match self {
            Sender::External(external) if !external.late.is_empty() =>
                external.on_event(now, in_flight, in_flight, &[], &[], least_unacked, rtt, false),
            _ => {},
        }
    }

    /// Takes packets that the peer newly counted with the mark that is sent and as Congestion Experienced.
    pub(in crate::recovery::gcongestion) fn on_ecn_counts(&mut self, ect: u64, ce: u64) {
        if let Sender::External(external) = self {
            let (ect0, ect1) = if external.is_scalable { (0, ect) } else { (ect, 0) };
            external.ecn = EcnCounts { ect0, ect1, ce };
        }
    }

    /// Returns the controller's latest sample of the path's rate of delivery, or zero if it takes none.
    pub(in crate::recovery::gcongestion) fn delivery_rate(&self, rtt: &RttStats) -> Bandwidth {
        match self {
            Sender::Bbr2(b) => b.bandwidth_estimate(rtt),
            Sender::External(external) => external.rate(|model| model.delivery_rate),
        }
    }

    pub(in crate::recovery::gcongestion) fn time_sent_set_to_now(&self) -> bool {
        match self {
            Sender::Bbr2(b) => b.time_sent_set_to_now(),
            Sender::External(_) => true,
        }
    }

    pub(in crate::recovery::gcongestion) fn send_quantum(&self) -> Option<usize> {
        match self {
            Sender::Bbr2(_) => None,
            Sender::External(external) => Some(external.send_quantum()),
        }
    }

    /// Returns how many packets go unpaced when nothing is in flight, besides the one after them. quiche's `initial` is for
    /// a path whose rate is not known yet (RFC 9002 §7.7); afterwards they make one quantum with that one. A scalable
    /// algorithm's are always paced, because the queues that it is for mark bursts of a millisecond.
    pub(in crate::recovery::gcongestion) fn restart_burst(&self, initial: usize) -> usize {
        match self {
            Sender::External(external) if external.is_scalable || !external.controller.state().is_starting() =>
                (external.send_quantum() / external.mss).max(2) - 1,
            _ => initial,
        }
    }

    /// Returns how many bytes may leave at once to make up for a timer that was late by `late`: once that was a millisecond, and
    /// until the sender is on schedule again, what the pacing `rate` sends in 10 ms, at least 10 packets and at most 256, and at most
    /// a quarter of the window. Without them, a controller that trusts samples of the delivery rate would take what late timers let
    /// through for all that the path carries. quiche's own gets none, as upstream.
    pub(in crate::recovery::gcongestion) fn catch_up_burst(&mut self, rate: Bandwidth, late: Duration) -> u64 {
        match self {
            Sender::Bbr2(_) => 0,
            Sender::External(external) => {
                let catches_up = late >= LATE || external.catches_up && !late.is_zero();
                // The packet after this one leaves at its time if no more than this one is overdue.
                external.catches_up = catches_up && late >= rate.transfer_time(external.mss as u64);
                if !catches_up {
                    return 0;
                }
                let packets = |count: usize| (count * external.mss) as u64;
                rate.to_bytes_per_period(CATCH_UP_TIME)
                    .clamp(packets(MIN_CATCH_UP_PACKETS), packets(MAX_CATCH_UP_PACKETS))
                    .min(external.window as u64 / 4)
            },
        }
    }

    /// Returns whether the window has room for another packet. With a controller from outside it waits for room for a whole
    /// datagram.
    pub(in crate::recovery::gcongestion) fn has_room(&self, in_flight: usize) -> bool {
        match self {
            Sender::Bbr2(b) => b.can_send(in_flight),
            Sender::External(external) => in_flight + external.mss <= external.window,
        }
    }

    /// Returns whether the window has so many packets.
    pub(in crate::recovery::gcongestion) fn has_window_of(&self, packets: usize) -> bool {
        match self {
            Sender::Bbr2(b) => b.get_congestion_window_in_packets() >= packets,
            Sender::External(external) => external.window >= packets * external.mss,
        }
    }

    /// Returns whether the estimate of the path's rate is below `limit`.
    pub(in crate::recovery::gcongestion) fn is_slower_than(&self, limit: Bandwidth, rtt: &RttStats) -> bool {
        match self {
            Sender::Bbr2(b) => b.bandwidth_estimate(rtt) < limit,
            // One window in each round trip, without a division.
            Sender::External(external) => {
                let nanos = nanos(rtt.smoothed_rtt);
                (external.window as u64).saturating_mul(1_000_000_000) < limit.to_bytes_per_second().saturating_mul(nanos)
            },
        }
    }

    pub(in crate::recovery::gcongestion) fn rtt_persistent_jump_count(&self) -> u64 {
        match self {
            Sender::Bbr2(b) => b.rtt_persistent_jump_count(),
            Sender::External(_) => 0,
        }
    }

    #[cfg(feature = "qlog")]
    pub(in crate::recovery::gcongestion) fn send_rate(&self) -> Option<Bandwidth> {
        match self {
            Sender::Bbr2(b) => b.send_rate(),
            Sender::External(_) => None,
        }
    }

    #[cfg(feature = "qlog")]
    pub(in crate::recovery::gcongestion) fn ack_rate(&self) -> Option<Bandwidth> {
        match self {
            Sender::Bbr2(b) => b.ack_rate(),
            Sender::External(_) => None,
        }
    }
}

impl CongestionControl for Sender {
    #[cfg(feature = "qlog")]
    fn state_str(&self) -> &'static str {
        match self {
            Sender::Bbr2(b) => b.state_str(),
            Sender::External(external) => external.controller.state().name(),
        }
    }

    fn get_congestion_window(&self) -> usize {
        match self {
            Sender::Bbr2(b) => b.get_congestion_window(),
            Sender::External(external) => external.window,
        }
    }

    fn get_congestion_window_in_packets(&self) -> usize {
        match self {
            Sender::Bbr2(b) => b.get_congestion_window_in_packets(),
            Sender::External(external) => external.window / external.mss,
        }
    }

    fn can_send(&self, in_flight: usize) -> bool {
        match self {
            Sender::Bbr2(b) => b.can_send(in_flight),
            Sender::External(external) => in_flight < external.window,
        }
    }

    fn on_packet_sent(
        &mut self, now: Instant, in_flight: usize, pkt_num: u64, bytes: usize,
        has_data: bool,
    ) {
        match self {
            Sender::Bbr2(b) => b.on_packet_sent(now, in_flight, pkt_num, bytes, has_data),
            Sender::External(external) => external.on_sent(now, &Sent {
                packet_number: pkt_num,
                bytes: bytes as u64,
                in_flight_before: in_flight as u64,
                has_data,
            }),
        }
    }

    fn on_packet_neutered(&mut self, pkt_num: u64) {
        match self {
            Sender::Bbr2(b) => b.on_packet_neutered(pkt_num),
            Sender::External(external) => {
                let now = external.now();
                external.report(|controller| controller.on_discarded(now, pkt_num));
            },
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
            Sender::External(external) => external.on_event(
                now, prior_in_flight, in_flight, acked, lost, least_unacked, rtt,
                rtt_updated,
            ),
        }
    }

    // A probe timeout is no congestion signal (RFC 9002 §7.5).
    fn on_retransmission_timeout(&mut self, retransmitted: bool) {
        if let Sender::Bbr2(b) = self {
            b.on_retransmission_timeout(retransmitted);
        }
    }

    fn on_connection_migration(&mut self) {}

    // Follows from `set_max_pacing_rate()`, which is for quiche's own controllers.
    fn limit_cwnd(&mut self, max: usize) {
        if let Sender::Bbr2(b) = self {
            b.limit_cwnd(max);
        }
    }

    fn is_in_recovery(&self) -> bool {
        match self {
            Sender::Bbr2(b) => b.is_in_recovery(),
            Sender::External(external) => external.is_in_recovery(),
        }
    }

    fn is_cwnd_limited(&self, in_flight: usize) -> bool {
        match self {
            Sender::Bbr2(b) => b.is_cwnd_limited(in_flight),
            Sender::External(external) => in_flight >= external.window,
        }
    }

    fn pacing_rate(&self, in_flight: usize, rtt: &RttStats) -> Bandwidth {
        match self {
            Sender::Bbr2(b) => b.pacing_rate(in_flight, rtt),
            Sender::External(external) => bandwidth(external.controller.pacing_rate()),
        }
    }

    fn bandwidth_estimate(&self, rtt: &RttStats) -> Bandwidth {
        match self {
            Sender::Bbr2(b) => b.bandwidth_estimate(rtt),
            Sender::External(external) => {
                let rate = (external.window as u64).saturating_mul(1_000_000_000) / nanos(rtt.smoothed_rtt);
                bandwidth(Some(rate.min(u64::MAX / 8 - 1)))
            },
        }
    }

    fn max_bandwidth(&self) -> Bandwidth {
        match self {
            Sender::Bbr2(b) => b.max_bandwidth(),
            Sender::External(external) => external.rate(|model| model.max_bw),
        }
    }

    fn update_mss(&mut self, new: usize) {
        match self {
            Sender::Bbr2(b) => b.update_mss(new),
            Sender::External(external) => {
                external.mss = new;
                external.report(|controller| controller.on_mtu(new as u64));
            },
        }
    }

    fn on_app_limited(&mut self, in_flight: usize) {
        match self {
            Sender::Bbr2(b) => b.on_app_limited(in_flight),
            Sender::External(external) => {
                let now = external.now();
                external.report(|controller| controller.on_app_limited(now, in_flight as u64));
            },
        }
    }

    #[cfg(feature = "qlog")]
    fn ssthresh(&self) -> Option<u64> {
        match self {
            Sender::Bbr2(b) => b.ssthresh(),
            Sender::External(external) => external.controller.ssthresh(),
        }
    }
}
