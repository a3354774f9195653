//! Counters of Explicit Congestion Notification (RFC 9000 §13.4).

use sluicegate_base::observe::metrics::{PerLabel, labels, metrics};

labels! {
    /// Reason for which the packets of a path are not marked any more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EcnFailure {
        /// The client acknowledged marked packets and sent no counts.
        NoCounts = "no_counts",
        /// The client counted fewer marks than it acknowledged marked packets.
        Cleared = "cleared",
        /// The client counted ECT(1) where ECT(0) was sent, or the reverse.
        Changed = "changed",
        /// The client counted more marks than were sent.
        TooMany = "too_many",
        /// A count fell.
        Decreased = "decreased",
        /// Every one of the first packets was marked as having met congestion.
        AllCongested = "all_congested",
        /// Marked packets were lost until a probe timeout, twice in a row.
        Dropped = "dropped",
    }
}

impl From<quiche::EcnFailure> for EcnFailure {
    fn from(failure: quiche::EcnFailure) -> Self {
        match failure {
            quiche::EcnFailure::NoCounts => EcnFailure::NoCounts,
            quiche::EcnFailure::Cleared => EcnFailure::Cleared,
            quiche::EcnFailure::Changed => EcnFailure::Changed,
            quiche::EcnFailure::TooMany => EcnFailure::TooMany,
            quiche::EcnFailure::Decreased => EcnFailure::Decreased,
            quiche::EcnFailure::AllCongested => EcnFailure::AllCongested,
            quiche::EcnFailure::Dropped => EcnFailure::Dropped,
        }
    }
}

metrics! {
    /// Totals since the start.
    #[derive(Clone, Debug, Default)]
    pub struct EcnCounters: Sum {
        /// Packets received with the ECN mark of congestion (CE).
        pub ce_received: u64 = counter("sluicegate_ecn_ce_received_total"),
        /// Packets that clients report as received with the ECN mark of congestion (CE).
        pub ce_reported: u64 = counter("sluicegate_ecn_ce_reported_total"),
        /// Network paths that passed the validation of ECN, so that their packets are marked.
        pub validated: u64 = counter("sluicegate_ecn_paths_validated_total"),
        /// Network paths that failed the validation of ECN, by reason: the client reads no marks (no_counts); the path drops what is marked (dropped), clears marks (cleared), or changes them (changed), or sets CE on every one of the first packets (all_congested); the client counts more than was sent (too_many), or less than before (decreased).
        pub failed: PerLabel<EcnFailure> = counter("sluicegate_ecn_paths_failed_total" by "reason"),
    }
}

impl EcnCounters {
    /// Adds what has happened on a connection between two states of its sums.
    pub fn add_since(&mut self, before: &quiche::EcnStats, now: &quiche::EcnStats) {
        self.ce_received += now.ce_received.saturating_sub(before.ce_received);
        self.ce_reported += now.ce_reported.saturating_sub(before.ce_reported);
        self.validated += now.capable.saturating_sub(before.capable);
        if let Some(failure) = now.failure {
            self.failed[failure.into()] += now.failed.saturating_sub(before.failed);
        }
    }
}
