use std::io;
use std::rc::Rc;
use std::task::Waker;

use http::header::HOST;

use crate::exchange::test_front::{TestFront, head, pair, request};
use crate::exchange::{FieldNames, Fields};
use crate::proxy::upload::Upload;
use crate::proxy::upstream_head::Framing::{Chunked, Length};

use super::*;

/// Upstream that takes so many bytes of each write.
struct Sink {
    taken: Vec<u8>,
    writes: usize,
    most: usize,
    is_vectored: bool,
}

impl Sink {
    fn new(most: usize, is_vectored: bool) -> Sink {
        Sink { taken: Vec::new(), writes: 0, most, is_vectored }
    }
}

impl AsyncWrite for Sink {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        assert!(!bytes.is_empty());
        self.as_mut().poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let before = self.taken.len();
        // As tokio does for a stream that writes one buffer at a time.
        let parts = parts.iter().filter(|part| !part.is_empty());
        for part in parts.take(if self.is_vectored { 3 } else { 1 }) {
            let room = self.most - (self.taken.len() - before);
            self.taken.extend_from_slice(&part[..part.len().min(room)]);
        }
        self.writes += 1;
        Poll::Ready(Ok(self.taken.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        self.is_vectored
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns the body of a request of the announced length, and the client that sends it.
fn upload(length: Option<u64>) -> (UploadBody, TestFront) {
    let (incoming, front) = pair(request(head("POST", "/", &[]), length, true), 1 << 30);
    (UploadBody(Upload::new(incoming.body, length, FieldNames::default())), front)
}

/// Begins a request with these lines behind `host`.
fn begin(
    outgoing: &mut OutgoingRequest,
    framing: upstream_head::Framing,
    lines: &[(HeaderName, &str)],
    body: UploadBody,
) -> bool {
    let mut head =
        UpstreamHead::new("POST", 0, |target| target.extend_from_slice(b"/a?b")).unwrap();
    head.write(&HOST, |text| text.extend_from_slice(b"a.example")).unwrap();
    for (name, value) in lines {
        head.write(name, |text| text.extend_from_slice(value.as_bytes())).unwrap();
    }
    head.set_framing(framing);
    outgoing.begin(&head, body)
}

fn write(outgoing: &mut OutgoingRequest, sink: &mut Sink) {
    outgoing.poll(&mut Context::from_waker(Waker::noop()), sink);
}

const HEAD: &str = "POST /a?b HTTP/1.1\r\nhost: a.example\r\n";

/// Writes a body that has arrived in these blocks, and returns what the upstream gets, and in how many writes.
fn written(
    framing: upstream_head::Framing,
    blocks: &[&'static [u8]],
    (announced, trailers): Trailers<'_>,
    mut sink: Sink,
) -> (Vec<u8>, usize) {
    let length = blocks.iter().map(|block| block.len() as u64).sum();
    let length = Some(length).filter(|_| framing != Chunked);
    let (body, front) = upload(length);
    for block in blocks {
        front.data(block);
    }
    let line = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    front.end(Some(trailers.iter().map(line).collect()).filter(|lines: &Fields| !lines.is_empty()));
    let mut outgoing = OutgoingRequest::default();
    let announced = announced.map(|names| (TRAILER, names));
    assert!(begin(&mut outgoing, framing, announced.as_slice(), body));
    write(&mut outgoing, &mut sink);
    assert!(outgoing.is_complete() && !outgoing.is_broken());
    assert_eq!((outgoing.bytes.len(), outgoing.written), (0, 0));
    (sink.taken, sink.writes)
}

static LARGE: [u8; 40_000] = [b'x'; 40_000];

/// Value of `trailer` in the head, and the trailers.
type Trailers<'a> = (Option<&'a str>, &'a [(&'static str, &'static str)]);

/// Framing, blocks of the body, trailers, and what is written behind the first lines.
type Case<'a> = (upstream_head::Framing, &'a [&'static [u8]], Trailers<'a>, String);

#[test]
fn requests_are_written_whole_however_little_the_upstream_takes() {
    let none = (None, &[][..]);
    let trailers = &[("x-sum", "9"), ("x-hidden", "1")][..];
    let large = std::str::from_utf8(&LARGE).unwrap();
    let cases: [Case<'_>; 8] = [
        (upstream_head::Framing::None, &[], none, "content-length: 0\r\n\r\n".to_owned()),
        (Length(0), &[], none, "content-length: 0\r\n\r\n".to_owned()),
        (Length(5), &[b"he", b"", b"llo"], none, "content-length: 5\r\n\r\nhello".to_owned()),
        (Length(40_000), &[&LARGE], none, format!("content-length: 40000\r\n\r\n{large}")),
        (
            Chunked,
            &[b"hello", &LARGE, b"", b"you"],
            none,
            format!("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n9C40\r\n{large}\r\n3\r\nyou\r\n0\r\n\r\n"),
        ),
        (
            Chunked,
            &[b"hello", &LARGE],
            none,
            format!("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n9C40\r\n{large}\r\n0\r\n\r\n"),
        ),
        (
            Chunked,
            &[b"hi"],
            (Some("X-Sum , x-none"), trailers),
            "trailer: X-Sum , x-none\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 9\r\n\r\n".to_owned(),
        ),
        // Nobody has announced them.
        (Chunked, &[b"hi"], (None, trailers), "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n".to_owned()),
    ];
    for (framing, blocks, trailers, expected) in cases {
        let expected = format!("{HEAD}{expected}");
        for most in [1, 2, 3, 7, 100, 1 << 20] {
            for is_vectored in [false, true] {
                let (taken, _) = written(framing, blocks, trailers, Sink::new(most, is_vectored));
                assert!(taken == expected.as_bytes(), "{framing:?}, {most} bytes at a time");
            }
        }
    }
}

#[test]
fn head_and_body_that_have_arrived_are_one_write() {
    for (block, is_vectored) in [(&b"hello"[..], false), (b"hello", true), (&LARGE, true)] {
        for framing in [Length(block.len() as u64), Chunked] {
            let sink = Sink::new(1 << 20, is_vectored);
            let (_, writes) = written(framing, &[block], (None, &[]), sink);
            assert_eq!(writes, 1, "{framing:?}");
        }
    }
}

#[test]
fn what_a_write_leaves_over_leaves_with_the_next_block() {
    let blocks = [&LARGE[..COPIED_ALONE]; 10];
    let length = blocks.concat().len();
    for framing in [Length(length as u64), Chunked] {
        // Records of TLS.
        let sink = Sink::new(COPIED_ALONE, false);
        let (taken, writes) = written(framing, &blocks, (None, &[]), sink);
        assert_eq!(writes, taken.len().div_ceil(COPIED_ALONE), "{framing:?}");
    }
}

#[test]
fn memory_is_given_back_before_the_response_comes() {
    let (body, front) = upload(None);
    front.data(&LARGE[..COPIED_ALONE]);
    front.end(None);
    let mut outgoing = OutgoingRequest::default();
    begin(&mut outgoing, Chunked, &[], body);
    write(&mut outgoing, &mut Sink::new(1 << 20, false));
    assert!(outgoing.is_complete() && outgoing.bytes.capacity() <= KEPT);
}

#[test]
fn request_whose_body_is_over_has_none() {
    let (body, front) = upload(None);
    front.end(None);
    let mut outgoing = OutgoingRequest::default();
    begin(&mut outgoing, Chunked, &[(TRAILER, "x-sum")], body);
    let mut sink = Sink::new(1 << 20, true);
    write(&mut outgoing, &mut sink);
    let expected = format!("{HEAD}content-length: 0\r\n\r\n");
    assert_eq!(String::from_utf8(sink.taken).unwrap(), expected);
    assert!(outgoing.is_complete());
}

#[test]
fn request_that_breaks_off_never_looks_whole() {
    let more: fn(&TestFront) = |front| front.data(b"too long");
    // Chunks end anywhere, but not by a cancellation.
    for (length, framing, end) in [
        (None, Chunked, TestFront::cancel as fn(&TestFront)),
        (Some(6), Length(6), TestFront::cancel),
        (Some(6), Length(6), |front| front.end(None)),
        (Some(6), Length(6), more),
    ] {
        let (body, front) = upload(length);
        front.data(b"half");
        let mut outgoing = OutgoingRequest::default();
        begin(&mut outgoing, framing, &[], body);
        let mut sink = Sink::new(1 << 20, true);
        write(&mut outgoing, &mut sink);
        let before = sink.taken.len();
        assert!(!outgoing.is_complete());
        end(&front);
        write(&mut outgoing, &mut sink);
        assert!(outgoing.is_broken() && !outgoing.is_complete());
        assert_eq!(sink.taken.len(), before, "{framing:?}");
    }
}

#[test]
fn upstream_that_takes_nothing_breaks_the_request() {
    let (body, _front) = upload(None);
    let mut outgoing = OutgoingRequest::default();
    begin(&mut outgoing, Chunked, &[], body);
    write(&mut outgoing, &mut Sink::new(0, true));
    assert!(outgoing.is_broken());
}

#[test]
fn body_is_held_one_block_at_a_time() {
    struct Full;

    impl AsyncWrite for Full {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    for (block, held) in [(&LARGE[..], 1), (&LARGE[..500], 40)] {
        let (body, front) = upload(None);
        for _ in 0..100 {
            front.data(block);
        }
        let upload = Rc::clone(&body.0);
        let mut outgoing = OutgoingRequest::default();
        begin(&mut outgoing, Chunked, &[], body);
        for _ in 0..10 {
            outgoing.poll(&mut Context::from_waker(Waker::noop()), &mut Full);
        }
        assert!(outgoing.bytes.len() + outgoing.block.len() <= held * block.len() + 1000);
        assert!(!upload.finished());
    }
}

#[test]
fn option_of_the_connection_is_understood() {
    for (value, persists) in
        [("close", false), ("te, Close", false), ("te", true), ("closed", true)]
    {
        let body = UploadBody(Upload::none());
        let lines = [(CONNECTION, value)];
        let begun =
            begin(&mut OutgoingRequest::default(), upstream_head::Framing::None, &lines, body);
        assert_eq!(begun, persists, "{value}");
    }
}

#[test]
fn sizes_of_chunks_are_hexadecimal() {
    for size in [1, 9, 10, 15, 16, 255, 256, 40_000, usize::MAX] {
        let mut bytes = Vec::new();
        push_size(&mut bytes, size);
        assert_eq!(String::from_utf8(bytes).unwrap(), format!("{size:X}\r\n"));
    }
}
