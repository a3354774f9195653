//! The main thread's loop: reports of workers and signals, until all workers have stopped.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sluicegate_base::clock;
use sluicegate_base::observe::lifecycle::Phase;
use sluicegate_dataplane::Features;

use super::control_socket::{ReloadVerdict, Reply};
use super::error::{BootError, one_line};
use super::limits::{CERTIFICATES_PAUSE, START_LIMIT, STOP_LIMIT};
use super::listen::Line;
use super::observability::Observability;
use super::reload::Reloader;
use super::supervisor::Supervisor;
use super::totals::Totals;
use crate::boot::signal::Signal;
use crate::tcp::{self, FrontCommand};
use crate::worker::{Command, MailboxSender, WorkerReport};

/// An event for the main thread.
pub(super) enum Event {
    Worker(WorkerReport),
    /// A front over TCP has drained or stopped.
    Front(Box<tcp::TcpCounters>),
    Signal(Signal),
    /// Somebody asks at the control socket for a reload, and waits for the verdict.
    Reload(Reply),
    /// ACME has obtained certificates.
    Certificates,
}

/// Waits until every worker serves, and logs the listeners. Returns `false` if the signal to stop came first.
pub(super) fn await_ready(
    inbox: &Receiver<Event>,
    workers: usize,
    observability: &Observability,
    lines: &[Line],
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
            Ok(Event::Signal(Signal::Reload)) => {
                tracing::warn!("no reload while the server starts; send SIGHUP again");
            }
            Ok(Event::Worker(WorkerReport::Stopped(..)) | Event::Front(_)) => {
                return Err(BootError::WorkerStopped);
            }
            // The certificates were read later than these were written. The control socket is not open yet.
            Ok(Event::Certificates | Event::Reload(_)) => {}
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

/// Waits for the signal to stop, drains and stops, and returns the totals. A second signal, or the end of
/// `server.drain_timeout`, ends the drain at once.
pub(super) fn run_down(
    inbox: &Receiver<Event>,
    mailboxes: &[MailboxSender],
    observability: &Observability,
    reloader: &mut Reloader<'_>,
    supervisor: &mut Supervisor,
) -> Totals {
    let mut totals = Totals::default();
    let mut running = mailboxes.len() + reloader.fronts.count();
    let mut deadline: Option<Instant> = None;
    let mut stopped = false;
    // Time at which certificates that could not be put to use are tried again.
    let mut retry: Option<Instant> = None;
    while running > 0 {
        supervisor.on_time(clock::now());
        reloader.drop_unused();
        reloader.upkeep.on_time(clock::now());
        let next = supervisor.next();
        if retry.is_some_and(|retry| clock::now() >= retry) {
            retry = install_certificates(reloader).map(|pause| clock::now() + pause);
        }
        let until = [deadline, retry].into_iter().flatten().fold(next, Instant::min);
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
                observability.lifecycle().set(Phase::Draining);
                mailboxes.iter().for_each(|p| {
                    p.send(Command::Drain);
                });
                reloader.fronts.send(|| FrontCommand::Drain);
                let limit = reloader.config.server.drain_timeout;
                // From here on no worker accepts a request that follows a response.
                tracing::info!(limit = ?limit, "draining; a second signal stops at once");
                supervisor.stopping(limit);
                deadline = Some(clock::now() + limit);
            }
            // While the server drains, no connection begins that would use another certificate.
            Ok(Event::Certificates) if deadline.is_none() => {
                retry = install_certificates(reloader).map(|pause| clock::now() + pause);
            }
            Ok(Event::Worker(_) | Event::Certificates) => {}
            Ok(Event::Signal(Signal::Reopen)) => observability.reopen(),
            Ok(Event::Signal(Signal::Reload)) if deadline.is_some() => refuse(None),
            Ok(Event::Reload(reply)) if deadline.is_some() => refuse(Some(reply)),
            Ok(Event::Signal(Signal::Reload)) => reload(observability, reloader, supervisor, None),
            Ok(Event::Reload(reply)) => reload(observability, reloader, supervisor, Some(reply)),
            Err(RecvTimeoutError::Timeout) if deadline.is_none_or(|d| clock::now() < d) => {}
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
    }
    totals
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

/// Refuses a reload while the server drains.
fn refuse(reply: Option<Reply>) {
    let reason = "no reload while the server drains";
    tracing::warn!("{reason}");
    if let Some(reply) = reply {
        let _ = reply.send(ReloadVerdict::Refused(reason.into()));
    }
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
                let _ = reply.send(ReloadVerdict::Refused(error.lines()));
            }
            let (error, snapshot) = (one_line(&error), reloader.snapshot.generation);
            tracing::error!(%error, snapshot, "configuration refused; the previous one stays in effect");
            standing.push_str("; the last reload was refused, see the log");
        }
    }
    supervisor.reloaded(standing, reply, clock::now());
}
