//! Keys of the edge: workers, and the addresses they serve.

use sluicegate_dataplane::{DriverOptions, SocketOptions};

use super::{Given, Key, Kind, Table, micros, millis};

pub(crate) static GROUP: Table = Table {
    name: "group",
    many: true,
    summary: "A group of workers: pinned threads with one backend for their datagrams. Without any [[group]] there \
              is one, called \"default\", with all that follows at its default.",
    keys: &[
        Key {
            name: "name",
            kind: Kind::Name { max: 64 },
            given: Given::Required("\"default\""),
            examples: &[],
            summary: "What listeners refer to. Must differ from the other groups' names.",
        },
        Key {
            name: "backend",
            kind: Kind::Backend,
            given: Given::Default("\"auto\""),
            examples: &["\"mio\""],
            summary: "How datagrams get in and out. auto takes io_uring and falls back to mio where the system \
                      forbids it, as container runtimes do, and says so; a backend named here is used or the server \
                      does not start.",
        },
        Key {
            name: "cores",
            kind: Kind::Form {
                words: "\"auto\", a list of cores such as [0, 1], or ranges such as \"0-3,6\", each core once and \
                        below 4096",
            },
            given: Given::Default("\"auto\""),
            examples: &["[0, 1]", "\"0-3,6\""],
            summary: "The cores to run on, one worker each, up to 256. auto takes every core that the process may \
                      use; list them to keep cores for other work, or near the network card's memory.",
        },
    ],
    specs: &[SocketOptions::SPECS, DriverOptions::SPECS],
};

pub(crate) static LISTENER: Table = Table {
    name: "listener",
    many: true,
    summary: "Addresses that clients connect to. At least one.",
    keys: &[
        Key {
            name: "name",
            kind: Kind::Name { max: 64 },
            given: Given::Required("\"public\""),
            examples: &[],
            summary: "What metrics and logs call it. Must differ from the other listeners' names.",
        },
        Key {
            name: "address",
            kind: Kind::Form {
                words: "an address with a port, such as \"0.0.0.0:443\", \"[::]:443\" or \"localhost:4433\", or a \
                        list of 1 to 64 of them",
            },
            given: Given::Required("[\"0.0.0.0:443\", \"[::]:443\"]"),
            examples: &["\"localhost:4433\""],
            summary: "UDP addresses to serve. localhost is 127.0.0.1; other host names are not resolved; port 0 \
                      takes a free port. An address can be served once.",
        },
        Key {
            name: "group",
            kind: Kind::Name { max: 64 },
            given: Given::Default("\"default\""),
            examples: &[],
            summary: "The [[group]] whose workers serve it.",
        },
        Key {
            name: "congestion_control",
            kind: Kind::Form {
                words: "an algorithm's name, or a table with `algorithm` and its options",
            },
            given: Given::Default("\"cubic\""),
            examples: &[],
            summary: "How fast to send to its clients. The algorithms and their options follow.",
        },
        Key {
            name: "congestion_rule",
            kind: Kind::Table {
                words: "tables [[listener.congestion_rule]]",
            },
            given: Given::Unset("the same algorithm for every client"),
            examples: &[],
            summary: "Other algorithms for some clients: the tables below.",
        },
        Key {
            name: "low_rtt_guard",
            kind: Kind::Duration {
                min: micros(10),
                max: millis(100),
            },
            given: Given::Unset("no guard"),
            examples: &["\"1ms\""],
            summary: "Where the round-trip time to a client was measured below this, further connections from its \
                      network (IPv4 /24, IPv6 /64) that would get bbr3 get cubic with default options, for ten \
                      minutes: a model-based algorithm has little to measure on such paths. Each worker learns by \
                      itself. Logged when a network is first seen, and counted.",
        },
        Key {
            name: "tls",
            kind: Kind::Form {
                words: "a table with `certificate` and `key`, 1 to 256 such tables, or \"self-signed\"",
            },
            given: Given::Required("\"self-signed\""),
            examples: &[],
            summary: "The server's identity: the table below, or \"self-signed\" for trials, which makes a \
                      certificate at each start that no client trusts by itself.",
        },
    ],
    specs: &[],
};

pub(crate) static RULE: Table = Table {
    name: "listener.congestion_rule",
    many: true,
    summary: "Another algorithm for some clients of the listener above: by network, or for a share of the \
              connections, to compare two algorithms on the same traffic. The first rule that claims a connection \
              decides; one that none claims gets the listener's own algorithm. A connection keeps its algorithm for \
              life.",
    keys: &[
        Key {
            name: "networks",
            kind: Kind::Form {
                words: "\"all\", a network such as \"10.0.0.0/8\" or \"fd00::/8\", an address, or a list of 1 to \
                        4096 of them",
            },
            given: Given::Default("\"all\""),
            examples: &["[\"10.0.0.0/8\", \"fd00::/8\"]"],
            summary: "The clients it is for, by the address that they connect from.",
        },
        Key {
            name: "share",
            kind: Kind::Ratio { min: 0.0, max: 1.0 },
            given: Given::Default("1.0"),
            examples: &["0.1"],
            summary: "The share of these clients' connections that it claims, drawn for each; the others go on to \
                      the next rule.",
        },
        Key {
            name: "congestion_control",
            kind: Kind::Form {
                words: "an algorithm's name, or a table with `algorithm` and its options",
            },
            given: Given::Required("\"reno\""),
            examples: &["{ algorithm = \"cubic\", hystart = false }"],
            summary: "How fast to send to them, as for the listener.",
        },
    ],
    specs: &[],
};

/// One certificate of a listener.
pub(crate) static TLS: Table = Table {
    name: "listener.tls",
    many: false,
    summary: "Certificate of the listener above. For several, write [[listener.tls]] once for each: a client gets the \
              one that holds the name it asks for (SNI), and the first where none does.",
    keys: TLS_KEYS,
    specs: &[],
};

/// The same, where a listener has several.
pub(crate) static TLS_MANY: Table = Table {
    name: TLS.name,
    many: true,
    summary: TLS.summary,
    keys: TLS_KEYS,
    specs: &[],
};

const TLS_KEYS: &[Key] = &[
    Key {
        name: "certificate",
        kind: Kind::Path,
        given: Given::Required("\"tls/certificate.pem\""),
        examples: &[],
        summary: "PEM file with the certificate and the chain to its issuer, the server's own first.",
    },
    Key {
        name: "key",
        kind: Kind::Path,
        given: Given::Required("\"tls/key.pem\""),
        examples: &[],
        summary: "PEM file with the private key. Readable by the server and by nobody else.",
    },
];
