//! The origin thread beside a worker, which runs handlers that may wait: for files, for upstreams.
//!
//! Each worker has one, with a runtime of its own; pairs share nothing. The worker hands requests over by a ring
//! ([`crate::exchange::ring`]). Each becomes a task, which is dropped if its client cancels.

mod pump;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use sluicegate_base::affinity;
use sluicegate_base::clock;
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_base::observe::metrics::metrics;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use super::auth::{self, PasswordChecks, PasswordVerdict, Verifier};
use super::fastcgi::{self, Admitted, BodyBuffers, ThreadState};
use super::files::disk::{FileServer, Served};
use super::files::{Folder, Vacancy};
use super::proxy::udp::{self, UdpTunnels};
use super::proxy::{self, Pools};
use super::representation::Representation;
use crate::exchange::Reply;
use crate::exchange::compress::{self, Compressors, Offer};
use crate::exchange::handler::Incoming;
use crate::exchange::message::HandlerReport;
use crate::exchange::ring::WorkerRing;
use crate::route::{FileMiss, OriginHandler, Route, RouteAction, Site, UnverifiedRequest};

/// Threads for blocking system calls, such as reads of files, beside the origin thread itself.
const BLOCKING_THREADS: usize = 16;
/// Files that one origin thread sends at a time; a further request gets 503.
const OPEN_FILES: usize = 1024;

/// Everything an origin thread needs to start.
pub struct OriginSetup {
    /// Name of the thread.
    pub name: String,
    /// Core to pin the thread to; `None` leaves the choice to the system.
    pub core: Option<usize>,
    /// The thread's end of the rings with its worker.
    pub worker_ring: WorkerRing,
    /// Site in effect at the start.
    pub site: Arc<Site>,
    /// Whether this thread makes the health checks of upstreams, for the whole process.
    pub makes_checks: bool,
    /// Most memory for responses that are being compressed, whatever is configured, bytes.
    pub compressors: u64,
    /// Memory budget of the process.
    pub memory: Arc<MemoryBudget>,
    /// Bounds of the checks of passwords, for the whole process.
    pub passwords: Arc<PasswordChecks>,
    /// Starts the front that accepts connections on this thread, if there is one.
    pub front: Option<StartFront>,
}

/// Returns a front's work, for the thread to do beside the handlers; the thread ends after it.
pub type StartFront = Box<dyn FnOnce(LocalHandlers) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Handlers of the thread, for a front on the same thread.
#[derive(Clone)]
pub struct LocalHandlers(Rc<dyn RunHandler>);

/// Runs handlers for a front on their thread.
pub trait RunHandler {
    /// Takes the upstream pools of a site into effect.
    fn adopt(&self, site: &Site);
    /// Runs the handler of an exchange's route.
    fn run(self: Rc<Self>, incoming: Incoming) -> Pin<Box<dyn Future<Output = ()>>>;
}

impl LocalHandlers {
    /// Wraps the handlers of a thread.
    pub fn new(handlers: Rc<dyn RunHandler>) -> LocalHandlers {
        LocalHandlers(handlers)
    }

    /// Takes the upstream pools of a site into effect, before its first request.
    pub fn adopt(&self, site: &Site) {
        self.0.adopt(site);
    }

    /// Runs the handler of an exchange's route.
    pub fn run(&self, incoming: Incoming) -> Pin<Box<dyn Future<Output = ()>>> {
        Rc::clone(&self.0).run(incoming)
    }
}

/// Names nothing: handlers have no text.
impl std::fmt::Debug for LocalHandlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalHandlers").finish_non_exhaustive()
    }
}

/// Commands to an origin thread that concern no exchange.
#[derive(Debug)]
pub enum OriginCommand {
    /// Takes the upstream pools of this site into effect.
    Adopt(Arc<Site>),
    /// Requests the counters of the handlers and the states of its upstreams.
    Report(oneshot::Sender<Box<OriginCounters>>),
}

/// Sends commands to an origin thread.
pub type OriginSender = UnboundedSender<OriginCommand>;

metrics! {
    /// Counters of a thread's handlers.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OriginCounters: Sum {
        /// Counters of the proxy.
        pub proxy: proxy::ProxyCounters = group,
        /// Counters of tunnels for UDP.
        pub udp: udp::UdpTunnelCounters = group,
        /// Counters of compressed responses.
        pub compress: compress::CompressionCounters = group,
        /// Checks of passwords.
        pub passwords: auth::AuthCounters = group,
    }
}

/// State that all handlers of a thread share.
struct Handlers {
    files: FileServer,
    pools: Pools,
    udp: UdpTunnels,
    body_buffers: BodyBuffers,
    compressors: Rc<Compressors>,
    passwords: Verifier,
    memory: Arc<MemoryBudget>,
}

