//! The start of the workers, until all of them serve.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;

use sluicegate_base::observe::lifecycle::Phase;
use sluicegate_dataplane::Features;

use super::error::BootError;
use super::events::Event;
use super::limits::START_LIMIT;
use super::listen::ListenerLogLine;
use super::observability::Observability;
use crate::boot::signal::Signal;
use crate::worker::WorkerReport;

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
            Ok(Event::Worker(WorkerReport::Stopped { .. }) | Event::Front(..)) => {
                return Err(BootError::WorkerStopped);
            }
            // The certificates were read later than these were written. The control socket is not open yet.
            Ok(
                Event::Certificates
                | Event::Asked(..)
                | Event::Other(..)
                | Event::Added(..)
                | Event::Older(_)
                | Event::Drains(..)
                | Event::Reopen(_),
            ) => {}
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
