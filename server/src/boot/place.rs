//! Finds the key of a configuration that an error is about.

use std::path::PathBuf;

use sluicegate_base::secrets::SecretsError;
use sluicegate_base::tls::TlsError;
use sluicegate_config::{Config, Handler, Listener, Route, Step};
use sluicegate_http::route::SiteError;

use super::error::{BootError, ListenerError};
use crate::telemetry::CollectorError;

use Step::{Index, Key};

/// Returns the way to the value that must be corrected. Returns `None` for an error that no change of the configuration needs to
/// remedy, such as a port in use.
pub fn place(error: &BootError, config: &Config) -> Option<Vec<Step>> {
    match error {
        BootError::Secrets(error) => of_secrets(error, config),
        BootError::Site(SiteError::Tls { pool, cause }) => of_pool(pool, cause.key(), config),
        BootError::Site(error) => of_route(error, config),
        BootError::Listener { listener, source, .. } => {
            let index = config.listeners.iter().position(|known| known.name == *listener)?;
            of_listener(source, index, &config.listeners[index])
        }
        BootError::NoCore { group, .. } | BootError::TooManyCores { group } => {
            let index = config.groups.iter().position(|known| known.name == *group)?;
            Some(vec![Key("group"), Index(index), Key("cores")])
        }
        BootError::Cid(error) => Some(of_cids(error.table, error.key)),
        BootError::Latency(_) => Some(vec![Key("server"), Key("cpu_latency")]),
        BootError::NoFolder { table, key, .. } => Some(vec![Key(table), Key(key)]),
        BootError::Telemetry(
            CollectorError::Trust { key, .. } | CollectorError::Unsendable(key),
        ) => Some(vec![Key("telemetry"), Key(key)]),
        BootError::LogIsFolder(_) => Some(vec![Key("access_log"), Key("file")]),
        _ => None,
    }
}

/// A file of the state directory that cannot be read or written may be at the next start, but what is wrong with its mode or its lines
/// stays. So does a file that the configuration names and that is not there.
fn of_secrets(error: &SecretsError, config: &Config) -> Option<Vec<Step>> {
    let file = match error {
        SecretsError::NoncesUsedUp { .. } => return Some(of_cids(0, "key_file")),
        SecretsError::TooOpen(error) => error.path(),
        SecretsError::Line { path, .. }
        | SecretsError::Count { path, .. }
        | SecretsError::Nonces { path, .. }
        | SecretsError::Io { path, .. } => path,
    };
    let is_named = config.server.secrets_file.as_deref() == Some(file);
    if !is_named && matches!(error, SecretsError::Io { .. }) {
        return None;
    }
    let key = if is_named { "secrets_file" } else { "state_dir" };
    Some(vec![Key("server"), Key(key)])
}

fn of_cids(table: usize, key: &'static str) -> Vec<Step> {
    vec![Key("quic"), Key("connection_ids"), Index(table), Key(key)]
}

