//! The way of a request through the proxy: to an upstream over HTTP/1.1, and its response back.
//!
//! Upstream and proxy share the thread and take turns, over a Unix socket: what one has written, the other can read at once. So the proxy
//! is woken equally often in each run. Only its part counts.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sluicegate_base::address::ValidatedAddress;
use sluicegate_http::exchange::Opaque;
use sluicegate_http::exchange::handler::{ExchangeHandle, FrontQueue, Incoming};
use sluicegate_http::exchange::message::{Request, ToFront};
use sluicegate_http::peer::{Peer, PeerConnection};
use sluicegate_http::proxy::{self, Pools};
use sluicegate_http::route::{OriginHandler, Route, RouteAction};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, yield_now};

use super::site::{get, site};
use crate::counted::counted;

/// Body of each response, bytes.
const BODY: usize = 1_024;

/// Credit for a response: more than it takes.
const CREDIT: u64 = 64 * 1024;

/// Times that the thread looks for events after either end has done its part. The proxy needs three.
const PASSES: u32 = 4;

/// The upstream waits so long for a request at most.
const LIMIT: Duration = Duration::from_secs(60);

/// Passes requests to an upstream, `warm_up` and then `times` of them with the instructions of the proxy counted. Returns `times`.
pub(super) fn count(warm_up: u64, times: u64) -> anyhow::Result<u64> {
    let folder = tempfile::tempdir()?;
    let mut hop = Hop::new(&folder.path().join("upstream"))?;
    for _ in 0..warm_up {
        hop.pass(|work| work())?;
    }
    for _ in 0..times {
        hop.pass(|work| counted(work))?;
    }
    Ok(times)
}

/// The proxy of an origin thread, and its upstream.
struct Hop {
    tasks: LocalSet,
    pools: Rc<Pools>,
    route: Arc<Route>,
    request: Request,
    queue: Rc<FrontQueue>,
    listener: UnixListener,
    /// The upstream's end of the connection, once there is one.
    upstream: Option<UnixStream>,
    response: Vec<u8>,
    /// Number of the last exchange.
    last: u64,
    /// Dropped after what it drives.
    runtime: Runtime,
}

impl Hop {
    fn new(socket: &Path) -> anyhow::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let upstream = socket.display();
        let site = site(&format!(
            "[[route]]\npath = \"/\"\nproxy = {{ upstreams = \"unix:{upstream}\" }}\n"
        ))?;
        let head = get("www.example.org", "/api/v1/users/42")?;
        let route = site.find(&head);
        let route = Arc::clone(route.ok().context("no route")?);
        let pools = Rc::new(Pools::new(false));
        pools.adopt(site.pools());
        let connection = PeerConnection::http3(Arc::from("main"), Box::new([1; 16]), "cubic");
        let request = Request {
            head,
            peer: Peer {
                address: ValidatedAddress::supposed([192, 0, 2, 7].into()),
                proxy: None,
                local: None,
                early_data: false,
                connection: Arc::new(connection),
            },
            handler: Opaque::new(Arc::new(())),
            timeout: None,
            content_length: None,
            has_body: false,
            wants_report: false,
            reads_ranges: false,
        };
        let mut response =
            format!("HTTP/1.1 200 OK\r\nserver: upstream\r\ncontent-type: text/plain\r\ncontent-length: {BODY}\r\n\r\n")
                .into_bytes();
        response.resize(response.len() + BODY, b'x');
        Ok(Self {
            tasks: LocalSet::new(),
            pools,
            route,
            request,
            queue: Rc::default(),
            listener,
            upstream: None,
            response,
            last: 0,
            runtime: Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// Passes one request to the upstream and its response back. The proxy's part runs within `section`.
    fn pass(&mut self, section: impl Fn(&mut dyn FnMut())) -> anyhow::Result<()> {
        self.last += 1;
        let request = Box::new(self.request.clone());
        let (incoming, handle) = Incoming::new(self.last, request, CREDIT, Rc::clone(&self.queue));
        let task = serve(Rc::clone(&self.pools), Arc::clone(&self.route), incoming);
        let Self { runtime, tasks, .. } = self;
        let mut task = Some(task);
        section(&mut || {
            if let Some(task) = task.take() {
                tasks.spawn_local(task);
            }
            tasks.block_on(runtime, passes());
        });
        self.respond()?;
        let Self { runtime, tasks, .. } = self;
        section(&mut || tasks.block_on(runtime, passes()));
        self.receive(handle)
    }

    /// Lets the upstream read the request and write the response.
    fn respond(&mut self) -> anyhow::Result<()> {
        let upstream = match &mut self.upstream {
            Some(upstream) => upstream,
            None => {
                let (upstream, _) = self.listener.accept()?;
                upstream.set_read_timeout(Some(LIMIT))?;
                self.upstream.insert(upstream)
            }
        };
        let mut head = Vec::new();
        let mut block = [0; 4_096];
        while !head.ends_with(b"\r\n\r\n") {
            let count = upstream.read(&mut block)?;
            anyhow::ensure!(count > 0, "the proxy closed the connection");
            head.extend_from_slice(&block[..count]);
        }
        Ok(upstream.write_all(&self.response)?)
    }

    /// Takes the response as a front does, and drops the exchange.
    fn receive(&self, handle: ExchangeHandle) -> anyhow::Result<()> {
        let (mut status, mut bytes, mut complete) = (0, 0, false);
        while let Some(envelope) = self.queue.pop() {
            match envelope.message {
                ToFront::Head(head) => status = head.status,
                ToFront::Data(block) => bytes += block.len(),
                ToFront::End(_) => complete = true,
                _ => {}
            }
        }
        drop(handle);
        anyhow::ensure!(
            (status, bytes, complete) == (200, BODY, true),
            "status {status}, {bytes} bytes, whole: {complete}"
        );
        Ok(())
    }
}

/// Serves an exchange as the origin thread does.
async fn serve(pools: Rc<Pools>, route: Arc<Route>, incoming: Incoming) {
    if let RouteAction::Origin(OriginHandler::Proxy(settings)) = &route.action {
        proxy::serve(&pools, settings, &*route, incoming).await;
    }
}

/// Gives other tasks their turns, and takes events between them.
async fn passes() {
    for _ in 0..PASSES {
        yield_now().await;
    }
}
