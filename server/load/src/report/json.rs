//! The report as JSON.

use serde_json::{Value, json};

use super::{NANOS, Report, THOUSANDTHS};
use crate::busy::Busy;
use crate::tally::{Samples, Statistics};

impl Report<'_> {
    /// Returns the report as JSON: the object that h2load writes to its `--output-file`, without the single samples, and what h2load
    /// does not know. Times are in seconds.
    pub(crate) fn json(&self) -> Value {
        let tally = self.tally;
        let [_, _, s2, s3, s4, s5] = tally.status;
        let (rate, byte_rate) = self.rates();
        let mut report = json!({
            "version": "v1",
            "metadata": {
                "generator": concat!("sluicegate ", env!("CARGO_PKG_VERSION")),
                "busy": tally.busy.iter().map(Busy::share).collect::<Vec<_>>(),
                "bottleneck": self.verdict.is_some(),
                "errors": tally.errors,
            },
            "measurements": {
                "duration": self.wall.as_secs_f64(),
                "request_per_second": rate,
                "bytes_per_second": byte_rate,
                "requests": {
                    "total": tally.total,
                    "started": tally.started,
                    "done": tally.done,
                    "succeeded": tally.succeeded,
                    "failed": tally.failed,
                    "errored": tally.errored,
                    "timeout": tally.timed_out,
                    "backlog": tally.backlog,
                },
                "status_codes": { "2xx": s2, "3xx": s3, "4xx": s4, "5xx": s5 },
                "traffic": {
                    "total": tally.bytes_total,
                    "headers": tally.bytes_head,
                    "headers_decompressed": tally.bytes_head_plain,
                    "data": tally.bytes_body,
                },
                "connections": {
                    "established": tally.connections,
                    "failed": tally.failures,
                    "resumed": tally.resumed,
                    "early_data_accepted": tally.early_accepted,
                    "early_data_rejected": tally.early_rejected,
                },
                "performance": {
                    "request": object(&tally.request, NANOS),
                    "send_lag": object(&tally.send_lag, NANOS),
                    "connect": object(&tally.connect, NANOS),
                    "ttfb": object(&tally.first_byte, NANOS),
                    "request_per_second": object(&tally.rate, THOUSANDTHS),
                },
            },
        });
        if self.is_quic {
            self.add_quic(&mut report["measurements"]);
        }
        report
    }

    /// Adds the figures that there are over QUIC alone.
    fn add_quic(&self, measurements: &mut Value) {
        let tally = self.tally;
        let (sent, received) = (tally.datagrams_sent, tally.datagrams_received);
        measurements["udp_datagram"] = json!({ "sent": sent, "recv": received });
        let performance = &mut measurements["performance"];
        for (key, samples, unit) in [
            ("min_rtt", &tally.min_rtt, NANOS),
            ("smoothed_rtt", &tally.smoothed_rtt, NANOS),
            ("packets_sent", &tally.packets_sent, 1.0),
            ("packets_recv", &tally.packets_received, 1.0),
            ("packets_lost", &tally.packets_lost, 1.0),
            ("gro_packets", &tally.gro, 1.0),
        ] {
            performance[key] = object(samples, unit);
        }
    }
}

fn object(samples: &Samples, unit: f64) -> Value {
    let Statistics { min, max, median, p95, p99, p999, mean, sd, within_sd } =
        samples.statistics(unit);
    json!({
        "min": min, "max": max, "median": median, "p95": p95, "p99": p99, "p999": p999,
        "mean": mean, "sd": sd, "within_sd": within_sd, "count": samples.len(),
    })
}
