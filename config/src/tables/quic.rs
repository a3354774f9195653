//! Behaviour of QUIC connections.

use std::time::Duration;

use super::connection_ids::{ConnectionIds, MAX_TABLES, check_tables};
use crate::error::Error;
use crate::schema::{Kind, count, duration, millis, seconds, size};
use crate::section::Section;

table! {
    /// Transport parameters and behaviour of QUIC connections.
    #[derive(Eq)]
    pub struct Quic = [quic], check: check {
        /// Idle time after which a connection is dropped (RFC 9000 §10.1). Longer saves handshakes, shorter saves
        /// memory.
        idle_timeout: Duration { kind: duration(seconds(1), seconds(600)), default: "\"30s\"", reload: Live },
        /// Number of unfinished handshakes at a worker from which on new clients must first prove their address by a
        /// Retry (RFC 9000 §8.1.2), which costs them a round trip, as they must where the worker has
        /// limits.connections_per_worker open. 0 always demands the proof. "never" leaves the
        /// server open to floods from forged addresses.
        retry_above: Option<u64> {
            kind: Kind::CountOrNever { min: 0, max: 1_000_000, unit: "handshakes" },
            default: "1000",
            examples: ["0", "\"never\""],
            reload: Live
        },
        /// Time for which a Retry token is valid. A longer time helps clients on very slow paths, and lets captured
        /// tokens be used for longer.
        retry_token_lifetime: Duration { kind: duration(seconds(1), seconds(300)), default: "\"10s\"", reload: Live },
        /// Time for which a client may use the token that each connection gives it (NEW_TOKEN, RFC 9000 §8.1.3). A
        /// client that returns with one from the same IP address to the same listener needs no Retry, however many
        /// handshakes are unfinished (retry_above), and its requests in early data need not wait (early_data). Each
        /// server process accepts a token once. A longer time spares more clients the Retry; a shorter one limits for how long an attacker who captures a token, or gets the client's
        /// address later, can use it. With 0s the server sends no tokens and accepts none.
        new_token_lifetime: Duration { kind: duration(seconds(0), seconds(7 * 86_400)), default: "\"1d\"", reload: Live },
        /// Retry packets that a worker may send per second; a client whose Initial gets none sends it again. Each takes
        /// a few microseconds, so the limit leaves the worker time for open connections during a flood of Initials.
        /// sluicegate_datagrams_dropped_total counts the Initials beyond it (retry_limit). If more than this and more
        /// than 50,000 Initials arrive per second, and a quarter of them get no response, the kernel drops most of them
        /// at random before the worker receives them (a socket filter), until the flood ends; other packets pass. With
        /// a limit above what clients can send the kernel drops none. sluicegate_worker_initials_share shows the share
        /// that passes, and sluicegate_receive_overflows_total counts the dropped ones. The backend dpdk has no filter.
        retries_per_second: u64 {
            kind: count(1, 10_000_000, "Retry packets a second"),
            default: "50000",
            reload: Live
        },
        /// Largest datagram that the server sends, in bytes of UDP payload; the MTU of the network interface is a
        /// limit, too. With path_mtu_discovery, each connection begins with 1200 bytes and finds the largest size up to
        /// this one; without it, datagrams have this size from the first on, so every path must carry it. The default
        /// fills an Ethernet frame over IPv4. Raise it on private networks with larger frames.
        max_udp_payload: u64 { kind: size(1200, 65_527), default: "1472", reload: Live },
        /// Whether the server searches for the largest datagram that each path carries (RFC 9000 §14.3), so that
        /// downloads need fewer packets. Turn it off only if every path carries max_udp_payload.
        path_mtu_discovery: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Round-trip time that is assumed before the first measurement (RFC 9002 §6.2.2). Lower it only if all clients
        /// are near: lost packets of a handshake are then sent again sooner.
        initial_rtt: Duration {
            kind: duration(millis(1), seconds(2)),
            default: "\"333ms\"",
            examples: ["\"20ms\""],
            reload: Live
        },
        /// Longest time that the server says it may delay an ACK, in whole milliseconds (max_ack_delay, RFC 9000
        /// §18.2). A client waits that much longer for an ACK before it retransmits. The server delays no ACK on
        /// purpose; only a busy worker sends one late. Lower it to repair losses of uploads sooner; raise it if turns
        /// of workers take longer than it (sluicegate_turn_seconds). The default is that of RFC 9000.
        ack_delay: Duration { kind: duration(millis(0), millis(1000)), default: "\"25ms\"", reload: Live },
        /// Whether clients may move a connection to another address, for example when they change networks (RFC 9000
        /// §9). If not, the server announces disable_active_migration to them, but still follows a client whose address
        /// was changed by a NAT. In either case requests count as those of the previous address until the client has
        /// shown that it receives at the new one, and again at one that it left more than ten seconds ago. Turn it off behind a load balancer that cannot route by connection ID.
        migration: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Whether clients get tickets, with which they resume a TLS session by a shorter handshake (RFC 8446 §2.2).
        session_tickets: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Whether a client that resumes a session may send requests with its first packet (0-RTT), which saves it a
        /// round trip. An attacker who records such a packet can send it again (RFC 8470 §3). So the server processes
        /// only GET, HEAD and OPTIONS early, and upstreams receive these with Early-Data: 1. An upstream may respond with
        /// 425 to them, which the client receives. Other methods get 425, and so does every early request to a route
        /// with `allow` or `deny`; after a 425, a client sends its request again when the handshake is complete. Early
        /// requests wait for the handshake unless a Retry or the token of an earlier connection (new_token_lifetime)
        /// proves the client's address: anybody can forge it in a first packet. Those from trusted_proxies of the
        /// listener always do unless there was a Retry. Turn it on only if repeating a GET, HEAD or OPTIONS does no harm. Needs session_tickets.
        early_data: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Time for which a ticket is valid, in whole seconds; TLS allows at most seven days (RFC 8446 §4.6.1). A
        /// shorter time limits the use of stolen tickets and secrets. The keys of tickets change by themselves after
        /// this time, and the previous ones are accepted for as long again. A ticket is accepted only by the listener
        /// that issued it. If a reload changes the time, clients begin new sessions.
        session_lifetime: Duration {
            kind: duration(seconds(60), seconds(7 * 86_400)),
            default: "\"1d\"",
            reload: Live
        },
        /// Refusals that a worker may send per second to clients whose connection it does not accept
        /// (CONNECTION_REFUSED, RFC 9000 §5.2.2); 0 sends none. A client that gets one fails at once or tries another
        /// server; without it, the client waits for its own timeout. Each takes a few microseconds to make, and is far
        /// shorter than the client's packet, so it amplifies nothing.
        connection_refusals_per_second: u64 {
            kind: count(0, 1_000_000, "refusals a second"),
            default: "5000",
            reload: Live
        },
        /// Stateless resets that a worker may send per second (RFC 9000 §10.3); 0 sends none. Raise it if many clients
        /// must notice a restart quickly.
        stateless_reset_per_second: u64 {
            kind: count(0, 1_000_000, "resets a second"),
            default: "100",
            reload: Live
        },
        /// Format of connection IDs, for a load balancer that routes by them: the table [quic.connection_ids] below.
        connection_ids: Vec<ConnectionIds> {
            kind: Kind::TableOrTables { table: ConnectionIds::TABLE, max: MAX_TABLES },
            unset: "IDs that name the worker alone",
            reload: Restart
        },
    }
}

impl Quic {
    /// Returns whether clients may move a connection to another address: not where a load balancer could not follow.
    pub fn allows_migration(&self) -> bool {
        self.migration && !self.connection_ids.first().is_some_and(ConnectionIds::are_unroutable)
    }
}

fn check(quic: &mut Quic, section: &Section<'_>) -> Result<(), Error> {
    if quic.early_data && !quic.session_tickets {
        let found = "`early_data` is true without `session_tickets`";
        let expected = "`session_tickets` of true, or `early_data` of false";
        let at = section.position("early_data");
        return Err(section.source.error(at, found, expected));
    }
    check_tables(&quic.connection_ids, section)
}
