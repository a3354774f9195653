//! The whole file, and what its tables must agree on.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{
    AccessLog, Acme, AcmeChallenge, Admin, Compress, Group, Handler, Limits, Listener, Log, Pool,
    PoolChoice, Qlog, Quic, Route, Server, SiteDefaults, Telemetry, TraceparentMode, Tracing,
    UpstreamAddress, bound, site,
};
use crate::error::Error;
use crate::field::Record;
use crate::once::Once;
use crate::schema::{Kind, Refusal};
use crate::section::Section;
use crate::source::shown;

const MAX_PATTERN: usize = 4096;

table! {
    /// Configuration of a server: each value lies within its bounds, and each reference leads to a table that exists.
    /// `sluicegate check` also checks files and cores; only `sluicegate run` finds addresses that are in use.
    pub struct Config = [], check: check {
        /// Files whose tables stand behind those of this file, in the order of the list, and those of a pattern in the order of their names: *
        /// stands for any characters but "/", ? for one and [a-z] for one of several; hidden files and files that do not match yet are
        /// left out, but a file without wildcards must exist. An included file begins with a table, such as [[site]] or [[route]], includes
        /// no files itself, and a table that may stand only once, such as [limits], stands in one of all files. Relative paths in it start
        /// at the folder of this file. A reload reads the files again. Up to 1000 files, and 16 MiB in all.
        include: Vec<String> {
            kind: Kind::Words {
                words: "a file, or a pattern of files with *, ? or [a-z], relative to the folder of this file",
                each: "",
                min: 0,
                max: 64,
                read: include,
            },
            unset: "this file alone",
            examples: ["\"sites/*.toml\"", "[\"pools.toml\", \"sites/*.toml\"]"],
            reload: Live
        },
        /// The process as a whole.
        server: Server { kind: Kind::Table(Server::TABLE), default: "{}", reload: Restart },
        /// Groups of workers, at least one, with distinct names.
        groups as group: Vec<Group> {
            kind: Kind::Tables { table: Group::TABLE, max: 256 },
            default: "[{ name = \"default\" }]",
            reload: Restart
        },
        /// Listeners, at least one, with distinct names and distinct addresses.
        listeners as listener: Vec<Listener> {
            kind: Kind::Tables { table: Listener::TABLE, max: 10_000 },
            default: "[]",
            reload: Live
        },
        /// Certificates that the server obtains itself.
        acme: Acme { kind: Kind::Table(Acme::TABLE), default: "{}", reload: Live },
        /// Pools of upstream servers, with distinct names.
        pools as pool: Vec<Pool> {
            kind: Kind::Tables { table: Pool::TABLE, max: 10_000 },
            default: "[]",
            reload: Live
        },
        /// Sites, with distinct names.
        sites as site: Vec<SiteDefaults> {
            kind: Kind::Tables { table: SiteDefaults::TABLE, max: 10_000 },
            default: "[]",
            reload: Live
        },
        /// Routes in the order of the file; no two are for the same host, path, method and conditions. May be empty.
        routes as route: Vec<Route> {
            kind: Kind::Tables { table: Route::TABLE, max: 10_000 },
            default: "[]",
            reload: Live
        },
        /// Compression of responses.
        compress: Compress { kind: Kind::Table(Compress::TABLE), default: "{}", reload: Live },
        /// Bounds on what clients may hold.
        limits: Limits { kind: Kind::Table(Limits::TABLE), default: "{}", reload: Live },
        /// Behaviour of connections.
        quic: Quic { kind: Kind::Table(Quic::TABLE), default: "{}", reload: Live },
        /// Traces of connections.
        qlog: Qlog { kind: Kind::Table(Qlog::TABLE), default: "{}", reload: Live },
        /// Messages of the process.
        log: Log { kind: Kind::Table(Log::TABLE), default: "{}", reload: Live },
        /// Health and metrics.
        admin: Admin { kind: Kind::Table(Admin::TABLE), default: "{}", reload: Restart },
        /// Access log.
        access_log: AccessLog { kind: Kind::Table(AccessLog::TABLE), default: "{}", reload: Live },
        /// Identification of requests across servers.
        tracing: Tracing { kind: Kind::Table(Tracing::TABLE), default: "{}", reload: Live },
        /// Export of requests as spans.
        telemetry: Telemetry { kind: Kind::Table(Telemetry::TABLE), default: "{}", reload: Live },
    }
}

