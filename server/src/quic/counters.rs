//! What an endpoint counts.

use std::collections::BTreeMap;

use crate::h3;
use crate::observe::metrics::{Page, Show};
use crate::observe::sum::summed;

/// Why a datagram was dropped, on its way in or, the last two, out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// No bytes at all.
    Empty,
    /// Ends within the header.
    Truncated,
    /// Version 1 with the fixed bit unset (RFC 9000 §17.2, §17.3).
    FixedBitZero,
    /// Version 1 with a connection ID over 20 bytes.
    CidTooLong,
    /// Initial or 0-RTT to a server with a destination under 8 bytes.
    CidTooShort,
    /// Initial to a server in under 1200 bytes.
    ShortInitial,
    /// Unknown version in under 1200 bytes, or from a server.
    UnknownVersion,
    /// Retry or Version Negotiation sent to a server.
    ServerOnly,
    /// 1-RTT or Handshake packet of no connection.
    UnknownConnection,
    /// Broke the protocol, which closes its connection.
    RefusedByEngine,
    /// Belongs to a worker whose mailbox is full.
    MailboxFull,
    /// A stateless reset beyond `quic.stateless_reset_per_second`.
    ResetLimit,
    /// An answer without a connection while too many others wait to be sent.
    AnswersFull,
}

impl DropReason {
    /// Every reason, in the order of [`DropReason::index`].
    pub const ALL: [DropReason; 13] = [
        DropReason::Empty,
        DropReason::Truncated,
        DropReason::FixedBitZero,
        DropReason::CidTooLong,
        DropReason::CidTooShort,
        DropReason::ShortInitial,
        DropReason::UnknownVersion,
        DropReason::ServerOnly,
        DropReason::UnknownConnection,
        DropReason::RefusedByEngine,
        DropReason::MailboxFull,
        DropReason::ResetLimit,
        DropReason::AnswersFull,
    ];

    /// Position in [`DropReason::ALL`], for an array of counters.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Name as a counter's label.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Empty => "empty",
            DropReason::Truncated => "truncated",
            DropReason::FixedBitZero => "fixed_bit_zero",
            DropReason::CidTooLong => "cid_too_long",
            DropReason::CidTooShort => "cid_too_short",
            DropReason::ShortInitial => "short_initial",
            DropReason::UnknownVersion => "unknown_version",
            DropReason::ServerOnly => "server_only",
            DropReason::UnknownConnection => "unknown_connection",
            DropReason::RefusedByEngine => "refused_by_engine",
            DropReason::MailboxFull => "mailbox_full",
            DropReason::ResetLimit => "reset_limit",
            DropReason::AnswersFull => "answers_full",
        }
    }
}

summed! {
    /// Totals since the start.
    #[derive(Clone, Debug, Default)]
    pub struct Counters {
        /// Connections accepted.
        pub accepted: u64,
        /// Handshakes completed.
        pub established: u64,
        /// Connections that ended before their handshake did.
        pub unfinished: u64,
        /// Of these, those that were not done within `limits.handshake_timeout`.
        pub handshake_timeouts: u64,
        /// Retry packets handed out to be sent.
        pub retries: u64,
        /// Version negotiation packets handed out to be sent.
        pub negotiations: u64,
        /// Stateless resets handed out to be sent.
        pub resets: u64,
        /// Initials refused: too many connections, or draining.
        pub refused: u64,
        /// Initials refused: too many connections of that client.
        pub refused_per_client: u64,
        /// Retry tokens that did not hold.
        pub bad_tokens: u64,
        /// Connections accepted, by algorithm.
        pub by_algorithm: BTreeMap<&'static str, u64>,
        /// Connections that got another algorithm because of a low round-trip time.
        pub guarded: u64,
        /// Datagrams of another worker, handed over where its mailbox had room.
        pub misrouted: u64,
        /// Datagrams dropped, by [`DropReason::index`].
        pub dropped: [u64; DropReason::ALL.len()],
        /// Of the HTTP/3 sessions.
        pub h3: h3::Counters,
    }
}

impl Counters {
    /// A datagram was dropped.
    pub fn on_drop(&mut self, reason: DropReason) {
        self.dropped[reason.index()] += 1;
    }
}

impl Show for Counters {
    fn show(&self, page: &mut Page) {
        // Named one by one, so that none is forgotten.
        let Counters {
            accepted,
            established,
            unfinished,
            handshake_timeouts,
            retries,
            negotiations,
            resets,
            refused,
            refused_per_client,
            bad_tokens,
            guarded,
            misrouted,
            by_algorithm,
            dropped,
            h3,
        } = self;
        show_connections(page, [*accepted, *established, *guarded]);
        show_refusals(
            page,
            [
                *unfinished,
                *handshake_timeouts,
                *refused,
                *refused_per_client,
            ],
        );
        show_answers(
            page,
            [*retries, *bad_tokens, *negotiations, *resets, *misrouted],
        );
        let mut family = page.counters(
            "sluicegate_connections_by_algorithm_total",
            "Connections accepted, by congestion control algorithm.",
        );
        for (algorithm, count) in by_algorithm {
            family.sample(&[("algorithm", algorithm)], count);
        }
        let mut family = page.counters(
            "sluicegate_datagrams_dropped_total",
            "Datagrams dropped or answers withheld, by reason.",
        );
        for reason in DropReason::ALL {
            family.sample(&[("reason", reason.name())], dropped[reason.index()]);
        }
        h3.show(page);
    }
}

fn show_connections(page: &mut Page, [accepted, established, guarded]: [u64; 3]) {
    page.counter(
        "sluicegate_connections_accepted_total",
        "Connections accepted, before their handshake.",
        accepted,
    );
    page.counter(
        "sluicegate_connections_established_total",
        "Handshakes completed.",
        established,
    );
    page.counter(
        "sluicegate_connections_guarded_total",
        "Connections that got another algorithm because of a low round-trip time.",
        guarded,
    );
}

fn show_refusals(
    page: &mut Page,
    [unfinished, handshake_timeouts, refused, refused_per_client]: [u64; 4],
) {
    page.counter(
        "sluicegate_handshakes_failed_total",
        "Connections that ended before their handshake did.",
        unfinished,
    );
    page.counter(
        "sluicegate_handshake_timeouts_total",
        "Connections closed because their handshake took too long.",
        handshake_timeouts,
    );
    page.counter(
        "sluicegate_connections_refused_total",
        "Connections not accepted: too many are open, or the server drains.",
        refused,
    );
    page.counter(
        "sluicegate_connections_refused_per_client_total",
        "Connections not accepted: too many of that client are open.",
        refused_per_client,
    );
}

fn show_answers(page: &mut Page, [retries, bad_tokens, negotiations, resets, misrouted]: [u64; 5]) {
    page.counter(
        "sluicegate_retries_sent_total",
        "Clients asked to prove their address (Retry).",
        retries,
    );
    page.counter(
        "sluicegate_retry_tokens_refused_total",
        "Retry tokens that did not hold.",
        bad_tokens,
    );
    page.counter(
        "sluicegate_version_negotiations_sent_total",
        "Clients told which QUIC versions there are.",
        negotiations,
    );
    page.counter(
        "sluicegate_stateless_resets_sent_total",
        "Clients told that their connection is not known any more.",
        resets,
    );
    page.counter(
        "sluicegate_datagrams_handed_over_total",
        "Datagrams that reached a worker which does not own their connection.",
        misrouted,
    );
}
