//! Responses in place of an upstream's.

use std::pin::Pin;

use http_body::Body as _;

use super::connection::{ResponseBody, UpstreamConnection};
use crate::http::exchange::handler::{Cancelled, Responder};
use crate::http::exchange::message::Head;
use crate::http::exchange::{Body, Reply};

/// Longest body that is read for nothing but the connection's next exchange, bytes.
const DISCARDED: usize = 64 << 10;

/// Sends a whole response, to HEAD its head alone.
///
/// # Errors
/// The client has cancelled the request.
pub(super) async fn substitute(
    substitute: Reply,
    is_head: bool,
    reply: Responder,
) -> Result<(), Cancelled> {
    let length = substitute.body.len();
    let end = is_head || length == 0;
    let head = Head {
        status: substitute.status,
        fields: substitute.headers.into_own(),
        length: Some(length),
        end,
    };
    let mut writer = reply.head(head).await?;
    if let (false, Body::Bytes(text)) = (end, substitute.body) {
        writer.data(text).await?;
        writer.end(None).await?;
    }
    Ok(())
}

/// Reads a body to its end. Returns whether it came to one within 64 KiB.
pub(super) async fn discard(connection: &mut UpstreamConnection, mut body: ResponseBody) -> bool {
    let mut left = DISCARDED;
    loop {
        let frame = std::future::poll_fn(|cx| {
            connection.poll_with(cx, |cx| Pin::new(&mut body).poll_frame(cx))
        });
        let data = match frame.await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        };
        match left.checked_sub(data.len()) {
            Some(rest) => left = rest,
            None => return false,
        }
    }
}
