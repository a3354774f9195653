//! Upstream pools as a site defines them, and as its routes refer to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::{
    HealthCheck, Pool, PoolUpstream, Proxy, ProxyProtocolVersion, UpstreamAddress,
};

use super::across_threads::{SharedState, UpstreamState};
use super::balance::Policy;
use super::congestion::CongestionSettings;
use super::queue::Queue;
use super::slots::Slots;
use super::tls::{TlsContexts, TlsSettings, UpstreamTlsError};
use super::verdict::Verdict;

/// Settings on which an upstream's connections and health depend. Pools that differ in them share no upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UpstreamSettings {
    /// Largest number of idle connections.
    pub(super) keepalive: u64,
    /// Time that an idle connection is kept.
    pub(super) keepalive_timeout: Duration,
    /// Age from which on a connection serves no further request; 0 for any.
    pub(super) max_age: Duration,
    /// Largest head of a response, bytes.
    pub(super) header_bytes: u64,
    /// Failures in a row after which an upstream leaves the rotation; 0 for never.
    pub(super) max_fails: u64,
    /// Time that it stays out of rotation.
    pub(super) fail_timeout: Duration,
    /// Name servers that know the upstreams' names; none for those of the system.
    pub(super) resolver: Vec<SocketAddr>,
    /// PROXY protocol by which connections name their clients; `None` if they do not.
    pub(super) proxy_protocol: Option<ProxyProtocolVersion>,
    /// Health checks; `None` if there are none.
    pub(super) health_check: Option<HealthCheck>,
    /// TLS to the upstreams; `None` if none of the pool's addresses asks for it.
    pub(super) tls: Option<TlsSettings>,
    /// Congestion control of connections over QUIC; `None` if none of the pool's addresses asks for it.
    pub(super) congestion: Option<CongestionSettings>,
}

/// An upstream as a pool defines it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberDefinition {
    /// Address of the upstream.
    pub(super) address: UpstreamAddress,
    /// Share of the requests, in relation to the weights of the others.
    pub(super) weight: u64,
    /// Whether it gets requests only if all others cannot.
    pub(super) backup: bool,
    /// Largest number of requests that it handles at a time; 0 for no limit.
    max_connections: u64,
    /// State on all threads.
    pub(super) state: SharedState<UpstreamState>,
}

/// Identity of an upstream: pools in which it is the same share the upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UpstreamKey {
    address: UpstreamAddress,
    settings: UpstreamSettings,
    max_connections: u64,
}

/// States of upstreams on all threads.
type UpstreamStates = BTreeMap<UpstreamKey, SharedState<UpstreamState>>;

impl MemberDefinition {
    fn new(
        upstream: &PoolUpstream,
        settings: &UpstreamSettings,
        max_connections: u64,
        states: &mut UpstreamStates,
    ) -> MemberDefinition {
        let max_connections = upstream.max_connections.unwrap_or(max_connections);
        let key = UpstreamKey {
            address: upstream.address.clone(),
            settings: settings.clone(),
            max_connections,
        };
        let state = states.entry(key).or_insert_with(|| {
            SharedState::new(UpstreamState {
                slots: Slots::new(max_connections),
                verdict: Verdict::default(),
            })
        });
        MemberDefinition {
            address: upstream.address.clone(),
            weight: upstream.weight,
            backup: upstream.backup,
            max_connections,
            state: state.clone(),
        }
    }
}

/// Definition of an upstream pool.
///
/// Its address in memory is the pool's identity: the sites of consecutive configurations share the `Arc` as long as the
/// definition stays the same.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolDefinition {
    /// Name of the pool, for the log.
    pub(super) name: String,
    /// The upstreams, in the order in which they take turns.
    pub(super) members: Vec<MemberDefinition>,
    /// Policy of balancing.
    pub(super) policy: Policy,
    /// Time in which the share of an upstream grows to its weight after it returned to the rotation.
    pub(super) slow_start: Duration,
    /// Settings of all its upstreams.
    pub(super) settings: UpstreamSettings,
    /// Share of the requests that may be repeated, percent; 0 for no bound.
    pub(super) retry_percent: u64,
    /// Queue of the requests that find all upstreams busy.
    pub(super) queue: Queue,
}

