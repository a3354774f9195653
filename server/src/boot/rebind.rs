//! Listeners of a reloaded configuration: those that are bound already are kept, and the others are bound before anything changes.

use std::collections::{BTreeMap, VecDeque};

use sluicegate_config::{Config, Listener};
use sluicegate_dataplane::{Backend, Seed, Steering};

use super::error::{BootError, ListenerError};
use super::listen::{
    Bound, BoundListeners, ListenerPlan, RetainedAddress, open_listener, open_on_sockets,
};
use crate::snapshot::ListenerSettings;
use crate::worker::WorkerHandle;

/// Listeners of a configuration, with the sockets of those that were not bound before.
pub(super) struct Rebound {
    /// All listeners, and the new sockets of TCP.
    pub(super) plan: ListenerPlan,
    /// New sockets of QUIC by group, a seed for each worker.
    pub(super) seeds: BTreeMap<String, VecDeque<Seed>>,
}

/// Binds the listeners of a configuration that `plan` does not keep.
///
/// # Errors
/// An address cannot be bound, or a group can have no further one. What was bound here is closed then.
pub(super) fn rebind(
    config: &Config,
    workers: &[WorkerHandle],
    mut plan: ListenerPlan,
    steering: Steering,
    settings: impl Fn(&Listener) -> Result<ListenerSettings, BootError>,
) -> Result<Rebound, BootError> {
    let mut seeds = BTreeMap::new();
    for group in &config.groups {
        let all = config.listeners.iter();
        let mut listeners = all.filter(|l| l.group == group.name).peekable();
        let workers = workers.iter().filter(|w| w.group == group.name).count();
        if let Some(first) = listeners.peek()
            && workers == 0
        {
            let group = group.name.clone();
            return Err(BootError::listener(
                &first.name,
                &first.addresses,
                ListenerError::NoWorkers { group },
            ));
        }
        let bound = match group.backend {
            Backend::Dpdk => Bound::OpenPort,
            Backend::Auto | Backend::Mio | Backend::IoUring => Bound::Sockets(Vec::new()),
        };
        let mut bound = BoundListeners { workers, bound };
        for listener in listeners {
            open_listener(listener, &settings(listener)?, &mut plan, &mut bound)?;
        }
        if let Bound::Sockets(sockets) = bound.bound
            && !sockets.is_empty()
        {
            let opened = open_on_sockets(group, sockets, workers, steering)?;
            plan.add_facts(&opened.listeners);
            seeds.insert(group.name.clone(), opened.seeds.into());
        }
    }
    check_ports(config, &plan.kept)?;
    Ok(Rebound { plan, seeds })
}

/// Refuses to remove an address of a port that the server drives itself.
fn check_ports(config: &Config, removed: &[RetainedAddress]) -> Result<(), BootError> {
    for kept in removed {
        let group = config.groups.iter().find(|group| group.name == kept.at.group);
        let on_port = group.is_some_and(|group| group.backend == Backend::Dpdk);
        if on_port && kept.at.protocols.has_quic() {
            return Err(BootError::listener(&kept.name, &[kept.at.local], ListenerError::OnPort));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use sluicegate_cc::Registry;
    use sluicegate_dataplane::{ListenerId, Payloads};

    use super::*;
    use crate::boot::listen::RetainedState;
    use crate::boot::listener_settings::{PreviousSettings, prepare};
    use crate::boot::liveness::tests::watched;
    use crate::snapshot::{BoundAddress, Protocols};
    use sluicegate_base::secrets::Secrets;
    use sluicegate_quic::settings::Lease;

    /// Returns the protocols of the one address of a port after a reload that keeps it.
    fn keep_on_port(address: SocketAddr) -> Protocols {
        let text = format!(
            "[[group]]\nname = \"a\"\nbackend = \"dpdk\"\n[group.dpdk]\ndevice = \"0000:00:06.0\"\naddresses = [\"{}/24\"]\n\
             [[listener]]\nname = \"main\"\ngroup = \"a\"\naddress = \"{address}\"\ntls = \"self-signed\"\n",
            address.ip()
        );
        let registry = Registry::builtin();
        let config = Config::from_toml("test.toml", &text, &registry).unwrap();
        let at = BoundAddress {
            id: ListenerId(0),
            group: "a".to_owned(),
            local: address,
            configured: address,
            lease: Lease::default(),
            protocols: Protocols::Quic,
            payloads: Payloads::default(),
        };
        let kept = RetainedAddress { name: "main".to_owned(), at, state: RetainedState::InEffect };
        let secrets = Secrets::in_memory();
        let plan = ListenerPlan::keeping(vec![kept], 1, Arc::default());
        let (worker, ..) = watched(0);
        let rebound = rebind(&config, &[worker], plan, Steering::Hash, |listener| {
            prepare(listener, &registry, &config, &secrets, PreviousSettings::default())
        });
        rebound.unwrap().plan.bound_listeners[0].at.protocols
    }

    #[test]
    fn a_port_keeps_an_address_that_the_kernel_does_not_have() {
        // The networks of examples (RFC 5737), and this host.
        let [foreign, own] = ["192.0.2.7:4433", "127.0.0.1:0"].map(|text| text.parse().unwrap());
        assert_eq!(keep_on_port(foreign), Protocols::Quic);
        assert_eq!(keep_on_port(own), Protocols::QuicAndTcp);
    }
}
