//! Routes: the requests that they match, and the handlers that respond.

use super::host_pattern::HOSTS;
use super::matching::{compile_regex, field_match, path_pattern, query_match};
use super::{
    ConnectUdp, FastCgi, FieldMatch, Files, Fixed, Generate, HostPattern, PathPattern, Proxy,
    QueryMatch, Redirect, RouteSettings, RouteSite,
};
use crate::error::Error;
use crate::field::Part;
use crate::schema::{Key, Kind, count, name};
use crate::section::Section;
use crate::template::Template;
use crate::words::{canonical, token};

const MAX_METHOD: usize = 32;

table! {
    /// Route: the requests that it matches, and the handler that responds to them. If several routes match a request by
    /// host, path, method and all conditions, the first of this order responds; each rule decides only what those before
    /// leave open: (1) the highest `priority`; (2) the most specific host, a name before a wildcard, a longer wildcard
    /// before a shorter one, a route without `host` last; (3) the path, an exact one before all others, then, as in
    /// nginx, the first regular expression in the file that matches, then the longest prefix; (4) the most conditions in
    /// `match_headers` and `match_query` together; (5) a route that names the method before one for any; (6) the first
    /// in the file. So a regular expression wins over every prefix, also over a prefix with `method`; give the latter a
    /// `priority` if it should win. `sluicegate route` says which route responds to a request, and why the others do not.
    /// A request that no route matches gets 404; if only
    /// the method does not match, 405. Each route has exactly one handler: fixed, generate, files, proxy, fastcgi, redirect or
    /// connect_udp. Only beside files there may be a second one, its fallback: fixed, proxy, fastcgi or redirect.
    #[derive(Eq)]
    pub struct Route = [[route]], check: check_route {
        /// Hosts that the route matches. "*." stands for one or more labels: "*.example.com" matches a.example.com and
        /// a.b.example.com, but not example.com. Upper and lower case match alike, and the request's port is ignored.
        /// Write names in other alphabets in their xn-- form.
        own_hosts as host: Vec<HostPattern> {
            kind: HOSTS,
            unset: "any host, or those of the site",
            examples: ["\"example.com\"", "[\"example.org\", \"*.example.org\"]"],
            reload: Live
        },
        /// Paths that the route matches. "/api" is a prefix: it matches /api and everything below it, such as /api/x, but
        /// not /apix; "/api/" matches only what is below, and "/" every path. "= /x" matches /x alone. '~ ^/user/\d+$' is
        /// a regular expression, which matches anywhere in the path unless ^ and $ hold it; it takes time linear in the
        /// path's length. A request for /api alone is redirected to /api/ with 308 if no route has that path, where "/api/" has a
        /// `proxy` or `fastcgi`, as nginx does. Two routes must differ in host, path, method or conditions.
        /// Requests match in their canonical spelling, so "/private/" also matches //private/ and /%70rivate/; a regular
        /// expression sees that spelling, in which a space is %20. Path parameters belong to their segment: /private;x/y
        /// does not begin with "/private/". An upstream that drops parameters, as servlet containers do, reads it as
        /// /private/y and must protect such paths itself.
        paths as path: Vec<PathPattern> {
            kind: Kind::Words {
                words: "a path such as \"/api\", \"= /favicon.ico\" or \"~ [.]php$\", of up to 1024 visible ASCII characters",
                each: "",
                min: 1,
                max: 64,
                read: path_pattern,
            },
            required: "\"/\"",
            examples: ["[\"/api\", \"= /favicon.ico\", \"~ ^/user/[0-9]+$\"]"],
            reload: Live
        },
        /// Methods that the route matches. If two routes have the same host and path, the one that names the request's
        /// method applies before the one for any method. Requests with other methods go to the next route that matches,
        /// such as one with a shorter path. Set it to give reading and writing requests different handlers. To refuse
        /// methods on a path, add a route for the path with `fixed = { status = 403 }`.
        methods as method: Vec<String> {
            kind: Kind::Words {
                words: "a method in upper case such as \"GET\"",
                each: ", of up to 32 characters each",
                min: 1,
                max: 32,
                read: |word| canonical(method(word)),
            },
            unset: "any method",
            examples: ["[\"GET\", \"HEAD\"]"],
            reload: Live
        },
        /// Conditions on the request's fields, which must all hold: "x-beta" for a field with any value, "x-version: 2"
        /// for one with this value, "cookie: ~ beta=1" for one in whose value the regular expression matches. The values
        /// are those of the client, before `request_headers` changes them. In names _ counts as -, because many applications do not
        /// tell them apart: "x-version: 2" also matches a field x_version.
        match_headers: Vec<FieldMatch> {
            kind: Kind::Words {
                words: "a condition such as \"x-beta\", \"x-version: 2\" or \"cookie: ~ beta=1\", of visible ASCII characters",
                each: "",
                min: 1,
                max: 16,
                read: field_match,
            },
            unset: "any fields",
            examples: ["\"x-version: 2\""],
            reload: Live
        },
        /// Conditions on the parameters of the request's query, which must all hold: "debug" for a parameter with any
        /// value or none, "v=2" for one with this value, 'v=~ ^\d$' for one in whose value the regular expression
        /// matches. Names and values are compared after percent-decoding, with + as a space.
        match_query: Vec<QueryMatch> {
            kind: Kind::Words {
                words: "a condition such as \"debug\", \"v=2\" or \"v=~ ^[23]$\", of visible ASCII characters",
                each: "",
                min: 1,
                max: 16,
                read: query_match,
            },
            unset: "any query",
            examples: ["\"v=2\""],
            reload: Live
        },
        /// Priority of the route: of the routes that match a request, those with the highest one come first, whatever their
        /// hosts and paths are, and only among these does the more specific one count. Set it where that order is not
        /// what you need, such as for `method = "OPTIONS"` of all paths, some of which have a regular expression.
        priority: u64 { kind: count(0, 1000, ""), default: "0", examples: ["10"], reload: Live },
        /// Name of the `[[site]]` that the route belongs to, and from which it takes hosts and settings that it does not
        /// have itself.
        site: RouteSite { kind: name(), unset: "no site", examples: ["\"shop\""], reload: Live },
        ..
        /// Settings that hold whatever the handler is.
        own: RouteSettings,
        ..
        /// Handler that responds.
        handler: Handler,
        ..
        /// Handler that responds where `handler` has no file.
        fallback: Fallback,
    }
}

