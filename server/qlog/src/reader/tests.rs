use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::convert::{Converter, QlogFormat};
use crate::event::{Kind, TraceEvent};
use crate::follow::{Follow, Follower, Oddities};

/// Remembers what it is given.
#[derive(Debug, Default)]
struct Memory {
    events: Vec<TraceEvent>,
    headers: Vec<TraceHeader>,
    oddities: Oddities,
}

impl Follower for Memory {
    fn on_trace(&mut self, _: &TraceHeader) {}
    fn on_event(&mut self, event: &TraceEvent) {
        self.events.push(event.clone());
    }
    fn on_trace_end(&mut self, header: &TraceHeader, oddities: Oddities) {
        self.headers.push(header.clone());
        self.oddities = oddities;
    }
}

fn follow(bytes: &[u8]) -> (Result<ReadTally, ReadError>, Memory) {
    let mut follow = Follow::new(Memory::default());
    let tally = read(bytes, &mut follow);
    (tally, follow.follower)
}

fn read_well(bytes: &[u8]) -> (ReadTally, Memory) {
    let (tally, memory) = follow(bytes);
    (tally.unwrap(), memory)
}

const HEADER: &str = r#"{"qlog_version":"0.3","qlog_format":"JSON-SEQ","trace":{"vantage_point":{"type":"server"}}}"#;
const WINDOW: &str =
    r#"{"time":1.5,"name":"quic:recovery_metrics_updated","data":{"congestion_window":12000}}"#;
const OLD_WINDOW: &str = r#"{"data":{"cwnd":12000},"name":"recovery:metrics_updated","time":2.5}"#;

fn windows(memory: &Memory) -> Vec<(f64, Option<u64>)> {
    let window = |event: &TraceEvent| match &event.kind {
        Kind::Metrics(metrics) => Some((event.at, metrics.cwnd)),
        _ => None,
    };
    memory.events.iter().filter_map(window).collect()
}

const BOTH: [(f64, Option<u64>); 2] = [(0.0, Some(12_000)), (1.0, Some(12_000))];

#[test]
fn each_format_gives_the_same_events() {
    let sequence = format!("\u{1e}{HEADER}\n\u{1e}{WINDOW}\n\u{1e}{OLD_WINDOW}\n");
    let spread = sequence.replace(":{", ":\n  {");
    let lines = format!("{HEADER}\n{WINDOW}\r\n\n{OLD_WINDOW}\n");
    let marked = format!("\u{feff}{lines}");
    let contained = format!(
        r#"{{"qlog_version":"0.3","traces":[{{"events":[{WINDOW},{OLD_WINDOW}],"vantage_point":{{"type":"server"}}}}]}}"#
    );
    let pretty = contained.replace(',', ",\n  ");
    for text in [&sequence, &spread, &lines, &marked, &contained, &pretty] {
        let (tally, memory) = read_well(text.as_bytes());
        assert_eq!(tally, ReadTally { traces: 1, events: 2, ..ReadTally::default() }, "{text}");
        assert_eq!(windows(&memory), BOTH, "{text}");
        assert_eq!(memory.headers.len(), 1, "{text}");
        assert_eq!(memory.headers[0].trace["vantage_point"]["type"], "server", "{text}");
    }
}

#[test]
fn compressed_traces_are_read() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for number in 0..2000 {
        writeln!(gzip, "{}", WINDOW.replace("1.5", &number.to_string())).unwrap();
    }
    let gzip = gzip.finish().unwrap();
    assert_eq!(read_well(&gzip).0.events, 2000);
    let (tally, _) = read_well(&gzip[..gzip.len() - 20]);
    assert!(tally.is_cut && tally.events > 0, "{tally:?}");
}

#[test]
fn arrays_are_events_by_their_fields() {
    let text = r#"{"qlog_version":"draft-00","traces":[{"configuration":{"time_units":"us"},
        "event_fields":["relative_time","CATEGORY","EVENT_TYPE","DATA"],
        "events":[["1000","metric_update","congestion_metric_update",{"current_cwnd":14000,"state":"Recovery"}],
                  ["3000","loss","packets_lost",{"lost_bytes":2400,"lost_packets":2}, "more"], 5, []]}]}"#;
    let (tally, memory) = read_well(text.as_bytes());
    assert_eq!((tally.events, tally.bad_records), (2, 2));
    assert_eq!(windows(&memory), [(0.0, Some(14_000))]);
    let lost = Kind::ManyLost { packets: 2, bytes: 2400 };
    assert_eq!(memory.events[1], TraceEvent { at: 2.0, kind: lost });
}

