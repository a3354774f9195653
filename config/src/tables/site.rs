//! Sites: groups of routes with settings in common.

use std::sync::Arc;

use super::host_pattern::HOSTS;
use super::{
    BasicAuth, Compress, Cors, HeaderEdits, HostPattern, Inheritable, RateLimit, ResponseHeaders,
    Route, RouteSettings,
};
use crate::error::Error;
use crate::field::{Field, Part, Record};
use crate::schema::{Key, Kind, Table, name};
use crate::section::Section;
use crate::source::shown;
use crate::template::Template;

table! {
    /// Site: hosts and settings that several routes have in common. A route belongs to it by `site = "shop"`, wherever it
    /// stands in the file, and takes from it what it does not say itself: `host`, and each of the settings below. A
    /// setting of the route replaces the site's, and "off" turns off `rate_limit`, `basic_auth` and `cors`; an empty list cannot
    /// be written, so allow = "all" admits everybody where the site does not. Three settings are combined: `deny` of both
    /// holds; the site's changes to fields are made first, then those of the route, which may remove or replace what the
    /// site has set; and the route's error pages stand for their statuses, those of the site for all others. A rate limit of the site
    /// counts the requests to all its routes together that have none of their own. `sluicegate route` says what comes
    /// from where.
    #[derive(Eq)]
    pub struct SiteDefaults = [[site]], check: check_site {
        /// Name of the site, for `site` of its routes. Must differ from the names of other sites.
        name: String { kind: name(), required: "\"shop\"", reload: Live },
        /// Hosts of the site's routes, as in `[[route]]`.
        hosts as host: Vec<HostPattern> {
            kind: HOSTS,
            unset: "any host",
            examples: ["[\"shop.example\", \"www.shop.example\"]"],
            reload: Live
        },
        ..
        /// Settings of the site's routes.
        settings: SharedSettings,
    }
}

/// Settings of routes, as a site declares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedSettings(pub RouteSettings);

impl SharedSettings {
    /// Returns the table of a site that is the same as this one of a route.
    fn table(name: &str) -> Option<&'static Table> {
        Some(match name {
            "request_headers" => HeaderEdits::OF_SITES_REQUESTS,
            "response_headers" => ResponseHeaders::OF_SITES,
            "rate_limit" => RateLimit::OF_SITES,
            "basic_auth" => BasicAuth::OF_SITES,
            "cors" => Cors::OF_SITES,
            _ => return None,
        })
    }
}

impl Part for SharedSettings {
    fn keys() -> Vec<Key> {
        let keys = RouteSettings::TABLE.keys().map(|key| Key {
            kind: match (key.kind, Self::table(key.name)) {
                (Kind::Table(_), Some(table)) => Kind::Table(table),
                (Kind::TableOrTables { max, .. }, Some(table)) => {
                    Kind::TableOrTables { table, max }
                }
                (Kind::TableOr { word, words, .. }, Some(table)) => {
                    Kind::TableOr { table, word, words }
                }
                (kind, _) => kind,
            },
            summary: match key.name {
                "request_headers" => {
                    "Changes to the header of requests to all routes of the site, before those of the route: the table \
                     `[site.request_headers]` below."
                }
                "response_headers" => {
                    "Changes to the header of responses of all routes of the site, by their status, before those of the route: \
                     the table `[site.response_headers]` below, or several."
                }
                "rate_limit" => {
                    "Rate at which each client may send requests to the routes of the site together, but for routes that \
                     say otherwise: the table `[site.rate_limit]` below."
                }
                "error_pages" => {
                    "The same as in [[route]], for all routes of the site and the statuses for which they have no page."
                }
                _ => "The same as in [[route]], for routes of the site that do not say otherwise.",
            },
            ..key
        });
        keys.collect()
    }

    fn read(section: &Section<'_>) -> Result<Self, Error> {
        Record::read(section).map(Self)
    }

    fn values(&self) -> Vec<Option<String>> {
        Record::values(&self.0)
    }

    fn print_tables(&self, out: &mut String) {
        for key in Self::keys() {
            match key.name {
                "request_headers" => Field::print_tables(&self.0.request_headers, &key, out),
                "response_headers" => Field::print_tables(&self.0.response_headers, &key, out),
                "rate_limit" => Field::print_tables(&self.0.rate_limit, &key, out),
                "basic_auth" => Field::print_tables(&self.0.basic_auth, &key, out),
                "cors" => Field::print_tables(&self.0.cors, &key, out),
                _ => {}
            }
        }
    }

