//! Opens tunnels to upstreams: WebSockets by HTTP/1.1 (RFC 6455 §4) or HTTP/2 (RFC 8441), and other protocols by an upgrade of HTTP/1.1.

use std::cell::RefCell;

use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderName, StatusCode, Version};

use super::failure::Failure;
use super::response::{self, ReceivedHead};
use super::upstream_head::UpstreamHead;
use crate::exchange::Fields;
use crate::exchange::handler::RequestBody;
use crate::exchange::message::{Head, Request};
use crate::websocket;

static OPTION_UPGRADE: HeaderValue = HeaderValue::from_static("upgrade");
/// Version of WebSocket.
static VERSION: HeaderValue = HeaderValue::from_static("13");

/// Handshake with an upstream for a client that asks for a WebSocket, or for another protocol.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Key of a WebSocket.
    key: Option<HeaderValue>,
    protocol: HeaderValue,
    /// The client speaks HTTP/1.1, in which only 101 opens a tunnel.
    is_http1: bool,
    /// Bytes of the client, for the upstream that switches protocols.
    client: RefCell<Option<RequestBody>>,
}

impl Handshake {
    /// Begins a handshake; `None` if the system has no randomness.
    pub(super) fn new(request: &Request, client: RequestBody) -> Option<Handshake> {
        let head = &request.head;
        let key = if head.is_websocket() {
            Some(HeaderValue::try_from(websocket::new_key()?).ok()?)
        } else {
            None
        };
        Some(Handshake {
            key,
            protocol: HeaderValue::from_str(head.protocol.as_deref()?).ok()?,
            is_http1: request.asks_by_upgrade(),
            client: RefCell::new(Some(client)),
        })
    }

    /// Adds the fields that ask an upstream for the protocol. The key of a client that speaks HTTP/1.1 was for this server.
    pub(super) fn ask<'a>(&'a self, head: &mut UpstreamHead<'a>) {
        head.replace(&CONNECTION, &OPTION_UPGRADE);
        head.replace(&UPGRADE, &self.protocol);
        let Some(key) = &self.key else {
            return;
        };
        head.remove(&SEC_WEBSOCKET_ACCEPT);
        head.replace(&SEC_WEBSOCKET_KEY, key);
        if !head.contains(&SEC_WEBSOCKET_VERSION) {
            head.push(&SEC_WEBSOCKET_VERSION, &VERSION);
        }
    }

    /// Returns the head for the client if the upstream has opened the tunnel, `None` if it has responded otherwise.
    ///
    /// # Errors
    /// The upstream has switched to another protocol, or responded to a client of HTTP/2 or HTTP/3 with success without switching.
    pub(super) fn opened(&self, response: &ReceivedHead) -> Result<Option<Head>, Failure> {
        let ReceivedHead { status, version, fields } = response;
        if *version >= Version::HTTP_2 {
            // RFC 8441 §5: the key and what proves that it was understood have no place here.
            return Ok(status.is_success().then(|| self.opening(fields)));
        }
        if *status != StatusCode::SWITCHING_PROTOCOLS {
            // 2xx would open the tunnel of an extended CONNECT. A client of HTTP/1.1 knows that the server has ignored the upgrade.
            return if status.is_success() && !self.is_http1 {
                Err(Failure::NoWebsocket)
            } else {
                Ok(None)
            };
        }
        let all = |name: HeaderName| {
            let lines = fields.iter().filter(move |(known, _)| *known == name);
            lines.map(|(_, value)| value)
        };
        let only = |name| {
            let mut lines = all(name);
            lines.next().filter(|_| lines.next().is_none())
        };
        let is_named = only(UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(self.protocol.as_bytes()));
        let is_accepted = self.key.as_ref().is_none_or(|key| {
            let accept = websocket::accept(key.as_bytes());
            only(SEC_WEBSOCKET_ACCEPT).is_some_and(|value| value.as_bytes() == accept.as_bytes())
        });
        let switches = all(CONNECTION)
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
        if !is_named || !switches || !is_accepted {
            return Err(Failure::NoWebsocket);
        }
        Ok(Some(self.opening(fields)))
    }

    /// Returns the head that opens the tunnel for the client.
    fn opening(&self, fields: &Fields) -> Head {
        let mut fields = response::pass(fields.clone());
        fields.retain(|(name, _)| name != SEC_WEBSOCKET_ACCEPT);
        Head { status: if self.is_http1 { 101 } else { 200 }, fields, length: None, end: false }
    }

    /// Returns the bytes of the client, once.
    pub(super) fn client(&self) -> Option<RequestBody> {
        self.client.take()
    }
}