impl PoolDefinition {
    /// Returns a pool of the configuration. Routes that list the same servers, with the same settings, share one.
    ///
    /// # Errors
    /// The TLS settings cannot be used.
    fn new(
        pool: &Pool,
        contexts: &mut TlsContexts,
        states: &mut UpstreamStates,
    ) -> Result<PoolDefinition, UpstreamTlsError> {
        let settings = &pool.settings;
        let tls = if pool.upstreams.addresses().any(UpstreamAddress::is_tls) {
            Some(contexts.settings(&settings.tls)?)
        } else {
            None
        };
        let congestion = if pool.upstreams.addresses().any(UpstreamAddress::is_h3) {
            Some(CongestionSettings::new(settings.congestion_control.as_ref())?)
        } else {
            None
        };
        let of_upstreams = UpstreamSettings {
            // A connection that names a client serves one request.
            keepalive: match settings.proxy_protocol {
                Some(_) => 0,
                None => settings.keepalive,
            },
            keepalive_timeout: settings.keepalive_timeout,
            max_age: settings.keepalive_max_age,
            header_bytes: settings.header_bytes,
            max_fails: settings.max_fails,
            fail_timeout: settings.fail_timeout,
            resolver: settings.resolver.clone(),
            proxy_protocol: settings.proxy_protocol,
            health_check: Some(&pool.health_check).filter(|check| check.path.is_some()).cloned(),
            tls,
            congestion,
        };
        let member = |upstream: &PoolUpstream| {
            MemberDefinition::new(upstream, &of_upstreams, settings.max_connections, states)
        };
        Ok(PoolDefinition {
            name: pool.name.clone(),
            members: pool.upstreams.0.iter().map(member).collect(),
            policy: Policy::new(settings),
            slow_start: settings.slow_start,
            settings: of_upstreams,
            retry_percent: settings.retry_budget,
            queue: Queue::new(settings.queue, settings.queue_timeout),
        })
    }

    /// Returns the identity of one of the pool's upstreams.
    pub(super) fn key(&self, member: &MemberDefinition) -> UpstreamKey {
        UpstreamKey {
            address: member.address.clone(),
            settings: self.settings.clone(),
            max_connections: member.max_connections,
        }
    }
}

/// The upstream pools of a site, each once.
#[derive(Debug, Default)]
pub struct SitePools(BTreeSet<Arc<PoolDefinition>>);

impl SitePools {
    /// Returns every pool.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<PoolDefinition>> {
        self.0.iter()
    }
}

/// Collects the pools of a site while its routes are compiled.
#[derive(Debug)]
pub struct PoolCompiler<'a> {
    previous: &'a SitePools,
    pools: SitePools,
    contexts: TlsContexts,
    states: UpstreamStates,
}

