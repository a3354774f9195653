//! Lost packets and CE marks (draft-ietf-ccwg-bbr-06 §5.5.10).

use super::Bbr3;
use super::sampler::{LostPacket, RateSample};
use super::tolerance::Tolerance;
use crate::rounding::whole;
use crate::{Event, Packet, State};

impl Bbr3 {
    /// Returns the losses that probing may cost.
    pub(super) fn tolerance(&self) -> Tolerance {
        Tolerance {
            share: self.params.loss_threshold,
            between_probes: self.loss_rate.share(self.params.loss_threshold),
            mtu: self.sizes.mtu(),
        }
    }

    /// Counts the packets of an event for the share that is lost between probes.
    pub(super) fn count_between_probes(&mut self, event: &Event<'_>) {
        let even = matches!(self.state, State::ProbeBwDown | State::ProbeBwCruise);
        if even && self.cycle.is_between_probes() {
            let [lost, acked] =
                [event.lost, event.acked].map(|packets| self.cycle.sent_between(packets));
            self.loss_rate.count(lost, acked);
        }
    }

    /// A packet was lost.
    pub(super) fn on_lost(&mut self, lost: &Packet) {
        let Some(packet) = self.sampler.on_lost(lost) else {
            return;
        };
        self.note_loss(lost.packet_number, packet.bytes);
        self.loss_round.on_lost(lost.packet_number);
        self.recovery.count_lost(lost.packet_number);
        self.judge_probe(&packet);
    }

    /// Packets arrived with CE marks. The draft gives no response of its own but says that marks MUST count as
    /// congestion (§3.7): here each is a datagram lost of those sent last.
    pub(super) fn on_ce_marked(&mut self, packets: u64, newest: u64) {
        let bytes = packets.saturating_mul(self.sizes.mtu());
        let Some(packet) = self.sampler.on_ce_marked(bytes) else {
            return;
        };
        self.note_loss(newest, bytes);
        self.loss_round.on_ce_marked(u32::try_from(packets).unwrap_or(u32::MAX));
        self.recovery.on_ce_marked();
        self.judge_probe(&packet);
    }

    fn note_loss(&mut self, number: u64, bytes: u64) {
        let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
        if self.model.short_term.note_loss(delivered) {
            self.loss_round.begin(lost.saturating_sub(bytes), delivered);
        }
        if self.recovery.on_lost(number) {
            self.congestion_events += 1;
            self.recovery.begin(
                self.output.cwnd(),
                self.state == State::ProbeRtt,
                self.model.bounds(),
            );
        }
    }

    /// Ends a probe whose losses show that it put too much in flight.
    fn judge_probe(&mut self, packet: &LostPacket) {
        let tolerance = self.tolerance();
        if self.cycle.is_probe_sample() && tolerance.is_exceeded(packet.lost, packet.tx_in_flight) {
            self.handle_too_high(packet);
        }
    }

    /// Takes the bytes in flight at which losses became too many for the most that the path takes, and ends the probe.
    fn handle_too_high(&mut self, packet: &LostPacket) {
        self.cycle.on_too_high();
        let at_loss = self.inflight_at_loss(packet);
        let target = self.target_inflight();
        self.model.long_term.lower(at_loss, target, packet.app_limited);
        if self.state == State::ProbeBwUp {
            self.recovery.undo_to(State::ProbeBwUp);
            self.start_down();
        }
    }

    /// Returns the bytes in flight before the packet, with as much of the packet as losses allowed. If earlier losses
    /// used up the allowance, that is nothing of it, never less.
    fn inflight_at_loss(&self, packet: &LostPacket) -> u64 {
        let before = packet.tx_in_flight.saturating_sub(packet.bytes);
        let lost_before = packet.lost.saturating_sub(packet.bytes);
        let allowance = self.tolerance().bytes(before) - lost_before as f64;
        let prefix = (allowance / (1.0 - self.params.loss_threshold)).max(0.0);
        before.saturating_add(whole(prefix))
    }

    /// Updates rate, round and short-term bounds near the start of an ACK (§5.5.5, §5.5.10.3).
    ///
    /// A loss in a round that ProbeRTT kept small says nothing about how much fits: the draft drops the short-term
    /// bounds as ProbeRTT ends (§5.3.4.4), and later reports of that round must not bring them back.
    pub(super) fn update_signals(&mut self, sample: &RateSample) {
        let delivered = self.sampler.delivered();
        self.model.short_term.update_latest(sample, delivered);
        if self.rounds.update(sample.prior_delivered, delivered) {
            self.cycle.count_round();
            self.cwnd_limit.next_round();
        }
        self.model.max_bw.on_sample(sample);
        if !self.model.short_term.starts_loss_round() {
            return;
        }
        let counts = !self.is_accelerating() && !sample.probe_rtt;
        let (max_bw, cwnd) = (self.model.max_bw.get(), self.output.cwnd());
        self.model.short_term.end_loss_round(
            counts.then_some(self.params.loss_threshold),
            max_bw,
            cwnd,
        );
    }
}
