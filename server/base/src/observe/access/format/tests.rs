use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::super::tests::record;
use super::super::{Outcome, PathState, TlsSession, escape};
use super::*;
use crate::clock;
use crate::observe::account::{AccountMark, RequestAccount, RequestWait, Wait};
use crate::observe::unprintable::is_unprintable;
use crate::observe::unprintable::tests::MISLEADING;

fn as_json(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    json(&mut out, record, "default-0");
    String::from_utf8(out).unwrap()
}

pub(in super::super) fn as_combined(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    combined(&mut out, record);
    String::from_utf8(out).unwrap()
}

#[test]
fn lines_tell_everything_in_their_format() {
    assert_eq!(
        as_json(&record()),
        "{\"time\":\"2000-02-29T23:59:59.000250Z\",\"client\":\"192.0.2.1:5000\",\"proxy\":null,\"listener\":\"main\",\
         \"method\":\"GET\",\"authority\":\"localhost:4433\",\"path\":\"/a/b?c=d\",\"protocol\":\"HTTP/3\",\
         \"status\":200,\"bytes_sent\":77,\"bytes_received\":5,\"duration_us\":1234,\"referer\":null,\
         \"user_agent\":\"curl/8\",\"worker\":\"default-0\",\"connection\":\"ab01\",\
         \"congestion_control\":\"cubic\",\"outcome\":\"complete\",\"upstream\":null,\"attempts\":0,\
         \"upstream_connect_us\":null,\"upstream_us\":null,\"upstream_total_us\":null,\"cause\":null,\
         \"request_id\":null,\"traceparent\":null,\"tls_version\":null,\"tls_group\":null,\"tls_resumed\":null,\
         \"tls_cipher\":null,\"tls_server_name\":null,\"tls_client\":null,\"wait_top\":null,\"waits_us\":{},\
         \"rtt_us\":null,\"min_rtt_us\":null,\"congestion_window\":null,\"delivery_rate\":null,\"retransmitted\":null,\
         \"timeouts\":null}\n"
    );
    assert_eq!(
        as_combined(&record()),
        "192.0.2.1 - - [29/Feb/2000:23:59:59 +0000] \"GET /a/b?c=d HTTP/3\" 200 77 \"-\" \"curl/8\"\n"
    );
    let refused = Record {
        client: "[2001:db8::1]:1".parse().unwrap(),
        method: "CONNECT",
        path: "",
        query: None,
        status: None,
        referer: Some(b"https://a/"),
        user_agent: None,
        outcome: Outcome::Cancelled,
        ..record()
    };
    assert_eq!(
        as_combined(&refused),
        "2001:db8::1 - - [29/Feb/2000:23:59:59 +0000] \"CONNECT localhost:4433 HTTP/3\" 000 77 \"https://a/\" \"-\"\n"
    );
    let parsed: Value = serde_json::from_str(&as_json(&refused)).unwrap();
    assert_eq!(parsed["status"], Value::Null);
    assert_eq!(parsed["client"], "[2001:db8::1]:1");
    assert_eq!(parsed["outcome"], "cancelled");
}

#[test]
fn client_behind_a_trusted_proxy_has_no_port_unless_the_proxy_names_one() {
    let named = |client: &str| Record {
        client: client.parse().unwrap(),
        proxy: Some("10.0.0.1:443".parse().unwrap()),
        ..record()
    };
    let line = as_json(&named("[2001:db8::1]:0"));
    assert!(line.contains("\"client\":\"2001:db8::1\",\"proxy\":\"10.0.0.1:443\","), "{line}");
    let line = as_json(&named("198.51.100.1:7"));
    assert!(line.contains("\"client\":\"198.51.100.1:7\",\"proxy\":"), "{line}");
    assert!(as_combined(&named("[2001:db8::1]:0")).starts_with("2001:db8::1 - - "));
}

