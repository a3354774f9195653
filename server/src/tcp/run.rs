//! Runs the front over TCP of one origin thread.

use std::future::Future;
use std::net::TcpListener;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use sluicegate_base::observe::connections::Inspected;
use sluicegate_dataplane::ListenerId;
use sluicegate_http::origin::{LocalHandlers, StartFront};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{spawn_local, yield_now};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::accept::accept;
use super::counters::TcpCounters;
use super::front::{Front, FrontCommand, FrontShare};
use super::listener_phases::Phase;

/// Time in which closed connections free their memory, and a measurement notices.
const RELIEF: Duration = Duration::from_millis(200);

/// Longest time in which connections and requests end after the order to stop; their lines are written before the front ends.
const CLOSING: Duration = Duration::from_secs(1);

/// Everything that a front needs to start.
pub struct FrontSetup {
    /// Listening sockets, each with its listener.
    pub sockets: Vec<(ListenerId, TcpListener)>,
    /// Its part in what fronts share.
    pub share: FrontShare,
    /// Commands of other threads.
    pub commands: UnboundedReceiver<FrontCommand>,
    /// Receives the counters once the front has drained or stopped.
    pub stopped: Box<dyn FnOnce(Box<TcpCounters>) + Send>,
}

/// Returns the start of a front on an origin thread.
pub fn start(setup: FrontSetup) -> StartFront {
    Box::new(move |handlers| Box::pin(run(setup, handlers)) as Pin<Box<dyn Future<Output = ()>>>)
}

async fn run(setup: FrontSetup, handlers: LocalHandlers) {
    let FrontSetup { mut sockets, share, mut commands, stopped } = setup;
    let mut is_held = false;
    // The first configuration comes once all workers serve.
    let config = loop {
        match commands.recv().await {
            Some(FrontCommand::Adopt(config)) => break config,
            Some(FrontCommand::Listen(more)) => sockets.extend(more),
            Some(FrontCommand::Report(reply)) => drop(reply.send(Box::default())),
            Some(FrontCommand::Inspect(inspection)) => {
                drop(inspection.reply.send(Inspected::default()));
            }
            Some(FrontCommand::Sockets(reply)) => drop(reply.send(Ok(Vec::new()))),
            Some(FrontCommand::Count(reply)) => drop(reply.send(Some(0))),
            Some(FrontCommand::Hold(on)) => is_held = on,
            Some(FrontCommand::Resume) => {}
            Some(FrontCommand::Drain | FrontCommand::Stop) | None => return stopped(Box::default()),
        }
    };
    let front = Front::new(config, handlers, share);
    front.listeners.hold(is_held);
    listen(&front, sockets);
    let pace = Rc::clone(&front.handshakes);
    let pace = spawn_local(async move { pace.keep().await });
    let mut relief = interval(RELIEF);
    relief.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut too_late = pin!(async {
        front.stopped().await;
        sleep(CLOSING).await;
    });
    while !front.is_over() || front.listeners.are_held() {
        tokio::select! {
            command = commands.recv() => execute(&front, command.unwrap_or(FrontCommand::Stop)),
            () = front.noted() => {
                // The requests that end in the same round share a batch.
                yield_now().await;
                front.flush_log();
            }
            () = front.ended() => {}
            () = too_late.as_mut() => break,
            _ = relief.tick() => front.relieve(),
        }
    }
    pace.abort();
    front.flush_log();
    stopped(front.totals());
}

/// Executes a command.
fn execute(front: &Rc<Front>, command: FrontCommand) {
    match command {
        FrontCommand::Adopt(config) => front.adopt(config),
        FrontCommand::Listen(sockets) => listen(front, sockets),
        // Whoever asked may have gone.
        FrontCommand::Inspect(inspection) => {
            let front = Rc::clone(front);
            spawn_local(async move { front.inspect(*inspection).await });
        }
        FrontCommand::Report(reply) => drop(reply.send(front.totals())),
        FrontCommand::Sockets(reply) => drop(reply.send(front.listeners.duplicate_sockets())),
        FrontCommand::Drain => front.listeners.enter(Phase::Draining),
        FrontCommand::Hold(on) => front.listeners.hold(on),
        FrontCommand::Resume => {
            let sockets = front.listeners.resume();
            listen(front, sockets);
        }
        FrontCommand::Count(reply) => drop(reply.send(front.count_open())),
        FrontCommand::Stop => front.listeners.enter(Phase::Stopped),
    }
}

/// Accepts the connections of these sockets from now on.
fn listen(front: &Rc<Front>, sockets: Vec<(ListenerId, TcpListener)>) {
    for (listener, socket) in sockets {
        let listener = front.listeners.add(listener, socket.try_clone().ok());
        spawn_local(accept(Rc::clone(front), listener, socket));
    }
}
