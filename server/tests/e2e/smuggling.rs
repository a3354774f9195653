//! Requests that another server could read differently (RFC 9114 §4, RFC 9112): what is refused must not reach it, and
//! what is passed on must be one request.

mod fronts;
mod passed;
mod refused;
mod targets;
mod upstream;

use crate::raw::{Act, Outcome, Raw, headers};
use crate::server::{Folder, Server, Setup, total};
use upstream::{Message, NEVER, Upstream};

const EXCESSIVE_LOAD: u64 = 0x107;
const MESSAGE_ERROR: u64 = 0x10e;
/// Requests that a client may cancel beyond half of all.
const CANCELLED: usize = 10;

/// A server in front of an upstream, and a connection to it.
struct Chain {
    upstream: Upstream,
    server: Server,
    raw: Raw,
    _folder: Folder,
}

/// Lines of a request's head.
type Lines<'a> = Vec<(&'a str, &'a str)>;

/// Returns a good head with this method and path.
fn head<'a>(method: &'a str, path: &'a str) -> Lines<'a> {
    vec![(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
}

/// Returns `lines` with further ones.
fn with<'a>(mut lines: Lines<'a>, more: &[(&'a str, &'a str)]) -> Lines<'a> {
    lines.extend_from_slice(more);
    lines
}

impl Chain {
    fn start() -> Chain {
        let folder = Folder::new();
        let upstream = Upstream::start();
        let address = upstream.address;
        let setup = Setup::new("mio")
            .replace("[[group]]", "[[group]]\ncores = [0]")
            .listener("main", "127.0.0.1:0", "cubic")
            .with(&format!(
                "[[route]]\npath = \"~ ^/p\"\n[route.proxy]\nupstreams = \"{address}\"\n\
                 [[route]]\npath = \"/raw/\"\n[route.proxy]\nupstreams = \"{address}\"\nraw_path = true\n\
                 [[route]]\npath = \"/slash/\"\nallow_encoded_slashes = true\n[route.proxy]\nupstreams = \"{address}\"\n\
                 [[route]]\npath = \"/strip\"\nallow_encoded_slashes = true\n[route.proxy]\nupstreams = \"{address}\"\nstrip_prefix = true\n\
                 [limits]\ncancelled_requests = {CANCELLED}\nmax_concurrent_streams = 16"
            ));
        let server = Server::start(&setup, &folder);
        let raw = Raw::ready(server.address());
        Chain { upstream, server, raw, _folder: folder }
    }

    /// Sends frames as a request; what becomes of it, and what reached the upstream.
    fn exchange(&mut self, frames: &[u8]) -> (Outcome, Vec<Vec<u8>>) {
        let outcome = self.raw.exchange(frames);
        (outcome, self.upstream.messages())
    }

    /// A request as good as any passes, alone.
    fn passes(&mut self, after: &str) {
        let (outcome, messages) = self.exchange(&headers(&head("GET", "/p/good")));
        assert_eq!(outcome, Outcome::Status(200), "after {after}");
        assert_eq!(messages.len(), 1, "after {after}: {messages:?}");
        let message = Message::read(&messages[0]);
        assert_eq!(message.line, "GET /p/good HTTP/1.1", "after {after}");
        assert_eq!(message.body, "", "after {after}");
    }

    /// Stops the server, and expects that nothing more has reached the upstream. What the server said.
    fn end(self) -> Vec<String> {
        let Chain { mut upstream, mut server, raw, _folder } = self;
        drop(raw);
        let said = server.process.last_words();
        let late = upstream.last_messages();
        assert!(late.is_empty(), "{late:?}");
        said
    }
}

#[test]
fn resets_reach_an_upstream_no_oftener_than_the_budget_allows() {
    let mut chain = Chain::start();
    let never = headers(&head("GET", &format!("/p{NEVER}")));
    let mut sent = 0;
    while chain.raw.settle() && sent < 2000 {
        let stream = chain.raw.open();
        for act in [Act::End(stream, never.clone()), Act::Stop(stream), Act::Reset(stream)] {
            chain.raw.act(&act);
        }
        sent += 1;
    }
    assert_eq!(chain.raw.closed(), EXCESSIVE_LOAD, "after {sent}");
    chain.raw = Raw::ready(chain.server.address());
    let reached = chain.upstream.messages();
    assert!(reached.len() <= 2 * CANCELLED + 4, "{} of {sent}", reached.len());
    chain.passes("the resets");
    // All connections to the upstream end, too.
    assert_eq!(total(&chain.end(), "requests", "errors"), 1);
}
