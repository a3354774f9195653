//! Advice on a configuration that can be served.

use sluicegate_config::{Config, ForeignVariable, PathPattern, PlainHttp};

/// Warns of what is likely to be a mistake, as far as the file alone shows it.
pub(super) fn on_file(config: &Config) {
    on_pools(config);
    on_sites(config);
    on_paths(config);
    if config.routes.is_empty() {
        tracing::warn!(
            "no [[route]]: every request gets 404; add one, with a handler such as `proxy`, `files` or `fixed`"
        );
    }
    for ForeignVariable { place, field, text, remedy } in config.foreign_variables() {
        let remedy = match remedy {
            Some(placeholder) => format!("write {placeholder}"),
            None => {
                "placeholders are written {name}, and config/example.toml lists them".to_owned()
            }
        };
        tracing::warn!(%place, %field, %text, "a value has a variable of another server, and is sent as it stands: {remedy}");
    }
}

/// Warns of files with the keys of connections.
pub(super) fn on_key_logs(config: &Config) {
    for listener in &config.listeners {
        if let Some(path) = &listener.key_log {
            let (listener, path) = (&listener.name, path.display());
            tracing::warn!(
                listener, %path, "key_log is on: whoever reads the file reads the traffic; remove the key when you have what you need"
            );
        }
    }
}

/// Warns of redirects to a port that takes no TCP.
pub(super) fn on_redirects(config: &Config) {
    for listener in &config.listeners {
        let redirects = !listener.http_addresses.is_empty() && listener.http == PlainHttp::Redirect;
        if redirects && !listener.tcp && listener.https_port.is_none() {
            tracing::warn!(
                listener = listener.name,
                "http_address redirects to a port where this listener takes no TCP: set `https_port`, or remove tcp = false"
            );
        }
    }
}

/// Warns of pools that no route uses, of queues in which no request ever waits, and of limits that do not hold together.
fn on_pools(config: &Config) {
    for pool in config.unused_pools() {
        tracing::warn!(
            pool,
            "no route uses this pool: name it in `pool` of [route.proxy], or remove its [[pool]]"
        );
    }
    for pool in config.all_pools().filter(|pool| pool.has_unused_queue()) {
        tracing::warn!(
            pool = pool.name,
            "no request ever waits in the queue of this pool: set `max_connections`, or remove `queue` and `queue_timeout`"
        );
    }
    for server in config.fastcgi_servers_with_several_limits() {
        tracing::warn!(
            %server,
            "routes state different `max_connections` for this FastCGI server, which each hold apart: state the same in all of them"
        );
    }
}

/// Warns of sites that no route belongs to.
fn on_sites(config: &Config) {
    for site in config.unused_sites() {
        tracing::warn!(
            site,
            "no route belongs to this site: name it in `site` of [[route]], or remove its [[site]]"
        );
    }
}

/// Warns of paths with the wildcards of other servers.
fn on_paths(config: &Config) {
    for path in config.routes.iter().flat_map(|route| &route.paths) {
        let (PathPattern::Exact(text) | PathPattern::Prefix(text)) = path else {
            continue;
        };
        if text.contains('*') {
            tracing::warn!(
                %path,
                "the * in this path of a route stands for itself: a path matches all that is below it, without a *; write ~ and a regular expression for other patterns"
            );
        }
    }
}
