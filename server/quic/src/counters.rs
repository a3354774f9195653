//! Counters of an endpoint.

use std::collections::BTreeMap;

use sluicegate_base::observe::metrics::{PerLabel, labels, metrics};

use crate::congestion::path_table::Resumption;
use crate::ecn::EcnCounters;
use crate::ended_connections::{ConnectionClass, EndedConnections};
use crate::recorder::{Suppression, Trigger};
use crate::token::NewTokenRefusal;

labels! {
    /// Reason for which a datagram was dropped: on its way in or, the last three, on its way out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum DropReason {
        /// No bytes at all.
        Empty = "empty",
        /// Ends within the header.
        Truncated = "truncated",
        /// Version 1 with the fixed bit unset (RFC 9000 §17.2, §17.3).
        FixedBitZero = "fixed_bit_zero",
        /// Version 1 with a connection ID over 20 bytes.
        CidTooLong = "cid_too_long",
        /// Initial or 0-RTT to a server with a destination under 8 bytes.
        CidTooShort = "cid_too_short",
        /// Initial to a server in under 1200 bytes.
        ShortInitial = "short_initial",
        /// Unknown version in under 1200 bytes, or from a server.
        UnknownVersion = "unknown_version",
        /// Retry or Version Negotiation sent to a server.
        ServerOnly = "server_only",
        /// 1-RTT or Handshake packet of no connection.
        UnknownConnection = "unknown_connection",
        /// Broke the protocol, which closes its connection.
        ProtocolError = "protocol_error",
        /// Arrived at an overloaded worker from a client whose datagrams achieve nothing.
        NoProgress = "no_progress",
        /// Belongs to a worker that takes no more misrouted datagrams for now.
        MisroutedFull = "misrouted_full",
        /// A stateless reset beyond `quic.stateless_reset_per_second`.
        ResetLimit = "reset_limit",
        /// A stateless packet that was not made because too many others wait to be sent.
        StatelessFull = "stateless_full",
        /// A refusal of a connection beyond `quic.connection_refusals_per_second`.
        RefusalLimit = "refusal_limit",
        /// An Initial whose Retry would exceed `quic.retries_per_second`.
        RetryLimit = "retry_limit",
    }
}

labels! {
    /// What became of a datagram. Each that a worker has received, or taken over from another process, has one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum DatagramOutcome {
        /// It reached its connection, which may be new.
        Connection = "connection",
        /// It belongs to no connection, and its sender gets a stateless packet.
        Answered = "answered",
        /// It was dropped.
        Dropped = "dropped",
        /// Another process got it.
        HandedOver = "handed_over",
    }
}

labels! {
    /// Reason for which a new connection was refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum RefusalReason {
        /// The server drains, or a reload has removed the listener.
        Draining = "draining",
        /// The worker has as many connections as `limits.connections_per_worker` allows.
        Worker = "connections_per_worker",
        /// The client has as many connections as `limits.connections_per_client` allows.
        Client = "connections_per_client",
        /// The process has used up `server.memory_limit`.
        Memory = "memory",
        /// quiche could not make a connection, or the client's transport parameters are wrong.
        Failure = "failure",
    }
}

labels! {
    /// Reason for which a connection accepts no further requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ExpiryReason {
        /// The connection is older than `limits.connection_lifetime`.
        Lifetime = "lifetime",
        /// The connection has had `limits.requests_per_connection`.
        Requests = "requests",
        /// A reload has removed the listener.
        Listener = "listener_removed",
    }
}

labels! {
    /// Reason for which a connection ended before its handshake was complete.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum HandshakeFailure {
        /// The client did not complete it within `limits.handshake_timeout`, or went silent.
        Timeout = "timeout",
        /// TLS on the server's side: no protocol in common, or no valid certificate of the client.
        Tls = "tls",
        /// TLS on the client's side: it does not accept the certificate, for instance.
        ClientTls = "client_tls",
        /// The client broke the rules of QUIC.
        Protocol = "protocol",
        /// The client closed the connection for another reason.
        ClientClosed = "client_closed",
        /// The server closed the connection, because it drains, a reload has removed the listener, or the client has as many connections as it may.
        ServerClosed = "server_closed",
        /// It gave way to another handshake, since the worker had as many connections as it may.
        Displaced = "displaced",
        /// Memory was short.
        Memory = "memory",
    }
}