impl<'a> PoolCompiler<'a> {
    /// Starts without a pool. Pools that `previous` defines in the same way keep their identity, and therefore their
    /// connections and health.
    pub fn new(previous: &'a SitePools) -> PoolCompiler<'a> {
        let states = previous.iter().flat_map(|pool| {
            pool.members.iter().map(|member| (pool.key(member), member.state.clone()))
        });
        PoolCompiler {
            states: states.collect(),
            previous,
            pools: SitePools::default(),
            contexts: TlsContexts::default(),
        }
    }

    /// Compiles the proxy of a route: resolves its pool.
    ///
    /// # Errors
    /// Files of the TLS settings cannot be used.
    pub fn compile(&mut self, settings: &Proxy) -> Result<RouteProxy, UpstreamTlsError> {
        let definition =
            PoolDefinition::new(settings.pool.pool(), &mut self.contexts, &mut self.states)?;
        Ok(RouteProxy { pool: self.resolve(definition), settings: settings.clone() })
    }

    /// Compiles the pool of a handler that speaks no HTTP to it.
    ///
    /// # Errors
    /// Files of the TLS settings cannot be used.
    pub fn compile_pool(&mut self, pool: &Pool) -> Result<RoutePool, UpstreamTlsError> {
        let definition = PoolDefinition::new(pool, &mut self.contexts, &mut self.states)?;
        Ok(RoutePool(self.resolve(definition)))
    }

    /// Returns all pools that were resolved.
    pub fn finish(self) -> SitePools {
        self.pools
    }

    fn resolve(&mut self, definition: PoolDefinition) -> Arc<PoolDefinition> {
        let SitePools(pools) = &mut self.pools;
        let known = pools.get(&definition);
        if known.is_none() && { definition.settings.tls.as_ref() }
            .is_some_and(|tls| !tls.context.verify)
        {
            let pool = &definition.name;
            tracing::warn!(%pool, "certificates of upstreams are not verified: `tls_verify` is false");
        }
        let known = known.or_else(|| self.previous.0.get(&definition)).cloned();
        let pool = known.unwrap_or_else(|| Arc::new(definition));
        pools.insert(Arc::clone(&pool));
        pool
    }
}

/// Compiled pool of a route that speaks no HTTP to it.
#[derive(Clone, Debug)]
pub struct RoutePool(pub(super) Arc<PoolDefinition>);

/// Compiled proxy of a route: its pool, and the settings of its requests.
#[derive(Clone, Debug)]
pub struct RouteProxy {
    /// Settings of the requests.
    pub settings: Proxy,
    pub(super) pool: Arc<PoolDefinition>,
}

impl RouteProxy {
    /// Returns whether clients may open WebSockets to the upstreams.
    pub fn takes_websocket(&self) -> bool {
        self.settings.websocket
    }

    /// Returns whether clients of HTTP/1.1 may switch to this protocol.
    pub fn takes_upgrade(&self, protocol: &str) -> bool {
        let mut allowed = self.settings.upgrades.iter();
        allowed.any(|allowed| allowed.eq_ignore_ascii_case(protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{proxy, with};
    use super::*;

    fn compile(previous: &SitePools, proxies: &[&Proxy]) -> (SitePools, Vec<Arc<PoolDefinition>>) {
        let mut compiler = PoolCompiler::new(previous);
        let compiled = proxies.iter().map(|proxy| compiler.compile(proxy).unwrap().pool);
        let compiled = compiled.collect();
        (compiler.finish(), compiled)
    }

    #[test]
    fn pool_is_named_after_its_upstreams() {
        let two = proxy(&["192.0.2.1:80", "192.0.2.2:81"].map(|a| a.parse().unwrap()));
        let (_, pools) = compile(&SitePools::default(), &[&two]);
        assert_eq!(pools[0].name, "192.0.2.1:80,192.0.2.2:81");
    }

    #[test]
    fn identity_lasts_as_long_as_the_definition() {
        let one = proxy(&["192.0.2.1:80".parse().unwrap()]);
        // Settings of requests are none of the pool's.
        let same = Proxy { strip_prefix: true, retries: 9, ..one.clone() };
        let other = with(one.clone(), |settings| settings.keepalive = 1);
        let (first, pools) = compile(&SitePools::default(), &[&one, &same, &other]);
        assert_eq!(first.iter().count(), 2);
        assert!(Arc::ptr_eq(&pools[0], &pools[1]));
        assert!(!Arc::ptr_eq(&pools[0], &pools[2]));
        let (second, kept) = compile(&first, &[&other, &one]);
        assert!(Arc::ptr_eq(&kept[0], &pools[2]) && Arc::ptr_eq(&kept[1], &pools[0]));
        // A pool that comes back after it was removed is another one.
        let (without, _) = compile(&second, &[&other]);
        let (_, back) = compile(&without, &[&one]);
        assert!(!Arc::ptr_eq(&back[0], &pools[0]));
    }
}
