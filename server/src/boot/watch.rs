//! The main thread's loop: reports of workers and signals, until all workers have stopped.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sluicegate_base::clock;
use sluicegate_base::observe::lifecycle::Phase;
use sluicegate_dataplane::Features;

use super::control_socket::{Control, ControlRequest, ControlVerdict, Reply};
use super::error::{BootError, one_line};
use super::events::{Event, OlderNews};
use super::limits::{CERTIFICATES_PAUSE, START_LIMIT, STOP_LIMIT};
use super::listen::ListenerLogLine;
use super::observability::Observability;
use super::reload::Reloader;
use super::supervisor::Supervisor;
use super::takeover::{self, Takeover};
use super::totals::Totals;
use super::upgrade::{self, Next, Upgrades};
use crate::boot::signal::Signal;
use crate::tcp::FrontCommand;
use crate::worker::{Command, MailboxSender, WorkerReport};

/// Waits until every worker serves, and logs the listeners. Returns `false` if the signal to stop came first.
pub(super) fn await_ready(
    inbox: &Receiver<Event>,
    workers: usize,
    observability: &Observability,
    lines: &[ListenerLogLine],
) -> Result<bool, BootError> {
    let mut cores: HashMap<String, (Vec<usize>, &'static str)> = HashMap::new();
    let mut fallbacks = Vec::new();
    let mut drivers = Vec::new();
    let mut ready = 0;
    while ready < workers {
        match inbox.recv_timeout(START_LIMIT) {
            Ok(Event::Worker(WorkerReport::Ready {
                group,
                index,
                core,
                backend,
                features,
                spin,
                fallback,
            })) => {
                // The workers of a group have sockets with the same options.
                if index == 0 {
                    drivers.push((group.clone(), backend, features, spin));
                }
                if let Some(cause) = fallback
                    && index == 0
                {
                    fallbacks.push((group.clone(), backend, cause));
                }
                ready += 1;
                let entry = cores.entry(group).or_insert((Vec::new(), backend));
                entry.0.push(core);
            }
            Ok(Event::Worker(WorkerReport::Failed(cause))) => return Err(BootError::Worker(cause)),
            Ok(Event::Signal(Signal::Stop)) => return Ok(false),
            Ok(Event::Signal(Signal::Reopen)) => observability.reopen(),
            Ok(Event::Signal(signal @ (Signal::Reload | Signal::Upgrade))) => {
                tracing::warn!(?signal, "not while the server starts; send the signal again");
            }
            Ok(Event::Worker(WorkerReport::Stopped(..)) | Event::Front(_)) => {
                return Err(BootError::WorkerStopped);
            }
            // The certificates were read later than these were written. The control socket is not open yet.
            Ok(Event::Certificates | Event::Asked(..) | Event::Newer(..) | Event::Older(_)) => {}
            Err(_) => return Err(BootError::WorkerTimeout(START_LIMIT)),
        }
    }
    observability.lifecycle().set(Phase::Serving);
    for (group, backend, cause) in fallbacks {
        tracing::warn!(%group, %backend, %cause, "fell back to another backend");
    }
    for (group, backend, features, spin) in drivers {
        let Features { gso, gro, napi, zero_copy } = features;
        tracing::info!(%group, %backend, gso, gro, napi, zero_copy, %spin, "workers opened their drivers");
    }
    for line in lines {
        let (mut list, backend) = cores.get(&line.group).cloned().unwrap_or_default();
        list.sort_unstable();
        tracing::info!(
            listener = %line.listener, address = %line.address, %backend, cores = ?list,
            algorithm = %line.algorithm, rules = line.rules, "listening"
        );
        line.log_sockets();
    }
    Ok(true)
}

/// Ways to and from others, while the server runs.
pub(super) struct Service<'a> {
    pub(super) control: Control,
    pub(super) upgrades: Upgrades,
    pub(super) supervisor: &'a mut Supervisor,
}

