//! What a configuration needs of its host, for the checks of `doctor`.

use sluicegate_cc::Registry;
use sluicegate_config::{Config, Listener};

use super::cores::cores;
use super::descriptors;
use super::error::BootError;
use crate::doctor::{HostNeeds, ModelBasedListener, ServedGroup};

/// Returns what a configuration needs. Raises the limit of open files, as the server does.
///
/// # Errors
/// A group names a core that does not exist.
pub(crate) fn host_needs<'a>(
    config: &'a Config,
    registry: &Registry,
) -> Result<HostNeeds<'a>, BootError> {
    sluicegate_base::descriptors::raise_limit();
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
        let [used] = &needs.model_based[..] else { panic!() };
        assert_eq!((&*used.listener, &*used.algorithm, used.is_guarded), ("l", "bbr3", true));
    }
}