    fn needs_restart(&self, _: &Self, _: &str, _: &mut Vec<String>) {}
}

/// Refuses placeholders for groups of a path: a site has none.
fn check_site(site: &mut SiteDefaults, section: &Section<'_>) -> Result<(), Error> {
    let settings = &site.settings.0;
    let request = (&settings.request_headers, "request_headers");
    let responses = settings.response_headers.iter();
    let responses = responses.map(|table| (&table.edits, "response_headers"));
    for (edits, key) in std::iter::once(request).chain(responses) {
        let fields = edits.set.iter().chain(&edits.add);
        let groups = fields.map(|(_, value)| Template::of_field(value).groups());
        let named = groups.max().unwrap_or(0);
        if named > 0 {
            let found = format!("{{capture:{named}}} in [site.{key}]");
            let expected = "such a placeholder in a [[route]], whose path has the group";
            let at = section.position(key);
            return Err(section.source.error(at, found, expected));
        }
    }
    Ok(())
}

/// Gives each route what it takes from its site, and the settings of compression.
pub(super) fn resolve(
    routes: &mut [Route],
    sites: &[SiteDefaults],
    compress: &Arc<Compress>,
    top: &Section<'_>,
) -> Result<(), Error> {
    for (index, route) in routes.iter_mut().enumerate() {
        inherit(index, route, sites, compress, top)?;
        if let Some(status) = route.redirect_without_location() {
            let found = format!("fixed response with status {status} and no `location`");
            let expected = "a [route.redirect], or `location` in [route.response_headers]";
            let at = top.position_in("route", index, "fixed");
            return Err(top.source.error(at, found, expected));
        }
    }
    Ok(())
}

/// Gives the route at a place in the file what it takes from its site, and the settings of compression.
fn inherit(
    index: usize,
    route: &mut Route,
    sites: &[SiteDefaults],
    compress: &Arc<Compress>,
    top: &Section<'_>,
) -> Result<(), Error> {
    let Some(name) = route.site.name() else {
        route.own.compression.resolve(compress);
        return Ok(());
    };
    let Some(site) = sites.iter().find(|site| site.name == name) else {
        let at = top.position_in("route", index, "site");
        let found = format!("no [[site]] is named \"{}\"", shown(name));
        if sites.is_empty() {
            let expected = "a [[site]] of that name";
            return Err(top.source.error(at, found, expected));
        }
        let known: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
        return Err(top.source.unknown(at, found, name, &known));
    };
    let own = [&route.own_hosts, &site.hosts];
    let hosts = own.into_iter().find(|hosts| !hosts.is_empty());
    let mut settings = route.own.after(&site.settings.0);
    settings.compression.resolve(compress);
    let keys = inherited_keys(route, site);
    let hosts = hosts.cloned().unwrap_or_default();
    route.site.inherit(hosts, settings, keys);
    Ok(())
}

fn inherited_keys(route: &Route, site: &SiteDefaults) -> Vec<&'static str> {
    let (own, site_has) = (&route.own, &site.settings.0);
    let (unset, none) = (Inheritable::Unset, RouteSettings::default());
    let keys = [
        ("host", route.own_hosts.is_empty() && !site.hosts.is_empty()),
        ("allow", own.allow.is_empty() && !site_has.allow.is_empty()),
        ("deny", !site_has.deny.is_empty()),
        ("rate_limit", own.rate_limit == unset && site_has.rate_limit.given().is_some()),
        (
            "basic_auth",
            own.basic_auth == Inheritable::Unset && site_has.basic_auth.given().is_some(),
        ),
        ("cors", own.cors == Inheritable::Unset && site_has.cors.given().is_some()),
        ("redirects", own.redirects.is_none() && site_has.redirects.is_some()),
        ("request_headers", site_has.request_headers != none.request_headers),
        ("response_headers", site_has.response_headers != none.response_headers),
        ("error_pages", !site_has.error_pages.is_empty()),
        (
            "allow_encoded_slashes",
            own.allow_encoded_slashes.is_none() && site_has.allow_encoded_slashes.is_some(),
        ),
        (
            "compress",
            own.compression == none.compression && site_has.compression != none.compression,
        ),
        ("max_request_body", own.max_request_body.is_none() && site_has.max_request_body.is_some()),
        ("timeout", own.timeout.is_none() && site_has.timeout.is_some()),
    ];
    let inherited = keys.into_iter().filter(|(_, is_inherited)| *is_inherited);
    inherited.map(|(key, _)| key).collect()
}