impl Config {
    /// Returns the configuration as a file in which every default is filled in; reading it gives the same configuration.
    ///
    /// Paths are printed as they were resolved: absolute after [`Config::load`]. One that is not UTF-8 is printed with
    /// replacement characters.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        self.print_tables(&mut out);
        out
    }

    /// Returns the names of the pools that no route refers to, in the order of the file.
    pub fn unused_pools(&self) -> impl Iterator<Item = &str> {
        let mut used = HashSet::new();
        for route in &self.routes {
            for handler in route.handlers() {
                if let Handler::Proxy(proxy) = handler
                    && let PoolChoice::Named(pool) = &proxy.pool
                {
                    used.insert(pool.name.as_str());
                }
            }
        }
        let names = self.pools.iter().map(|pool| pool.name.as_str());
        names.filter(move |name| !used.contains(name))
    }

    /// Returns the pools of `[[pool]]`, and then those of routes that list their servers.
    pub fn all_pools(&self) -> impl Iterator<Item = &Pool> {
        let handlers = self.routes.iter().flat_map(Route::handlers);
        self.pools.iter().chain(handlers.filter_map(|handler| match handler {
            Handler::Proxy(proxy) => match &proxy.pool {
                PoolChoice::Inline(pool) => Some(pool.as_ref()),
                PoolChoice::Named(_) => None,
            },
            _ => None,
        }))
    }

    /// Returns the FastCGI servers for which routes state different `max_connections`. Each value is a limit of its own.
    pub fn fastcgi_servers_with_several_limits(&self) -> impl Iterator<Item = &UpstreamAddress> {
        let mut limits: BTreeMap<&UpstreamAddress, BTreeSet<u64>> = BTreeMap::new();
        for handler in self.routes.iter().flat_map(Route::handlers) {
            if let Handler::FastCgi(fastcgi) = handler {
                for server in &fastcgi.servers {
                    let of_server = limits.entry(server).or_default();
                    of_server.insert(fastcgi.max_connections);
                }
            }
        }
        limits.into_iter().filter(|(_, limits)| limits.len() > 1).map(|(server, _)| server)
    }

    /// Returns the names of the sites that no route belongs to, in the order of the file.
    pub fn unused_sites(&self) -> impl Iterator<Item = &str> {
        let used: HashSet<&str> =
            self.routes.iter().filter_map(|route| route.site.name()).collect();
        let names = self.sites.iter().map(|site| site.name.as_str());
        names.filter(move |name| !used.contains(name))
    }

    /// Returns the keys of `new` that differ from these and take effect only when the server starts: `server.state_dir`,
    /// or `names of [[group]]` where tables were added or removed.
    pub fn needs_restart(&self, new: &Self) -> Vec<String> {
        let mut changed = Vec::new();
        Record::needs_restart(self, new, "", &mut changed);
        changed
    }
}

fn include(pattern: &str) -> Result<String, Refusal> {
    let fits = (1..=MAX_PATTERN).contains(&pattern.len()) && !pattern.contains('\0');
    if fits { Ok(pattern.to_owned()) } else { Err(Refusal::default()) }
}

fn check(config: &mut Config, top: &Section<'_>) -> Result<(), Error> {
    if config.listeners.is_empty() {
        let found = "no listener in the file";
        return Err(top.source.error(0, found, "at least one [[listener]]"));
    }
    check_names(config, top)?;
    check_groups_of_listeners(config, top)?;
    check_addresses(config, top)?;
    check_acme(config, top)?;
    check_telemetry(config, top)?;
    resolve_pools(config, top)?;
    let compress = Arc::new(config.compress.clone());
    site::resolve(&mut config.routes, &config.sites, &compress, top)?;
    check_routes(config, top)
}

fn check_names(config: &Config, top: &Section<'_>) -> Result<(), Error> {
    let groups: Vec<&str> = config.groups.iter().map(|g| g.name.as_str()).collect();
    let listeners: Vec<&str> = config.listeners.iter().map(|l| l.name.as_str()).collect();
    let pools: Vec<&str> = config.pools.iter().map(|p| p.name.as_str()).collect();
    let sites: Vec<&str> = config.sites.iter().map(|site| site.name.as_str()).collect();
    for (table, names) in
        [("group", groups), ("listener", listeners), ("pool", pools), ("site", sites)]
    {
        let mut once = Once::new(top, "a name of its own");
        for (index, name) in names.into_iter().enumerate() {
            let at = top.position_in(table, index, "name");
            once.add(at, name, || format!("{table} \"{name}\""))?;
        }
    }
    Ok(())
}

fn check_groups_of_listeners(config: &Config, top: &Section<'_>) -> Result<(), Error> {
    let known: Vec<&str> = config.groups.iter().map(|g| g.name.as_str()).collect();
    for (index, listener) in config.listeners.iter().enumerate() {
        let name = listener.group.as_str();
        if !known.contains(&name) {
            let at = top.position_in("listener", index, "group");
            let found = format!("no [[group]] is named \"{}\"", shown(name));
            return Err(top.source.unknown(at, found, name, &known));
        }
    }
    Ok(())
}

