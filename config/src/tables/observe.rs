//! Reports of the process: traces, messages, metrics and requests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::field::Field;
use crate::print;
use crate::schema::{GIB, KIB, Key, Kind, MIB, TIB, choice, count, duration, ratio, seconds, size};
use crate::section::Section;
use crate::value::Item;
use crate::words::{canonical, host, socket_address, token};

/// Largest length of a field's name, in characters.
const MAX_NAME: usize = 128;

table! {
    /// Traces of connections, sampled ones and others on request: one qlog file (.sqlog) each, for viewers such as qvis. Events that exceed a bound
    /// below are dropped; no connection waits for the disk. After a reload, a connection that is traced goes on with the
    /// settings that it began with.
    pub struct Qlog = [qlog], check: check_qlog {
        /// Share of the connections that are traced, each from its first packet. 0.001 is a good start in production;
        /// 1.0 suits a test bench.
        sample_rate: f64 { kind: ratio(0.0, 1.0), default: "0.0", examples: ["0.001"], reload: Live },
        /// Folder of the traces; it is created if missing. With it, `sluicegate trace` begins traces of running connections and of the
        /// next ones of a client or a server name, whatever sample_rate is.
        directory: Option<PathBuf> {
            kind: Kind::Path,
            unset: "nothing is written, also on request, and sample_rate must be 0",
            examples: ["\"/var/log/sluicegate/qlog\""],
            reload: Live
        },
        /// Detail of each trace. core: packets. base: also recovery metrics and states, which plots of the window need.
        /// extra: everything.
        level: QlogLevel { kind: choice(QlogLevel::WORDS), default: "\"base\"", reload: Live },
        /// Names of the header fields and trailer fields whose values a trace contains. Other values are replaced by
        /// `<redacted>`, whatever their length; the names stay. Cookies, credentials and tokens identify people or let
        /// others act for them, so add a field only where everybody who reads traces may know it. Fields with a colon,
        /// such as :path, need no entry. The reason that a client gives when it closes its connection, and tokens of
        /// QUIC and TLS, are never written.
        fields: Vec<String> {
            kind: Kind::Words {
                words: "a field name",
                each: ", of up to 128 characters each",
                min: 0,
                max: 64,
                read: |word| canonical(token(word, MAX_NAME).then(|| word.to_ascii_lowercase())),
            },
            default: "[\"content-encoding\", \"content-length\", \"content-type\", \"priority\", \"range\"]",
            examples: ["[]", "[\"content-length\", \"cache-control\", \"etag\"]"],
            reload: Live
        },
        /// Whether a trace contains the queries of request targets. If not, `<redacted>` follows the question mark.
        /// Queries often contain tokens and search terms.
        query: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Connections that are traced at the same time, in the whole process; further ones are not traced. Each needs
        /// an open file.
        max_open_traces: u64 { kind: count(1, 65_536, "traces"), default: "256", reload: Live },
        /// Size at which a trace ends, though its connection goes on.
        max_trace_bytes: u64 { kind: size(64 * KIB, 64 * GIB), default: "\"64MiB\"", reload: Live },
        /// Total size of the traces in the folder. Beyond it the oldest ones are deleted. Not below max_trace_bytes.
        max_total_bytes: u64 { kind: size(MIB, 64 * TIB), default: "\"1GiB\"", reload: Live },
        /// Memory for events that wait to be written. Raise it if sluicegate_qlog_records_dropped_total grows although
        /// the disk is fast enough on average.
        queue: u64 { kind: size(64 * KIB, 4 * GIB), default: "\"16MiB\"", reload: Live },
        /// Whether the flight recorder is on, with a `directory`: it keeps the last 256 events of each active connection of QUIC in memory,
        /// and writes them as a trace where no error would tell that something is wrong. The window stays at its floor, or the
        /// controller in recovery without loss, although data waits; three probe timeouts in a row; no progress
        /// (recorder_stall); a handshake fails. Twelve such traces are written a minute, four by one of these causes, and one in five
        /// minutes by one cause of one connection. `sluicegate trace --recorder` has one written at once.
        recorder: bool { kind: Kind::Switch, default: "true", reload: Live },
        /// Memory of each worker for these events. A connection needs about 9 KB while it is active, and none while it is idle; further
        /// ones are not recorded (sluicegate_recorder_refused_total).
        recorder_memory: u64 { kind: size(64 * KIB, 4 * GIB), default: "\"4MiB\"", reload: Live },
        /// Time for which a client acknowledges nothing although data waits, after which the flight recorder writes a trace.
        recorder_stall: Duration { kind: duration(seconds(1), seconds(3600)), default: "\"10s\"", reload: Live },
    }
}

words! {
    /// Detail of a trace.
    pub enum QlogLevel {
        /// Packets.
        Core = "core",
        /// Packets, recovery metrics and states.
        Base = "base",
        /// Every event.
        Extra = "extra",
    }
}