/// Starts the thread, and returns the sender of its commands. It ends when its worker does.
///
/// # Errors
/// The system gave no thread or no runtime.
pub fn spawn(setup: OriginSetup) -> io::Result<OriginSender> {
    let runtime = runtime(&setup.name)?;
    let (sender, commands) = unbounded_channel();
    let (core, worker_ring, site) = (setup.core, setup.worker_ring, setup.site);
    let (makes_checks, compressors) = (setup.makes_checks, setup.compressors);
    let (front, passwords, memory) = (setup.front, setup.passwords, setup.memory);
    std::thread::Builder::new().name(setup.name).spawn(move || {
        // A core that was taken away meanwhile costs speed, no more.
        if let Some(Err(error)) = core.map(affinity::pin) {
            tracing::warn!(%error, "an origin thread cannot be pinned");
        }
        let compressors = Rc::new(Compressors::within(compressors));
        let handlers = Rc::new(Handlers {
            files: FileServer::new(
                OPEN_FILES,
                site.limits().file_cache_entry,
                Rc::clone(&compressors),
            ),
            pools: Pools::new(makes_checks),
            udp: UdpTunnels::default(),
            body_buffers: BodyBuffers::default(),
            compressors,
            passwords: Verifier::new(passwords),
            memory,
        });
        let handler = {
            let handlers = Rc::clone(&handlers);
            move |incoming| Rc::clone(&handlers).handle(incoming)
        };
        LocalSet::new().block_on(&runtime, async {
            handlers.pools.adopt(site.pools());
            // The routes of the first configuration end with a reload.
            drop(site);
            let local = LocalHandlers(Rc::clone(&handlers) as Rc<dyn RunHandler>);
            let front = front.map(|start| spawn_local(start(local)));
            let execute = |command| handlers.execute(command);
            pump::run(worker_ring, commands, execute, handler).await;
            if let Some(front) = front {
                // It drains by itself; an error is a panic, which has ended the process.
                let _ = front.await;
            }
        });
        // The end of the thread does not wait for a read of a file.
        runtime.shutdown_background();
    })?;
    Ok(sender)
}

/// Returns the runtime of a thread with this name, which is pinned later. The threads that it starts may run on all cores that
/// this one may run on.
fn runtime(name: &str) -> io::Result<Runtime> {
    let cores = affinity::allowed_cores();
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name(format!("{name}-files"))
        .on_thread_start(move || {
            // A thread that keeps to one core is slower, no more.
            let _ = affinity::confine(&cores);
        })
        .build()
}

impl RunHandler for Handlers {
    fn adopt(&self, site: &Site) {
        self.pools.adopt(site.pools());
    }

    fn run(self: Rc<Self>, incoming: Incoming) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(self.handle(incoming))
    }
}

impl Handlers {
    fn execute(&self, command: OriginCommand) {
        match command {
            OriginCommand::Adopt(site) => {
                self.pools.adopt(site.pools());
                self.files.set_entry_max(site.limits().file_cache_entry);
            }
            OriginCommand::Report(reply) => {
                // The caller may no longer wait.
                let counters = OriginCounters {
                    proxy: self.pools.counters(),
                    udp: self.udp.counters(),
                    compress: self.compressors.counters(),
                    passwords: self.passwords.counters(),
                };
                let _ = reply.send(Box::new(counters));
            }
        }
    }

    /// Runs the handler of an exchange's route. An exchange that is dropped without a response gets 502.
    async fn handle(self: Rc<Self>, incoming: Incoming) {
        let handler = incoming.request.handler.clone();
        if let Some(route) = handler.clone().downcast::<Route>() {
            self.serve(&route, None, None, incoming).await;
        } else if let Some(miss) = handler.clone().downcast::<FileMiss>() {
            self.serve(&miss.route, None, Some(&miss.vacancy), incoming).await;
        } else if let Some(unverified) = handler.downcast::<UnverifiedRequest>()
            && let Some(incoming) = Box::pin(self.admit(&unverified, incoming)).await
        {
            let user = Some(&*unverified.credentials.user);
            self.serve(&unverified.route, user, None, incoming).await;
        }
    }