/// Returns the times of a request that an upstream was slow to respond to.
fn waits() -> WaitTimes {
    let (begun, none) = (clock::now(), AccountMark::default());
    let mut account = RequestAccount::begin(Wait::UpstreamConnect, begun);
    let connected = begun + Duration::from_micros(200);
    account.enter(RequestWait::Own(Wait::UpstreamResponse), connected, &none);
    account.spent(connected + Duration::from_micros(1034), &none)
}

#[test]
fn lines_tell_the_upstream_and_the_cause_of_a_failure() {
    let failed = Record {
        status: Some(504),
        upstream: Some("10.0.0.1:80"),
        attempts: 2,
        upstream_times: UpstreamTimes {
            begun: None,
            connect: Some(Duration::from_micros(200)),
            head: Some(Duration::from_micros(1500)),
            total: None,
        },
        tls: Some(TlsSession {
            version: "TLSv1.3",
            cipher: Some("TLS_AES_128_GCM_SHA256"),
            group: Some("X25519"),
            resumed: true,
        }),
        server_name: Some("a example"),
        client_subject: Some("CN=a b"),
        cause: Some("head_timeout"),
        request_id: Some(b"4bf92f35"),
        traceparent: Some(b"00-0af7-b7ad-01"),
        waits: waits(),
        path_state: Some(PathState {
            rtt: Some(Duration::from_millis(40)),
            min_rtt: Some(Duration::from_micros(35_250)),
            window: 24_000,
            delivery_rate: Some(600_000),
            retransmitted: 1200,
            timeouts: Some(1),
        }),
        ..record()
    };
    let end = "\"outcome\":\"complete\",\"upstream\":\"10.0.0.1:80\",\"attempts\":2,\"upstream_connect_us\":200,\
               \"upstream_us\":1500,\"upstream_total_us\":null,\"cause\":\"head_timeout\",\"request_id\":\"4bf92f35\",\
               \"traceparent\":\"00-0af7-b7ad-01\",\"tls_version\":\"TLSv1.3\",\"tls_group\":\"X25519\",\
               \"tls_resumed\":true,\"tls_cipher\":\"TLS_AES_128_GCM_SHA256\",\"tls_server_name\":\"a example\",\
               \"tls_client\":\"CN=a b\",\"wait_top\":\"upstream_response\",\
               \"waits_us\":{\"upstream_connect\":200,\"upstream_response\":1034},\"rtt_us\":40000,\"min_rtt_us\":35250,\
               \"congestion_window\":24000,\"delivery_rate\":600000,\"retransmitted\":1200,\"timeouts\":1}\n";
    assert!(as_json(&failed).ends_with(end));
    let as_extended = |record: &Record<'_>| {
        let mut out = Vec::new();
        extended(&mut out, record);
        String::from_utf8(out).unwrap()
    };
    let line = as_combined(&failed);
    let line = line.trim_end();
    let expected = format!(
        "{line} 10.0.0.1:80 2 0.001500 head_timeout 4bf92f35 00-0af7-b7ad-01 0.000200 - TLSv1.3 X25519 resumed \
         TLS_AES_128_GCM_SHA256 a\\x20example CN=a\\x20b upstream_response 0.001034\n"
    );
    assert_eq!(as_extended(&failed), expected);
    assert!(as_extended(&record()).ends_with("\"curl/8\" - 0 - - - - - - - - - - - - - -\n"));
}

#[test]
fn characters_that_could_mislead_a_reader_are_escaped() {
    for character in MISLEADING {
        let agent = format!("a{character}b");
        let record = Record { user_agent: Some(agent.as_bytes()), ..record() };
        let line = as_json(&record);
        assert!(!line.trim_end_matches('\n').contains(*character), "{line}");
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["user_agent"], *agent);
        for write in [combined, extended] {
            let mut line = Vec::new();
            write(&mut line, &record);
            assert!(line.is_ascii(), "{character:?}");
        }
    }
}

