//! The end of a connection whose client has not taken everything, or is still sending.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use sluicegate_http::exchange::stall::{LINGERING, LINGERING_BYTES};

/// Longest wait for the next bytes of the client, or for it to acknowledge more.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// Times between the first two and the last looks at what the client has acknowledged: the system wakes nobody for it.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that are read at once.
const BLOCK: usize = 16 * 1024;

/// Keeps a connection for a limited time after the last response: until the client has acknowledged everything, and longer, until it
/// closes its side, if it may still be sending. What it sends is read and dropped. Once the connection is closed, a byte of the client
/// has the system reset it, and drop what is not acknowledged (RFC 9112 §9.6).
#[derive(Debug)]
pub(super) struct Lingering {
    limit: Pin<Box<Sleep>>,
    idle: Pin<Box<Sleep>>,
    left: usize,
    /// Until the client has acknowledged everything.
    look: Option<Look>,
}

/// Next look at what the client has acknowledged.
#[derive(Debug)]
struct Look {
    timer: Pin<Box<Sleep>>,
    pause: Duration,
    acknowledged: u64,
}

impl Lingering {
    pub(super) fn begin() -> Lingering {
        let timer = Box::pin(sleep(Duration::ZERO));
        Lingering {
            limit: Box::pin(sleep(LINGERING)),
            idle: Box::pin(sleep(IDLE)),
            left: LINGERING_BYTES,
            look: Some(Look { timer, pause: FIRST_PAUSE, acknowledged: 0 }),
        }
    }

    /// Reads what has arrived. Ready once the connection may be closed: never before the client closes its side if it `may_send`.
    /// `acknowledged` returns the bytes that the client has acknowledged, until that is everything.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut TcpStream,
        acknowledged: impl Fn() -> Option<u64>,
        may_send: bool,
    ) -> Poll<io::Result<()>> {
        let mut scratch = [MaybeUninit::uninit(); BLOCK];
        while self.left > 0
            && self.limit.as_mut().poll(cx).is_pending()
            && self.idle.as_mut().poll(cx).is_pending()
        {
            let mut buffer = ReadBuf::uninit(&mut scratch);
            if Pin::new(&mut *stream).poll_read(cx, &mut buffer)?.is_ready() {
                match buffer.filled().len() {
                    0 => break,
                    count => self.left = self.left.saturating_sub(count),
                }
                self.idle.set(sleep(IDLE));
                continue;
            }
            match &mut self.look {
                Some(look) => ready!(look.timer.as_mut().poll(cx)),
                None if may_send => return Poll::Pending,
                None => break,
            }
            self.on_look(acknowledged());
        }
        Poll::Ready(Ok(()))
    }

    /// Notes what the client has acknowledged. One that acknowledges more has its time again; the watchdog ends what takes too long.
    fn on_look(&mut self, acknowledged: Option<u64>) {
        let Some(acknowledged) = acknowledged else {
            self.look = None;
            return;
        };
        if let Some(look) = &mut self.look {
            if std::mem::replace(&mut look.acknowledged, acknowledged) != acknowledged {
                self.limit.set(sleep(LINGERING));
                self.idle.set(sleep(IDLE));
            }
            look.timer.set(sleep(look.pause));
            look.pause = (look.pause * 2).min(LONGEST_PAUSE);
        }
    }
}
