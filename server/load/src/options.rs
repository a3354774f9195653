//! Options of the command line: h2load's, and a few more.

mod without_effect;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::local_ips::LocalIps;
use crate::values::{
    duration, field, host_and_port, interval, latency, payload_size, period, rate, rate_or_none,
};
use without_effect::WithoutEffect;

/// Congestion control unless another is given.
const CC: &str = "cubic";

/// Form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// That of h2load since 1.69.
    H2load,
    /// That of h2load before 1.69, with a shorter table.
    H2loadLegacy,
    /// One JSON object.
    Json,
}

/// Load a server with requests over HTTP/3, HTTP/2 or HTTP/1.1, and report rates and latencies. Options and output are those of h2load.
///
/// Each connection keeps as many requests open as -m allows and sends the next one when a response is complete. With
/// --arrival-rate requests leave on a schedule instead, and latencies count from the scheduled time, so that a server that stalls
/// cannot hide it. Certificates are not checked unless --cacert is given.
///
/// DURATION is a whole number with the unit h, m, s or ms; seconds without a unit. A timeout or duration of 0 is none.
#[derive(Clone, Debug, clap::Args)]
#[command(args_override_self = true)]
#[command(after_help = "\
Examples:
  sluicegate load -n 100000 -c 16 -m 32 https://localhost:4433/
  sluicegate load -D 30s --warm-up-time 5s -c 100 -t 4 https://localhost:4433/
  sluicegate load --arrival-rate 800 -D 30s -c 8 -m 100 https://localhost:4433/

