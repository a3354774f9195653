//! Everything that the process holds open for a configuration.

use std::fs::File;
use std::sync::Arc;

use sluicegate_base::affinity::scheduler;
use sluicegate_base::observe::request_logs::RequestLogWriters;
use sluicegate_cc::Registry;
use sluicegate_config::{Config, Group, Listener};
use sluicegate_dataplane::{Backend, Seed};
use sluicegate_quic::settings::Tracing;

use super::admin_address::AdminAddress;
use super::cores::cores;
use super::error::BootError;
use super::listen::{Bound, BoundListeners, ListenerPlan, open_listener, open_on_sockets};
use super::listener_settings::{PreviousSettings, prepare};
use super::passed::Passed;
use super::ports::{OpenPorts, on_ports};
use super::shared::{Shared, open_logs, start_tracing};
use crate::admin::AdminState;

/// Everything that the process holds open for a configuration, except the control socket, which opens once every worker serves: it
/// replaces that of a previous server.
pub(super) struct Plan {
    /// Device by which the process bounds the sleep of the host's cores.
    pub(super) latency: Option<File>,
    /// Traces of sampled connections.
    pub(super) tracing: Option<Tracing>,
    /// Writers of the access log and of spans.
    pub(super) logs: RequestLogWriters,
    /// Admin address, which is served already, unless the process before serves.
    pub(super) admin: AdminAddress,
    /// DPDK ports.
    pub(super) ports: OpenPorts,
    /// Sockets that a service manager passed.
    pub(super) passed: Arc<Passed>,
    /// Listening addresses of all groups, with the sockets of TCP.
    pub(super) listeners: ListenerPlan,
    /// Groups that have listeners.
    pub(super) groups: Vec<OpenGroup>,
}

/// A group whose sockets or port are open.
pub(super) struct OpenGroup {
    pub(super) group: Group,
    /// Core of each worker.
    pub(super) cores: Vec<usize>,
    /// Sockets of QUIC, or queues of a port, of each worker.
    pub(super) seeds: Vec<Seed>,
    /// Whether workers read from the sockets from the start. Else the process before does.
    pub(super) receives: bool,
}

impl Plan {
    /// Opens everything itself.
    ///
    /// # Errors
    /// A file, an address or a port cannot be opened, or nothing listens.
    pub(super) fn bind(
        shared: &Shared,
        registry: &Registry,
        admin_state: &Arc<AdminState>,
    ) -> Result<Plan, BootError> {
        Plan::inherit(shared, registry, admin_state, Passed::default())
    }

    /// Takes over the sockets that a service manager passed, and opens everything else.
    ///
    /// # Errors
    /// As with [`Plan::bind`], or the configuration does not use a socket.
    pub(super) fn inherit(
        shared: &Shared,
        registry: &Registry,
        admin_state: &Arc<AdminState>,
        passed: Passed,
    ) -> Result<Plan, BootError> {
        let config = &shared.config;
        passed.check(config)?;
        let passed = Arc::new(passed);
        let latency = hold_latency(config)?;
        let tracing = start_tracing(&shared.traces, config, &shared.secrets)?;
        shared.traces.set(&config.qlog, tracing.as_ref().map(Tracing::writer));
        let logs = open_logs(&shared.access, &shared.spans, config)?;
        shared.access.set(&config.access_log, logs.access.clone());
        shared.spans.set(&config.telemetry, logs.spans.clone());
        let admin = if passed.is_of_the_process_before() {
            AdminAddress::later(admin_state)
        } else {
            AdminAddress::open(&config.admin, admin_state, &passed)?
        };
        let mut listeners = ListenerPlan::inherit(Arc::clone(&passed), shared.cids.steering());
        let mut ports = OpenPorts::start(&on_ports(config)?)?;
        let mut groups = Vec::new();
        for group in &config.groups {
            groups.extend(open(group, shared, registry, &mut listeners, &mut ports)?);
        }
        if groups.is_empty() {
            return Err(BootError::NothingToServe);
        }
        Ok(Plan { latency, tracing, logs, admin, ports, passed, listeners, groups })
    }

    /// Binds the admin address, or takes it from the process before, which still serves it, and keeps none of the sockets that it has passed.
    pub(super) fn leave_passed(
        &mut self,
        config: &Config,
        admin_state: &Arc<AdminState>,
    ) -> Result<(), BootError> {
        self.admin = AdminAddress::prepare(&config.admin, admin_state, &self.passed)?;
        self.passed = Arc::default();
        self.listeners.forget_passed();
        Ok(())
    }
}

/// Bounds the sleep of the host's cores, if the configuration asks for it.
fn hold_latency(config: &Config) -> Result<Option<File>, BootError> {
    let held = config.server.cpu_latency.map(scheduler::hold_latency);
    held.transpose().map_err(BootError::Latency)
}

/// Binds the listeners of a group, to sockets or to a port, and opens the group on them. Returns `None` for a group without listeners.
fn open(
    group: &Group,
    shared: &Shared,
    registry: &Registry,
    plan: &mut ListenerPlan,
    ports: &mut OpenPorts,
) -> Result<Option<OpenGroup>, BootError> {
    let all = shared.config.listeners.iter();
    let listeners: Vec<&Listener> = all.filter(|l| l.group == group.name).collect();
    if listeners.is_empty() {
        return Ok(None);
    }
    if let Some(core) = group.cores.shared() {
        tracing::warn!(group = %group.name, core, "more than one worker on a core");
    }
    let cores = cores(group)?;
    let workers = cores.len();
    let mut bound = BoundListeners {
        workers,
        bound: match group.backend {
            Backend::Dpdk => Bound::Port(Vec::new()),
            Backend::Auto | Backend::Mio | Backend::IoUring => Bound::Sockets(Vec::new()),
        },
    };
    for listener in listeners {
        let (config, secrets) = (&shared.config, &shared.secrets);
        let settings = prepare(listener, registry, config, secrets, PreviousSettings::default())?;
        open_listener(listener, &settings, plan, &mut bound)?;
    }
    let opened = match bound.bound {
        Bound::Port(addresses) => ports.open(group, &addresses, workers)?,
        // Only a reload finds one.
        Bound::OpenPort => return Err(BootError::NothingToServe),
        Bound::Sockets(sockets) => {
            open_on_sockets(group, sockets, workers, shared.cids.steering())?
        }
    };
    plan.add_facts(&opened.listeners);
    let receives = !plan.is_taking_over();
    let mut seeds = opened.seeds;
    if !receives {
        seeds = seeds.into_iter().map(Seed::without_receiving).collect();
    }
    Ok(Some(OpenGroup { group: group.clone(), cores, seeds, receives }))
}
