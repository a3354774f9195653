//! Windows of a client's HTTP/2.

use std::future::poll_fn;
use std::task::{Poll, ready};

use bytes::Bytes;
use h2::{Error, Reason, SendStream};

/// Waits until the windows of a stream have room for a byte, or for more of what is reserved. Returns how much.
///
/// # Errors
/// The client has reset the stream, or the connection has ended.
pub(super) async fn room(stream: &mut SendStream<Bytes>) -> Result<usize, Error> {
    poll_fn(|cx| {
        while stream.capacity() == 0 {
            match ready!(stream.poll_capacity(cx)) {
                Some(room) => room?,
                None => return Poll::Ready(Err(Reason::CANCEL.into())),
            };
        }
        Poll::Ready(Ok(stream.capacity()))
    })
    .await
}
