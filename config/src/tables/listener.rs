//! Listeners, their certificates and their congestion control.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::congestion::CongestionControl;
use crate::error::Error;
use crate::field::Element;
use crate::print;
use crate::schema::{Key, Kind, Reason, Refusal, duration, micros, millis, name, ratio};
use crate::value::{Item, Word};
use crate::words::{canonical, socket_address};

table! {
    /// Listener: addresses that clients connect to. At least one.
    pub struct Listener = [[listener]] {
        /// Name of the listener in metrics and logs. Must differ from the other listeners' names.
        name: String { kind: name(), required: "\"public\"", reload: Restart },
        /// UDP addresses that the listener binds. localhost is 127.0.0.1; other host names are not resolved; port 0
        /// takes a free port. An address can be bound once.
        addresses as address: Vec<SocketAddr> {
            kind: Kind::Words {
                words: "an address with a port, such as \"0.0.0.0:443\", \"[::]:443\" or \"localhost:4433\"",
                each: "",
                min: 1,
                max: 64,
                read: |word| canonical(socket_address(word)),
            },
            required: "[\"0.0.0.0:443\", \"[::]:443\"]",
            examples: ["\"localhost:4433\""],
            reload: Restart
        },
        /// Name of the `[[group]]` whose workers serve the listener.
        group: String { kind: name(), default: "\"default\"", reload: Restart },
        /// Congestion control algorithm for the listener's clients. The algorithms and their options follow.
        congestion_control: CongestionControl { kind: Kind::CongestionControl, default: "\"cubic\"", reload: Live },
        /// Where the round-trip time to a client was measured below this, further connections from its network (IPv4
        /// /24, IPv6 /64) that would get a model-based algorithm (bbr3) get another one, for ten minutes: a model has
        /// little to measure on such paths. It is the first other algorithm of this listener and its rules, with its
        /// options, or else cubic with default options. Each worker learns by itself. Logged when a network is first
        /// seen, and counted.
        low_rtt_guard: Option<Duration> {
            kind: duration(micros(10), millis(100)),
            unset: "no guard",
            examples: ["\"1ms\""],
            reload: Live
        },
        /// Certificate of the server: the table below, or "self-signed" for trials, which makes a certificate at each
        /// start that no client trusts by itself.
        tls: Vec<Tls> {
            kind: Kind::TablesOr {
                table: Tls::TABLE,
                max: 256,
                word: "self-signed",
                words: "a table with `certificate` and `key`, 1 to 256 such tables, or \"self-signed\"",
            },
            required: "\"self-signed\"",
            reload: Live
        },
        /// Other algorithms for some clients: the tables below.
        congestion_rules as congestion_rule: Vec<CongestionRule> {
            kind: Kind::Tables { table: CongestionRule::TABLE, max: 1000 },
            unset: "the same algorithm for every client",
            reload: Live
        },
    }
}

table! {
    /// Another algorithm for some clients of the listener above: by network, or for a share of the connections, to
    /// compare two algorithms on the same traffic. The first rule that matches a connection decides; a connection that
    /// none matches gets the listener's own algorithm. A connection keeps its algorithm for life.
    pub struct CongestionRule = [[listener.congestion_rule]] {
        /// Networks of the clients that the rule matches, by the address that they connect from.
        networks: Vec<IpNet> {
            kind: Kind::Words {
                words: "\"all\", a network such as \"10.0.0.0/8\" or \"fd00::/8\", an address",
                each: "",
                min: 1,
                max: 4096,
                read: network,
            },
            default: "\"all\"",
            examples: ["[\"10.0.0.0/8\", \"fd00::/8\"]"],
            reload: Live
        },
        /// Share of these clients' connections that the rule matches, drawn for each; the others go on to the next
        /// rule.
        share: f64 { kind: ratio(0.0, 1.0), default: "1.0", examples: ["0.1"], reload: Live },
        /// Congestion control algorithm for these connections, as for the listener.
        congestion_control: CongestionControl {
            kind: Kind::CongestionControl,
            required: "\"reno\"",
            examples: ["{ algorithm = \"cubic\", hystart = false }"],
            reload: Live
        },
    }
}

table! {
    /// Certificate of the listener above. For several, write `[[listener.tls]]` once for each: a client gets the one that
    /// holds the name it asks for (SNI), and the first where none does.
    #[derive(Eq)]
    pub struct Tls = [listener.tls] {
        /// PEM file with the certificate and the chain to its issuer, the server's own first.
        certificate: PathBuf { kind: Kind::Path, required: "\"tls/certificate.pem\"", reload: Live },
        /// PEM file with the private key. Readable by the server and by nobody else.
        key: PathBuf { kind: Kind::Path, required: "\"tls/key.pem\"", reload: Live },
    }
}

impl Word for IpNet {
    fn of_canonical(word: String) -> Option<Self> {
        word.parse().ok()
    }
}

impl Element for IpNet {
    fn read_list(item: &Item<'_>) -> Result<Vec<Self>, Error> {
        if item.value.as_str() == Some("all") {
            return Ok(vec![Ipv4Net::default().into(), Ipv6Net::default().into()]);
        }
        item.words()
    }

    fn print_list(list: &[Self], _: &Key) -> Option<String> {
        Some(print::texts(list))
    }
}

/// Reads a network whose host bits are zero; an address is a network of one.
fn network(word: &str) -> Result<String, Refusal> {
    let address = || word.parse::<IpAddr>().map(IpNet::from);
    let network = word.parse::<IpNet>().or_else(|_| address());
    let network = network.map_err(|_| Refusal::default())?;
    if network == network.trunc() {
        return Ok(network.to_string());
    }
    Err(Refusal::because(Reason {
        found: format!("network {network}, whose address has bits beyond the prefix"),
        expected: format!("{}, or a longer prefix", network.trunc()),
        nearest: None,
    }))
}
