//! Listeners, their certificates and their congestion control.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluicegate_cc::{Algorithm, Registry};

use super::acme::acme_name;
use super::network::{networks, proxy_networks};
use crate::congestion::CongestionControl;
use crate::error::Error;
use crate::schema::{
    GIB, KIB, Kind, MIB, choice, count, duration, micros, millis, name, ratio, seconds, size,
};
use crate::section::Section;
use crate::words::{canonical, socket_address};

table! {
    /// Listener: addresses that clients connect to, with certificates and congestion control. A configuration has at
    /// least one.
    pub struct Listener = [[listener]], check: check_listener {
        /// Name of the listener in metrics and logs. Must differ from the other listeners' names.
        name: String { kind: name(), required: "\"public\"", reload: Live },
        /// Addresses that the listener binds, for UDP and, unless tcp is off, for TCP. Host names are not resolved, except localhost, which is 127.0.0.1.
        /// Port 0 takes a free port. Any other address may occur only once in the file. A reload binds added addresses
        /// before it changes anything, and is refused as a whole if one is in use. Connections to removed addresses get
        /// server.drain_timeout to finish their requests. Sockets that systemd has bound to an address and passes to the
        /// server (ListenStream and ListenDatagram of a socket unit) are used in place of new ones.
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
            reload: Live
        },
        /// Whether the listener also serves HTTP/1.1 and HTTP/2, over TCP at the same addresses and ports, with the same
        /// certificates, routes and limits. Browsers begin there and continue with HTTP/3, see alt_svc. The origin threads
        /// serve it. With the backend dpdk the kernel must have the addresses; without, the log says so and there is only
        /// HTTP/3.
        tcp: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Time for which clients remember that this server speaks HTTP/3: responses over TCP advertise the listener's
        /// port by Alt-Svc (RFC 7838), unless a route sets that field itself. 0s advertises nothing. Set https_port if clients
        /// reach the server by another port than the listener's.
        alt_svc: Duration { kind: duration(seconds(0), seconds(365 * 86_400)), default: "\"1d\"", reload: Live },
        /// Addresses at which the listener also takes HTTP/1.1 over TCP without TLS, as at port 80. It responds to challenges of ACME
        /// there, see `[acme]`, and http says what other requests get. Limits, log and metrics are those of the listener.
        http_addresses as http_address: Vec<SocketAddr> {
            kind: Kind::Words {
                words: "an address with a port, such as \"0.0.0.0:80\", \"[::]:80\" or \"localhost:8080\"",
                each: "",
                min: 1,
                max: 64,
                read: |word| canonical(socket_address(word)),
            },
            unset: "every connection has TLS",
            examples: ["[\"0.0.0.0:80\", \"[::]:80\"]"],
            reload: Live
        },
        /// What requests without TLS get: with redirect, a 308 to the same URL with https; with serve, what the routes
        /// respond. Passwords and cookies of such requests can be read on their way, and such clients have no certificate for client_ca.
        http: PlainHttp { kind: choice(PlainHttp::WORDS), default: "\"redirect\"", reload: Live },
        /// Port by which clients reach the listener over TLS and QUIC. Requests without TLS are redirected to it, and Alt-Svc advertises
        /// it. Set it if it is another one than the server has here, as in a container or behind a load balancer.
        https_port: Option<u16> {
            kind: count(1, 65_535, ""),
            unset: "for redirects the port of the first address, for Alt-Svc that of the connection",
            examples: ["443"],
            reload: Live
        },
        /// Name of the `[[group]]` whose workers serve the listener. Only a restart gives a first listener to a group, moves an address
        /// from one group to another, or changes the addresses of a group with the backend dpdk.
        group: String { kind: name(), default: "\"default\"", reload: Live },
        /// Congestion control algorithm for the listener's clients. The algorithms and their options are listed below.
        congestion_control: CongestionControl { kind: Kind::CongestionControl, default: "\"cubic\"", reload: Live },
        /// Round-trip time below which clients do not get a model-based algorithm (bbr3), because delays within the
        /// hosts distort what a model measures on so short a path. When a worker measures a lower round-trip time to a
        /// client, new connections from that client's network (IPv4 /24, IPv6 /64) get another algorithm for ten
        /// minutes: the first of this listener and its rules that is not model-based, with its options, or else cubic
        /// with default options. Each worker measures on its own. The log names each network when the guard begins to
        /// apply, and sluicegate_connections_low_rtt_guarded_total counts the connections. Set it if bbr3 also serves clients
        /// in the server's own data centre.
        low_rtt_guard: Option<Duration> {
            kind: duration(micros(10), millis(100)),
            unset: "no guard",
            examples: ["\"1ms\""],
            reload: Live
        },
        /// Whether a client that returns gets a faster start (RFC 9959): once its first packets have arrived, and their
        /// round-trip time is like the one before, the connection tries half of the capacity that an earlier one has found,
        /// and retreats if anything is lost. Downloads of megabytes over long paths, as by satellite, take fewer round trips.
        /// For algorithms whose window follows losses (reno, cubic); bbr3 starts as ever. A client is an IPv4 address or an IPv6
        /// /56; only one of its connections at a time uses what is saved. All workers share it, for this listener, and
        /// nothing outlives the process. sluicegate_careful_resume_total counts what comes of it.
        careful_resume: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Time for which a saved capacity may be used. Set minutes for clients whose networks change, as on mobile networks
        /// or where many share a bottleneck. A reload that changes this key or one of the next two forgets everything saved.
        careful_resume_lifetime: Duration {
            kind: duration(seconds(1), seconds(86_400)),
            default: "\"1h\"",
            reload: Live
        },
        /// Most bytes that a connection has in flight at once before any of them has arrived, however much was saved.
        careful_resume_max_jump: u64 { kind: size(16 * KIB, GIB), default: "\"4MiB\"", reload: Live },
        /// Number of clients whose capacity is remembered at a time, in about 64 bytes each, whether or not there are as many. When
        /// there are more, those go first whose capacity was saved longest ago.
        careful_resume_clients: u64 { kind: count(1, 16 * MIB, "clients"), default: "65536", reload: Live },
        /// Whether packets over QUIC carry ECN marks (RFC 9000 §13.4), by which routers report congestion without dropping packets; the
        /// algorithms respond to such a report as to a loss, except for prague, whose packets carry ECT(1) instead of ECT(0) and which
        /// cannot be chosen with `ecn = false`. The marks stop on a path that clears or changes them, and to
        /// a client that does not count them; sluicegate_ecn_paths_failed_total says how often and why. Marks of clients are reported
        /// back to them in any case. Turn it off if a router on the way marks packets without congestion, so that downloads
        /// are slow while sluicegate_ecn_ce_reported_total rises.
        ecn: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Networks of the proxies in front of this listener, such as a content delivery network. A request from such
        /// an address counts as a request of the client that the proxy names in client_address_field: the right-most
        /// address there that is not a trusted proxy's. If the entry in its place is no address, the proxy that wrote
        /// the entry counts as the client. Logs name that client, and limits.worker_buffer, limits.origin_queue and
        /// open files are shared between such clients. Limits of a connection, such as limits.cancelled_requests, hold
        /// for each connection of a proxy as a whole. limits.connections_per_client does not bind the proxies, but
        /// while server.memory_limit is used up, a proxy counts as one client with all its connections. Upstreams
        /// receive the proxies' X-Forwarded-For or Forwarded with the proxy's address added. From every other address,
        /// X-Forwarded-* and Forwarded are dropped, because anybody can write them. X-Real-IP, CF-Connecting-IP and
        /// similar fields are dropped from every address, because proxies may pass them on as their clients sent them; see
        /// pass_fields of [route.proxy]. After a
        /// reload, a connection keeps the networks that it began with. Configure the proxies so that they remove
        /// client_address_field of their clients' requests or append to it; with x-forwarded-for, they must also remove
        /// or replace every other X-Forwarded-* field that upstreams trust.
        trusted_proxies: Vec<IpNet> {
            kind: proxy_networks(),
            unset: "no proxy is trusted",
            examples: ["\"10.0.0.0/8\"", "[\"192.0.2.10\", \"2001:db8::/32\"]"],
            reload: Live
        },
        /// Field in which the trusted proxies name the client. The server drops the other one of the two, because a
        /// proxy may have passed on its client's, and writes it itself for upstreams. With forwarded, it does so with
        /// all X-Forwarded-* fields.
        client_address_field: ClientAddressField {
            kind: choice(ClientAddressField::WORDS),
            default: "\"x-forwarded-for\"",
            reload: Live
        },
        /// Oldest version of TLS that clients may use over TCP. QUIC always has TLS 1.3.
        tls_min_version: TlsVersion { kind: choice(TlsVersion::WORDS), default: "\"1.2\"", reload: Live },
        /// PEM file with the certificate authorities, roots or intermediates, that must have issued the certificates of clients, over
        /// TCP and over QUIC. A client with another certificate, or with an expired one, is refused in the handshake. Revocation is
        /// not checked. {client_subject} and {client_fingerprint} pass the certificate on: use `set` of request_headers, which
        /// removes what the client itself sends. The fingerprint names one certificate; subjects may be empty, and with
        /// several authorities the same subject may belong to several clients. The access log has the subject. A reload
        /// reads the file again, for new connections; sessions that began with other authorities are not resumed, and no session
        /// after its client's certificate has expired.
        client_ca: Option<PathBuf> {
            kind: Kind::Path,
            unset: "clients show no certificate",
            examples: ["\"tls/clients.pem\""],
            reload: Live
        },
        /// Whether every client must have a certificate of client_ca, or may have none. With optional, the routes serve both; an
        /// upstream gets no field with {client_subject} of a client without one.
        client_auth: Option<ClientAuth> {
            kind: choice(ClientAuth::WORDS),
            unset: "required, if there is client_ca",
            examples: ["\"optional\""],
            reload: Live
        },
        /// File to which the keys of all connections are appended, for Wireshark and the like (SSLKEYLOGFILE). Whoever
        /// has it reads the traffic. For debugging alone; the log warns of it. A file that exists already must be as private as
        /// one of a key; see server.open_secrets.
        key_log: Option<PathBuf> {
            kind: Kind::Path,
            unset: "no keys are written",
            examples: ["\"keys.log\""],
            reload: Live
        },
        /// Networks of load balancers over TCP that name the client of each connection by a header of the PROXY protocol, version 1
        /// or 2, as HAProxy does with send-proxy. From there, every connection must begin with it, within
        /// limits.handshake_timeout. The client that it names counts everywhere: in limits, rules, logs and fields for
        /// upstreams; a health check, which names none, counts towards no client's limits. Connections from other addresses must have no such header, so
        /// no client can name another one. A balancer that sends none has each of its connections closed, of which the log
        /// warns once a minute: see `proxy_header` in sluicegate_tcp_connections_refused_total. Holds for address and http_address, not for QUIC.
        proxy_protocol: Vec<IpNet> {
            kind: proxy_networks(),
            unset: "no connection has such a header",
            examples: ["\"10.0.0.0/8\"", "[\"192.0.2.10\", \"2001:db8::/32\"]"],
            reload: Live
        },
        /// Certificate of the server: the table [listener.tls] below, with files or with names for which the server
        /// obtains a certificate itself. "self-signed", for trials, makes a certificate for localhost at each start;
        /// clients do not trust it.
        tls: Vec<Tls> {
            kind: Kind::TablesOr {
                table: Tls::TABLE,
                max: 256,
                word: "self-signed",
                words: "a table with `certificate` and `key` or with `acme`, 1 to 256 such tables, or \"self-signed\"",
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
    /// Rule that gives some clients of the listener above another algorithm: the clients of a network, or a share of
    /// the clients, to compare two algorithms on the same traffic. The first rule that matches a connection
    /// decides. A connection that no rule matches gets the listener's own algorithm. A connection keeps its algorithm
    /// until it ends.
    pub struct CongestionRule = [[listener.congestion_rule]] {
        /// Networks of the clients that the rule matches, by the source address of their packets.
        networks: Vec<IpNet> {
            kind: networks(),
            default: "\"all\"",
            examples: ["[\"10.0.0.0/8\", \"fd00::/8\"]"],
            reload: Live
        },
        /// Share of these clients that the rule matches, chosen at random. The others are compared with the next rule. A
        /// client, that is an IPv4 address or an IPv6 /56, is chosen for all its connections, also after a restart with
        /// state_dir, until a reload or restart finds another first line in secrets_file.
        share: f64 { kind: ratio(0.0, 1.0), default: "1.0", examples: ["0.1"], reload: Live },
        /// Congestion control algorithm for these connections, as for the listener.
        congestion_control: CongestionControl {
            kind: Kind::CongestionControl,
            required: "\"reno\"",
            examples: ["{ algorithm = \"cubic\", slow_start = \"standard\" }"],
            reload: Live
        },
    }
}

table! {
    /// Certificate of the listener above. For several certificates, write `[[listener.tls]]` once for each. A client
    /// gets the one that is valid for the host name it asks for (SNI), or the first one if none is.
    #[derive(Eq)]
    pub struct Tls = [listener.tls], check: check_tls {
        /// PEM file with the certificate chain: first the server's certificate, then those of its issuers.
        certificate: Option<PathBuf> { kind: Kind::Path, either("acme"): "\"tls/certificate.pem\"", reload: Live },
        /// PEM file with the private key of the certificate. Let only the server's user, or a
        /// group of its own, read it, as by chmod 600 or 640. A key that every user may read is refused; see
        /// server.open_secrets.
        key: Option<PathBuf> { kind: Kind::Path, either("acme"): "\"tls/key.pem\"", reload: Live },
        /// Host names for which the server obtains a certificate itself, instead of the files: see `[acme]`. All names
        /// must lead to this server, unless they are proved by dns-01. They stand in one certificate, whose private key the server makes; for a certificate each, write several
        /// [[listener.tls]]. Until the first one has been issued, clients get a self-signed certificate.
        acme: Vec<String> {
            kind: Kind::Words {
                words: "a host name such as \"example.com\", or \"*.example.com\" with the challenge dns-01",
                each: "",
                min: 1,
                max: 100,
                read: acme_name,
            },
            unset: "the certificate is in files",
            examples: ["[\"example.com\", \"www.example.com\"]"],
            reload: Live
        },
    }
}

/// Refuses a certificate that has neither both files nor names, or files and names.
fn check_tls(tls: &mut Tls, section: &Section<'_>) -> Result<(), Error> {
    let acme = !tls.acme.is_empty();
    let (key, found) = match (tls.certificate.is_some(), tls.key.is_some(), acme) {
        (true, true, false) | (false, false, true) => return Ok(()),
        (true, _, true) => ("acme", "`acme` beside `certificate`"),
        (false, true, true) => ("acme", "`acme` beside `key`"),
        (true, false, false) => ("certificate", "`certificate` without `key`"),
        (false, true, false) => ("key", "`key` without `certificate`"),
        (false, false, false) => ("acme", "neither `certificate` nor `acme`"),
    };
    let at = section.position(key);
    let expected = "`certificate` and `key`, or `acme`";
    Err(section.source.error(at, found, expected))
}

impl Listener {
    /// Returns whether some of the listener's clients get an algorithm of this kind.
    fn has_algorithm(&self, registry: &Registry, is: impl Fn(&Algorithm) -> bool) -> bool {
        let rules = self.congestion_rules.iter();
        let of_rules = rules.map(|rule| &rule.congestion_control);
        let mut all = of_rules.chain([&self.congestion_control]);
        all.any(|control| registry.find(&control.algorithm).is_some_and(&is))
    }

    /// Returns whether the listener has sockets of TCP.
    pub fn has_tcp(&self) -> bool {
        self.tcp || !self.http_addresses.is_empty()
    }
}

/// Refuses a demand for certificates that nothing could verify, or that addresses without TLS would lead around; an algorithm that
/// responds to ECN marks where there are none; and a memory that no algorithm would use.
fn check_listener(listener: &mut Listener, section: &Section<'_>) -> Result<(), Error> {
    let registry = section.source.registry;
    let needs_marks = !listener.ecn && listener.has_algorithm(registry, |a| a.scalable);
    let (key, found, expected) = if needs_marks {
        let found = "ecn = false beside an algorithm for L4S, which needs ECN marks";
        ("ecn", found, "ecn = true, or another algorithm for the listener and its rules")
    } else if listener.client_auth.is_some() && listener.client_ca.is_none() {
        let found = "`client_auth` without `client_ca`";
        ("client_auth", found, "both, or `client_ca` alone")
    } else if listener.http == PlainHttp::Serve
        && listener.client_ca.is_some()
        && listener.client_auth != Some(ClientAuth::Optional)
    {
        let found = "http = \"serve\" beside `client_ca`: clients without TLS have no certificate";
        let expected = "http = \"redirect\", or client_auth = \"optional\"";
        ("http", found, expected)
    } else if listener.careful_resume && !listener.has_algorithm(registry, Algorithm::can_resume) {
        let found = "`careful_resume` without an algorithm whose window follows losses";
        let expected = "congestion_control or a congestion_rule with such an algorithm, as \"cubic\", or careful_resume = false";
        ("careful_resume", found, expected)
    } else {
        return Ok(());
    };
    let at = section.position(key);
    Err(section.source.error(at, found, expected))
}

words! {
    /// Version of TLS.
    #[derive(Default)]
    pub enum TlsVersion {
        /// TLS 1.2 (RFC 5246).
        #[default]
        Tls12 = "1.2",
        /// TLS 1.3 (RFC 8446).
        Tls13 = "1.3",
    }
}

words! {
    /// Demand for certificates of clients.
    pub enum ClientAuth {
        /// Every client shows one.
        Required = "required",
        /// A client may have none.
        Optional = "optional",
    }
}

words! {
    /// Treatment of requests without TLS.
    #[derive(Default)]
    pub enum PlainHttp {
        /// They are redirected to https.
        #[default]
        Redirect = "redirect",
        /// The routes respond.
        Serve = "serve",
    }
}

words! {
    /// Field in which trusted proxies name the client.
    #[derive(Default)]
    pub enum ClientAddressField {
        /// `X-Forwarded-For`.
        #[default]
        XForwardedFor = "x-forwarded-for",
        /// `Forwarded` (RFC 7239).
        Forwarded = "forwarded",
    }
}
