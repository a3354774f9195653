//! Keys of QUIC: how connections behave.

use super::{Given, Key, Kind, Table, millis, seconds};

pub(crate) static QUIC: Table = Table {
    name: "quic",
    many: false,
    summary: "How connections behave.",
    keys: &[
        Key {
            name: "idle_timeout",
            kind: Kind::Duration {
                min: seconds(1),
                max: seconds(600),
            },
            given: Given::Default("\"30s\""),
            examples: &[],
            summary: "Silence after which a connection is dropped (RFC 9000 §10.1). Longer spares handshakes, \
                      shorter spares memory.",
        },
        Key {
            name: "retry_above",
            kind: Kind::CountOrNever {
                min: 0,
                max: 1_000_000,
                unit: "handshakes",
            },
            given: Given::Default("1000"),
            examples: &["0", "\"never\""],
            summary: "Unfinished handshakes of one worker from which on new clients must first prove their address \
                      by a Retry (RFC 9000 §8.1.2), which costs them a round trip. 0 asks always; \"never\" leaves \
                      the server open to floods from forged addresses.",
        },
        Key {
            name: "retry_token_lifetime",
            kind: Kind::Duration {
                min: seconds(1),
                max: seconds(300),
            },
            given: Given::Default("\"10s\""),
            examples: &[],
            summary: "How long a client may take to come back with its Retry token. Longer also lets a captured \
                      token live longer.",
        },
        Key {
            name: "max_udp_payload",
            kind: Kind::Size {
                min: 1200,
                max: 1472,
            },
            given: Given::Default("1350"),
            examples: &[],
            summary: "Largest datagram sent, without IP and UDP headers. Raise it where the path to all clients \
                      carries full Ethernet frames (1472 over IPv4, 1452 over IPv6), lower it for tunnels.",
        },
        Key {
            name: "initial_rtt",
            kind: Kind::Duration {
                min: millis(1),
                max: seconds(2),
            },
            given: Given::Default("\"333ms\""),
            examples: &["\"20ms\""],
            summary: "Round-trip time assumed before the first sample (RFC 9002 §6.2.2). Lower it only where all \
                      clients are near: a lost handshake packet is then sent again sooner.",
        },
        Key {
            name: "ack_delay",
            kind: Kind::Duration {
                min: millis(0),
                max: millis(1000),
            },
            given: Given::Default("\"25ms\""),
            examples: &[],
            summary: "How late clients are told to expect acknowledgements, in whole milliseconds (max_ack_delay, \
                      RFC 9000 §18.2): they wait that much longer before they send again. The server holds none \
                      back, so lower it for quicker repair of uploads, raise it where workers are busy for longer \
                      than that.",
        },
        Key {
            name: "migration",
            kind: Kind::Switch,
            given: Given::Default("true"),
            examples: &[],
            summary: "Whether clients may move to another address when they change networks (RFC 9000 §9). Off, they \
                      are told not to (disable_active_migration); one whose address is changed by a NAT is followed \
                      all the same. Turn it off behind a load balancer that cannot route by connection ID.",
        },
        Key {
            name: "session_tickets",
            kind: Kind::Switch,
            given: Given::Default("true"),
            examples: &[],
            summary: "Whether clients get tickets to resume TLS sessions with a shorter handshake (RFC 8446 §2.2).",
        },
        Key {
            name: "early_data",
            kind: Kind::Switch,
            given: Given::Default("false"),
            examples: &[],
            summary: "Whether a client that resumes a session may send requests with its first packet (0-RTT), which \
                      saves it a round trip. Whoever records such a packet can send it again (RFC 8470 §3): only \
                      GET, HEAD and OPTIONS are answered so early, upstreams are told by Early-Data: 1, and other \
                      methods wait for the handshake. Turn it on only where such requests change nothing. Needs \
                      session_tickets.",
        },
        Key {
            name: "session_lifetime",
            kind: Kind::Duration {
                min: seconds(60),
                max: seconds(7 * 86_400),
            },
            given: Given::Default("\"1d\""),
            examples: &[],
            summary: "How long a ticket can be used, in whole seconds; seven days are the protocol's limit (RFC 8446 \
                      §4.6.1). Shorter limits what a stolen secret opens.",
        },
        Key {
            name: "stateless_reset_per_second",
            kind: Kind::Count {
                min: 0,
                max: 1_000_000,
                unit: "resets a second",
            },
            given: Given::Default("100"),
            examples: &[],
            summary: "Stateless resets that one worker sends at most (RFC 9000 §10.3); 0 sends none. Raise it if \
                      many clients must notice a restart quickly.",
        },
    ],
    specs: &[],
};
