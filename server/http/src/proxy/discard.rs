//! Bodies of upstreams that nobody gets.

use super::protocol::UpstreamStream;

/// Longest body that is read for nothing but the connection's next exchange, bytes.
const DISCARDED: usize = 64 << 10;

/// Reads a body to its end. Returns whether it came to one within 64 KiB.
pub(super) async fn discard(stream: &mut dyn UpstreamStream) -> bool {
    let mut left = DISCARDED;
    loop {
        let frame = std::future::poll_fn(|cx| stream.poll_body(cx));
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
