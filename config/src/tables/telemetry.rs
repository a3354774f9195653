//! Export of requests as spans.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::schema::{GIB, KIB, Kind, choice, duration, millis, ratio, seconds, size};
use crate::section::Section;
use crate::words::{canonical, host};

/// Path of an endpoint that names none (OTLP §OTLP/HTTP Request).
const PATH: &str = "/v1/traces";

table! {
    /// Export of requests to a collector of OpenTelemetry, as spans: each sampled request becomes one of the kind SERVER, by the semantic
    /// conventions for HTTP, with what it waited for. The server continues the trace of a request with a valid
    /// traceparent (W3C Trace Context) if `follow_parent` says so, and begins one otherwise; an upstream receives a traceparent that names
    /// the span as its parent, and the tracestate of a trace that is continued. So `endpoint` needs traceparent = "pass" or "make" in `[tracing]`; both then make a trace for
    /// a request without one. `docs/observe.md` lists the attributes.
    /// No request waits for the collector: spans that exceed the queue are dropped and counted
    /// (sluicegate_telemetry_requests_dropped_total), as are those that it does not take.
    pub struct Telemetry = [telemetry], check: check_telemetry {
        /// URL to which spans are sent, by OTLP over HTTP with protobuf, such as that of an OpenTelemetry Collector, of Jaeger or of Tempo.
        /// One without a path gets /v1/traces. OTLP over gRPC, at port 4317, is not spoken.
        endpoint: Option<String> {
            kind: Kind::Word {
                words: "an address such as \"http://127.0.0.1:4318/v1/traces\"",
                read: |word| canonical(endpoint(word)),
            },
            unset: "no spans; requests keep the traceparent that they bring",
            examples: ["\"http://127.0.0.1:4318/v1/traces\"", "\"https://otel.example:4318/v1/traces\""],
            reload: Live
        },
        /// PEM file with the root certificates by which the collector's TLS is verified; no other is then trusted.
        ca: Option<PathBuf> {
            kind: Kind::Path,
            unset: "the authorities that this host trusts, as in /etc/ssl/certs/ca-certificates.crt or $SSL_CERT_FILE",
            examples: ["\"tls/collector-ca.pem\""],
            reload: Live
        },
        /// Fields of the requests to the collector, such as a token that it asks for. Let only the server's user read the file then.
        headers: Vec<(String, String)> {
            kind: Kind::FieldValues,
            default: "{}",
            examples: ["{ authorization = \"Bearer 9f2c\" }"],
            reload: Live
        },
        /// Name of this server in traces, service.name. Servers of the same purpose share it.
        service_name: String { kind: Kind::Text { max: 128 }, default: "\"sluicegate\"", examples: ["\"edge\""], reload: Live },
        /// Share of the requests that become spans, where no trace is continued, whose sampled flag then decides. Lower it if the collector, or
        /// who pays for it, has too many.
        sample_rate: f64 { kind: ratio(0.0, 1.0), default: "1.0", examples: ["0.01"], reload: Live },
        /// Clients whose traces are continued; the sampled flag in their traceparent decides in place of sample_rate. trusted_proxies: those
        /// that a listener trusts. all: every client, who may then have every request of its own recorded, in traces of
        /// others, too. none: no client. The requests of the others begin new traces.
        follow_parent: FollowParent { kind: choice(FollowParent::WORDS), default: "\"trusted_proxies\"", reload: Live },
        /// Whether spans contain the queries of requests (url.query). Queries often contain tokens and search terms.
        query: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Time limit of a request to the collector. One that fails is repeated after a pause, a few times.
        timeout: Duration { kind: duration(millis(100), seconds(60)), default: "\"10s\"", reload: Live },
        /// Memory for spans that wait to be sent. Raise it if sluicegate_telemetry_requests_dropped_total grows by
        /// reason="queue" although the collector is fast enough on average.
        queue: u64 { kind: size(64 * KIB, 4 * GIB), default: "\"8MiB\"", reload: Live },
    }
}

words! {
    /// Clients whose traces are continued.
    pub enum FollowParent {
        /// Trusted proxies of the listener.
        TrustedProxies = "trusted_proxies",
        /// Every client.
        All = "all",
        /// No client.
        None = "none",
    }
}

fn check_telemetry(telemetry: &mut Telemetry, section: &Section<'_>) -> Result<(), Error> {
    if telemetry.service_name.trim().is_empty() {
        let at = section.position("service_name");
        return Err(section.source.error(at, "no name in `service_name`", "a name"));
    }
    Ok(())
}

/// Reads a URL of http or https. One without a path gets that of OTLP.
fn endpoint(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(&*scheme, "http" | "https") {
        return None;
    }
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            port.parse::<u16>().ok().filter(|port| *port > 0)?;
            name
        }
        _ => authority,
    };
    host(name)?;
    let plain =
        path.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte));
    if !plain {
        return None;
    }
    let path = match path {
        "" | "/" => PATH.to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    Some(format!("{scheme}://{authority}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn endpoints_are_urls_of_http() {
        for (word, read) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("HTTP://[::1]:4318/", "http://[::1]:4318/v1/traces"),
            ("https://[::1]", "https://[::1]/v1/traces"),
            ("https://otel.example/a/v1/traces?x=y", "https://otel.example/a/v1/traces?x=y"),
        ] {
            assert_eq!(endpoint(word).as_deref(), Some(read), "{word}");
        }
        for word in [
            "127.0.0.1:4318",
            "grpc://a:4317",
            "http://",
            "http:///v1/traces",
            "http://a:0/",
            "http://a:x/",
            "http://a:70000",
            "http://user@a/",
            "http://a b/",
            "http://a/#b",
            "http://a/{b}",
        ] {
            assert_eq!(endpoint(word), None, "{word}");
        }
    }

    #[test]
    fn spans_need_the_trace_context_to_be_read() {
        let parse = |text: &str| {
            let listener =
                "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
            let registry = sluicegate_cc::Registry::builtin();
            Config::from_toml("edge.toml", &format!("{listener}{text}"), &registry)
        };
        let telemetry = "[telemetry]\nendpoint = \"http://[::1]:4318\"\n";
        assert!(parse(telemetry).is_ok());
        let error = parse(&format!("{telemetry}[tracing]\ntraceparent = \"off\"\n")).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("edge.toml:5:1: `endpoint`"), "{error}");
        assert!(error.contains("traceparent = \"off\""), "{error}");
        assert!(parse("[tracing]\ntraceparent = \"off\"\n").is_ok());
        let error = parse("[telemetry]\nservice_name = \" \"\n").unwrap_err().to_string();
        assert!(error.contains("no name in `service_name`"), "{error}");
    }
}
