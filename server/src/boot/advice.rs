//! Advice on a configuration that can be served.

use sluicegate_config::Config;

/// Warns of pools that no route uses.
pub(super) fn on_pools(config: &Config) {
    for pool in config.unused_pools() {
        tracing::warn!(
            pool,
            "no route uses this pool: name it in `pool` of [route.proxy], or remove its [[pool]]"
        );
    }
}