The exit code is 1 if there was no response at all, the report misses something, or the command line cannot be carried out, 2 if it
is wrong, and 3 if --slo-p99 was not met.")]
pub struct LoadArgs {
    /// URLs, requested in turn by each connection; scheme, host and port are those of the first.
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Requests of all connections together, 1 unless given. With --timing-script-file those of each connection: all lines unless
    /// given, and at most these.
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Connections.
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) clients: u64,
    /// Threads.
    #[arg(short = 't', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: u64,
    /// Requests that a connection keeps open at a time.
    #[arg(short = 'm', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) max_concurrent_streams: u64,
    /// Read URLs from this file, one per line, instead of the command line, whose URLs are ignored; `-` is standard input.
    #[arg(short = 'i', long, value_name = "FILE")]
    pub(crate) input_file: Option<PathBuf>,
    /// Send requests at the times in this file. A line is an offset in milliseconds, such as 12.5, a tab and a URL. Each connection
    /// sends the requests of the lines in their order, none before its offset from the end of the connection's handshake, and none
    /// while -m requests are open; with -D it begins again after the last line. Latencies count from when a request is sent. URLs of the
    /// command line are ignored; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input_file", "rps", "arrival_rate"])]
    pub(crate) timing_script_file: Option<PathBuf>,
    /// Take scheme, host and port from this URL.
    #[arg(short = 'B', long, value_name = "URL")]
    pub(crate) base_uri: Option<String>,
    /// Add a field to each request, or replace :authority (also as host), :method, :scheme or user-agent.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = field)]
    pub(crate) header: Vec<(String, String)>,
    /// Send this file as the body of each request, by POST.
    #[arg(short = 'd', long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Run for this time instead of a number of requests.
    #[arg(short = 'D', long, value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Send requests for this time before those that count; with -D.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) warm_up_time: Option<Duration>,
    /// Open this many connections per period, up to -c.
    #[arg(short = 'r', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
    /// Period of -r.
    #[arg(long, value_name = "DURATION", value_parser = period, default_value = "1s")]
    pub(crate) rate_period: Duration,
    /// Requests per second of each connection; 0 for no limit. Latencies count from when a request is sent.
    #[arg(long, value_name = "N", value_parser = rate_or_none)]
    pub(crate) rps: Option<f64>,
    /// Requests per second of all connections together, evenly spaced, whether or not responses come (open loop). Latencies count
    /// from when a request is due.
    #[arg(long, value_name = "N", value_parser = rate, conflicts_with_all = ["rps", "rate"])]
    pub(crate) arrival_rate: Option<f64>,
    /// Close a connection this long after its last request was sent.
    #[arg(short = 'T', long, value_name = "DURATION", value_parser = duration)]
    pub(crate) connection_active_timeout: Option<Duration>,
    /// Close a connection on which nothing of a response arrives for this long.
    #[arg(short = 'N', long, value_name = "DURATION", value_parser = duration)]
    pub(crate) connection_inactivity_timeout: Option<Duration>,
    /// Receive window of a stream: 2^N - 1 bytes, at most 2^26 - 1.
    #[arg(short = 'w', long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(0..=30))]
    pub(crate) window_bits: u32,
    /// Receive window of a connection: 2^N - 1 bytes; over HTTP/2 at least 65535.
    #[arg(short = 'W', long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=30))]
    pub(crate) connection_window_bits: u32,
    /// Connect to this host instead of the URL's.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host_and_port)]
    pub(crate) connect_to: Option<(String, Option<u16>)>,
    /// Own addresses, from which connections come in turn: single ones, ranges and networks, such as
    /// 192.0.2.1,192.0.2.10-192.0.2.20,198.51.100.0/24. Each allows about 28,000 connections, as many as Linux has ports for it.
    #[arg(long, value_name = "LIST")]
    pub(crate) local_ips: Option<LocalIps>,
    /// Send this server name (SNI) instead of the URL's host.
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
    /// Check certificates, and trust the issuers in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Protocols to offer, of h3, h2 and http/1.1. The first one decides: h3 is HTTP/3 over QUIC, and else the list is offered
    /// over TCP. For http:// it is the protocol itself: h2c, or http/1.1, the default there.
    #[arg(long, value_name = "LIST", visible_alias = "npn-list", value_delimiter = ',')]
    pub(crate) alpn_list: Vec<String>,
    /// Short for --alpn-list=h3, which is the default for https://.
    #[arg(long)]
    pub(crate) h3: bool,
    /// Short for --alpn-list=http/1.1 --no-tls-proto=http/1.1.
    #[arg(long, conflicts_with = "h3")]
    pub(crate) h1: bool,
    /// Protocol for http://: h2c, or http/1.1, the default.
    #[arg(short = 'p', long, value_name = "PROTOCOL")]
    pub(crate) no_tls_proto: Option<String>,
    /// Congestion control of what this program sends over QUIC; `sluicegate cc` lists the algorithms.
    #[arg(long, value_name = "NAME", default_value = CC)]
    pub(crate) cc: String,
    /// Largest UDP payload to send, bytes, with K for KiB; 0 for the default.
    #[arg(long, value_name = "SIZE", value_parser = payload_size, default_value = "0", hide_default_value = true)]
    pub(crate) max_udp_payload_size: usize,
    /// Send each datagram by a system call of its own.
    #[arg(long)]
    pub(crate) no_udp_gso: bool,
    /// Groups of the key exchange, such as X25519:P-256.
    #[arg(long, value_name = "GROUPS")]
    pub(crate) groups: Option<String>,
    /// Resume the TLS session in this file (PEM) on all connections, and store the first new one there.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_session_file: Option<PathBuf>,
    /// Resume the newest TLS session that an earlier connection of the same thread has received.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Send requests before the handshake is complete (0-RTT) on connections of QUIC that resume a session, if the server allows it.
    #[arg(long)]
    pub(crate) early_data: bool,
    /// Add a line for each request to this file: start in microseconds since 1970, status (-1 if it failed), duration in
    /// microseconds.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Write a qlog trace of each connection of QUIC to BASE.THREAD.CONNECTION.sqlog.
    #[arg(long, value_name = "BASE")]
    pub(crate) qlog_file_base: Option<PathBuf>,
    /// Print a line with the figures of each interval of this time: rates, latencies, failures, connections.
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Write the figures of each interval to this file, a JSON object per line; of each second unless --interval is given.
    #[arg(long, value_name = "FILE")]
    pub(crate) interval_file: Option<PathBuf>,
    /// Write the distribution of request times to this file in the text form of HdrHistogram (.hgrm), in milliseconds.
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    /// Write a report with charts to this file: one page of HTML without scripts.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Exit with 3 if the 99th percentile of request times is above this. Units are h, m, s, ms and us.
    #[arg(long, value_name = "DURATION", value_parser = latency)]
    pub(crate) slo_p99: Option<Duration>,
    /// Draw a histogram under each row of the table.
    #[arg(long)]
    pub(crate) histogram: bool,
    /// Form of the report.
    #[arg(long, value_enum, default_value = "h2load")]
    pub(crate) format: Format,
    /// Write the report to this file, too, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) output_file: Option<PathBuf>,
    /// Report each connection on standard error.
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) without_effect: WithoutEffect,
}

/// Interval of figures that only a file asks for.
const INTERVAL: Duration = Duration::from_secs(1);

impl LoadArgs {
    /// Returns the length of the intervals whose figures are asked for.
    pub(crate) fn intervals(&self) -> Option<Duration> {
        let by_file = self.interval_file.is_some() || self.html.is_some();
        self.interval.or(by_file.then_some(INTERVAL))
    }

