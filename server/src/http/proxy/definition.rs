//! Upstream pools as a site defines them, and as its routes refer to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_config::{Proxy, UpstreamAddress};

static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// Identity of a pool. Sites share it as long as the definition stays the same; no other pool of the process has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolId(u64);

/// Settings on which an upstream's connections and health depend. Pools that differ in them share no upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UpstreamSettings {
    /// Largest number of idle connections.
    pub(super) keepalive: u64,
    /// Time that an idle connection is kept.
    pub(super) keepalive_timeout: Duration,
    /// Largest head of a response, bytes.
    pub(super) header_bytes: u64,
    /// Failures in a row after which an upstream leaves the rotation; 0 for never.
    pub(super) max_fails: u64,
    /// Time that it stays out of rotation.
    pub(super) fail_timeout: Duration,
}

/// Definition of an upstream pool.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolDefinition {
    /// Name of the pool, for the log.
    pub(super) name: String,
    /// Addresses of the upstreams, in the order in which they take turns.
    pub(super) upstreams: Vec<UpstreamAddress>,
    /// Settings of all its upstreams.
    pub(super) settings: UpstreamSettings,
}

impl PoolDefinition {
    /// Returns the pool of a route that lists its upstreams itself: it is named after them, so routes with the same
    /// upstreams and settings share one.
    fn of_route(proxy: &Proxy) -> PoolDefinition {
        let addresses: Vec<_> = proxy.upstreams.iter().map(ToString::to_string).collect();
        PoolDefinition {
            name: addresses.join(","),
            upstreams: proxy.upstreams.clone(),
            settings: UpstreamSettings {
                keepalive: proxy.keepalive,
                keepalive_timeout: proxy.keepalive_timeout,
                header_bytes: proxy.header_bytes,
                max_fails: proxy.max_fails,
                fail_timeout: proxy.fail_timeout,
            },
        }
    }
}

/// Reference of a route to its pool.
#[derive(Clone, Debug)]
pub(super) struct PoolRef {
    pub(super) id: PoolId,
    pub(super) definition: Arc<PoolDefinition>,
}

/// The upstream pools of a site, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SitePools(BTreeMap<Arc<PoolDefinition>, PoolId>);

impl SitePools {
    /// Returns every pool.
    pub(super) fn iter(&self) -> impl Iterator<Item = PoolRef> {
        self.0.iter().map(|(definition, id)| PoolRef {
            id: *id,
            definition: Arc::clone(definition),
        })
    }

    fn find(&self, definition: &PoolDefinition) -> Option<PoolRef> {
        let (definition, id) = self.0.get_key_value(definition)?;
        Some(PoolRef {
            id: *id,
            definition: Arc::clone(definition),
        })
    }
}

/// Collects the pools of a site while its routes are compiled.
#[derive(Debug)]
pub struct PoolCompiler<'a> {
    previous: &'a SitePools,
    pools: SitePools,
}

impl<'a> PoolCompiler<'a> {
    /// Starts without a pool. Pools that `previous` defines in the same way keep their identity, and therefore their
    /// connections and health.
    pub fn new(previous: &'a SitePools) -> PoolCompiler<'a> {
        PoolCompiler {
            previous,
            pools: SitePools::default(),
        }
    }

    /// Compiles the proxy of a route: resolves its pool.
    pub fn compile(&mut self, settings: &Proxy) -> RouteProxy {
        RouteProxy {
            pool: self.resolve(PoolDefinition::of_route(settings)),
            settings: settings.clone(),
        }
    }

    /// Returns all pools that were resolved.
    pub fn finish(self) -> SitePools {
        self.pools
    }

    fn resolve(&mut self, definition: PoolDefinition) -> PoolRef {
        if let Some(pool) = self.pools.find(&definition) {
            return pool;
        }
        let pool = self.previous.find(&definition).unwrap_or_else(|| PoolRef {
            id: PoolId(LAST_ID.fetch_add(1, Ordering::Relaxed)),
            definition: Arc::new(definition),
        });
        let definition = Arc::clone(&pool.definition);
        self.pools.0.insert(definition, pool.id);
        pool
    }
}

/// Compiled proxy of a route: its pool, and the settings of its requests.
#[derive(Debug)]
pub struct RouteProxy {
    /// Settings of the requests.
    pub settings: Proxy,
    pub(super) pool: PoolRef,
}

#[cfg(test)]
mod tests {
    use super::super::tests::proxy;
    use super::*;

    fn compile(previous: &SitePools, proxies: &[&Proxy]) -> (SitePools, Vec<PoolRef>) {
        let mut compiler = PoolCompiler::new(previous);
        let compiled = proxies.iter().map(|proxy| compiler.compile(proxy).pool);
        let compiled = compiled.collect();
        (compiler.finish(), compiled)
    }

    #[test]
    fn pool_is_named_after_its_upstreams() {
        let two = proxy(&["192.0.2.1:80", "192.0.2.2:81"].map(|a| a.parse().unwrap()));
        let (_, pools) = compile(&SitePools::default(), &[&two]);
        assert_eq!(pools[0].definition.name, "192.0.2.1:80,192.0.2.2:81");
    }

    #[test]
    fn identity_lasts_as_long_as_the_definition() {
        let one = proxy(&["192.0.2.1:80".parse().unwrap()]);
        // Settings of requests are none of the pool's.
        let same = Proxy {
            strip_prefix: true,
            retries: 9,
            ..one.clone()
        };
        let other = Proxy {
            keepalive: 1,
            ..one.clone()
        };
        let (first, pools) = compile(&SitePools::default(), &[&one, &same, &other]);
        assert_eq!(first.iter().count(), 2);
        assert_eq!(pools[0].id, pools[1].id);
        assert_ne!(pools[0].id, pools[2].id);
        let (second, kept) = compile(&first, &[&other, &one]);
        assert_eq!(second, first);
        assert_eq!(kept[0].id, pools[2].id);
        // A pool that comes back after it was removed is another one.
        let (without, _) = compile(&second, &[&other]);
        let (_, back) = compile(&without, &[&one]);
        assert_ne!(back[0].id, pools[0].id);
    }
}
