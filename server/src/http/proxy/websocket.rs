//! Opens WebSockets to upstreams, by HTTP/1.1 (RFC 6455 §4) or HTTP/2 (RFC 8441).

use std::cell::RefCell;

use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, StatusCode, Version};

use super::failure::Failure;
use super::response;
use crate::http::exchange::handler::RequestBody;
use crate::http::exchange::message::Head;
use crate::http::websocket;

/// Handshake with an upstream for a client that asks for a WebSocket.
#[derive(Debug)]
pub(super) struct Handshake {
    key: String,
    /// Bytes of the client, for the upstream that switches protocols.
    client: RefCell<Option<RequestBody>>,
}

impl Handshake {
    /// Begins a handshake; `None` if the system has no randomness.
    pub(super) fn new(client: RequestBody) -> Option<Handshake> {
        Some(Handshake {
            key: websocket::new_key()?,
            client: RefCell::new(Some(client)),
        })
    }

    /// Adds the fields that ask an upstream for WebSocket. The key of a client that speaks HTTP/1.1 was for this server.
    pub(super) fn ask(&self, headers: &mut HeaderMap) {
        headers.remove(SEC_WEBSOCKET_ACCEPT);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(key) = HeaderValue::from_str(&self.key) {
            headers.insert(SEC_WEBSOCKET_KEY, key);
        }
        if !headers.contains_key(SEC_WEBSOCKET_VERSION) {
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
    }

    /// Returns the head for the client if the upstream has opened the WebSocket, `None` if it refused.
    ///
    /// # Errors
    /// The upstream has switched to another protocol, or responded with success without switching.
    pub(super) fn opened<B>(&self, response: &http::Response<B>) -> Result<Option<Head>, Failure> {
        let (status, headers) = (response.status(), response.headers());
        if response.version() == Version::HTTP_2 {
            // RFC 8441 §5: the key and what proves that it was understood have no place here.
            return Ok(status.is_success().then(|| opening(headers)));
        }
        if status != StatusCode::SWITCHING_PROTOCOLS {
            // For the client, 2xx would open the tunnel.
            return if status.is_success() {
                Err(Failure::NoWebsocket)
            } else {
                Ok(None)
            };
        }
        let accept = websocket::accept(self.key.as_bytes());
        let has = |name: HeaderName, wanted: &str| {
            let mut lines = headers.get_all(name).iter();
            let only = lines.next().filter(|_| lines.next().is_none());
            only.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(wanted.as_bytes()))
        };
        let accepted = { headers.get(SEC_WEBSOCKET_ACCEPT) }
            .is_some_and(|value| value.as_bytes() == accept.as_bytes());
        let connection = headers.get_all(CONNECTION).iter();
        let switches = connection
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
        if !has(UPGRADE, "websocket") || !switches || !accepted {
            return Err(Failure::NoWebsocket);
        }
        Ok(Some(opening(headers)))
    }

    /// Returns the bytes of the client, once.
    pub(super) fn client(&self) -> Option<RequestBody> {
        self.client.take()
    }
}

/// Returns the head that opens the tunnel for the client.
fn opening(headers: &HeaderMap) -> Head {
    let mut fields = response::pass(headers.clone());
    fields.retain(|(name, _)| name != SEC_WEBSOCKET_ACCEPT);
    Head {
        status: 200,
        fields,
        length: None,
        end: false,
    }
}