/// Waits for the signal to stop, or for a process that takes over, drains and stops, and returns the totals. A second signal, or the end
/// of `server.drain_timeout`, ends the drain at once.
pub(super) fn run_down(
    inbox: &Receiver<Event>,
    mailboxes: &[MailboxSender],
    observability: &Observability,
    reloader: &mut Reloader<'_>,
    service: &mut Service<'_>,
) -> Totals {
    let mut totals = Totals::default();
    let mut running = mailboxes.len() + reloader.fronts.count();
    let mut deadline: Option<Instant> = None;
    let (mut told_to_stop, mut stopped) = (false, false);
    // Time at which certificates that could not be put to use are tried again.
    let mut retry: Option<Instant> = None;
    while running > 0 {
        let now = clock::now();
        service.supervisor.on_time(now);
        reloader.drop_unused();
        reloader.upkeep.on_time(now);
        let mut next_step = service.upgrades.on_time(reloader, now);
        if retry.is_some_and(|retry| clock::now() >= retry) {
            retry = install_certificates(reloader).map(|pause| clock::now() + pause);
        }
        let next = service.supervisor.next();
        let others = [deadline, retry, service.upgrades.next(now)].into_iter().flatten();
        let until = if next_step == Next::GoOn { others.fold(next, Instant::min) } else { now };
        match inbox.recv_timeout(until.saturating_duration_since(clock::now())) {
            Ok(Event::Worker(WorkerReport::Stopped(endpoint, datagrams))) => {
                running -= 1;
                totals.add(&endpoint, &datagrams);
            }
            Ok(Event::Front(counters)) => {
                running -= 1;
                totals.add_front(&counters);
            }
            Ok(Event::Signal(Signal::Stop)) if deadline.is_none() => {
                told_to_stop = true;
                service.upgrades.cancel(now);
                if let Some(takeover) = reloader.takeover.as_ref().filter(|one| !one.reads()) {
                    takeover.give_up();
                }
                let limit = drain(mailboxes, observability, reloader);
                tracing::info!(limit = ?limit, "draining; a second signal stops at once");
                service.supervisor.stopping(limit);
                deadline = Some(clock::now() + limit);
            }
            // The first signal to a process that drains because another one serves: a service manager stops both.
            Ok(Event::Signal(Signal::Stop)) if !std::mem::replace(&mut told_to_stop, true) => {
                tracing::info!("drains already; a second signal stops at once");
            }
            // While the server drains, no connection begins that would use another certificate.
            Ok(Event::Certificates) if deadline.is_none() => {
                retry = install_certificates(reloader).map(|pause| clock::now() + pause);
            }
            Ok(Event::Worker(_) | Event::Certificates) => {}
            Ok(Event::Signal(Signal::Reopen)) => observability.reopen(),
            Ok(Event::Signal(Signal::Reload)) => {
                let request = ControlRequest::Reload;
                ask(request, None, deadline.is_some(), observability, reloader, service);
            }
            Ok(Event::Signal(Signal::Upgrade)) => {
                let request = ControlRequest::Upgrade(None);
                ask(request, None, deadline.is_some(), observability, reloader, service);
            }
            Ok(Event::Asked(request, reply)) => {
                ask(request, Some(reply), deadline.is_some(), observability, reloader, service);
            }
            Ok(Event::Newer(number, news)) => {
                next_step = service.upgrades.on_news(number, &news, reloader, now);
            }
            Ok(Event::Older(news)) => {
                if !take_over(news, deadline.is_some(), reloader, service) {
                    next_step = Next::Stop;
                }
            }
            Err(RecvTimeoutError::Timeout) if deadline.is_none_or(|d| clock::now() < d) => {
                service.upgrades.on_silence(clock::now());
            }
            // Its connections are closed; datagrams of the process before still pass through this one, which has its own deadline.
            Err(RecvTimeoutError::Timeout)
                if stopped && reloader.takeover.as_ref().is_some_and(Takeover::is_connected) =>
            {
                deadline = Some(clock::now() + STOP_LIMIT);
            }
            Ok(Event::Signal(Signal::Stop)) | Err(_) => {
                if stopped {
                    return totals;
                }
                stopped = true;
                tracing::info!("stopping");
                mailboxes.iter().for_each(|p| {
                    p.send(Command::Stop);
                });
                reloader.fronts.send(|| FrontCommand::Stop);
                deadline = Some(clock::now() + STOP_LIMIT);
            }
        }
        match next_step {
            Next::GoOn => {}
            Next::Drain(process) => {
                // From here on it is the one that the service manager watches.
                service.supervisor.replaced(process);
                let limit = drain(mailboxes, observability, reloader);
                tracing::info!(limit = ?limit, "draining beside the new process");
                deadline.get_or_insert(clock::now() + limit);
            }
            Next::Undone => service.control.open(),
            Next::Stop => {
                told_to_stop = true;
                deadline = Some(clock::now());
            }
        }
    }
    totals
}

