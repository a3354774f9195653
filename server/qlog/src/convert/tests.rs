use serde_json::Value;

use super::*;
use crate::reader;

fn convert(text: &str, format: QlogFormat) -> String {
    let mut out = Vec::new();
    let mut converter = Converter::new(&mut out, format);
    reader::read(text.as_bytes(), &mut converter).unwrap();
    converter.finish().unwrap();
    String::from_utf8(out).unwrap()
}

/// A trace with this `reference_time`, events and their names.
fn trace(reference: &str, events: &[(&str, &str)]) -> String {
    let mut text = format!(
        "{{\"qlog_version\":\"0.3\",\"trace\":{{\"common_fields\":{{\"reference_time\":{reference}}}}}}}\n"
    );
    for (time, name) in events {
        text += &format!("{{\"time\":{time},\"name\":\"{name}\",\"data\":{{}}}}\n");
    }
    text
}

#[test]
fn wall_clock_time_of_the_first_event_is_kept() {
    let clock = r#"{"epoch":"unknown","wall_clock_time":"2026-11-30T12:00:00.5Z"}"#;
    let system = r#"{"epoch":"2026-11-30T12:00:00.502Z"}"#;
    let cases = [
        (clock, "2.25", 1_796_040_000_502.25),
        (system, "0", 1_796_040_000_502.0),
        ("1796040000000", "7", 1_796_040_000_007.0),
        ("0", "1796040000001.5", 1_796_040_000_001.5),
        ("0", "5", 0.0),
        (r#"{"wall_clock_time":"yesterday"}"#, "5", 0.0),
        ("1e300", "5", 0.0),
    ];
    for (reference, time, expected) in cases {
        let text = trace(reference, &[(time, "quic:packet_sent")]);
        let old = convert(&text, QlogFormat::Contained03);
        let json: Value = serde_json::from_str(&old).unwrap();
        let told = &json["traces"][0]["common_fields"]["reference_time"];
        assert_eq!(told.as_f64(), Some(expected), "{reference}");
        let back = convert(&old, QlogFormat::Sequence);
        let is_told = back.contains(r#""wall_clock_time":"2026-11-30T12:00:00"#);
        assert_eq!(is_told, (1.0..1e15).contains(&expected), "{back}");
    }
}

#[test]
fn events_that_a_format_does_not_have_are_left_out_and_counted() {
    let names = [
        ("quic:stream_data_moved", Some("transport:data_moved")),
        ("quic:timer_updated", Some("recovery:loss_timer_updated")),
        ("quic:connection_data_blocked_updated", None),
        ("quic:stream_data_blocked_updated", None),
        ("http3:priority_updated", None),
        ("sluicegate:trigger", Some("sluicegate:trigger")),
    ];
    let text = trace("0", &names.map(|(name, _)| ("1", name)));
    let mut out = Vec::new();
    let mut converter = Converter::new(&mut out, QlogFormat::Contained03);
    reader::read(text.as_bytes(), &mut converter).unwrap();
    assert_eq!(converter.finish().unwrap(), 3);
    let json: Value = serde_json::from_slice(&out).unwrap();
    let events = json["traces"][0]["events"].as_array().unwrap();
    let written: Vec<_> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(written, names.iter().filter_map(|(_, name)| *name).collect::<Vec<_>>());
}

const CURRENT: &str = "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"title\":\"t\",\"trace\":{\"vantage_point\":{\"type\":\"server\"},\"common_fields\":{\"reference_time\":{\"epoch\":\"unknown\"}}}}
\u{1e}{\"time\":5.5,\"name\":\"quic:packet_sent\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":1},\"raw\":{\"length\":1200},\"frames\":[{\"frame_type\":\"stream\",\"stream_id\":0,\"raw\":{\"payload_length\":1100}}]}}
\u{1e}{\"time\":6.5,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"congestion_window\":12000}}
\u{1e}{\"time\":7.5,\"name\":\"http3:frame_created\",\"data\":{}}
\u{1e}{\"time\":8.5,\"name\":\"quic:connection_closed\",\"data\":{\"initiator\":\"remote\"}}
";

#[test]
fn traces_become_what_qvis_reads() {
    let text = convert(CURRENT, QlogFormat::Contained03);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["qlog_version"], &json["qlog_format"]), (&"0.3".into(), &"JSON".into()));
    let trace = &json["traces"][0];
    assert_eq!(trace["vantage_point"]["type"], "server");
    assert_eq!(trace["common_fields"]["time_format"], "relative");
    let events = trace["events"].as_array().unwrap();
    let names: Vec<&str> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "transport:packet_sent",
            "recovery:metrics_updated",
            "http:frame_created",
            "connectivity:connection_closed"
        ]
    );
    assert_eq!(events[0]["data"]["frames"][0]["length"], 1100);
    assert_eq!(events[1]["time"], 1.0);
    assert_eq!(events[3]["data"]["owner"], "remote");
}

#[test]
fn there_and_back_names_are_the_same() {
    let old = convert(CURRENT, QlogFormat::Lines03);
    assert!(old.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{old}");
    let new = convert(&old, QlogFormat::Sequence);
    let names = |text: &str| {
        let events = text.lines().filter_map(|line| {
            let json: Value = serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap();
            Some(json.get("name")?.as_str()?.to_owned())
        });
        events.collect::<Vec<_>>()
    };
    assert_eq!(names(&new), names(CURRENT));
    assert!(new.contains(r#""initiator":"remote""#), "{new}");
    assert!(new.lines().all(|line| line.starts_with('\u{1e}')));
}

#[test]
fn traces_of_mvfst_and_aioquic_are_converted() {
    let mvfst = r#"{"qlog_version":"draft-00","traces":[{"configuration":{"time_units":"us"},"vantage_point":{"type":"SERVER"},
        "events":[["1000","transport","packet_sent",{"header":{"packet_size":1252,"packet_number":3},"packet_type":"1RTT"}],
                  ["3000","metric_update","metric_update",{"latest_rtt":2500}]]}]}"#;
    let json: Value = serde_json::from_str(&convert(mvfst, QlogFormat::Contained03)).unwrap();
    let events = &json["traces"][0]["events"];
    assert_eq!(events[0]["name"], "transport:packet_sent");
    assert_eq!(events[0]["data"]["header"]["packet_type"], "1RTT");
    assert_eq!(events[0]["data"]["raw"]["length"], 1252);
    assert_eq!((&events[1]["time"], &events[1]["data"]["latest_rtt"]), (&2.0.into(), &2.5.into()));
    let aioquic = r#"{"qlog_version":"0.3","traces":[{"common_fields":{"ODCID":"a0"},
        "events":[{"data":{"cwnd":12000},"name":"recovery:metrics_updated","time":1796030983899.3467}],
        "vantage_point":{"name":"aioquic","type":"client"}}]}"#;
    let json: Value = serde_json::from_str(&convert(aioquic, QlogFormat::Contained03)).unwrap();
    let trace = &json["traces"][0];
    assert_eq!(trace["vantage_point"]["name"], "aioquic");
    assert_eq!(trace["events"][0]["data"]["congestion_window"], 12_000);
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut converter = Converter::new(Full, QlogFormat::Sequence);
    reader::read(CURRENT.as_bytes(), &mut converter).unwrap();
    assert_eq!(converter.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
}