    /// Verifies the credentials of a request, and returns it if they are valid. Otherwise it gets its response here.
    async fn admit(&self, unverified: &UnverifiedRequest, incoming: Incoming) -> Option<Incoming> {
        let auth = unverified.route.access().basic_auth()?;
        let (credentials, client) = (unverified.credentials.clone(), incoming.request.peer.address);
        let verdict = self.passwords.verify(&auth.users, credentials, client);
        let verdict = verdict.await;
        incoming.reporter().waits(unverified.route.action.wait());
        let mut reply = match verdict {
            PasswordVerdict::Accepted => return Some(incoming),
            PasswordVerdict::Refused => auth.unauthorized(),
            PasswordVerdict::Busy => {
                let cause = Some("passwords_wait");
                let facts = || HandlerReport { cause, ..HandlerReport::default() };
                incoming.reporter().report(facts);
                auth::busy()
            }
        };
        let pages = unverified.route.error_pages();
        pages.apply_for(&mut reply, &incoming.request.head.headers);
        respond(incoming, reply).await;
        None
    }

    /// Runs the handler of a route, or its fallback, for a client or for a `user` whose password is verified. A file goes to its
    /// `vacancy` in memory, too. Futures of other handlers than the proxy, and of what the proxy does rarely, are boxed: each task of
    /// a proxied request would have room for the largest of them.
    async fn serve(
        &self,
        route: &Arc<Route>,
        user: Option<&[u8]>,
        vacancy: Option<&Vacancy>,
        mut incoming: Incoming,
    ) {
        let mut action = &route.action;
        if let RouteAction::Origin(_) = action {
            self.offer_compression(route, &mut incoming);
        }
        if let RouteAction::Origin(OriginHandler::Files(folder)) = action {
            let served = Box::pin(self.serve_file(route, folder, vacancy, incoming));
            let Some(rest) = served.await else {
                return;
            };
            let Some(fallback) = &route.fallback else {
                return;
            };
            (action, incoming) = (fallback, rest);
            incoming.reporter().waits(action.wait());
        }
        match action {
            RouteAction::Origin(OriginHandler::Proxy(proxy)) => {
                proxy::serve(&self.pools, proxy, &**route, incoming).await;
            }
            RouteAction::Origin(OriginHandler::FastCgi(fastcgi)) => {
                let rest = route.rest(&incoming.request.head.path).to_owned();
                let thread = ThreadState {
                    files: &self.files,
                    pools: &self.pools,
                    buffers: &self.body_buffers,
                };
                let admitted = Admitted { rules: &**route, rest: &rest, user };
                Box::pin(fastcgi::serve(thread, fastcgi, admitted, incoming)).await;
            }
            RouteAction::Origin(OriginHandler::ConnectUdp(settings)) => {
                let target = route.below(&incoming.request.head.path).to_owned();
                let settings = (&**settings, route.error_pages());
                Box::pin(udp::serve(&self.udp, settings, &target, incoming)).await;
            }
            // A fallback is another handler.
            RouteAction::Origin(OriginHandler::Files(_)) => {}
            RouteAction::Local(handler) => {
                let reply = route.unedited(handler, &incoming.request.head);
                Box::pin(respond(incoming, reply)).await;
            }
        }
    }

    fn offer_compression(&self, route: &Route, incoming: &mut Incoming) {
        if let Some(settings) = route.compression()
            && !(incoming.request.head.is_tunnel() || incoming.request.head.is_upgrade())
        {
            let offer = Offer::new(&self.compressors, settings, &incoming.request);
            incoming.reply.offer_compression(offer);
        }
    }

    /// Responds with a file. Returns a request that is for the route's fallback, if there is one: no file is for it, or its method
    /// does not read.
    async fn serve_file(
        &self,
        route: &Route,
        folder: &Folder,
        vacancy: Option<&Vacancy>,
        incoming: Incoming,
    ) -> Option<Incoming> {
        let head = &incoming.request.head;
        let reads = matches!(head.method.as_str(), "GET" | "HEAD") && !head.is_tunnel();
        if route.fallback.is_some() && !reads {
            return Some(incoming);
        }
        let rest = route.rest(&head.path).to_owned();
        // The file may change from now on.
        let vacancy = vacancy.map(|vacancy| (vacancy, clock::now()));
        let offer_to_cache = |file: Option<Representation>| {
            if let Some((vacancy, now)) = vacancy {
                vacancy.fill(file.filter(|_| !self.memory.is_short()), now);
            }
        };
        let folder =
            Served { folder, pages: route.error_pages(), has_fallback: route.fallback.is_some() };
        self.files.serve(folder, &rest, incoming, offer_to_cache).await
    }
}

/// Sends a whole response and leaves the rest of the request unread.
async fn respond(incoming: Incoming, reply: Reply) {
    let is_head = incoming.request.head.method == "HEAD";
    // A client that has cancelled waits for nothing.
    let _ = incoming.reply.reply(reply, is_head).await;
}
