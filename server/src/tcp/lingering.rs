//! The end of a connection whose client is still sending.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use sluicegate_http::exchange::stall::{LINGERING, LINGERING_BYTES};

/// Longest wait for the next of them.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const BLOCK: usize = 16 * 1024;

/// Reads and drops what a client sends after the last response, until it closes its side, for a limited time.
#[derive(Debug)]
pub(super) struct Lingering {
    limit: Pin<Box<Sleep>>,
    idle: Pin<Box<Sleep>>,
    left: usize,
}

impl Lingering {
    pub(super) fn begin() -> Lingering {
        Lingering {
            limit: Box::pin(sleep(LINGERING)),
            idle: Box::pin(sleep(IDLE)),
            left: LINGERING_BYTES,
        }
    }

    /// Reads what has arrived. Ready once the connection may be closed.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut TcpStream,
    ) -> Poll<io::Result<()>> {
        let mut scratch = [MaybeUninit::uninit(); BLOCK];
        while self.left > 0
            && self.limit.as_mut().poll(cx).is_pending()
            && self.idle.as_mut().poll(cx).is_pending()
        {
            let mut buffer = ReadBuf::uninit(&mut scratch);
            std::task::ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
            match buffer.filled().len() {
                0 => break,
                count => self.left = self.left.saturating_sub(count),
            }
            self.idle.set(sleep(IDLE));
        }
        Poll::Ready(Ok(()))
    }
}
