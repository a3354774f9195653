//! Requests as they arrive at an upstream, whatever its protocol.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};

use crate::smuggling::upstream::{Message, Upstream};
use crate::upstream;

/// Request without what frames it and what the server adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Method and path.
    pub(super) line: String,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) trailers: Vec<(String, String)>,
}

impl Arrival {
    /// Returns a request without fields.
    pub(super) fn of(line: &str, body: &str) -> Arrival {
        Arrival { line: line.to_owned(), body: body.to_owned(), ..Arrival::default() }
    }

    /// Adds a field; they are compared in the order of their names.
    pub(super) fn with(mut self, name: &str, value: &str) -> Arrival {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    fn read(bytes: &[u8]) -> Arrival {
        let message = Message::read(bytes);
        let mut fields = message.fields;
        fields.retain(|(name, value)| match name.as_str() {
            "host" => {
                assert!(value.eq_ignore_ascii_case("localhost"), "{value}");
                false
            }
            // A field of the connection, for `te`.
            "connection" => {
                assert_eq!(value, "te");
                false
            }
            // The message was read by it.
            name => !matches!(name, "content-length" | "transfer-encoding"),
        });
        Arrival {
            line: message.line.strip_suffix(" HTTP/1.1").unwrap().to_owned(),
            fields,
            body: message.body,
            trailers: message.trailers,
        }
    }
}

/// Upstream that records requests.
pub(super) enum Recorder {
    Http1(Upstream),
    Http2(SocketAddr, Receiver<Arrival>),
}

impl Recorder {
    /// Starts an upstream of HTTP/1.1 that takes bytes literally.
    pub(super) fn http1() -> Recorder {
        Recorder::Http1(Upstream::start())
    }

    /// Starts an upstream of HTTP/2 without TLS.
    pub(super) fn http2() -> Recorder {
        let (sender, arrivals) = channel();
        let record = move |request, response| serve(request, response, sender.clone());
        Recorder::Http2(upstream::start_http2(record), arrivals)
    }

    /// Returns the address as `upstreams` has it.
    pub(super) fn address(&self) -> String {
        match self {
            Recorder::Http1(upstream) => upstream.address.to_string(),
            Recorder::Http2(address, _) => format!("h2c://{address}"),
        }
    }

    /// Returns the requests that have arrived whole since the last call.
    pub(super) fn take(&mut self) -> Vec<Arrival> {
        match self {
            Recorder::Http1(upstream) => read(&upstream.messages()),
            Recorder::Http2(_, arrivals) => arrivals.try_iter().collect(),
        }
    }

    /// Does the same once the server has ended.
    pub(super) fn take_last(&mut self) -> Vec<Arrival> {
        match self {
            Recorder::Http1(upstream) => read(&upstream.last_messages()),
            Recorder::Http2(_, arrivals) => arrivals.try_iter().collect(),
        }
    }
}

fn read(messages: &[Vec<u8>]) -> Vec<Arrival> {
    messages.iter().map(|bytes| Arrival::read(bytes)).collect()
}

/// Records a request that is whole, and responds to it.
async fn serve(
    request: Request<RecvStream>,
    mut response: SendResponse<bytes::Bytes>,
    sender: Sender<Arrival>,
) {
    let (head, mut body) = request.into_parts();
    let mut content = Vec::new();
    while let Some(block) = body.data().await {
        let Ok(block) = block else { return };
        let _ = body.flow_control().release_capacity(block.len());
        content.extend_from_slice(&block);
    }
    let Ok(trailers) = body.trailers().await else {
        return;
    };
    let authority = head.uri.authority().unwrap().as_str();
    assert!(authority.eq_ignore_ascii_case("localhost"), "{authority}");
    let arrival = Arrival {
        line: format!("{} {}", head.method, head.uri.path_and_query().unwrap()),
        fields: pairs(&head.headers),
        body: String::from_utf8(content).unwrap(),
        trailers: pairs(&trailers.unwrap_or_default()),
    };
    // Reported before the response, so that whoever sees the response finds it.
    let _ = sender.send(arrival);
    let head = Response::new(());
    let _ = response.send_response(head, true);
}

fn pairs(fields: &HeaderMap) -> Vec<(String, String)> {
    let added = |name: &str| {
        name.contains("forwarded") || matches!(name, "via" | "x-request-id" | "content-length")
    };
    let lines = fields.iter().filter(|(name, _)| !added(name.as_str()));
    let pair = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    let mut pairs: Vec<_> = lines.map(pair).collect();
    pairs.sort();
    pairs
}