    /// Returns a warning for each option that was given and concerns QUIC alone.
    pub(crate) fn warnings_over_tcp(&self) -> impl Iterator<Item = String> {
        let given = [
            ("--cc", self.cc != CC),
            ("--qlog-file-base", self.qlog_file_base.is_some()),
            ("--no-udp-gso", self.no_udp_gso),
            ("--early-data", self.early_data),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        given.map(|(name, _)| format!("{name} has no effect over TCP"))
    }

    /// Returns the options with none in place of zeros that mean none, as in h2load.
    pub(crate) fn without_zeros(&self) -> LoadArgs {
        let some = |time: Option<Duration>| time.filter(|time| !time.is_zero());
        LoadArgs {
            duration: some(self.duration),
            warm_up_time: some(self.warm_up_time),
            connection_active_timeout: some(self.connection_active_timeout),
            connection_inactivity_timeout: some(self.connection_inactivity_timeout),
            rps: self.rps.filter(|rate| *rate > 0.0),
            ..self.clone()
        }
    }
}

/// Parses the words behind `sluicegate load`, for tests.
#[cfg(test)]
pub(crate) fn parse(words: &[&str]) -> Result<LoadArgs, clap::Error> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }
    let line = <Line as clap::Parser>::try_parse_from([&["load"], words].concat());
    line.map(|line| line.load)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<LoadArgs, clap::Error> {
        super::parse(&line.split_whitespace().skip(1).collect::<Vec<_>>())
    }

    #[test]
    fn command_lines_of_h2load_parse() {
        let args =
            parse("load -n200000 -c 16 -m32 -t2 --alpn-list=h3 https://localhost:4433/1k").unwrap();
        assert_eq!((args.requests, args.clients), (Some(200_000), 16));
        assert_eq!((args.threads, args.max_concurrent_streams), (2, 32));
        assert_eq!(args.urls, ["https://localhost:4433/1k"]);
        let args =
            parse("load --npn-list h3,h3-29 -D 10 --warm-up-time=3s -c1 https://a/ https://a/b")
                .unwrap();
        assert_eq!(args.duration, Some(Duration::from_secs(10)));
        assert_eq!(args.warm_up_time, Some(Duration::from_secs(3)));
        assert_eq!(args.alpn_list, ["h3", "h3-29"]);
        let args = parse("load -r10 --rate-period 100ms -c100 -T1s -N500ms --h3 -w 26 -W 30 -v a")
            .unwrap();
        assert_eq!((args.rate, args.rate_period), (Some(10), Duration::from_millis(100)));
        assert!(args.h3 && args.verbose);
        // Options may come again: the last one counts, as with getopt.
        let args = parse("load -vvv --h3 --h3 -n1 -n 2 -c3 -c4 -H a:b -H c:d a").unwrap();
        assert!(args.verbose && args.h3);
        assert_eq!((args.requests, args.clients, args.header.len()), (Some(2), 4, 2));
        let args = parse("load --timing-script-file f -n10 -c2 -B https://a/").unwrap();
        assert_eq!(args.timing_script_file, Some("f".into()));
        let rest = "load -i urls -B https://b:1 -H accept:*/* -Hx:y -d body --rps=12.5 --connect-to=10.0.0.1:443 --sni c \
                    --log-file l --qlog-file-base q --max-udp-payload-size 1452 --no-udp-gso --groups X25519 --output-file o \
                    --tls-session-file s --histogram";
        let args = parse(rest).unwrap();
        assert_eq!(args.header.len(), 2);
        assert_eq!(args.rps, Some(12.5));
        assert_eq!(args.connect_to, Some(("10.0.0.1".into(), Some(443))));
        assert!(args.no_udp_gso && args.max_udp_payload_size == 1452);
        assert!(args.histogram && args.tls_session_file.is_some());
        assert_eq!(args.without_effect.warnings().count(), 0);
    }

    #[test]
    fn zeros_of_h2load_are_none() {
        let line = "load -n1 -D 0 -T0 -N 0s --warm-up-time 0 --rps 0 -w 0 -W0 --max-udp-payload-size 0 -r1 -i f a";
        let args = parse(line).unwrap().without_zeros();
        let times = [
            args.duration,
            args.warm_up_time,
            args.connection_active_timeout,
            args.connection_inactivity_timeout,
        ];
        assert_eq!((times, args.rps), ([None; 4], None));
        assert_eq!((args.window_bits, args.connection_window_bits), (0, 0));
        assert_eq!(args.max_udp_payload_size, 1350);
    }

    #[test]
    fn mistakes_are_refused() {
        for line in [
            "load --no-such-option a",
            "load --h1 --h3 a",
            "load --timing-script-file f --rps 1",
            "load --timing-script-file f --arrival-rate 1",
            "load --timing-script-file f -i g",
            "load -D ten a",
            "load --rate-period 0 a",
            "load -c 0 a",
            "load -m 0 a",
            "load -t 0 a",
            "load -r 0 a",
            "load -n -1 a",
            "load -H nothing a",
            "load --rps 1 --arrival-rate 1 a",
            "load --max-udp-payload-size 100 a",
            "load --local-ips 10.0.0.2-10.0.0.1 a",
            "load --interval 99ms a",
            "load --slo-p99 0us a",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
