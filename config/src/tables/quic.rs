//! Behaviour of QUIC connections.

use std::time::Duration;

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
        /// Unfinished handshakes of one worker from which on new clients must first prove their address by a Retry (RFC
        /// 9000 §8.1.2), which costs them a round trip. 0 always demands it; "never" leaves the server open to floods
        /// from forged addresses.
        retry_above: Option<u64> {
            kind: Kind::CountOrNever { min: 0, max: 1_000_000, unit: "handshakes" },
            default: "1000",
            examples: ["0", "\"never\""],
            reload: Live
        },
        /// Time for which a Retry token is valid. Longer also lets a captured token live longer.
        retry_token_lifetime: Duration { kind: duration(seconds(1), seconds(300)), default: "\"10s\"", reload: Live },
        /// Largest datagram, in bytes without IP and UDP headers. Path MTU discovery tries sizes up to it: 1472 fills an
        /// Ethernet frame over IPv4. Raise it on networks of your own with larger frames, lower it for tunnels. With
        /// path_mtu_discovery off, datagrams have this size from the first on, so every path must carry it.
        max_udp_payload: u64 { kind: size(1200, 65_527), default: "1472", reload: Live },
        /// Whether the server looks for the largest datagram that each path carries (RFC 9000 §14.3), so that downloads
        /// need fewer packets. Turn it off where all paths are known to carry max_udp_payload.
        path_mtu_discovery: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Round-trip time assumed before the first sample (RFC 9002 §6.2.2). Lower it only where all clients are near: a
        /// lost handshake packet is then sent again sooner.
        initial_rtt: Duration {
            kind: duration(millis(1), seconds(2)),
            default: "\"333ms\"",
            examples: ["\"20ms\""],
            reload: Live
        },
        /// Largest delay of acknowledgements that the server announces, in whole milliseconds (max_ack_delay, RFC 9000
        /// §18.2): clients wait that much longer before they retransmit. The server delays none on purpose, so lower it
        /// for quicker repair of uploads, raise it where workers are busy for longer than that.
        ack_delay: Duration { kind: duration(millis(0), millis(1000)), default: "\"25ms\"", reload: Live },
        /// Whether clients may move to another address when they change networks (RFC 9000 §9). If not, the server
        /// announces that (disable_active_migration); it follows a client whose address is changed by a NAT
        /// nevertheless. Turn it off behind a load balancer that cannot route by connection ID.
        migration: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Whether clients get tickets to resume TLS sessions with a shorter handshake (RFC 8446 §2.2).
        session_tickets: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Whether a client that resumes a session may send requests with its first packet (0-RTT), which saves it a
        /// round trip. An attacker who records such a packet can send it again (RFC 8470 §3): only GET, HEAD and
        /// OPTIONS are served so early, upstreams receive Early-Data: 1 with them, and other methods get 425, upon
        /// which the client sends them again after the handshake. Turn it on only where such requests change nothing.
        /// Needs session_tickets.
        early_data: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Time for which a ticket can be used, in whole seconds; seven days are the protocol's limit (RFC 8446
        /// §4.6.1). Shorter limits what a stolen secret opens.
        session_lifetime: Duration {
            kind: duration(seconds(60), seconds(7 * 86_400)),
            default: "\"1d\"",
            reload: Live
        },
        /// Stateless resets that a worker sends a second at most (RFC 9000 §10.3); 0 sends none. Raise it if many
        /// clients must notice a restart quickly.
        stateless_reset_per_second: u64 {
            kind: count(0, 1_000_000, "resets a second"),
            default: "100",
            reload: Restart
        },
    }
}

fn check(quic: &mut Quic, section: &Section<'_>) -> Result<(), Error> {
    if quic.early_data && !quic.session_tickets {
        let found = "`early_data` is true without `session_tickets`";
        let expected = "`session_tickets` of true, or `early_data` of false";
        let at = section.position("early_data");
        return Err(section.source.error(at, found, expected));
    }
    Ok(())
}