#[test]
fn hostile_values_stay_within_their_field() {
    let agent = b"\"},{\"a\":\"\\\r\n\t\x00\x1b[2J\x7f\xc2\x85\xe2\x80\xa8\xff\xc3\xa9";
    let hostile = Record { path: "/a \" b\n", user_agent: Some(agent), ..record() };
    let line = as_json(&hostile);
    assert!(
        line.contains(
            r#""user_agent":"\"},{\"a\":\"\\\r\n\t\u0000\u001b[2J\u007f\u0085\u2028�é","#
        )
    );
    let parsed: Value = serde_json::from_str(&line).unwrap();
    let lossy = String::from_utf8_lossy(agent);
    assert_eq!(parsed["user_agent"], *lossy);
    assert_eq!(parsed["path"], "/a \" b\n?c=d");
    let line = as_combined(&hostile);
    assert!(line.contains(r#""GET /a\x20\x22\x20b\x0A?c=d HTTP/3""#), "{line}");
    let expected =
        r#""\x22},{\x22a\x22:\x22\x5C\x0D\x0A\x09\x00\x1B[2J\x7F\xC2\x85\xE2\x80\xA8\xFF\xC3\xA9""#;
    assert!(line.ends_with(&format!("{expected}\n")), "{line}");
}

#[test]
fn a_long_value_is_cut() {
    let long = "é".repeat(escape::MAX_FIELD);
    let tall = Record { path: &long, ..record() };
    let parsed: Value = serde_json::from_str(&as_json(&tall)).unwrap();
    let path = parsed["path"].as_str().unwrap();
    let (start, end) = path.split_at(escape::MAX_FIELD);
    assert!(long.starts_with(start) && end == escape::CUT, "{end}");
    let fits = Record { path: &long[..escape::MAX_FIELD], query: None, ..record() };
    let parsed: Value = serde_json::from_str(&as_json(&fits)).unwrap();
    assert_eq!(parsed["path"], long[..escape::MAX_FIELD]);
}

/// Puts back what `\xHH` stands for.
fn unescaped(field: &str) -> Vec<u8> {
    let mut parts = field.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(hex, 16).unwrap());
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

proptest! {
    /// The client's bytes can be read back, as far as the format allows it.
    #[test]
    fn no_bytes_break_a_line(
        method in "\\PC{1,20}",
        path in any::<String>(),
        agent in proptest::collection::vec(any::<u8>(), 0..300),
        referer in proptest::option::of(any::<String>()),
    ) {
        let record = Record {
            method: &method,
            path: &path,
            query: None,
            user_agent: Some(&agent),
            referer: referer.as_ref().map(String::as_bytes),
            ..record()
        };
        let line = as_json(&record);
        let content = line.strip_suffix('\n').unwrap();
        let misleads = content.contains(is_unprintable);
        prop_assert!(!misleads);
        let parsed: Value = serde_json::from_str(content).unwrap();
        prop_assert_eq!(&parsed["method"], &method);
        prop_assert_eq!(&parsed["path"], &path);
        prop_assert_eq!(&parsed["user_agent"], &*String::from_utf8_lossy(&agent));
        prop_assert_eq!(parsed["referer"].as_str(), referer.as_deref());

        let line = as_combined(&record);
        let content = line.strip_suffix('\n').unwrap();
        prop_assert!(content.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let [_, request, _, from, _, with, ""] = content.split('"').collect::<Vec<_>>()[..] else {
            panic!("{content}");
        };
        let [verb, target, "HTTP/3"] = request.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{request}");
        };
        prop_assert_eq!(unescaped(verb), method.as_bytes());
        let expected = if path.is_empty() { record.authority } else { &path };
        prop_assert_eq!(unescaped(target), expected.as_bytes());
        prop_assert_eq!(unescaped(with), agent);
        let expected = referer.unwrap_or("-".to_owned());
        prop_assert_eq!(unescaped(from), expected.as_bytes());
    }
}