/// Gives each route that refers to a pool that pool.
fn resolve_pools(config: &mut Config, top: &Section<'_>) -> Result<(), Error> {
    let pools: Vec<Arc<Pool>> = config.pools.iter().cloned().map(Arc::new).collect();
    let routes = config.routes.iter_mut().enumerate();
    for (index, handler) in routes.flat_map(|(index, route)| {
        let handlers = route.handlers_mut();
        handlers.map(move |handler| (index, handler))
    }) {
        let Handler::Proxy(proxy) = handler else {
            continue;
        };
        if let Err(name) = proxy.pool.resolve(&pools) {
            let table = top.value_in("route", index, "proxy");
            let value = table.and_then(|table| table.get_ref().as_table()?.get("pool"));
            let at = value.map_or(top.at, |value| value.span().start);
            let found = format!("no [[pool]] is named \"{}\"", shown(&name));
            if pools.is_empty() {
                let expected = "a [[pool]] of that name, or `upstreams` instead";
                return Err(top.source.error(at, found, expected));
            }
            let known: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
            return Err(top.source.unknown(at, found, &name, &known));
        }
    }
    Ok(())
}

fn check_addresses(config: &Config, top: &Section<'_>) -> Result<(), Error> {
    let bound = bound::of_listeners(&config.listeners, &config.groups, top);
    let mut once = Once::new(top, "an address that is served once");
    for bound::Bound { at, address, .. } in &bound {
        // Each use of port 0 gets a port of its own.
        if address.port() != 0 {
            once.add(*at, address, || format!("address {address}"))?;
        }
    }
    bound::check_tcp(bound, config.admin.address, top)
}

/// Refuses certificates by ACME that could not be obtained or kept.
fn check_acme(config: &Config, top: &Section<'_>) -> Result<(), Error> {
    let has_tcp = config.listeners.iter().any(Listener::has_tcp);
    for (index, listener) in config.listeners.iter().enumerate() {
        if listener.tls.iter().all(|tls| tls.acme.is_empty()) {
            continue;
        }
        let at = top.position_in("listener", index, "tls");
        if !config.acme.agree {
            let found = "`acme` in [listener.tls] without `agree = true` in [acme]";
            let expected = "your agreement to the terms of service of the authority";
            return Err(top.source.error(at, found, expected));
        }
        if config.server.state_dir.is_none() {
            let found = "`acme` in [listener.tls] without `state_dir` in [server]";
            let expected = "a folder that keeps keys and certificates";
            return Err(top.source.error(at, found, expected));
        }
        let has_dns = config.acme.challenges.contains(&AcmeChallenge::Dns01);
        let names = listener.tls.iter().flat_map(|tls| &tls.acme);
        if let Some(name) = names.into_iter().find(|name| name.starts_with("*.") && !has_dns) {
            let found = format!("{name:?} without dns-01 in `challenges` of [acme]");
            let expected =
                "`challenges = \"dns-01\"` with a `dns_hook`, the only proof of a wildcard";
            return Err(top.source.error(at, found, expected));
        }
        let by_dns = config.acme.challenges == [AcmeChallenge::Dns01];
        if !has_tcp && !by_dns {
            let found = "`acme` in [listener.tls] while every listener has `tcp = false`";
            let expected = "a listener over TCP, by which authorities validate names";
            return Err(top.source.error(at, found, expected));
        }
    }
    Ok(())
}

/// Refuses spans of requests whose trace context is not read.
fn check_telemetry(config: &Config, top: &Section<'_>) -> Result<(), Error> {
    if config.telemetry.endpoint.is_none() || config.tracing.traceparent != TraceparentMode::Off {
        return Ok(());
    }
    let at = top.position("telemetry");
    let found = "`endpoint` in [telemetry] beside `traceparent = \"off\"` in [tracing]";
    Err(top.source.error(at, found, "traceparent = \"pass\" or \"make\""))
}

/// Refuses a route for the same host, path, method and conditions as another one.
fn check_routes(config: &Config, top: &Section<'_>) -> Result<(), Error> {
    fn or_any<T>(list: &[T]) -> Vec<Option<&T>> {
        match list {
            [] => vec![None],
            list => list.iter().map(Some).collect(),
        }
    }
    fn sorted<T: Ord>(list: &[T]) -> Vec<&T> {
        let mut sorted: Vec<_> = list.iter().collect();
        sorted.sort();
        sorted
    }
    let expected = "another host, path, method or condition than those of the other routes";
    let mut once = Once::new(top, expected);
    for (index, route) in config.routes.iter().enumerate() {
        let at = top.position_in("route", index, "path");
        let methods = or_any(&route.methods);
        // Their order makes no difference.
        let conditions = (sorted(&route.match_headers), sorted(&route.match_query));
        for (host, path) in or_any(route.hosts())
            .into_iter()
            .flat_map(|host| route.paths.iter().map(move |path| (host, path)))
        {
            for method in methods.iter().copied() {
                once.add(at, (host, path, method, conditions.clone()), || {
                    let method = method.iter().map(|m| format!("{m} of "));
                    let host = host.iter().map(|host| format!(" on host \"{host}\""));
                    let path = format!("path \"{path}\"");
                    method.chain([path]).chain(host).collect()
                })?;
            }
        }
    }
    Ok(())
}
