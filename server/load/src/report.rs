//! The report, in h2load's forms and as JSON.

mod histogram;
mod json;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::time::Duration;

use crate::options::LoadArgs;
use crate::tally::{Samples, Tally};
use crate::text::{Form, bytes, decimal, duration};

/// Nanoseconds of a second.
const NANOS: f64 = 1e9;
/// Unit of the samples of rates.
const THOUSANDTHS: f64 = 1e3;

/// Figures of a run and their context, in forms to print.
pub(crate) struct Report<'a> {
    pub(crate) tally: &'a Tally,
    /// Packets of QUIC carried it, and have figures.
    pub(crate) is_quic: bool,
    /// Start of the run, since 1970.
    pub(crate) unix: Duration,
    /// Time of the whole run.
    pub(crate) wall: Duration,
    /// Time of what counts.
    pub(crate) counted: Duration,
    /// Warning about the generator itself.
    pub(crate) verdict: Option<String>,
}

impl Report<'_> {
    /// Returns the report of h2load since 1.69.
    pub(crate) fn h2load(&self, args: &LoadArgs) -> String {
        let mut text = self.head(args);
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
            if args.histogram {
                text.push_str(&histogram::lines(samples, unit, other));
            }
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
    pub(crate) fn legacy(&self, args: &LoadArgs) -> String {
        let mut text = self.head(args);
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
    fn head(&self, args: &LoadArgs) -> String {
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
        if args.resume || args.tls_session_file.is_some() {
            let (established, resumed) = (tally.connections, tally.resumed);
            let _ = write!(text, "connections: {established} established, {resumed} resumed");
            if args.early_data {
                let (accepted, rejected) = (tally.early_accepted, tally.early_rejected);
                let _ = write!(
                    text,
                    ", {accepted} with early data accepted, {rejected} with early data rejected"
                );
            }
            text.push('\n');
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
            let noun = if *count == 1 { "connection" } else { "connections" };
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
