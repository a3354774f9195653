//! What a configuration needs of its host, for the checks of `doctor`.

use std::net::SocketAddr;

use sluicegate_cc::Registry;
use sluicegate_config::{Config, Listener};
use sluicegate_dataplane::{Acquired, Backend, BindError, ListenerId};

use super::cores::cores;
use super::descriptors;
use super::error::BootError;
use crate::doctor::{HostNeeds, ModelBasedListener, ServedGroup};

/// Returns what a configuration needs. Raises the limit of open files, as the server does.
///
/// # Errors
/// A group names a core that does not exist, or a listener an address that the host does not have.
pub(crate) fn host_needs<'a>(
    config: &'a Config,
    registry: &Registry,
) -> Result<HostNeeds<'a>, BootError> {
    sluicegate_base::descriptors::raise_limit();
    config.listeners.iter().try_for_each(|listener| has_addresses(listener, config))?;
    let mut groups = Vec::new();
    for group in &config.groups {
        let listeners = config.listeners.iter().filter(|listener| listener.group == group.name);
        let addresses: Vec<_> =
            listeners.flat_map(|listener| listener.addresses.iter().copied()).collect();
        if !addresses.is_empty() {
            groups.push(ServedGroup { group, cores: cores(group)?, addresses });
        }
    }
    let model_based = config.listeners.iter().flat_map(|listener| of_listener(listener, registry));
    Ok(HostNeeds {
        config,
        groups,
        model_based: model_based.collect(),
        open_files: descriptors::open_files(config),
    })
}

/// Returns the error of a start if the host lacks an address of a listener. Its port may be the running server's.
fn has_addresses(listener: &Listener, config: &Config) -> Result<(), BootError> {
    let mut groups = config.groups.iter();
    // DPDK does not ask the kernel.
    if groups.any(|group| group.name == listener.group && group.backend == Backend::Dpdk) {
        return Ok(());
    }
    let lacks = |address: &&SocketAddr| {
        let bound = Acquired::bind(ListenerId(0), SocketAddr::new(address.ip(), 0), 1);
        matches!(bound, Err(BindError::NotHere { .. }))
    };
    listener.addresses.iter().find(lacks).map_or(Ok(()), |address| {
        let missing = BindError::NotHere { address: *address };
        Err(BootError::listener(&listener.name, &[*address], missing))
    })
}

/// Returns the model-based algorithms that clients of a listener get.
fn of_listener(listener: &Listener, registry: &Registry) -> Vec<ModelBasedListener> {
    let of_rules = listener.congestion_rules.iter().map(|rule| &rule.congestion_control);
    let all = of_rules.chain([&listener.congestion_control]);
    let mut names: Vec<&str> = all.map(|control| control.algorithm.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| registry.find(name).is_some_and(|algorithm| algorithm.model_based));
    let found = names.into_iter().map(|name| ModelBasedListener {
        listener: listener.name.clone(),
        algorithm: name.to_owned(),
        is_guarded: listener.low_rtt_guard.is_some(),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::super::error::one_line;
    use super::*;

    #[test]
    fn groups_with_listeners_and_model_based_algorithms_are_found() {
        let text = "[[group]]\nname = \"a\"\n[[group]]\nname = \"idle\"\n\
            [[listener]]\nname = \"l\"\ngroup = \"a\"\naddress = [\"127.0.0.1:1\", \"[::1]:1\"]\ntls = \"self-signed\"\n\
            congestion_control = \"cubic\"\nlow_rtt_guard = \"1ms\"\n\
            [[listener.congestion_rule]]\nnetworks = \"192.0.2.0/24\"\ncongestion_control = \"bbr3\"\n";
        let registry = Registry::builtin();
        let config = Config::from_toml("a.toml", text, &registry).unwrap();
        let needs = host_needs(&config, &registry).unwrap();
        let [group] = &needs.groups[..] else { panic!() };
        assert_eq!((group.group.name.as_str(), group.addresses.len()), ("a", 2));
        assert!(!group.cores.is_empty());
        let text = text.replace("[::1]:1", "192.0.2.77:1");
        let config = Config::from_toml("a.toml", &text, &registry).unwrap();
        let error = host_needs(&config, &registry).map(drop).unwrap_err();
        let error = one_line(&error);
        assert!(
            error.contains("192.0.2.77:1") && error.contains("this host does not have"),
            "{error}"
        );
        let [used] = &needs.model_based[..] else { panic!() };
        assert_eq!((&*used.listener, &*used.algorithm, used.is_guarded), ("l", "bbr3", true));
    }
}