#[test]
fn a_file_may_have_several_traces() {
    let one = format!(r#"{{"events":[{WINDOW}]}}"#);
    let contained = format!(r#"{{"qlog_version":"0.3","traces":[{one},{{"error":"x"}},{one}]}}"#);
    let (tally, memory) = read_well(contained.as_bytes());
    assert_eq!((tally.traces, tally.events, memory.headers.len()), (3, 2, 3));
    let sequence = format!("\u{1e}{HEADER}\n\u{1e}{WINDOW}\n").repeat(3);
    let (tally, memory) = read_well(sequence.as_bytes());
    assert_eq!((tally.traces, tally.events, memory.headers.len()), (3, 3, 3));
}

#[test]
fn a_trace_that_is_cut_anywhere_is_read_to_there() {
    let sequence = format!("\u{1e}{HEADER}\n\u{1e}{WINDOW}\n\u{1e}{OLD_WINDOW}\n");
    let contained =
        format!(r#"{{"qlog_version":"0.3","traces":[{{"events":[{WINDOW},{OLD_WINDOW}]}}]}}"#);
    for text in [sequence, contained] {
        for length in HEADER.len() + 3..text.len() - 1 {
            let (tally, memory) = read_well(&text.as_bytes()[..length]);
            let whole = windows(&memory);
            assert!(BOTH.starts_with(&whole), "{length} {whole:?}");
            assert_eq!((tally.bad_records, &tally.stopped), (0, &None), "{length}");
        }
        let (tally, _) = read_well(&text.as_bytes()[..text.len() - 4]);
        assert!(tally.is_cut);
    }
}

#[test]
fn records_that_are_no_events_are_counted() {
    let text = format!(
        "{HEADER}\nnonsense\n{WINDOW}\n{{\"time\":NaN,\"name\":\"a:b\"}}\n[1,2]\n{{\"a\":1}}\n{OLD_WINDOW}\n{}\n",
        r#"{"time":1e999,"name":"quic:packet_sent"}"#
    );
    let (tally, memory) = read_well(text.as_bytes());
    assert_eq!((tally.events, tally.bad_records), (2, 5));
    assert_eq!(windows(&memory), BOTH);
}

#[test]
fn numbers_that_are_none_stop_a_contained_trace_only_there() {
    let text = format!(
        r#"{{"qlog_version":"0.3","traces":[{{"events":[{WINDOW},{{"time":NaN,"name":"a:b"}},{OLD_WINDOW}]}}]}}"#
    );
    let (tally, memory) = read_well(text.as_bytes());
    assert_eq!(windows(&memory), BOTH[..1]);
    assert!(tally.stopped.unwrap().contains("column"));
}

#[test]
fn odd_times_are_told() {
    let line = |time: &str| WINDOW.replace("1.5", time);
    let text = ["5", "3", "1e300", "\"7\"", "-5"].map(line).join("\n");
    let (_, memory) = read_well(text.as_bytes());
    let times: Vec<f64> = memory.events.iter().map(|event| event.at).collect();
    assert_eq!(times, [0.0, 0.0, 2.0, 2.0]);
    assert_eq!((memory.oddities.backward, memory.oddities.untimed), (2, 1));
}

#[test]
fn what_is_no_trace_is_refused() {
    for (text, why) in [
        ("", "empty"),
        (" \n\n", "empty"),
        ("hello", "JSON object"),
        ("{}", "no qlog header"),
        ("{\"a\":", "ends before its first event"),
        (&format!("\u{1e}{}", &HEADER[..HEADER.len() / 2]), "ends before its first event"),
        ("{{{{{{", "no qlog header"),
        ("[{}]", "JSON object"),
        ("\u{1e}\u{1e}\u{1e}", "no qlog header"),
    ] {
        let error = follow(text.as_bytes()).0.unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let error = follow(&[0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).0.unwrap_err().to_string();
    assert!(error.contains("gzip"), "{error}");
    let error = open(Path::new("/"), &mut Follow::new(Memory::default())).unwrap_err();
    assert!(error.to_string().contains("folder"), "{error}");
}

/// Begins with a header, and goes on with a byte for ever.
struct Endless(u64, u8);

impl Read for Endless {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = bytes.len().min(usize::try_from(self.0).unwrap_or(usize::MAX));
        bytes[..length].fill(self.1);
        self.0 -= length as u64;
        Ok(length)
    }
}

#[test]
fn strings_and_depths_without_end_take_no_memory() {
    const LENGTH: u64 = 100 << 20;
    for byte in [b'a', b'['] {
        let quote = if byte == b'a' { "\"" } else { "" };
        for start in [
            format!(r#"{{"qlog_version":"0.3","traces":[{{"events":[{WINDOW},{{"name":{quote}"#),
            format!(r#"{{"qlog_version":"0.3","traces":[{{"events":[{WINDOW}],"x":{quote}"#),
        ] {
            let mut sink = Follow::new(Memory::default());
            let tally = read(start.as_bytes().chain(Endless(LENGTH, byte)), &mut sink).unwrap();
            let stopped = tally.stopped.unwrap();
            let is_told = stopped.contains("16 MiB") || stopped.contains("recursion");
            assert!(is_told && tally.events == 1, "{stopped}");
        }
        let start = format!("\u{1e}{HEADER}\n\u{1e}{WINDOW}\n\u{1e}{{\"name\":{quote}");
        let end = format!("\n\u{1e}{OLD_WINDOW}\n");
        let mut sink = Follow::new(Memory::default());
        let input = start.as_bytes().chain(Endless(LENGTH, byte)).chain(end.as_bytes());
        let tally = read(input, &mut sink).unwrap();
        assert_eq!((tally.events, tally.long_records), (2, 1));
    }
}

/// A stranger's trace may have any keys, with an event after each.
#[test]
fn fields_of_a_trace_take_no_memory_that_is_not_needed() {
    let long = "a".repeat(100 << 10);
    let mut text = format!(r#"{{"qlog_version":"0.3","code_version":"{long}","traces":[{{"#);
    text += r#""vantage_point":{"type":"server","values":[1,-2,0.5,true,null]},"#;
    text += &format!(r#""title":"{long}","description":[{}0],"#, "0,".repeat(10_000));
    for number in 0..60 {
        text += &format!(r#""key{number}":"{long}","events":[{WINDOW}],"#);
    }
    text += r#""time_format":"delta"}]}"#;
    let (tally, memory) = read_well(text.as_bytes());
    assert_eq!((tally.events, tally.stopped, tally.is_cut), (60, None, false));
    let TraceHeader { file, trace } = &memory.headers[0];
    assert_eq!(file.keys().collect::<Vec<_>>(), ["qlog_version"]);
    let kept = serde_json::json!({
        "vantage_point": { "type": "server", "values": [1, -2, 0.5, true, null] },
        "time_format": "delta",
    });
    assert_eq!(serde_json::Value::from(trace.clone()), kept);
}

#[test]
fn long_events_are_not_converted_but_counted() {
    for data in [format!("\"{}\"", "a".repeat(MAX_RECORD)), format!("[{}0]", "0,".repeat(80_000))] {
        let long = format!(r#"{{"time":2,"name":"a:b","data":{data},"more":1}}"#);
        let text = format!(
            r#"{{"qlog_version":"0.3","traces":[{{"events":[{WINDOW},{long},{OLD_WINDOW}]}}]}}"#
        );
        let mut out = Vec::new();
        let mut converter = Converter::new(&mut out, QlogFormat::Contained03);
        let tally = read(text.as_bytes(), &mut converter).unwrap();
        converter.finish().unwrap();
        assert_eq!((tally.events, tally.long_records, tally.bad_records), (2, 1, 0));
        assert_eq!(windows(&read_well(&out).1), BOTH);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        drive(&bytes);
        let mut begun = b"\x1e{\"qlog_version\":\"0.3\"}\n\x1e".to_vec();
        begun.extend_from_slice(&bytes);
        drive(&begun);
    }

    #[test]
    fn no_damage_makes_it_panic(
        form in 0..3_usize,
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = rich(form).into_bytes();
        for (place, byte) in places {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        drive(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        drive(&bytes);
    }

    #[test]
    fn no_numbers_make_it_panic(
        times in proptest::collection::vec(any::<f64>(), 1..30),
        amounts in proptest::collection::vec(any::<u64>(), 1..30),
    ) {
        let mut text = String::from("{\"qlog_version\":\"0.3\"}\n");
        for (time, amount) in times.iter().zip(&amounts) {
            for event in [
                format!(r#""recovery:metrics_updated","data":{{"cwnd":{amount},"bytes_in_flight":{amount},"latest_rtt":{time:e},"cf_lost_packets":{{"total":{amount}}},"pto_count":{amount}}}"#),
                format!(r#""transport:packet_sent","data":{{"header":{{"packet_type":"1RTT","packet_number":{amount}}},"raw":{{"length":{amount}}},"frames":[{{"frame_type":"stream","stream_id":{amount},"offset":{amount},"length":{amount}}}]}}"#),
                format!(r#""transport:packet_received","data":{{"header":{{"packet_type":"1RTT","packet_number":{amount}}},"raw":{{"length":{amount}}},"frames":[{{"frame_type":"ack","acked_ranges":[[0,{amount}]]}}]}}"#),
            ] {
                text.push_str(&format!("{{\"time\":{time:e},\"name\":{event}}}\n"));
            }
        }
        drive(text.as_bytes());
    }
}

/// Gives bytes to all that read traces.
fn drive(bytes: &[u8]) {
    let mut summaries = Vec::new();
    let each = |summary| summaries.push(summary);
    let _ = read(bytes, &mut Follow::new(crate::analysis::Summaries::new(each)));
    for summary in &summaries {
        assert!(!crate::text::story(summary).is_empty());
        assert!(!summary.verdicts.is_empty());
        crate::text::comparison(["a", "b"], [summary, &summaries[0]]);
    }
    let mut gather = Follow::new(crate::plot::Gather::new(1));
    let _ = read(bytes, &mut gather);
    if let Some(picture) = gather.follower.finish() {
        assert!(crate::plot::draw(&[("a", &picture)]).ends_with("</svg>\n"));
    }
    for format in [QlogFormat::Contained03, QlogFormat::Lines03, QlogFormat::Sequence] {
        let mut out = Vec::new();
        let mut converter = Converter::new(&mut out, format);
        let is_trace = read(bytes, &mut converter).is_ok();
        converter.finish().unwrap();
        assert!(!is_trace || read(&out[..], &mut Follow::new(Memory::default())).is_ok());
    }
}

/// Returns a trace with everything in it, in one of three formats.
fn rich(form: usize) -> String {
    let events = [
        r#"{"time":0,"name":"quic:parameters_set","data":{"initiator":"local","initial_max_data":1048576}}"#,
        r#"{"time":1,"name":"quic:packet_received","data":{"header":{"packet_type":"initial","packet_number":0},"raw":{"length":1200},"frames":[{"frame_type":"crypto","offset":0}]}}"#,
        r#"{"time":2,"name":"quic:packet_sent","data":{"header":{"packet_type":"1RTT","packet_number":5},"raw":{"length":1200},"trigger":"pto_probe","frames":[{"frame_type":"stream","stream_id":0,"offset":0,"raw":{"payload_length":1100}},{"frame_type":"stream_data_blocked","limit":5}]}}"#,
        r#"{"time":3,"name":"quic:packet_received","data":{"header":{"packet_type":"1RTT","packet_number":1},"frames":[{"frame_type":"ack","acked_ranges":[[0,5]],"ce":1},{"frame_type":"connection_close","error_code":258,"reason":"x"}]}}"#,
        r#"{"time":4,"name":"quic:recovery_metrics_updated","data":{"cf_lost_packets":{"total":1,"delta":1},"congestion_window":2400,"bytes_in_flight":2400,"ssthresh":18446744073709551615,"smoothed_rtt":10.5,"pto_count":2}}"#,
        r#"{"time":5,"name":"quic:congestion_state_updated","data":{"new":"recovery"}}"#,
        r#"{"time":6,"name":"quic:connection_data_blocked_updated","data":{"new":"blocked","reason":"pacing"}}"#,
        r#"{"time":7,"name":"quic:connection_closed","data":{"initiator":"remote","connection_error":"internal_error","trigger":"error"}}"#,
    ];
    match form {
        0 => format!("\u{1e}{HEADER}\n\u{1e}{}\n", events.join("\n\u{1e}")),
        1 => format!("{HEADER}\n{}\n", events.join("\n")),
        _ => format!(r#"{{"qlog_version":"0.3","traces":[{{"events":[{}]}}]}}"#, events.join(",")),
    }
}