impl Route {
    /// Returns the hosts that the route matches, those of its site included; none if it matches any host.
    pub fn hosts(&self) -> &[HostPattern] {
        self.site.hosts().unwrap_or(&self.own_hosts)
    }

    /// Returns the handlers of the route: one, or `files` and its fallback.
    pub fn handlers(&self) -> impl Iterator<Item = &Handler> {
        std::iter::once(&self.handler).chain(&self.fallback.0)
    }

    /// Returns the handlers of the route, to complete them.
    pub(super) fn handlers_mut(&mut self) -> impl Iterator<Item = &mut Handler> {
        std::iter::once(&mut self.handler).chain(&mut self.fallback.0)
    }

    /// Returns the settings in effect: those of the route, and of its site where the route does not say otherwise.
    pub fn settings(&self) -> &RouteSettings {
        self.site.settings().unwrap_or(&self.own)
    }
}

/// Checks what the handler and the changes to fields need of the route.
fn check_route(route: &mut Route, section: &Section<'_>) -> Result<(), Error> {
    let request = (&route.own.request_headers, "[route.request_headers]");
    let responses = route.own.response_headers.iter();
    let responses = responses.map(|table| (&table.edits, "[route.response_headers]"));
    for (edits, place) in std::iter::once(request).chain(responses) {
        let fields = edits.set.iter().chain(&edits.add);
        let groups = fields.map(|(_, value)| Template::of_field(value).groups());
        check_groups(groups.max().unwrap_or(0), place, route, section)?;
    }
    if let (Handler::Files(files), Some(Handler::FastCgi(fastcgi))) =
        (&route.handler, &route.fallback.0)
    {
        fastcgi.check_beside(files, section)?;
    }
    for handler in route.handlers() {
        let (text, place) = match handler {
            Handler::Proxy(proxy) => (proxy.rewrite.as_deref(), "`rewrite` of [route.proxy]"),
            Handler::Redirect(to) => (Some(&*to.location), "`location` of [route.redirect]"),
            Handler::Fixed(_)
            | Handler::Generate(_)
            | Handler::Files(_)
            | Handler::FastCgi(_)
            | Handler::ConnectUdp(_) => continue,
        };
        let groups = text.map_or(0, |text| Template::new(text).groups());
        check_groups(groups, place, route, section)?;
    }
    Ok(())
}

/// Refuses groups that a path of the route does not have.
fn check_groups(
    named: usize,
    place: &str,
    route: &Route,
    section: &Section<'_>,
) -> Result<(), Error> {
    if named == 0 {
        return Ok(());
    }
    let groups = |path: &PathPattern| match path {
        PathPattern::Regex(regex) => {
            compile_regex(regex).map_or(0, |regex| regex.captures_len() - 1)
        }
        PathPattern::Exact(_) | PathPattern::Prefix(_) => 0,
    };
    let least = route.paths.iter().map(groups).min().unwrap_or(0);
    if named <= least {
        return Ok(());
    }
    let found = format!("{{capture:{named}}} in {place}");
    let expected = "a group of the regular expression, in each `path` of the route";
    Err(section.source.error(section.position("path"), found, expected))
}

