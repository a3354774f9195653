use super::*;
use crate::follow::Follow;
use crate::reader;

/// Writes a trace by hand.
struct Writer {
    text: String,
    at: f64,
    number: u64,
}

impl Writer {
    fn new() -> Writer {
        let text =
            "{\"qlog_version\":\"0.3\",\"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n";
        Writer { text: text.to_owned(), at: 0.0, number: 0 }
    }

    /// A trace of an established connection.
    fn established() -> Writer {
        let mut writer = Writer::new();
        writer.event(
            "packet_received",
            r#"{"header":{"packet_type":"initial","packet_number":0},"raw":{"length":1200}}"#,
        );
        writer.wait(10.0);
        writer.event(
            "packet_received",
            r#"{"header":{"packet_type":"1RTT","packet_number":0},"raw":{"length":100}}"#,
        );
        writer.metrics(r#""latest_rtt":10,"smoothed_rtt":10,"cf_lost_packets":{"total":0}"#);
        writer
    }

    fn wait(&mut self, ms: f64) {
        self.at += ms;
    }

    fn event(&mut self, name: &str, data: &str) {
        let at = self.at;
        self.text += &format!("{{\"time\":{at},\"name\":\"quic:{name}\",\"data\":{data}}}\n");
    }

    fn metrics(&mut self, fields: &str) {
        self.event("recovery_metrics_updated", &format!("{{{fields}}}"));
    }

    fn state(&mut self, name: &str) {
        self.event("congestion_state_updated", &format!(r#"{{"new":"{name}"}}"#));
    }

    fn send(&mut self, frames: &str) {
        let number = self.number;
        self.number += 1;
        self.event("packet_sent", &format!(
            r#"{{"header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"length":1200}},"frames":[{frames}]}}"#
        ));
    }

    fn send_stream(&mut self) {
        let offset = 1000 * self.number;
        self.send(&format!(
            r#"{{"frame_type":"stream","stream_id":0,"offset":{offset},"length":1000}}"#
        ));
    }

    fn receive(&mut self, frames: &str) {
        self.event("packet_received", &format!(
            r#"{{"header":{{"packet_type":"1RTT","packet_number":1}},"raw":{{"length":40}},"frames":[{frames}]}}"#
        ));
    }

    fn acknowledge(&mut self) {
        let last = self.number.saturating_sub(1);
        self.receive(&format!(r#"{{"frame_type":"ack","acked_ranges":[[0,{last}]]}}"#));
    }

    /// A round trip of 10 ms with a full window of `packets`.
    fn round_trip(&mut self, packets: u64) {
        for _ in 0..packets {
            self.send_stream();
        }
        self.metrics(&format!(r#""congestion_window":{0},"bytes_in_flight":{0}"#, 1200 * packets));
        self.wait(10.0);
        self.acknowledge();
        self.metrics(r#""bytes_in_flight":0"#);
    }

    fn judge(&self) -> Summary {
        let mut summaries = Vec::new();
        let mut follow = Follow::new(Summaries::new(|summary| summaries.push(summary)));
        reader::read(self.text.as_bytes(), &mut follow).unwrap();
        drop(follow);
        assert_eq!(summaries.len(), 1);
        summaries.remove(0)
    }
}

fn first(summary: &Summary) -> (Finding, Severity) {
    (summary.verdicts[0].finding, summary.verdicts[0].severity)
}

fn has(summary: &Summary, finding: Finding) -> bool {
    summary.verdicts.iter().any(|verdict| verdict.finding == finding)
}

#[test]
fn a_window_at_the_floor_while_data_waits_is_pinned() {
    let mut writer = Writer::established();
    for _ in 0..50 {
        writer.round_trip(20);
    }
    for _ in 0..200 {
        writer.round_trip(2);
    }
    writer.round_trip(20);
    let summary = writer.judge();
    assert_eq!(first(&summary), (Finding::PinnedAtFloor, Severity::Critical));
    let verdict = &summary.verdicts[0];
    assert!(
        (verdict.from_ms - 510.0).abs() < 1.0 && (verdict.to_ms - 2510.0).abs() < 1.0,
        "{verdict:?}"
    );
    assert!(verdict.evidence.contains("200 round trips"), "{verdict:?}");
}

#[test]
fn a_window_at_the_floor_without_data_is_fine() {
    let mut writer = Writer::established();
    writer.metrics(r#""congestion_window":2400,"bytes_in_flight":0"#);
    for _ in 0..100 {
        writer.wait(100.0);
        writer.receive("");
    }
    let summary = writer.judge();
    assert_eq!(first(&summary), (Finding::ApplicationLimited, Severity::Fine));
    let sum: f64 = summary.waits.iter().map(|row| row.ms).sum();
    assert!((sum - summary.duration_ms).abs() < 1e-6);
}

#[test]
fn losses_explain_the_floor() {
    let mut writer = Writer::established();
    for lost in 0..300 {
        writer.round_trip(2);
        if lost % 5 == 0 {
            writer.metrics(&format!(r#""cf_lost_packets":{{"total":{lost}}}"#));
        }
    }
    let summary = writer.judge();
    assert!(has(&summary, Finding::PersistentLoss), "{:?}", summary.verdicts);
    assert!(summary.verdicts.iter().all(|verdict| verdict.severity < Severity::Severe));
    assert!(summary.traffic.packets_lost == 295 && summary.loss_episodes > 50);
}

#[test]
fn losses_explain_the_floor_only_as_far_as_they_go_on() {
    for (before, after) in [(30, 100), (0, 100), (100, 30)] {
        let mut writer = Writer::established();
        let mut total = 0;
        // A window that is lost again and again, and stays where it is when all arrives.
        for calm in [before, after] {
            (0..calm).for_each(|_| writer.round_trip(2));
            for _ in 0..30 {
                writer.round_trip(2);
                total += 1;
                writer.metrics(&format!(r#""cf_lost_packets":{{"total":{total}}}"#));
            }
        }
        let from = if before > after { 30.0 } else { 340.0 + 10.0 * f64::from(before) };
        let summary = writer.judge();
        assert_eq!(first(&summary), (Finding::PinnedAtFloor, Severity::Critical), "{summary:?}");
        let verdict = &summary.verdicts[0];
        assert!((verdict.from_ms - from).abs() < 21.0, "{verdict:?}");
        assert!((verdict.duration() - 970.0).abs() < 21.0, "{verdict:?}");
        assert!(verdict.evidence.contains("; 0 of 19"), "{verdict:?}");
    }
}

#[test]
fn recoveries_without_losses_are_told() {
    let mut flips = Writer::established();
    let mut stay = Writer::established();
    for writer in [&mut flips, &mut stay] {
        writer.metrics(r#""cf_lost_packets":{"total":1}"#);
        writer.state("recovery");
    }
    for _ in 0..100 {
        flips.round_trip(10);
        flips.state("congestion_avoidance");
        flips.state("recovery");
        stay.round_trip(10);
    }
    for (writer, word) in [(flips, "entered recovery 99 times"), (stay, "after the last loss")] {
        let summary = writer.judge();
        assert_eq!(first(&summary), (Finding::StuckInRecovery, Severity::Critical));
        assert!(summary.verdicts[0].evidence.contains(word), "{:?}", summary.verdicts);
    }
}

#[test]
fn recoveries_with_losses_or_marks_are_fine() {
    let mut writer = Writer::established();
    for total in 1..100 {
        if total % 2 == 0 {
            writer.metrics(&format!(r#""cf_lost_packets":{{"total":{total}}}"#));
        } else {
            writer
                .receive(&format!(r#"{{"frame_type":"ack","acked_ranges":[[0,0]],"ce":{total}}}"#));
        }
        writer.state("recovery");
        writer.round_trip(200);
        writer.state("congestion_avoidance");
    }
    assert!(!has(&writer.judge(), Finding::StuckInRecovery));
}

#[test]
fn states_without_any_word_on_losses_prove_nothing() {
    let mut writer = Writer::new();
    for _ in 0..100 {
        writer.state("recovery");
        writer.round_trip(20);
        writer.state("congestion_avoidance");
    }
    assert!(!has(&writer.judge(), Finding::StuckInRecovery));
}

#[test]
fn a_handshake_without_an_end_is_told() {
    let mut writer = Writer::new();
    for _ in 0..5 {
        writer
            .event("packet_received", r#"{"header":{"packet_type":"initial","packet_number":0}}"#);
        writer.wait(200.0);
        writer.event("packet_sent", r#"{"header":{"packet_type":"handshake","packet_number":0}}"#);
    }
    let summary = writer.judge();
    assert_eq!(first(&summary), (Finding::HandshakeIncomplete, Severity::Severe));
    assert_eq!(Writer::established().judge().handshake_ms, Some(10.0));
}

#[test]
fn a_silent_peer_is_told() {
    let mut writer = Writer::established();
    writer.round_trip(10);
    for count in 1..6 {
        writer.wait(500.0);
        writer.send_stream();
        writer.metrics(&format!(r#""pto_count":{count}"#));
    }
    let summary = writer.judge();
    assert_eq!(first(&summary), (Finding::PeerSilent, Severity::Severe));
    assert!(summary.verdicts[0].evidence.contains("5 probe timeouts in a row, to the end"));
    writer.receive("");
    writer.round_trip(10);
    assert_eq!(first(&writer.judge()), (Finding::PeerSilent, Severity::Warning));
}

#[test]
fn a_peer_that_does_not_read_is_told() {
    let mut guessed = Writer::established();
    guessed.metrics(r#""congestion_window":120000,"bytes_in_flight":0"#);
    guessed.send(r#"{"frame_type":"stream_data_blocked","limit":5}"#);
    guessed.wait(5000.0);
    guessed.receive(r#"{"frame_type":"max_stream_data","maximum":50}"#);
    guessed.wait(1000.0);
    guessed.receive("");
    let mut told = Writer::established();
    told.event(
        "stream_data_blocked_updated",
        r#"{"new":"blocked","reason":"stream_flow_control","stream_id":4}"#,
    );
    told.wait(5000.0);
    told.event("stream_data_blocked_updated", r#"{"new":"unblocked","stream_id":4}"#);
    told.wait(1000.0);
    told.receive("");
    for (writer, estimate) in [(guessed, true), (told, false)] {
        let summary = writer.judge();
        assert_eq!(first(&summary), (Finding::FlowControlLimited, Severity::Warning));
        let verdict = &summary.verdicts[0];
        assert!((verdict.duration() - 5000.0).abs() < 1.0, "{verdict:?}");
        assert_eq!(summary.waits_are_estimates, estimate);
    }
}

#[test]
fn waits_that_are_told_prevail() {
    let mut writer = Writer::established();
    writer.metrics(r#""congestion_window":2400,"bytes_in_flight":2400"#);
    for reason in ["application", "pacing", "scheduled", "connection_flow_control"] {
        writer.event(
            "connection_data_blocked_updated",
            &format!(r#"{{"new":"blocked","reason":"{reason}"}}"#),
        );
        writer.wait(1000.0);
    }
    writer.event("connection_data_blocked_updated", r#"{"old":"blocked","new":"unblocked"}"#);
    let summary = writer.judge();
    for name in ["application", "pacing", "scheduling", "connection_flow_control"] {
        let row = summary.waits.iter().find(|row| row.name == name);
        assert!(
            row.is_some_and(|row| (row.ms - 1000.0).abs() < 1e-6),
            "{name} {:?}",
            summary.waits
        );
    }
}

#[test]
fn a_trickle_is_told() {
    let mut writer = Writer::established();
    writer.state("ProbeBW");
    for _ in 0..200 {
        writer.round_trip(100);
    }
    for _ in 0..40 {
        // A window of 5 packets, acknowledged after 300 ms.
        for _ in 0..5 {
            writer.send_stream();
        }
        writer.metrics(r#""congestion_window":6000,"bytes_in_flight":6000"#);
        writer.wait(300.0);
        writer.acknowledge();
    }
    let summary = writer.judge();
    assert_eq!(first(&summary), (Finding::Trickle, Severity::Critical));
    assert!(summary.verdicts[0].duration() >= 9000.0, "{:?}", summary.verdicts);
}

#[test]
fn ends_are_errors_or_not() {
    let end = |data: &str| {
        let mut writer = Writer::established();
        writer.event("connection_closed", data);
        writer.judge()
    };
    for data in [
        r#"{"error_code":256,"application_error":"unknown"}"#,
        r#"{"connection_error":"no_error","trigger":"clean"}"#,
        r#"{"trigger":"idle_timeout"}"#,
    ] {
        assert!(!has(&end(data), Finding::ClosedByError), "{data}");
    }
    for (data, word) in [
        (
            r#"{"initiator":"remote","connection_error":"flow_control_error"}"#,
            "the peer closed it, flow_control_error",
        ),
        (
            r#"{"initiator":"local","error_code":258,"reason":"a\u001bb"}"#,
            "this end closed it, code 0x102: a\u{fffd}b",
        ),
        (r#"{"trigger":"stateless_reset"}"#, "trigger stateless_reset"),
    ] {
        let summary = end(data);
        assert_eq!(first(&summary), (Finding::ClosedByError, Severity::Warning), "{data}");
        assert!(summary.verdicts[0].evidence.contains(word), "{:?}", summary.verdicts);
    }
    let mut writer = Writer::established();
    writer.receive(
        r#"{"frame_type":"connection_close","error_space":"application","error_code":270}"#,
    );
    assert_eq!(first(&writer.judge()).0, Finding::ClosedByError);
}

#[test]
fn bytes_are_counted() {
    let mut writer = Writer::established();
    writer.round_trip(10);
    writer.event("packet_lost", r#"{"header":{"packet_type":"1RTT","packet_number":3}}"#);
    writer.number = 5;
    writer.send_stream();
    let traffic = writer.judge().traffic;
    assert_eq!((traffic.packets_sent, traffic.bytes_sent), (11, 13_200));
    assert_eq!((traffic.stream_bytes_sent, traffic.bytes_retransmitted), (10_000, 1000));
    assert_eq!(traffic.bytes_acknowledged, 12_000);
    assert_eq!((traffic.packets_lost, traffic.bytes_lost), (0, Some(0)));
}

#[test]
fn a_receiver_is_known() {
    let mut writer = Writer::established();
    for offset in 0..100 {
        writer.receive(&format!(
            r#"{{"frame_type":"stream","stream_id":0,"offset":{},"length":1000}}"#,
            1000 * offset
        ));
        writer.wait(1.0);
    }
    assert_eq!(first(&writer.judge()), (Finding::Receiver, Severity::Fine));
}

#[test]
fn a_pause_of_days_is_no_finding() {
    let mut writer = Writer::established();
    writer.round_trip(20);
    writer.wait(3e8);
    writer.round_trip(20);
    assert_eq!(first(&writer.judge()).1, Severity::Fine);
}

#[test]
fn losses_explain_a_trickle_only_while_they_go_on() {
    for (is_early, severity) in [(true, Severity::Critical), (false, Severity::Warning)] {
        let mut writer = Writer::established();
        let lose = |writer: &mut Writer, total: u64| {
            writer.metrics(&format!(r#""cf_lost_packets":{{"total":{total}}}"#));
        };
        if is_early {
            lose(&mut writer, 900);
        }
        (0..300).for_each(|_| writer.round_trip(100));
        for trip in 0..500 {
            writer.round_trip(4);
            if !is_early {
                lose(&mut writer, trip / 2);
            }
        }
        let summary = writer.judge();
        let found = summary.verdicts.iter().find(|one| one.finding == Finding::Trickle).unwrap();
        assert_eq!(found.severity, severity, "{found:?}");
    }
}

#[test]
fn a_queue_explains_a_trickle() {
    let mut writer = Writer::established();
    for _ in 0..200 {
        writer.round_trip(100);
    }
    writer.metrics(r#""latest_rtt":300,"smoothed_rtt":300"#);
    for _ in 0..40 {
        for _ in 0..5 {
            writer.send_stream();
        }
        writer.metrics(r#""congestion_window":6000,"bytes_in_flight":6000"#);
        writer.wait(300.0);
        writer.acknowledge();
    }
    assert_eq!(first(&writer.judge()), (Finding::Trickle, Severity::Warning));
}

#[test]
fn a_recovery_without_anything_to_send_may_last() {
    let mut writer = Writer::established();
    writer.round_trip(50);
    writer.metrics(r#""cf_lost_packets":{"total":1}"#);
    writer.state("recovery");
    writer.metrics(r#""bytes_in_flight":0"#);
    writer.wait(60_000.0);
    writer.receive("");
    assert_eq!(first(&writer.judge()), (Finding::ApplicationLimited, Severity::Fine));
}

#[test]
fn a_trace_without_packets_is_not_judged() {
    let mut writer = Writer::new();
    writer.event("parameters_set", "{}");
    assert_eq!(first(&writer.judge()), (Finding::NothingToJudge, Severity::Fine));
}

#[test]
fn each_algorithm_of_a_switched_connection_is_named() {
    let mut writer = Writer::established();
    let named = r#"{"description":"congestion_control=cubic","#;
    writer.text =
        writer.text.replacen(r#"{"vantage_point""#, &format!(r#"{named}"vantage_point""#), 1);
    assert_eq!(writer.judge().congestion_control.as_deref(), Some("cubic"));
    let switch = |writer: &mut Writer, old: &str, new: &str| {
        let at = writer.at;
        let name = "sluicegate:congestion_control_switched";
        let data = format!(r#"{{"old":"{old}","new":"{new}"}}"#);
        writer.text += &format!("{{\"time\":{at},\"name\":\"{name}\",\"data\":{data}}}\n");
    };
    writer.wait(3190.0);
    switch(&mut writer, "cubic", "bbr3");
    let summary = writer.judge();
    assert_eq!(summary.congestion_control.as_deref(), Some("cubic, then bbr3 from 3.2 s"));
    assert!(crate::text::story(&summary).contains("cubic, then bbr3 from 3.2 s"));
    for _ in 0..100 {
        switch(&mut writer, "bbr3", "cubic");
    }
    let told = writer.judge().congestion_control.unwrap();
    assert!(told.ends_with("then cubic from 3.2 s, and later switches: 97"), "{told}");
}

impl Writer {
    fn own(&mut self, name: &str, data: &str) {
        let at = self.at;
        self.text += &format!("{{\"time\":{at},\"name\":\"sluicegate:{name}\",\"data\":{data}}}\n");
    }
}

#[test]
fn file_of_a_flight_recorder_is_judged_by_its_sums_and_names_its_trigger() {
    let mut writer = Writer::new();
    writer
        .own("trigger", r#"{"trigger":"window_floor","at":1000,"waits":{"pacing":3},"events":9}"#);
    writer.metrics(r#""smoothed_rtt":10,"congestion_window":2400,"bytes_in_flight":2400"#);
    writer.event(
        "connection_data_blocked_updated",
        r#"{"new":"blocked","reason":"congestion_control"}"#,
    );
    for _ in 0..100 {
        writer.wait(10.0);
        writer.own("packets", r#"{"sent":2,"sent_bytes":2400,"acked_bytes":2400,"lost":0}"#);
    }
    let summary = writer.judge();
    assert_eq!(first(&summary), (Finding::PinnedAtFloor, Severity::Critical));
    let traffic = &summary.traffic;
    assert_eq!((traffic.packets_sent, traffic.bytes_acknowledged), (200, 240_000));
    let story = crate::text::story(&summary);
    let because =
        "\nrecorded    because the window stayed at its floor although data waited, at 1.000 s\n";
    assert!(story.contains(because), "{story}");
}

#[test]
fn strange_sums_and_triggers_are_bounded() {
    let mut writer = Writer::new();
    for _ in 0..100 {
        writer.own("trigger", r#"{"trigger":"\u001b[2J","at":-1e300}"#);
        writer.own("packets", r#"{"sent":1e300,"sent_bytes":"x","acked_bytes":1e300,"lost":-3}"#);
        writer.wait(1.0);
    }
    let summary = writer.judge();
    assert_eq!((summary.triggers.len(), summary.triggers[1].at_ms), (16, 1.0));
    assert!(!crate::text::story(&summary).contains('\u{1b}'));
}

#[test]
fn times_of_a_trace_from_the_middle_are_the_age_of_the_connection() {
    let mut recorded = Writer::established();
    recorded.own("trigger", r#"{"trigger":"window_floor","at":2010,"age":9010}"#);
    let mut traced = Writer::established();
    traced.own("connection_state", r#"{"age":7010,"wait":"pacing"}"#);
    for mut writer in [recorded, traced] {
        (0..200).for_each(|_| writer.round_trip(2));
        writer.own("congestion_control_switched", r#"{"old":"cubic","new":"bbr3"}"#);
        let summary = writer.judge();
        assert_eq!((summary.begins_at_ms, summary.verdicts[0].from_ms), (Some(7000.0), 10.0));
        let story = crate::text::story(&summary);
        let begins = "2.0 s, 1005 events; begins when the connection is 7.000 s old";
        for told in ["from 7.010 s to 9.010 s", begins, "bbr3 from 9.0 s"] {
            assert!(story.contains(told), "{told}: {story}");
        }
        assert_eq!(
            story.contains("at its floor although data waited, at 9.010 s"),
            !summary.triggers.is_empty()
        );
    }
    assert_eq!(Writer::established().judge().begins_at_ms, None);
}
