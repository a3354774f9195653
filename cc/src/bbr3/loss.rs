//! What each lost packet says (draft-ietf-ccwg-bbr-06 §5.5.10).

use super::Bbr3;
use super::params::{BETA, scaled};
use super::sampler::{LostPacket, RateSample};
use crate::{Packet, State};

impl Bbr3 {
    /// Whether `lost` of a flight is more than probing may cost.
    pub(super) fn is_too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        lost as f64 > tx_in_flight as f64 * self.params.loss_threshold
    }

    /// A packet was lost.
    pub(super) fn on_lost(&mut self, lost: &Packet) {
        let Some(packet) = self.sampler.on_lost(lost) else {
            return;
        };
        self.note_loss(lost.packet_number, packet.bytes);
        self.loss_round.on_lost(lost.packet_number);
        self.recovery.count_lost();
        self.judge_probe(&packet);
    }

    /// Packets came marked Congestion Experienced. The draft gives no response of its own but says that marks MUST
    /// count as congestion (§3.7): here each is a datagram lost, of the newest flight.
    pub(super) fn on_marked(&mut self, packets: u64, newest: u64) {
        let bytes = packets.saturating_mul(self.mtu);
        let Some(packet) = self.sampler.on_marked(bytes) else {
            return;
        };
        self.note_loss(newest, bytes);
        self.loss_round
            .on_marked(u32::try_from(packets).unwrap_or(u32::MAX));
        self.recovery.count_lost();
        self.judge_probe(&packet);
    }

    fn note_loss(&mut self, number: u64, bytes: u64) {
        let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
        if self.short_term.note_loss(delivered) {
            self.loss_round.begin(lost.saturating_sub(bytes), delivered);
        }
        if self.recovery.on_lost(number) {
            self.congestion_events += 1;
            self.save_before_recovery();
        }
    }

    /// Losses of a probe may mean that it put too much in flight.
    fn judge_probe(&mut self, packet: &LostPacket) {
        if self.cycle.is_probe_sample && self.is_too_high(packet.lost, packet.tx_in_flight) {
            self.handle_too_high(packet);
        }
    }

    /// Takes the flight at which losses became too many for the most that the path takes, and ends the probe.
    ///
    /// A flow limited by its application did not find out how much fits. The draft's pseudocode then leaves the
    /// long-term flight alone, its example "Exiting PROBE_UP on Loss When Application-Limited" wants it updated: such
    /// a probe bounds the flight too, but never below what the model wants in flight.
    fn handle_too_high(&mut self, packet: &LostPacket) {
        self.cycle.prev_too_high = true;
        self.cycle.is_probe_sample = false;
        let at_loss = self.inflight_at_loss(packet);
        let target = self.target_inflight();
        self.inflight_longterm = if packet.app_limited {
            self.inflight_longterm.min(at_loss.max(target))
        } else {
            at_loss.max(scaled(target, BETA))
        };
        if self.state == State::ProbeBwUp {
            self.recovery.undo_to(State::ProbeBwUp);
            self.start_down();
        }
    }

    /// The flight, with as much of this packet as losses allowed. Where those before had used up the allowance
    /// already, that is nothing of it, never less.
    fn inflight_at_loss(&self, packet: &LostPacket) -> u64 {
        let before = packet.tx_in_flight.saturating_sub(packet.bytes);
        let lost_before = packet.lost.saturating_sub(packet.bytes);
        let allowance = self.params.loss_threshold * before as f64 - lost_before as f64;
        let prefix = (allowance / (1.0 - self.params.loss_threshold)).max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "never negative, saturates, and a fraction of a byte does not matter"
        )]
        let prefix = prefix as u64;
        before.saturating_add(prefix)
    }

    /// Near the start of an ACK: the rate, the round, and what the round's losses mean (§5.5.5, §5.5.10.3).
    ///
    /// A loss in a round that ProbeRTT kept small says nothing about how much fits: the draft drops the short-term
    /// bounds as ProbeRTT ends (§5.3.4.4), and what comes in from it later must not bring them back.
    pub(super) fn update_signals(&mut self, sample: &RateSample) {
        self.short_term
            .update_latest(sample, self.sampler.delivered());
        self.rounds
            .update(sample.prior_delivered, self.sampler.delivered());
        if self.rounds.start {
            self.cycle.rounds_since_probe = self.cycle.rounds_since_probe.saturating_add(1);
            self.cwnd_limit.next_round();
        }
        if let Some(rate) = sample.rate
            && (rate >= self.max_bw.get() || !sample.app_limited)
        {
            self.max_bw.update(rate);
        }
        if !self.short_term.loss_round_start {
            return;
        }
        if self.short_term.loss_in_round && !self.is_accelerating() && !sample.probe_rtt {
            let tolerated = self.params.loss_threshold;
            self.short_term
                .lower(self.max_bw.get(), self.cwnd, tolerated);
        }
        self.short_term.loss_in_round = false;
    }
}
