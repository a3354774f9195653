//! Reads ahead below TLS, which asks for the head of a record first, and then for the rest: two or three calls of the system where
//! one brings a whole request.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// A reader with less room than this gets the bytes by way of the buffer: the head of a record has 5 bytes.
const SMALL: usize = 64;
/// Bytes that are read for it.
const ROOM: usize = 4 * 1024;

/// Bytes that were read and not asked for yet.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    bytes: Vec<u8>,
    taken: usize,
}

impl ReadAhead {
    /// Returns whether nothing was read that is not asked for yet.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads from a stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.bytes.is_empty() {
            self.take(buffer);
            return Poll::Ready(Ok(()));
        }
        if buffer.remaining() >= SMALL {
            return Pin::new(stream).poll_read(cx, buffer);
        }
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut read = ReadBuf::uninit(&mut room);
        ready!(Pin::new(stream).poll_read(cx, &mut read))?;
        let count = read.filled().len().min(buffer.remaining());
        let (asked, ahead) = read.filled().split_at(count);
        buffer.put_slice(asked);
        self.bytes.extend_from_slice(ahead);
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, buffer: &mut ReadBuf<'_>) {
        let left = &self.bytes[self.taken..];
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        self.taken += count;
        if self.taken == self.bytes.len() {
            // An idle connection holds no memory for it.
            *self = ReadAhead::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Stream that counts its reads, each of which brings so many bytes of a text.
    struct Source<'t> {
        text: &'t [u8],
        each: usize,
        reads: usize,
    }

    impl AsyncRead for Source<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.reads += 1;
            let count = self.each.min(buffer.remaining()).min(self.text.len());
            let (read, left) = self.text.split_at(count);
            buffer.put_slice(read);
            self.text = left;
            Poll::Ready(Ok(()))
        }
    }

    /// Reads that many bytes, or what there is.
    fn read(ahead: &mut ReadAhead, source: &mut Source<'_>, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(Waker::noop());
        let polled = ahead.poll_read(source, &mut cx, &mut buffer);
        assert!(matches!(polled, Poll::Ready(Ok(()))));
        buffer.filled().to_vec()
    }

    #[test]
    fn a_record_takes_one_read() {
        let text: Vec<u8> = (0..205).collect();
        let mut source = Source { text: &text, each: usize::MAX, reads: 0 };
        let mut ahead = ReadAhead::default();
        assert_eq!(read(&mut ahead, &mut source, 5), text[..5]);
        assert_eq!(read(&mut ahead, &mut source, 200), text[5..]);
        assert_eq!((source.reads, ahead.bytes.capacity()), (1, 0));
        assert!(read(&mut ahead, &mut source, 5).is_empty());
    }

    #[test]
    fn nothing_is_lost_whatever_is_asked_for_and_arrives() {
        let text: Vec<u8> = (0..20_000).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for each in [1, 7, 64, 1000, usize::MAX] {
            for asked in [1, 5, 63, 64, 5000] {
                let mut source = Source { text: &text, each, reads: 0 };
                let (mut ahead, mut whole) = (ReadAhead::default(), Vec::new());
                loop {
                    let part = read(&mut ahead, &mut source, asked);
                    whole.extend_from_slice(&part);
                    let head = read(&mut ahead, &mut source, 5);
                    whole.extend_from_slice(&head);
                    if part.is_empty() && head.is_empty() {
                        break;
                    }
                }
                assert!(whole == text, "{each} {asked}");
            }
        }
    }

    #[test]
    fn a_reader_with_room_reads_itself() {
        let mut source = Source { text: &[7; 100], each: usize::MAX, reads: 0 };
        let mut ahead = ReadAhead::default();
        assert_eq!(read(&mut ahead, &mut source, 64).len(), 64);
        assert!(ahead.bytes.is_empty());
    }
}