fn check_qlog(qlog: &mut Qlog, section: &Section<'_>) -> Result<(), Error> {
    if qlog.sample_rate > 0.0 && qlog.directory.is_none() {
        let found = format!("`sample_rate` is {:?} without a `directory`", qlog.sample_rate);
        let at = section.position("sample_rate");
        return Err(section.source.error(at, found, "a `directory` for the traces, or 0"));
    }
    section.at_least(
        ("max_total_bytes", qlog.max_total_bytes),
        ("max_trace_bytes", qlog.max_trace_bytes),
    )
}

table! {
    /// Messages of the process, on standard error. They are the server's own; its libraries write none. A thread of its own writes them:
    /// if their reader is stuck, or the disk is full, messages are dropped and counted
    /// (sluicegate_log_records_dropped_total), and no request waits. Of each kind of message 32 are written at once and
    /// two a second after that, except those about starts, reloads and stops; every ten seconds a message says how many more there were.
    #[derive(Copy, Eq)]
    pub struct Log = [log] {
        /// Least severe level that is written. debug and trace cost throughput.
        level: LogLevel { kind: choice(LogLevel::WORDS), default: "\"info\"", reload: Live },
        /// Form of the messages. text: lines for people. json: one JSON object per line, for a log collector.
        format: LogFormat { kind: choice(LogFormat::WORDS), default: "\"text\"", reload: Live },
    }
}

words! {
    /// Importance of a message.
    #[derive(PartialOrd, Ord)]
    pub enum LogLevel {
        /// Something failed.
        Error = "error",
        /// Something may fail.
        Warn = "warn",
        /// An operator wants to know it.
        Info = "info",
        /// A developer wants to know it.
        Debug = "debug",
        /// Every step.
        Trace = "trace",
    }
}