handlers! {
    /// Handler of a route.
    pub enum Handler {
        /// Handler that returns the same response to every request: the table `[route.fixed]` below.
        Fixed(Fixed) = "fixed", example: "{ status = 204 }",
        /// Handler that returns as many bytes as the path asks for: the table `[route.generate]` below.
        Generate(Generate) = "generate", example: "{}",
        /// Handler that serves the files of a folder: the table `[route.files]` below.
        Files(Files) = "files", example: "{ root = \"/srv/www\" }",
        /// Handler that forwards requests to upstream servers: the table `[route.proxy]` below.
        Proxy(Proxy) = "proxy", example: "{ upstreams = \"127.0.0.1:8080\" }",
        /// Handler that has FastCGI servers, such as PHP-FPM, run scripts: the table `[route.fastcgi]` below.
        FastCgi(FastCgi) = "fastcgi", example: "{ server = \"unix:/run/php/fpm.sock\", root = \"/srv/www\" }",
        /// Handler that redirects to another URL: the table `[route.redirect]` below, or its `location` alone.
        Redirect(Redirect) = "redirect", example: "{ location = \"https://example.com{path}{query}\" }",
            word: "\"https://example.com{path}{query}\"",
        /// Handler that opens tunnels for UDP: the table `[route.connect_udp]` below.
        ConnectUdp(ConnectUdp) = "connect_udp", example: "{ allow = \"dns.example.com:53\" }",
    }
}

/// Handlers that may take what [`Handler::Files`] has no file for.
const FALLBACKS: [&str; 4] = ["fixed", "proxy", "fastcgi", "redirect"];

impl Handler {
    /// Returns the key of the handler that a route gives, and that of its fallback.
    fn given(section: &Section<'_>) -> Result<(&'static str, Option<&'static str>), Error> {
        let header = section.table.header();
        let (at, found) = match section.given(Self::KEYS)[..] {
            [(name, _)] => return Ok((name, None)),
            [("files", _), (other, _)] | [(other, _), ("files", _)]
                if FALLBACKS.contains(&other) =>
            {
                return Ok(("files", Some(other)));
            }
            [] => (section.at, format!("no handler in {header}")),
            [(first, _), (second, at)] => {
                (at, format!("both `{first}` and `{second}` in {header}"))
            }
            [_, _, (_, at), ..] => (at, format!("more than two handlers in {header}")),
        };
        let (all, fallbacks) = (Self::KEYS.join(", "), FALLBACKS.join(", "));
        let expected = format!("exactly one of: {all}; or files with one of: {fallbacks}");
        Err(section.source.error(at, found, expected))
    }

    /// Returns the keys of a route that may stand beside this one's.
    pub(crate) fn may_stand_beside_files(key: &str) -> bool {
        FALLBACKS.contains(&key)
    }
}

/// Handler beside [`Handler::Files`], for requests that no file is for; `None` if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fallback(pub Option<Handler>);

impl Part for Fallback {
    /// Returns nothing: the keys are those of [`Handler`].
    fn keys() -> Vec<Key> {
        Vec::new()
    }

    fn read(section: &Section<'_>) -> Result<Self, Error> {
        let (_, fallback) = Handler::given(section)?;
        let handler = fallback.map(|key| Handler::read_key(section, key));
        handler.transpose().map(Self)
    }

    fn values(&self) -> Vec<Option<String>> {
        Vec::new()
    }

    fn print_tables(&self, out: &mut String) {
        if let Some(handler) = &self.0 {
            handler.print_tables(out);
        }
    }

    fn needs_restart(&self, _: &Self, _: &str, _: &mut Vec<String>) {}
}

impl Route {
    /// Returns the status of a fixed redirect that names no target, which clients cannot follow.
    pub(super) fn redirect_without_location(&self) -> Option<u16> {
        let mut fixed = self.handlers().filter_map(|handler| match handler {
            Handler::Fixed(fixed) => Some(fixed.status),
            _ => None,
        });
        let status = fixed.next()?;
        let mut has_location = false;
        for table in &self.settings().response_headers {
            let edits = &table.edits;
            let mut added = edits.set.iter().chain(&edits.add);
            if table.removes_from(status) && edits.remove.iter().any(|name| name == "location") {
                has_location = false;
            }
            has_location |= table.adds_to(status) && added.any(|(name, _)| name == "location");
        }
        let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
        (is_redirect && !has_location).then_some(status)
    }

    /// Returns a route for any host and method that changes no header and has no limits of its own.
    pub fn new(path: &str, handler: Handler) -> Self {
        Self {
            own_hosts: Vec::new(),
            paths: vec![PathPattern::from(path)],
            methods: Vec::new(),
            priority: 0,
            match_headers: Vec::new(),
            match_query: Vec::new(),
            handler,
            fallback: Fallback::default(),
            site: RouteSite::default(),
            own: RouteSettings::default(),
        }
    }

    /// Returns the route's paths in one line, to name the route in messages.
    pub fn label(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(ToString::to_string).collect();
        paths.join(", ")
    }
}

fn method(word: &str) -> Option<&str> {
    let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
    (upper && token(word, MAX_METHOD)).then_some(word)
}
