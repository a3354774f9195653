//! The report, in h2load's forms and as JSON.

mod json;

use std::fmt::Write as _;
use std::time::Duration;

use crate::options::LoadArgs;
use crate::tally::{Samples, Tally};
use crate::text::{bytes, decimal, duration};

/// Nanoseconds of a second.
const NANOS: f64 = 1e9;
/// Unit of the samples of rates.
const THOUSANDTHS: f64 = 1e3;

/// Figures of a run and their context, in forms to print.
pub(crate) struct Report<'a> {
    pub(crate) tally: &'a Tally,
    /// Packets of QUIC carried it, and have figures.
    pub(crate) is_quic: bool,
    /// Time of the whole run.
    pub(crate) wall: Duration,
    /// Time of what counts.
    pub(crate) counted: Duration,
    /// Warning about the generator itself.
    pub(crate) verdict: Option<String>,
}

/// Way to write a statistic.
type Form = fn(f64) -> String;

impl Report<'_> {
    /// Returns the report of h2load since 1.69.
    pub(crate) fn h2load(&self) -> String {
        let mut text = self.head();
        text.push_str(
            "                 min         max         median      p95         p99         mean        sd         +/- sd\n",
        );
        let tally = self.tally;
        let whole: Form = |number| format!("{number:.0}");
        let mut row = |title: &str, samples: &Samples, unit: f64, exact: Form, other: Form| {
            let all = samples.statistics(unit);
            let _ = writeln!(
                text,
                "{title:12}: {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}{:>9}%",
                exact(all.min),
                exact(all.max),
                exact(all.median),
                exact(all.p95),
                exact(all.p99),
                other(all.mean),
                other(all.sd),
                decimal(all.within_sd),
            );
        };
        row("request", &tally.request, NANOS, duration, duration);
        row("connect", &tally.connect, NANOS, duration, duration);
        row("TTFB", &tally.first_byte, NANOS, duration, duration);
        row("req/s", &tally.rate, THOUSANDTHS, decimal, decimal);
        if self.is_quic {
            let (smoothed, received) = (&tally.smoothed_rtt, &tally.packets_received);
            row("min RTT", &tally.min_rtt, NANOS, duration, duration);
            row("smoothed RTT", smoothed, NANOS, duration, duration);
            row("packets sent", &tally.packets_sent, 1.0, whole, decimal);
            row("packets recv", received, 1.0, whole, decimal);
            row("packets lost", &tally.packets_lost, 1.0, whole, decimal);
            row("GRO packets", &tally.gro, 1.0, whole, decimal);
        }
        if tally.send_lag.len() > 0 {
            row("send lag", &tally.send_lag, NANOS, duration, duration);
        }
        text
    }

    /// Returns the report of h2load before 1.69.
    pub(crate) fn legacy(&self) -> String {
        let mut text = self.head();
        text.push_str(
            "                     min         max         mean         sd        +/- sd\n",
        );
        let tally = self.tally;
        let mut row = |title: &str, samples: &Samples, unit: f64, form: Form| {
            let all = samples.statistics(unit);
            let _ = writeln!(
                text,
                "{title:16}: {:>10}  {:>10}  {:>10}  {:>10}{:>9}%",
                form(all.min),
                form(all.max),
                form(all.mean),
                form(all.sd),
                decimal(all.within_sd),
            );
        };
        row("time for request", &tally.request, NANOS, duration);
        row("time for connect", &tally.connect, NANOS, duration);
        row("time to 1st byte", &tally.first_byte, NANOS, duration);
        row("req/s", &tally.rate, THOUSANDTHS, decimal);
        text
    }

    /// Returns the lines above the table, the same in all versions.
    fn head(&self) -> String {
        let tally = self.tally;
        let [_, _, s2, s3, s4, s5] = tally.status;
        let (rate, byte_rate) = self.rates();
        let total = tally.bytes_total;
        let (head, body) = (tally.bytes_head, tally.bytes_body);
        let mut text = format!(
            "\nfinished in {}, {} req/s, {}B/s\n\
             requests: {} total, {} started, {} done, {} succeeded, {} failed, {} errored, {} timeout\n\
             status codes: {s2} 2xx, {s3} 3xx, {s4} 4xx, {s5} 5xx\n\
             traffic: {}B ({total}) total, {}B ({head}) headers (space savings {}%), {}B ({body}) data\n",
            duration(self.wall.as_secs_f64()),
            decimal(rate),
            bytes(byte_rate),
            tally.total,
            tally.started,
            tally.done,
            tally.succeeded,
            tally.failed,
            tally.errored,
            tally.timed_out,
            bytes(total),
            bytes(head),
            decimal(self.savings() * 100.0),
            bytes(body),
        );
        if self.is_quic {
            let (sent, received) = (tally.datagrams_sent, tally.datagrams_received);
            let _ = writeln!(text, "UDP datagram: {sent} sent, {received} received");
        }
        text
    }

    /// Returns responses and bytes per second.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few digits are written"
    )]
    pub(crate) fn rates(&self) -> (f64, u64) {
        let seconds = self.counted.as_secs_f64();
        if seconds <= 0.0 {
            return (0.0, 0);
        }
        let rate = self.tally.completed as f64 / seconds;
        (rate, (self.tally.bytes_total as f64 / seconds) as u64)
    }

    /// Returns the share of the field sections that compression saved.
    #[expect(clippy::cast_precision_loss, reason = "few digits are written")]
    fn savings(&self) -> f64 {
        match self.tally.bytes_head_plain {
            0 => 0.0,
            plain => 1.0 - self.tally.bytes_head as f64 / plain as f64,
        }
    }

    /// Returns the limit of the 99th percentile of request times and that percentile, seconds, if it is above.
    pub(crate) fn missed_slo(&self, args: &LoadArgs) -> Option<(f64, f64)> {
        let limit = args.slo_p99?.as_secs_f64();
        let p99 = self.tally.request.statistics(NANOS).p99;
        (p99 > limit).then_some((limit, p99))
    }

    /// Returns what a user must know beside the figures, line by line.
    pub(crate) fn notes(&self, args: &LoadArgs) -> String {
        let mut text = String::new();
        for error in &self.tally.errors {
            let _ = writeln!(text, "error: {error}");
        }
        for (cause, count) in &self.tally.failures {
            let noun = if *count == 1 {
                "connection"
            } else {
                "connections"
            };
            let _ = writeln!(text, "{count} {noun} failed: {cause}");
        }
        // More open requests than are due in a second: each takes longer than that.
        #[expect(clippy::cast_precision_loss, reason = "a comparison of magnitudes")]
        let late = |rate: f64| self.tally.backlog > 0 || self.tally.unfinished as f64 > rate;
        if let Some(rate) = args.arrival_rate.filter(|rate| late(*rate)) {
            let _ = writeln!(
                text,
                "warning: the server did not keep up with {rate} requests per second: at the end {} were open, and {} were due \
                 but had no free stream (-c {}, -m {})",
                self.tally.unfinished,
                self.tally.backlog,
                args.clients,
                args.max_concurrent_streams,
            );
        }
        if let Some((limit, p99)) = self.missed_slo(args) {
            let (limit, p99) = (duration(limit), duration(p99));
            let _ = writeln!(
                text,
                "--slo-p99 was not met: the 99th percentile of request times is {p99}, above {limit}"
            );
        }
        if let Some(verdict) = &self.verdict {
            let _ = writeln!(text, "warning: {verdict}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of two connections that made 2,000 requests in a second.
    fn tally() -> Tally {
        let mut tally = Tally {
            total: 2001,
            started: 2001,
            done: 2000,
            completed: 2000,
            succeeded: 1990,
            failed: 11,
            errored: 1,
            timed_out: 1,
            status: [0, 0, 1980, 10, 9, 1],
            bytes_total: 3_145_728,
            bytes_head: 40_000,
            bytes_head_plain: 160_000,
            bytes_body: 2_000_000,
            datagrams_sent: 1500,
            datagrams_received: 2500,
            connections: 2,
            ..Tally::default()
        };
        for _ in 0..1000 {
            tally.request.add(500_000);
            tally.request.add(2_000_000);
        }
        for connection in [1, 2] {
            tally.connect.add(connection * 1_000_000);
            tally.first_byte.add(connection * 1_500_000);
            tally.rate.add(1_000_000);
            tally.min_rtt.add(100_000);
            tally.smoothed_rtt.add(200_000);
            tally.packets_sent.add(750);
            tally.packets_received.add(1250);
            tally.packets_lost.add(0);
        }
        tally.gro.add(1);
        tally.gro.add(3);
        tally
    }

    fn report(tally: &Tally) -> Report<'_> {
        Report {
            tally,
            is_quic: true,
            wall: Duration::from_secs(1),
            counted: Duration::from_secs(1),
            verdict: None,
        }
    }

    #[test]
    fn text_is_that_of_h2load() {
        let expected = "
finished in 1.00s, 2000.00 req/s, 3.00MB/s
requests: 2001 total, 2001 started, 2000 done, 1990 succeeded, 11 failed, 1 errored, 1 timeout
status codes: 1980 2xx, 10 3xx, 9 4xx, 1 5xx
traffic: 3.00MB (3145728) total, 39.06KB (40000) headers (space savings 75.00%), 1.91MB (2000000) data
UDP datagram: 1500 sent, 2500 received
                 min         max         median      p95         p99         mean        sd         +/- sd
request     :      500us      2.00ms       500us      2.00ms      2.00ms      1.25ms       750us   100.00%
connect     :     1.00ms      2.00ms      1.00ms      2.00ms      2.00ms      1.50ms       500us   100.00%
TTFB        :     1.50ms      3.00ms      1.50ms      3.00ms      3.00ms      2.25ms       750us   100.00%
req/s       :    1000.00     1000.00     1000.00     1000.00     1000.00     1000.00        0.00   100.00%
min RTT     :      100us       100us       100us       100us       100us       100us         0us   100.00%
smoothed RTT:      200us       200us       200us       200us       200us       200us         0us   100.00%
packets sent:        750         750         750         750         750      750.00        0.00   100.00%
packets recv:       1250        1250        1250        1250        1250     1250.00        0.00   100.00%
packets lost:          0           0           0           0           0        0.00        0.00   100.00%
GRO packets :          1           3           1           3           3        2.00        1.00   100.00%
";
        assert_eq!(report(&tally()).h2load(), expected);
    }

    #[test]
    fn text_is_that_of_older_h2load() {
        let expected = "
                     min         max         mean         sd        +/- sd
time for request:      500us      2.00ms      1.25ms       750us   100.00%
time for connect:     1.00ms      2.00ms      1.50ms       500us   100.00%
time to 1st byte:     1.50ms      3.00ms      2.25ms       750us   100.00%
req/s           :    1000.00     1000.00     1000.00        0.00   100.00%
";
        let text = report(&tally()).legacy();
        assert!(text.ends_with(&expected[1..]), "{text}");
    }

    #[test]
    fn figures_of_quic_are_left_out_over_tcp() {
        let tally = tally();
        let report = Report {
            is_quic: false,
            ..report(&tally)
        };
        let text = report.h2load();
        for part in ["UDP", "RTT", "packets"] {
            assert!(!text.contains(part), "{text}");
        }
        assert!(text.contains("req/s       :    1000.00"), "{text}");
        let json = report.json().to_string();
        assert!(!json.contains("udp") && !json.contains("rtt"), "{json}");
    }

    #[test]
    fn a_run_without_responses_has_a_report() {
        let text = report(&Tally::default()).h2load();
        assert!(text.contains("0 total, 0 started"), "{text}");
        assert!(
            text.contains("request     :        0us         0us"),
            "{text}"
        );
    }

    #[test]
    fn json_has_the_keys_of_h2load() {
        let json = report(&tally()).json();
        let measured = &json["measurements"];
        assert_eq!(measured["requests"]["succeeded"], 1990);
        assert_eq!(measured["status_codes"]["4xx"], 9);
        assert_eq!(measured["traffic"]["headers_decompressed"], 160_000);
        assert_eq!(measured["udp_datagram"]["recv"], 2500);
        assert_eq!(measured["performance"]["request"]["count"], 2000);
        assert!(measured["performance"]["gro_packets"]["p99"].is_number());
        assert_eq!(json["metadata"]["bottleneck"], false);
    }
}