words! {
    /// Form of the messages.
    pub enum LogFormat {
        /// Lines for people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

table! {
    /// Health checks and metrics for operators, over plain HTTP. /healthz returns 200 while the process lives. /readyz
    /// returns 200 while it accepts connections, and 503 while it starts, will drain (server.shutdown_delay) or drains, or
    /// a thread hangs. /metrics is for Prometheus. /debug/connections shows what connections wait for, /debug/flamegraph
    /// what the server uses CPU time for. /debug/trace begins traces.
    #[derive(Eq)]
    pub struct Admin = [admin] {
        /// TCP address for these pages; port 0 takes a free port. There is no access control, and the metrics name
        /// listeners and upstreams: bind an address of this host or of a private network. A reload binds another address
        /// before it leaves this one, so the two must not share a port of this host.
        address: Option<SocketAddr> {
            kind: Kind::Word {
                words: "an address with a port, such as \"127.0.0.1:9180\", \"[::1]:9180\" or \"localhost:9180\"",
                read: |word| canonical(socket_address(word)),
            },
            unset: "the pages are not served",
            examples: ["\"127.0.0.1:9180\""],
            reload: Live
        },
        /// Names by which /metrics, the connections and the profiles may be asked, as the Host field has them without a port, beside localhost
        /// and IP addresses. A page in an operator's browser could read them by a name of its own that leads to this
        /// address (DNS rebinding). Set it for a loopback address that is asked by another name, as by a proxy in front of it, and for
        /// others where browsers may reach them. /healthz and /readyz take any name.
        hosts: Vec<String> {
            kind: Kind::Words {
                words: "a host name such as \"edge1.example\", without a port",
                each: "",
                min: 1,
                max: 64,
                read: |word| canonical(host(word)),
            },
            unset: "no other name at a loopback address, any name at others",
            examples: ["[\"edge1.example\"]"],
            reload: Live
        },
        /// Whether /debug/connections lists connections, with their clients' addresses: what each waits for and for how
        /// long, its congestion control (over TCP, the system's), round-trip time, losses and bytes, as JSON. Parameters: client (an IP
        /// address, with a port or without), protocol (h3, h2, http/1 or tls), listener, algorithm, wait, sort (busy, the default: the longest time without a wait for the client; stalled, age,
        /// sent, lost) and limit, up to 1000, 50 by default. /debug/connections/ID shows one, by the connection ID of the access log, and
        /// what its requests wait for; with `true`, and while there is an access log, with their methods and paths.
        /// `sluicegate why` and `sluicegate top` put it in words.
        connections: Option<bool> {
            kind: Kind::Switch,
            unset: "on if `address` is a loopback address, which only users of this host reach",
            examples: ["true", "false"],
            reload: Live
        },
        /// Whether /debug/flamegraph records profiles: which functions use CPU time, or memory, as a flame graph (SVG).
        /// Parameters: profile, cpu (the default), allocs (bytes that functions allocate during the recording) or heap (by
        /// how much the bytes in use grow); seconds, 1 to 60, 10 by default; frequency, samples for each second of CPU time
        /// of all threads together, 1 to 250, 99 by default; threads, merged (the default, a frame for all workers of a group) or
        /// each; format, svg, folded (a line for each stack) or pprof.
        /// /debug/pprof/profile, /debug/pprof/allocs and /debug/pprof/heap are the same for go tool pprof: their defaults
        /// are 30 seconds and pprof. There is one recording at a time. A recording of CPU time costs about 1 % of it, and
        /// its memory stays allocated; without a recording there is no cost. Samples need a temporary file, in /tmp or
        /// where TMPDIR says. /debug/trace, which begins traces of connections, and
        /// /debug/connections/ID/congestion_control, which switches the algorithm of one, are allowed and forbidden with them.
        profiles: Option<bool> {
            kind: Kind::Switch,
            unset: "on if `address` is a loopback address, which only users of this host reach",
            examples: ["true", "false"],
            reload: Live
        },
    }
}

table! {
    /// Access log: one line for each request, those included that are refused because their heads are too large or malformed. Lines that exceed the queue are dropped and counted; no request waits for
    /// the disk. A reload may begin, end or move the log; requests that are open get their lines in the new one.
    #[derive(Eq)]
    pub struct AccessLog = [access_log] {
        /// File that lines are appended to; it is created if missing, and SIGUSR1 reopens it. It may be a named pipe.
        /// "stdout" writes to standard output, for containers.
        file: Option<LogTarget> {
            kind: Kind::LogTarget,
            unset: "no access log",
            examples: ["\"/var/log/sluicegate/access.log\"", "\"stdout\""],
            reload: Live
        },
        /// Form of a line. json: an object; a member that does not apply is null. Of the request: time of its head (UTC),
        /// client, proxy (the trusted proxy that named the client), listener, method, authority, path, protocol, referer,
        /// user_agent, and request_id and traceparent, which `[tracing]` describes. Of the response: status; bytes_sent and
        /// bytes_received, bytes of the bodies of response and request; duration_us, microseconds from the request's head
        /// to the end; and outcome: complete; cancelled by the client; stalled, if the server reset it after
        /// limits.client_timeout; or reset by the server for another reason. Of the connection: worker; connection, its ID,
        /// which is also in the name of its trace; congestion_control; and of its TLS session tls_version, tls_cipher,
        /// tls_group (of the key exchange), tls_resumed, tls_server_name (SNI) and tls_client, the subject of the client's
        /// certificate. Why it took its time: waits_us, the microseconds spent on each thing that the request waited for, which
        /// add up to duration_us (`docs/observe.md` names the waits); wait_top, the one that took longest; and the state of
        /// the client's path at the end, over TCP only if the response waited for it: rtt_us, min_rtt_us, congestion_window
        /// (bytes), delivery_rate (bytes per second), retransmitted (bytes) and timeouts of the path so far.
        /// For requests to upstreams: upstream, the address of the one that was tried last; attempts, their
        /// number; and times in microseconds: upstream_connect_us, which the last attempt took to get a connection, next to
        /// 0 if one was open; upstream_us, from the first attempt to the head of the response; upstream_total_us, to the
        /// end of the response. Last, cause, if the server itself responded with a 5xx status or 429, or reset the stream:
        /// a reason of sluicegate_proxy_failures_total such as refused, head_timeout or malformed; route_timeout, after
        /// `timeout` of the route; open_files or file_error of a file; passwords_wait, if too many passwords wait to be
        /// checked; or a reason of sluicegate_http_requests_refused_total such as no_room, memory or rate_limit. It is
        /// head_too_large, head_malformed, too_many_streams or connection_error for a request that
        /// sluicegate_http_heads_refused_total counts; such a line has neither method nor path. It is body_malformed or
        /// body_too_large if the stream was reset for the body of the request. Where the client cancelled, cause is null.
        /// combined: Apache's format of that name, for tools that read only that. extended: the same, with these at the end
        /// of the line, separated by spaces, each `-` if it does not apply: upstream, attempts, seconds to the head of the
        /// upstream's response, cause, request ID, traceparent, seconds to get a connection, seconds to the end of the
        /// response, TLS version, TLS group, `full` or `resumed`, cipher suite, the name that the client asked for (SNI),
        /// the subject of the client's certificate, what the request waited for longest, and for how many seconds.
        format: AccessFormat { kind: choice(AccessFormat::WORDS), default: "\"json\"", reload: Live },
        /// Whether a line contains the query of the request's target, and that of its Referer. Queries often contain
        /// tokens and search terms, and logs are copied to many places.
        query: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Memory for lines that wait to be written. Raise it if sluicegate_access_log_records_dropped_total grows
        /// although the disk is fast enough on average.
        queue: u64 { kind: size(64 * KIB, 4 * GIB), default: "\"4MiB\"", reload: Live },
    }
}

words! {
    /// Form of a request's line.
    pub enum AccessFormat {
        /// One JSON object a line.
        Json = "json",
        /// Apache's `combined`.
        Combined = "combined",
        /// `combined`, with fields about the upstream at its end.
        Extended = "extended",
    }
}

/// Destination of a log's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// The end of a file.
    File(PathBuf),
}

impl Field for LogTarget {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        match item.value.as_str() {
            Some("stdout") => Ok(Self::Stdout),
            _ => item.path().map(Self::File),
        }
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(match self {
            Self::Stdout => print::text("stdout"),
            // A bare name that means a file, not standard output.
            Self::File(file) if file.as_os_str() == "stdout" => print::text("./stdout"),
            Self::File(file) => print::path(file),
        })
    }
}
