//! Violations of HTTP/3 (RFC 9114, RFC 9204, RFC 9218), and how the server ends them.

mod load;
mod requests;
mod streams;

use crate::raw::{Act, CONTROL, Outcome, Raw, headers};
use crate::server::{Folder, Server, Setup, total};

const CANCEL_PUSH: u64 = 0x3;
const PUSH_PROMISE: u64 = 0x5;
const GOAWAY: u64 = 0x7;
const MAX_PUSH_ID: u64 = 0xd;
const PRIORITY_UPDATE: u64 = 0xf_0700;
const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;
/// Types that mean nothing (RFC 9114 §7.2.8).
const UNKNOWN: u64 = 0x21 + 0x1f * 7;
/// A frame type of HTTP/2: PING.
const PING: u64 = 0x6;

const STREAM_CREATION_ERROR: u64 = 0x103;
const CLOSED_CRITICAL_STREAM: u64 = 0x104;
const FRAME_UNEXPECTED: u64 = 0x105;
const FRAME_ERROR: u64 = 0x106;
const EXCESSIVE_LOAD: u64 = 0x107;
const ID_ERROR: u64 = 0x108;
const SETTINGS_ERROR: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;
const REQUEST_INCOMPLETE: u64 = 0x10d;
const MESSAGE_ERROR: u64 = 0x10e;
const DECOMPRESSION_FAILED: u64 = 0x200;
const ENCODER_STREAM_ERROR: u64 = 0x201;
const DECODER_STREAM_ERROR: u64 = 0x202;

/// Another unidirectional stream of the client.
const OTHER: u64 = 14;
/// The first request stream.
const REQUEST: u64 = 0;
/// Largest header section that the server accepts, bytes, and the requests that a client may cancel.
const HEADER_BYTES: usize = 2048;
const CANCELLED: u64 = 10;
const STREAMS: u64 = 16;

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];

fn get() -> Vec<u8> {
    headers(&GET)
}

/// `GET /` with further fields.
fn get_with(more: &[(&str, &str)]) -> Vec<u8> {
    headers(&[&GET, more].concat())
}

fn start(folder: &Folder) -> Server {
    let setup = Setup::new("mio")
        .replace("[[group]]", "[[group]]\ncores = [0]")
        .listener("main", "127.0.0.1:0", "cubic")
        .with(&format!(
            "[limits]\nheader_bytes = {HEADER_BYTES}\ncancelled_requests = {CANCELLED}\n\
             max_concurrent_streams = {STREAMS}"
        ));
    Server::start(&setup, folder)
}

/// Acts of a client on a new connection, and the error code that the server must close it with.
struct Case {
    what: &'static str,
    acts: Vec<Act>,
    code: u64,
}

/// Runs each on a connection of its own, to which a control stream is added in front where `ready`.
fn close_each(cases: Vec<Case>, ready: bool) {
    let folder = Folder::new();
    let mut server = start(&folder);
    let count = cases.len() as u64;
    let mut wrong = Vec::new();
    for Case { what, acts, code } in cases {
        let mut raw =
            if ready { Raw::ready(server.address()) } else { Raw::connect(server.address()) };
        for act in &acts {
            raw.act(act);
            // What is reset at once was never said.
            raw.settle();
        }
        // A server that sees nothing wrong responds to it.
        let _ = raw.open();
        match raw.exchange(&get()) {
            Outcome::Closed(found) if found == code => {}
            outcome => wrong.push(format!("{what}: {outcome:x?}, not {code:#x}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let mut raw = Raw::ready(server.address());
    assert_eq!(raw.exchange(&get()), Outcome::Status(200));
    drop(raw);
    let said = server.process.last_words();
    assert_eq!(total(&said, "requests", "errors"), count);
}

fn closes(what: &'static str, acts: &[Act], code: u64) -> Case {
    let acts = acts.to_vec();
    Case { what, acts, code }
}

/// Returns frames on the control stream, behind its SETTINGS.
fn controls(what: &'static str, frames: &[Vec<u8>], code: u64) -> Case {
    closes(what, &[Act::Send(CONTROL, frames.concat())], code)
}

/// Returns frames on a request stream, which then ends.
fn requests(what: &'static str, frames: &[Vec<u8>], code: u64) -> Case {
    closes(what, &[Act::End(REQUEST, frames.concat())], code)
}