/// Has the server drain: no worker accepts a request that follows a response from here on. Returns the time for it.
fn drain(
    mailboxes: &[MailboxSender],
    observability: &Observability,
    reloader: &Reloader<'_>,
) -> Duration {
    observability.lifecycle().set(Phase::Draining);
    mailboxes.iter().for_each(|p| {
        p.send(Command::Drain);
    });
    reloader.fronts.send(|| FrontCommand::Drain);
    reloader.config.server.drain_timeout
}

/// Does what somebody asks for.
fn ask(
    request: ControlRequest,
    reply: Option<Reply>,
    is_draining: bool,
    observability: &Observability,
    reloader: &mut Reloader<'_>,
    service: &mut Service<'_>,
) {
    let is_new = request != ControlRequest::Reload && service.upgrades.is_orphaned();
    let takes_over = reloader.takeover.as_ref().is_some_and(|takeover| !takeover.reads());
    let reason = if is_draining && !is_new {
        "not while the server drains"
    } else if takes_over {
        "this process has not taken over yet"
    } else if service.upgrades.are_under_way() {
        "not while the server is upgraded"
    } else {
        return match request {
            ControlRequest::Reload => reload(observability, reloader, service.supervisor, reply),
            ControlRequest::Upgrade(program) => service.upgrades.begin(program, reply, reloader),
        };
    };
    tracing::warn!(?request, "refused: {reason}");
    if let Some(reply) = reply {
        // The client may have gone.
        let _ = reply.send(ControlVerdict::Refused(reason.into()));
    }
}

/// Takes over what the process before leaves. Returns false if it cannot.
fn take_over(
    news: OlderNews,
    is_draining: bool,
    reloader: &mut Reloader<'_>,
    service: &mut Service<'_>,
) -> bool {
    let Some(takeover) = &mut reloader.takeover else {
        return true;
    };
    match news {
        OlderNews::Closed => {
            takeover.set_oldest(None);
            service.upgrades.tell_oldest(reloader.secrets.generation());
            takeover::forget(&reloader.workers);
            return true;
        }
        OlderNews::Oldest(generation) => {
            takeover.set_oldest(Some(generation));
            service.upgrades.tell_oldest(generation);
            return true;
        }
        // It was told to stop before it had taken over.
        OlderNews::Read | OlderNews::Gone if takeover.reads() || is_draining => return true,
        OlderNews::Read | OlderNews::Gone => {}
    }
    if let Err(error) = upgrade::receive(&reloader.workers, true) {
        tracing::error!(%error, "upgrade: a worker cannot read, so this process ends");
        takeover.give_up();
        return false;
    }
    if let Some(over_tcp) = takeover.over_tcp.take() {
        reloader.fronts.adopt(over_tcp);
    }
    service.control.open();
    takeover.on_reading();
    tracing::info!("upgrade: this process has taken over");
    let standing = reloader.standing();
    service.supervisor.ready(&standing);
    true
}

/// Puts certificates of ACME to use. Returns the pause until the next attempt if that fails: another file of the configuration may
/// just be half written.
fn install_certificates(reloader: &mut Reloader<'_>) -> Option<Duration> {
    let error = match reloader.install_certificates() {
        Ok(Some(snapshot)) => {
            tracing::info!(snapshot, "certificates of ACME are in use");
            return None;
        }
        Ok(None) => return None,
        Err(error) => one_line(&error),
    };
    let pause = CERTIFICATES_PAUSE;
    tracing::error!(
        %error, next_attempt = ?pause, "the certificates of ACME cannot be put to use; correct this"
    );
    Some(pause)
}

/// Reloads the configuration. A client of the control socket learns of a refusal at once, and of success once every worker has applied
/// the configuration.
fn reload(
    observability: &Observability,
    reloader: &mut Reloader<'_>,
    supervisor: &mut Supervisor,
    mut reply: Option<Reply>,
) {
    supervisor.reloading();
    let result = reloader.reload();
    // Counted before it is logged, so that whoever reads the log finds it in the metrics.
    observability.lifecycle().reloaded(result.as_ref().ok().copied());
    let mut standing = reloader.standing();
    match result {
        Ok(snapshot) => tracing::info!(snapshot, "configuration reloaded"),
        Err(error) => {
            if let Some(reply) = reply.take() {
                // The client may have gone.
                let _ = reply.send(ControlVerdict::Refused(error.lines()));
            }
            let (error, snapshot) = (one_line(&error), reloader.snapshot.generation);
            tracing::error!(%error, snapshot, "configuration refused; the previous one stays in effect");
            standing.push_str("; the last reload was refused, see the log");
        }
    }
    supervisor.reloaded(standing, reply, clock::now());
}
