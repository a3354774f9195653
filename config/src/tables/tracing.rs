//! Identification of requests across servers.

use std::fmt;

use crate::field::words_in_fields;
use crate::header_fields::OWN;
use crate::schema::{Kind, choice};
use crate::value::Word;
use crate::words::{canonical, token};

/// Largest length of a field's name, in characters.
const MAX_NAME: usize = 64;
/// Fields with a meaning of their own, which cannot hold an ID, beside [`OWN`].
const RESERVED: [&str; 13] = [
    "accept",
    "authorization",
    "content-type",
    "cookie",
    "date",
    "early-data",
    "expect",
    "forwarded",
    "server",
    "set-cookie",
    "traceparent",
    "tracestate",
    "via",
];

table! {
    /// Identification of requests, by which the logs of several servers can be joined: the ID of a request, and the
    /// trace context of the W3C. Upstreams receive both, and the access log contains both.
    #[derive(Eq)]
    pub struct Tracing = [tracing] {
        /// Field with the ID of a request. If the request brings no ID that is accepted, the server makes one: 32
        /// hexadecimal digits, at random. "off" makes none, and the field is passed on like any other.
        request_id: RequestIdField {
            kind: Kind::Word {
                words: "the name of a field, such as \"x-request-id\", or \"off\"",
                read: |word| {
                    let name = word.to_ascii_lowercase();
                    let reserved = [&OWN[..], &RESERVED].concat().contains(&&*name);
                    canonical((token(word, MAX_NAME) && !reserved).then_some(name))
                },
            },
            default: "\"x-request-id\"",
            examples: ["\"x-correlation-id\"", "\"off\""],
            reload: Live
        },
        /// Clients whose IDs are accepted. trusted_proxies: those that a listener trusts. all: every client; IDs are
        /// then not unique if clients do not make them so. none: no client. An ID is accepted if it has 1 to 128
        /// letters, digits or one of -._~:/+=@ and stands in one line; every other one is replaced.
        accept_request_id: AcceptRequestId {
            kind: choice(AcceptRequestId::WORDS),
            default: "\"trusted_proxies\"",
            reload: Live
        },
        /// Whether responses return the ID in the same field, in place of an upstream's own. Users can then name it
        /// when they report an error.
        return_request_id: bool { kind: Kind::Switch, default: "false", reload: Live },
        /// Treatment of the trace context (W3C Trace Context) in the fields traceparent and
        /// tracestate. pass: a valid one is passed on as it is, from any client, and an invalid one is replaced by a new
        /// one that is not sampled, without tracestate. make: a new one is also made for a request without one. off: the
        /// fields are passed on like any others, unread, and the access log does not contain them. With `[telemetry]`, which
        /// exports spans, an upstream gets a traceparent with the server's span.
        traceparent: TraceparentMode { kind: choice(TraceparentMode::WORDS), default: "\"pass\"", reload: Live },
    }
}

/// Field with the ID of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestIdField {
    /// Requests have no ID.
    Off,
    /// Name of the field, in lower case.
    Name(String),
}

impl fmt::Display for RequestIdField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Name(name) => name,
        })
    }
}

impl Word for RequestIdField {
    fn of_canonical(word: String) -> Option<Self> {
        Some(match word.as_str() {
            "off" => Self::Off,
            _ => Self::Name(word),
        })
    }
}

words_in_fields!(RequestIdField);

words! {
    /// Clients whose request IDs are accepted.
    pub enum AcceptRequestId {
        /// Trusted proxies of the listener.
        TrustedProxies = "trusted_proxies",
        /// Every client.
        All = "all",
        /// No client.
        None = "none",
    }
}

words! {
    /// Treatment of the trace context of requests.
    pub enum TraceparentMode {
        /// A valid one is passed on, and an invalid one replaced.
        Pass = "pass",
        /// A request without one gets one, too.
        Make = "make",
        /// The fields are not read.
        Off = "off",
    }
}
