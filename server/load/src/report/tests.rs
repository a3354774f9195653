//! Reports of the same figures in all forms.

use super::*;
use crate::options;

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
        unix: Duration::ZERO,
        is_quic: true,
        wall: Duration::from_secs(1),
        counted: Duration::from_secs(1),
        verdict: None,
    }
}

fn args(line: &str) -> LoadArgs {
    let words: Vec<_> = line.split_whitespace().chain(["a"]).collect();
    options::parse(&words).unwrap()
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
    assert_eq!(report(&tally()).h2load(&args("")), expected);
}

#[test]
fn connections_that_resumed_have_a_line_if_sessions_are_asked_for() {
    let tally = Tally {
        connections: 9,
        resumed: 8,
        early_accepted: 5,
        early_rejected: 2,
        ..Tally::default()
    };
    let report = report(&tally);
    let resumed = "connections: 9 established, 8 resumed";
    let early = "5 with early data accepted, 2 with early data rejected";
    for (line, expected) in [
        ("--resume", format!("\n{resumed}\n")),
        ("--tls-session-file f", format!("\n{resumed}\n")),
        ("--resume --early-data", format!("\n{resumed}, {early}\n")),
    ] {
        let args = args(line);
        for text in [report.h2load(&args), report.legacy(&args)] {
            assert!(text.contains(&expected), "{line}: {text}");
        }
    }
    assert!(!report.h2load(&args("")).contains("connections"));
}

#[test]
fn each_row_that_varies_has_a_histogram_if_asked_for() {
    let text = report(&tally()).h2load(&args("--histogram"));
    // request, connect, TTFB and GRO packets.
    let bars = text.lines().filter(|line| line.contains(" ["));
    assert_eq!(bars.count(), 40, "{text}");
    let first = "     500us-     650us [////////////////////////////////////////]( 50.00/ 50.00%)";
    assert_eq!(text.lines().nth(8), Some(first), "{text}");
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
    let text = report(&tally()).legacy(&args(""));
    assert!(text.ends_with(&expected[1..]), "{text}");
}

#[test]
fn figures_of_quic_are_left_out_over_tcp() {
    let tally = tally();
    let report = Report { unix: Duration::ZERO, is_quic: false, ..report(&tally) };
    let text = report.h2load(&args(""));
    for part in ["UDP", "RTT", "packets"] {
        assert!(!text.contains(part), "{text}");
    }
    assert!(text.contains("req/s       :    1000.00"), "{text}");
    let json = report.json().to_string();
    assert!(!json.contains("udp") && !json.contains("rtt"), "{json}");
}

#[test]
fn a_run_without_responses_has_a_report() {
    let text = report(&Tally::default()).h2load(&args(""));
    assert!(text.contains("0 total, 0 started"), "{text}");
    assert!(text.contains("request     :        0us         0us"), "{text}");
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
