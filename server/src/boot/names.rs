//! Names of upstreams, which are looked up once at the start, so that a name without an address is not found out by a client.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::thread;

use sluicegate_config::{Config, Handler, Pool, Route, UpstreamAddress};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use sluicegate_http::proxy;

/// Name of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UpstreamName {
    /// Pool of the upstream.
    pub pool: String,
    /// The name, without a port.
    pub host: String,
    /// Name servers to ask; none for those of the system.
    servers: Vec<SocketAddr>,
}

/// Looks all names up, in a thread of its own, and warns of those without an address.
pub(super) fn look_up(config: &Config) {
    let names = names(config);
    if names.is_empty() {
        return;
    }
    let warn = move || {
        for UpstreamName { pool, host, .. } in without_address(names) {
            tracing::warn!(
                %pool, %host,
                "the name of an upstream has no address, so requests to it fail: correct it, or see that DNS knows it; it is \
                 looked up again for each request"
            );
        }
    };
    // The server serves without the warning, too.
    if let Err(error) = thread::Builder::new().name("names".into()).spawn(warn) {
        tracing::debug!(%error, "names of upstreams are not looked up in advance");
    }
}

/// Returns the names of upstreams that have no address, after as long as the name servers take.
pub fn unresolved(config: &Config) -> Vec<UpstreamName> {
    without_address(names(config))
}

fn names(config: &Config) -> BTreeSet<UpstreamName> {
    let mut names = BTreeSet::new();
    let mut add = |pool: &Pool| {
        for upstream in &pool.upstreams.0 {
            if let Some(host) = host(&upstream.address) {
                names.insert(UpstreamName {
                    pool: pool.name.clone(),
                    host: host.to_owned(),
                    servers: pool.settings.resolver.clone(),
                });
            }
        }
    };
    config.all_pools().for_each(&mut add);
    for handler in config.routes.iter().flat_map(Route::handlers) {
        if let Handler::FastCgi(fastcgi) = handler {
            add(fastcgi.pool().pool());
        }
    }
    names
}

/// Returns the host of an upstream; `None` where it is an address already.
fn host(upstream: &UpstreamAddress) -> Option<&str> {
    let (host, _) = upstream.server()?.rsplit_once(':')?;
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    (!is_address).then_some(host)
}

fn without_address(names: BTreeSet<UpstreamName>) -> Vec<UpstreamName> {
    // Without a runtime nothing is known of any name.
    let Ok(runtime) = Builder::new_current_thread().build() else {
        return Vec::new();
    };
    runtime.block_on(async {
        let mut lookups = JoinSet::new();
        for name in names {
            lookups.spawn(async move {
                let has_address = proxy::has_address(&name.host, &name.servers).await;
                (!has_address).then_some(name)
            });
        }
        let mut found: Vec<UpstreamName> = lookups.join_all().await.into_iter().flatten().collect();
        found.sort();
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_addresses_and_sockets_are_not() {
        let registry = sluicegate_cc::Registry::builtin();
        let text = "[[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
                    [[pool]]\nname = \"app\"\nupstreams = [\"127.0.0.1:1\", \"[::1]:2\", \"unix:/x\", \"localhost:3\", \
                    \"https://none.invalid\", \"h2c://none.invalid:4\", \"none.invalid:5\"]\n\
                    [[route]]\npath = \"/\"\nproxy = { pool = \"app\" }\n\
                    [[route]]\npath = \"/x\"\nproxy = { upstreams = \"other.invalid:80\", resolver = \"127.0.0.1:1\" }\n";
        let config = Config::from_toml("test.toml", text, &registry).unwrap();
        let found = names(&config);
        let hosts: Vec<&str> = found.iter().map(|name| &*name.host).collect();
        assert_eq!(hosts, ["localhost", "none.invalid", "other.invalid"]);
        let missing = unresolved(&config);
        let hosts: Vec<&str> = missing.iter().map(|name| &*name.host).collect();
        // Reserved never to exist (RFC 6761 §6.4).
        assert_eq!(hosts, ["none.invalid", "other.invalid"]);
    }
}