fn of_route(error: &SiteError, config: &Config) -> Option<Vec<Step>> {
    let routes = &config.routes;
    let find = |label: &str, is_meant: &dyn Fn(&Handler) -> bool| {
        let mut routes = routes.iter();
        routes.position(|route| route.label() == label && route.handlers().any(is_meant))
    };
    let has_path = |label: &str| {
        let has_it = |route: &Route| route.paths.iter().any(|path| path.to_string() == label);
        routes.iter().position(has_it)
    };
    let (index, keys): (_, &[&'static str]) = match error {
        SiteError::BodyFile { route, file, .. } => {
            let has_it = |handler: &Handler| matches!(handler, Handler::Fixed(fixed) if fixed.body_file.as_ref() == Some(file));
            (find(route, &has_it)?, &["fixed", "body_file"])
        }
        SiteError::Root { route, root, .. } => {
            let has_it =
                |handler: &Handler| matches!(handler, Handler::Files(files) if files.root == *root);
            (find(route, &has_it)?, &["files", "root"])
        }
        SiteError::ScriptRoot { route, root, .. } => {
            let has_it = |handler: &Handler| matches!(handler, Handler::FastCgi(fastcgi) if fastcgi.root == *root);
            (find(route, &has_it)?, &["fastcgi", "root"])
        }
        SiteError::ErrorPage { route, file, .. } => {
            let has_it = |one: &Route| {
                let mut pages = one.settings().error_pages.iter();
                one.label() == *route && pages.any(|page| page.file == *file)
            };
            let index = routes.iter().position(has_it)?;
            let mut own = routes[index].own.error_pages.iter();
            if !own.any(|page| page.file == *file) {
                return of_site(&routes[index], &["error_pages"], config);
            }
            (index, &["error_pages"])
        }
        SiteError::Redirects { route, file, .. } => {
            let has_it = |one: &Route| {
                one.label() == *route && one.settings().redirects.as_ref() == Some(file)
            };
            let index = routes.iter().position(has_it)?;
            if routes[index].own.redirects.is_none() {
                return of_site(&routes[index], &["redirects"], config);
            }
            (index, &["redirects"])
        }
        SiteError::Users { route, file, .. } => {
            let has_it = |one: &Route| {
                let auth = one.settings().basic_auth.given();
                one.label() == *route && auth.is_some_and(|auth| auth.users_file == *file)
            };
            let index = routes.iter().position(has_it)?;
            let keys = &["basic_auth", "users_file"];
            if routes[index].own.basic_auth.given().is_none() {
                return of_site(&routes[index], keys, config);
            }
            (index, keys)
        }
        SiteError::Path { route, .. } => (has_path(route)?, &["path"]),
        SiteError::Field { route, .. } => (find(route, &|_| true)?, &[]),
        SiteError::Tls { .. } => return None,
    };
    let keys = keys.iter().map(|key| Key(key));
    Some([Key("route"), Index(index)].into_iter().chain(keys).collect())
}

/// Returns a key of the site that a route belongs to.
fn of_site(route: &Route, keys: &[&'static str], config: &Config) -> Option<Vec<Step>> {
    let name = route.site.name()?;
    let index = config.sites.iter().position(|site| site.name == name)?;
    let keys = keys.iter().map(|key| Key(key));
    let site = [Key("site"), Index(index)];
    Some(site.into_iter().chain(keys).collect())
}

/// Returns the key of a pool, which has a table of its own or stands in a route.
fn of_pool(name: &str, key: &'static str, config: &Config) -> Option<Vec<Step>> {
    if let Some(index) = config.pools.iter().position(|pool| pool.name == name) {
        return Some(vec![Key("pool"), Index(index), Key(key)]);
    }
    let is_it = |handler: &Handler| matches!(handler, Handler::Proxy(proxy) if proxy.pool.pool().name == name);
    let has_it = |route: &Route| route.handlers().any(is_it);
    let index = config.routes.iter().position(has_it)?;
    Some(vec![Key("route"), Index(index), Key("proxy"), Key(key)])
}

fn of_listener(error: &ListenerError, index: usize, listener: &Listener) -> Option<Vec<Step>> {
    let mut steps = vec![Key("listener"), Index(index), Key("tls")];
    let named = match error {
        ListenerError::Tls(TlsError::File { path, .. }) => Some(path.clone()),
        ListenerError::Tls(TlsError::TooOpen(error)) => Some(error.path().display().to_string()),
        ListenerError::Tls(TlsError::Tls { origin, .. }) => Some(origin.clone()),
        _ => return None,
    };
    if let Some(path) = named {
        let is_it = |file: &Option<PathBuf>| {
            file.as_ref().is_some_and(|file| file.display().to_string() == path)
        };
        for (file, key) in [(&listener.client_ca, "client_ca"), (&listener.key_log, "key_log")] {
            if is_it(file) {
                steps[2] = Key(key);
                return Some(steps);
            }
        }
        let of_file = listener.tls.iter().enumerate().find_map(|(index, tls)| {
            let key = if is_it(&tls.certificate) {
                "certificate"
            } else if is_it(&tls.key) {
                "key"
            } else {
                return None;
            };
            Some([Index(index), Key(key)])
        });
        steps.extend(of_file.into_iter().flatten());
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::secrets::TooOpen;
    use sluicegate_quic::transport::TransportError;

    #[test]
    fn error_about_a_file_leads_to_the_key_that_names_it() {
        let text = "[[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\nclient_ca = \"c.pem\"\nkey_log = \"k\"\n\
                    [[listener.tls]]\ncertificate = \"a.pem\"\nkey = \"a-key.pem\"\n\
                    [[listener.tls]]\ncertificate = \"b.pem\"\nkey = \"b-key.pem\"\n\
                    [[route]]\npath = \"/\"\nmethod = \"POST\"\nerror_pages = { 5xx = \"s.html\" }\nfixed = {}\n\
                    [[route]]\npath = \"/\"\nfiles = { root = \"r\" }\n\
                    [[site]]\nname = \"a\"\n[[site]]\nname = \"b\"\nbasic_auth = { users_file = \"u\" }\n\
                    error_pages = { 404 = \"n.html\" }\n\
                    [[route]]\npath = \"/b\"\nsite = \"b\"\nfixed = {}\n";
        let registry = sluicegate_cc::Registry::builtin();
        let config = Config::from_toml("test.toml", text, &registry).unwrap();
        let cause = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let root = BootError::Site(SiteError::Root {
            route: "/".to_owned(),
            root: "r".into(),
            cause: cause(),
        });
        let expected = vec![Key("route"), Index(1), Key("files"), Key("root")];
        assert_eq!(place(&root, &config), Some(expected));
        let page = BootError::Site(SiteError::ErrorPage {
            route: "/".to_owned(),
            file: "s.html".into(),
            cause: cause(),
        });
        let expected = vec![Key("route"), Index(0), Key("error_pages")];
        assert_eq!(place(&page, &config), Some(expected));
        let of_site = BootError::Site(SiteError::ErrorPage {
            route: "/b".to_owned(),
            file: "n.html".into(),
            cause: cause(),
        });
        let expected = vec![Key("site"), Index(1), Key("error_pages")];
        assert_eq!(place(&of_site, &config), Some(expected));
        let users = BootError::Site(SiteError::Users {
            route: "/b".to_owned(),
            file: "u".into(),
            cause: String::new(),
        });
        let expected = ["site", "basic_auth", "users_file"].map(Key);
        let expected = [expected[0], Index(1), expected[1], expected[2]];
        assert_eq!(place(&users, &config), Some(expected.to_vec()));
        let key = TlsError::File { path: "b-key.pem".to_owned(), cause: cause() };
        let key = BootError::listener("a", &[], key);
        let expected = [Key("listener"), Index(0), Key("tls"), Index(1), Key("key")];
        assert_eq!(place(&key, &config), Some(expected.to_vec()));
        let authorities = TlsError::File { path: "c.pem".to_owned(), cause: cause() };
        let authorities = BootError::listener("a", &[], authorities);
        let expected = [Key("listener"), Index(0), Key("client_ca")];
        assert_eq!(place(&authorities, &config), Some(expected.to_vec()));
        let folder = TlsError::Tls { origin: "k".to_owned(), cause: String::new(), remedy: "" };
        let folder = BootError::listener("a", &[], folder);
        let expected = [Key("listener"), Index(0), Key("key_log")];
        assert_eq!(place(&folder, &config), Some(expected.to_vec()));
        let open = TlsError::TooOpen(TooOpen::of("a-key.pem"));
        let expected = [Key("listener"), Index(0), Key("tls"), Index(0), Key("key")];
        let open = BootError::listener("a", &[], open);
        assert_eq!(place(&open, &config), Some(expected.to_vec()));
        // What is wrong with a key shows only when QUIC's configuration is made.
        let broken = TlsError::Tls {
            origin: "a.pem with a-key.pem".to_owned(),
            cause: String::new(),
            remedy: "",
        };
        let broken = BootError::listener("a", &[], TransportError::from(broken));
        let expected = [Key("listener"), Index(0), Key("tls")];
        assert_eq!(place(&broken, &config), Some(expected.to_vec()));
        let busy = BootError::listener("a", &[], ListenerError::TooManyAddresses);
        assert_eq!(place(&busy, &config), None);
    }

    #[test]
    fn secrets_that_cannot_be_read_lead_to_the_key_that_names_their_file() {
        let text = "[server]\nstate_dir = \"state\"\nsecrets_file = \"s.txt\"\n\
                    [[listener]]\nname = \"a\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n";
        let registry = sluicegate_cc::Registry::builtin();
        let config = Config::from_toml("test.toml", text, &registry).unwrap();
        let unreadable = |path: &str| {
            BootError::Secrets(SecretsError::Io {
                action: "read",
                path: path.into(),
                cause: std::io::ErrorKind::NotFound.into(),
            })
        };
        let expected = vec![Key("server"), Key("secrets_file")];
        assert_eq!(place(&unreadable("s.txt"), &config), Some(expected));
        assert_eq!(place(&unreadable("state/generation"), &config), None);
    }
}
