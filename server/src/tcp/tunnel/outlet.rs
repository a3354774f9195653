//! Bytes that a tunnel hands over to hyper for its client.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::tcp::body::END;
use crate::tcp::connection::Connection;
use crate::tcp::metered::Meter;
use crate::tcp::send_buffer::StreamBuffer;

/// Largest block of a tunnel over HTTP/2, bytes. hyper copies it, so nobody says when HTTP/2 drops it.
const BLOCK: usize = 8 * 1024;

/// Way of a tunnel's bytes to hyper. Over HTTP/2 it takes no block before the system has taken the one before, as far as the client's
/// windows have let HTTP/2 offer it. The block counts as held for the client until then.
#[derive(Debug)]
pub(super) struct Outlet {
    http2: Option<(Arc<StreamBuffer>, Rc<Meter>)>,
}

impl Outlet {
    /// Returns the way to a client over this connection.
    pub(super) fn new(connection: &Connection) -> Outlet {
        let buffer = connection.stream_buffer();
        Outlet {
            http2: buffer.map(|buffer| (buffer, Rc::clone(&connection.meter))),
        }
    }

    /// Returns the most bytes that the next block may have.
    pub(super) fn room(&self) -> usize {
        self.http2
            .as_ref()
            .map_or(usize::MAX, |(buffer, _)| buffer.first_room().min(BLOCK))
    }

    /// Hands a block over.
    ///
    /// # Errors
    /// The client, or its stream, has gone.
    pub(super) async fn write(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        block: Bytes,
    ) -> io::Result<()> {
        let Some((buffer, meter)) = &self.http2 else {
            stream.write_all(&block).await?;
            return stream.flush().await;
        };
        let before = meter.written();
        let held = buffer.hold(block);
        // hyper hands a part over to HTTP/2 once the window has room for its first byte, so the last one is small.
        let (first, last) = held.split_at(held.len().saturating_sub(END));
        for part in [first, last] {
            stream.write_all(part).await?;
            stream.flush().await?;
        }
        if !held.is_empty() {
            meter.taken_since(before).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tokio::io::sink;

    use super::*;
    use crate::tcp::send_buffer::{LEAST, SendBuffer};

    const LIMIT: usize = 16 * 1024;

    #[test]
    fn block_of_a_tunnel_counts_until_the_system_takes_what_it_is_offered() {
        let (connection, meter) = (SendBuffer::new(LIMIT), Rc::<Meter>::default());
        let outlet = || Outlet {
            http2: Some((connection.stream(), Rc::clone(&meter))),
        };
        let (one, other) = (outlet(), outlet());
        assert_eq!(one.room(), BLOCK);
        let mut cx = Context::from_waker(Waker::noop());
        let mut stream = sink();
        let mut write = pin!(one.write(&mut stream, vec![7; BLOCK].into()));
        for taken in [Poll::Pending, Poll::Pending] {
            assert!(write.as_mut().poll(&mut cx).is_pending());
            assert_eq!(connection.held(), BLOCK as u64);
            meter.on_write(&taken);
        }
        assert_eq!(other.room(), LIMIT - BLOCK);
        // The system has taken something, and is full again.
        meter.on_write(&Poll::Ready(Ok(10)));
        meter.on_write(&Poll::Pending);
        assert!(write.as_mut().poll(&mut cx).is_pending());
        meter.on_write(&Poll::Ready(Ok(10)));
        assert!(matches!(write.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
        assert_eq!(connection.held(), 0);
    }

    #[test]
    fn tunnels_whose_client_takes_nothing_hold_little_more_than_the_limit() {
        let (connection, meter) = (SendBuffer::new(LIMIT), Rc::<Meter>::default());
        meter.on_write(&Poll::Pending);
        let mut cx = Context::from_waker(Waker::noop());
        let mut writes = Vec::new();
        for _ in 0..128 {
            let http2 = Some((connection.stream(), Rc::clone(&meter)));
            let mut write = Box::pin(async move {
                let outlet = Outlet { http2 };
                loop {
                    let block = vec![7; outlet.room()].into();
                    outlet.write(&mut sink(), block).await.unwrap();
                }
            });
            let _: Poll<()> = write.as_mut().poll(&mut cx);
            writes.push(write);
        }
        assert!(connection.held() <= (LIMIT + 128 * LEAST) as u64);
        drop(writes);
        assert_eq!(connection.held(), 0);
    }

    #[test]
    fn tunnel_over_http1_waits_for_its_stream_alone() {
        let outlet = Outlet { http2: None };
        assert_eq!(outlet.room(), usize::MAX);
        let mut stream = sink();
        let write = pin!(outlet.write(&mut stream, Bytes::from_static(b"bytes")));
        let polled = write.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(()))));
    }
}