metrics! {
    /// Totals since the start.
    #[derive(Clone, Debug, Default)]
    pub struct QuicCounters: Sum {
        /// Connections accepted, before their handshake.
        pub accepted: u64 = counter("sluicegate_connections_accepted_total"),
        /// Handshakes completed.
        pub established: u64 = counter("sluicegate_connections_established_total"),
        /// Connections that got another algorithm because of low_rtt_guard.
        pub guarded: u64 = counter("sluicegate_connections_low_rtt_guarded_total"),
        /// Connections that ended before their handshake was complete, by reason: it took too long (timeout); the server's TLS refused the client (tls), or the client's TLS the server (client_tls); the client broke the protocol (protocol), or closed (client_closed); the server closed (server_closed), took another one in its place (displaced), or was short of memory (memory).
        pub unfinished: PerLabel<HandshakeFailure> = counter("sluicegate_handshakes_failed_total" by "reason"),
        /// Connections closed because their handshake took too long.
        pub handshake_timeouts: u64 = counter("sluicegate_handshake_timeouts_total"),
        /// Handshakes closed for another one, because the worker had as many connections as it may.
        pub displaced: u64 = counter("sluicegate_handshakes_displaced_total"),
        /// Connections without an open request closed for another one, because the worker had as many connections as it may.
        pub idle_displaced: u64 = counter("sluicegate_idle_connections_displaced_total"),
        /// Initials that asked for a new connection in vain, by reason; a client may send several.
        pub refused: PerLabel<RefusalReason> = counter("sluicegate_connections_refused_total" by "reason"),
        /// Refusals sent (CONNECTION_CLOSE with CONNECTION_REFUSED).
        pub refusals: u64 = counter("sluicegate_connection_refusals_sent_total"),
        /// Connections that accept no further requests and end when they are idle, by reason.
        pub expired: PerLabel<ExpiryReason> = counter("sluicegate_connections_expired_total" by "reason"),
        /// Connections closed while memory was short, of the clients that held most of it.
        pub relieved: u64 = counter("sluicegate_connections_closed_for_memory_total"),
        /// Retry packets sent, which ask clients to prove their address.
        pub retries: u64 = counter("sluicegate_retries_sent_total"),
        /// Retry tokens that were invalid or expired.
        pub bad_tokens: u64 = counter("sluicegate_retry_tokens_refused_total"),
        /// Tokens that spare clients the Retry of a later connection (NEW_TOKEN), given to clients.
        pub new_tokens_sent: u64 = counter("sluicegate_new_tokens_sent_total"),
        /// Initials whose token of an earlier connection validated their sender's address.
        pub new_tokens_accepted: u64 = counter("sluicegate_new_tokens_accepted_total"),
        /// Initials whose token of an earlier connection counted as none, by reason.
        pub new_tokens_refused: PerLabel<NewTokenRefusal> = counter("sluicegate_new_tokens_refused_total" by "reason"),
        /// Version Negotiation packets sent.
        pub negotiations: u64 = counter("sluicegate_version_negotiations_sent_total"),
        /// Stateless resets sent, for connections that the server does not know.
        pub resets: u64 = counter("sluicegate_stateless_resets_sent_total"),
        /// Datagrams by what became of them: their connection got them (connection); none did, and their sender gets a Retry, a Version Negotiation, a refusal or a stateless reset (answered) or nothing (dropped); or another process got them (handed_over).
        pub processed: PerLabel<DatagramOutcome> = counter("sluicegate_datagrams_processed_total" by "outcome"),
        /// Datagrams that arrived at another worker than that of their connection.
        pub misrouted: u64 = counter("sluicegate_datagrams_misrouted_total"),
        /// Datagrams that were handed to other processes of this server, while it is upgraded, each copy of them counted.
        pub handed_over: u64 = counter("sluicegate_datagrams_handed_over_total"),
        /// Datagrams that another process of this server handed to this one.
        pub taken_over: u64 = counter("sluicegate_datagrams_taken_over_total"),
        /// Connections accepted, by congestion control algorithm.
        pub by_algorithm: BTreeMap<&'static str, u64> =
            counter("sluicegate_connections_by_algorithm_total" by "algorithm"),
        /// Datagrams dropped or stateless packets withheld, by reason.
        pub dropped: PerLabel<DropReason> = counter("sluicegate_datagrams_dropped_total" by "reason"),
        /// Connections of clients whose capacity is known (careful_resume), by event: they try it (jumped), and everything arrives (validated), something is lost or the path has changed (retreated), there is too little to send (rate_limited), or the connection ends before (undecided); or they do not try it, since the round-trip time differs (rtt_differs).
        pub careful_resume: PerLabel<Resumption> = counter("sluicegate_careful_resume_total" by "event"),
        /// Triggers of the flight recorder that wrote a file, or into the connection's trace, by cause.
        pub recorder_files: PerLabel<Trigger> = counter("sluicegate_recorder_files_total" by "trigger"),
        /// Triggers of the flight recorder without a file, by reason.
        pub recorder_suppressed: PerLabel<Suppression> = counter("sluicegate_recorder_suppressed_total" by "reason"),
        /// Rests at which an active connection got no memory of the flight recorder, because others had all of it.
        pub recorders_refused: u64 = counter("sluicegate_recorder_refused_total"),
        /// Counters of ECN.
        pub ecn: EcnCounters = group,
        /// Figures of connections that have ended.
        pub ended: BTreeMap<ConnectionClass, EndedConnections> = each("listener", "algorithm"),
    }
}

impl QuicCounters {
    /// Counts a dropped datagram.
    pub fn on_drop(&mut self, reason: DropReason) {
        self.dropped[reason] += 1;
    }

    /// Notes what became of a datagram.
    pub fn on_outcome(&mut self, outcome: DatagramOutcome) {
        self.processed[outcome] += 1;
    }

    /// Notes what became of a datagram of no connection, before which there were so many [`QuicCounters::answers`].
    pub(crate) fn on_stateless_outcome(&mut self, before: u64) {
        let is_answered = self.answers() > before;
        self.on_outcome(if is_answered {
            DatagramOutcome::Answered
        } else {
            DatagramOutcome::Dropped
        });
    }

    /// Returns the number of stateless packets so far.
    pub(crate) fn answers(&self) -> u64 {
        self.negotiations + self.retries + self.resets + self.refusals
    }

    /// Counts an Initial that asked for a connection and was refused.
    pub fn on_refusal(&mut self, reason: RefusalReason) {
        self.refused[reason] += 1;
    }
}
