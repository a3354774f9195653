//! Compiles a route of the configuration.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use sluicegate_base::named_file;
use sluicegate_config::{Compress, Handler, Limits, PathPattern};

use super::access::Access;
use super::action::{OriginHandler, RouteAction, compression_of, refused_field};
use super::edits::Edits;
use super::error::SiteError;
use super::local::LocalHandler;
use super::location::Location;
use super::matching::{Conditions, PathMatch};
use super::redirects::{RedirectFiles, Redirects};
use super::response_edits::{FilledEdits, ResponseEdits};
use super::rewrite::Rewrite;
use super::values::Values;
use crate::exchange::compress;
use crate::exchange::{ErrorPage, ErrorPages, FieldNames, Fields, Reply, RequestHead};
use crate::files::{FolderCompiler, content_type};
use crate::path::{CanonicalPath, PathError};
use crate::peer::Peer;
use crate::proxy::{PoolCompiler, RequestRules};

/// Compiled route.
#[derive(Debug)]
pub struct Route {
    /// Path in the configuration, for spans.
    name: Arc<str>,
    /// Place of the route in the configuration, from 0.
    pub(super) place: usize,
    /// Routes with a higher one come first.
    pub(super) priority: u64,
    /// The canonical paths that the route matches.
    pub(super) path: PathMatch,
    /// Further conditions on the requests.
    pub(super) conditions: Conditions,
    /// Handler of the requests.
    pub action: RouteAction,
    /// Handler of the requests for which a handler of files has no file; `None` if these get 404.
    pub fallback: Option<RouteAction>,
    /// Path for upstreams in place of the request's.
    rewrite: Option<Rewrite>,
    request_headers: Edits,
    response_headers: ResponseEdits,
    /// The route redirects a path to the same one with a slash behind it.
    pub(super) adds_slash: bool,
    /// Redirects that come before the handler.
    redirects: Option<Arc<Redirects>>,
    error_pages: Arc<ErrorPages>,
    access: Arc<Access>,
    compression: Option<Arc<Compress>>,
    /// Paths may have encoded slashes and backslashes.
    takes_separators: bool,
    /// Largest request body, bytes.
    pub max_request_body: u64,
    /// Time limit of an exchange.
    pub timeout: Option<Duration>,
}

/// Context in which the routes of a site are compiled.
pub(super) struct SiteCompiler<'a> {
    pub(super) limits: &'a Limits,
    /// Field with the ID of a request.
    pub(super) request_id: Option<&'a HeaderName>,
    pub(super) pools: PoolCompiler<'a>,
    pub(super) folders: FolderCompiler<'a>,
    pub(super) redirects: RedirectFiles,
}

impl Route {
    /// Compiles a route, once for each of its paths: reads the file of a fixed reply, and resolves the pool of a proxy and
    /// the folder of files. `place` is its place in the configuration.
    ///
    /// # Errors
    /// A file or a `root` cannot be read or used, or a path or field cannot be used.
    pub(super) fn compile(
        place: usize,
        route: &sluicegate_config::Route,
        access: &Arc<Access>,
        site: &mut SiteCompiler<'_>,
    ) -> Result<Vec<Arc<Route>>, SiteError> {
        let refuse = |field| refused_field(route, field);
        let SiteCompiler { limits, request_id, pools, folders, redirects } = site;
        let action = RouteAction::compile(route, &route.handler, pools, folders)?;
        let fallback = { route.fallback.0.as_ref() }
            .map(|handler| RouteAction::compile(route, handler, pools, folders))
            .transpose()?;
        let slash = RouteAction::Local(LocalHandler::Redirect(Location::adding_slash()));
        let conditions = Conditions::compile(route).map_err(refuse)?;
        let error_pages = Arc::new(error_pages(route)?);
        let settings = route.settings();
        let redirects = { settings.redirects.as_ref() }
            .map(|file| {
                let refuse = |cause| SiteError::Redirects {
                    route: route.label(),
                    file: file.clone(),
                    cause,
                };
                redirects.read(file).map_err(refuse)
            })
            .transpose()?;
        let rewrite = route.handlers().find_map(|handler| match handler {
            Handler::Proxy(proxy) => proxy.rewrite.as_deref(),
            _ => None,
        });
        let compiled = |path: &PathPattern, adds_slash: bool| {
            let handler = if adds_slash { &slash } else { &action };
            Ok(Arc::new(Route {
                name: path.to_string().into(),
                place,
                priority: route.priority,
                path: PathMatch::compile(path)?,
                conditions: conditions.clone(),
                action: handler.clone(),
                fallback: fallback.clone().filter(|_| !adds_slash),
                adds_slash,
                rewrite: rewrite.map(Rewrite::new),
                request_headers: Edits::new(&settings.request_headers, *request_id)
                    .map_err(refuse)?,
                response_headers: ResponseEdits::new(route, *request_id).map_err(refuse)?,
                redirects: redirects.clone(),
                error_pages: Arc::clone(&error_pages),
                access: Arc::clone(access),
                compression: compression_of(route).cloned(),
                // No file has a name with a slash.
                takes_separators: settings.allow_encoded_slashes == Some(true)
                    && !matches!(route.handler, Handler::Files(_)),
                max_request_body: settings.max_request_body.unwrap_or(limits.max_request_body),
                timeout: settings.timeout,
            }))
        };
        let mut routes = Vec::new();
        for path in &route.paths {
            routes.push(compiled(path, false)?);
            let without = without_slash(path).filter(|_| takes_requests_as_servers_do(&action));
            if let Some(without) = without {
                routes.push(compiled(&without, true)?);
            }
        }
        Ok(routes)
    }

    /// Returns the name of the route in spans: its path in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns whether scripts of other origins may use the route.
    pub(super) fn has_cors(&self) -> bool {
        self.response_headers.cors().is_some()
    }

    /// Returns whether the route is for certain methods only.
    pub(super) fn names_methods(&self) -> bool {
        !self.conditions.methods.is_empty()
    }

    /// Returns the response to a preflight for which [`Site::find_preflight`](super::Site::find_preflight) found the route.
    pub fn respond_to_preflight(&self, head: &RequestHead) -> Option<Reply> {
        let mut reply = self.response_headers.cors()?.preflight(head);
        self.edit_reply(&mut reply, head);
        Some(reply)
    }

    /// Returns the response to a request whose path `redirects` has, with the route's changes.
    pub fn redirect(&self, head: &RequestHead) -> Option<Reply> {
        let mut reply = self.redirects.as_ref()?.respond(head)?;
        self.error_pages.apply_for(&mut reply, &head.headers);
        self.edit_reply(&mut reply, head);
        Some(reply)
    }

    /// Returns whether a field that the route sets has the ID of the request.
    pub(super) fn names_id(&self) -> bool {
        self.request_headers.names_id() || self.response_headers.names_id()
    }

    /// Returns whether the route takes a path that it was found for: one with encoded slashes only where the configuration allows it.
    pub(super) fn takes_path(&self, path: &CanonicalPath) -> bool {
        self.takes_separators || !path.has_separators()
    }

    /// Returns how responses are compressed; `None` if they are not.
    pub fn compression(&self) -> Option<&Arc<Compress>> {
        self.compression.as_ref()
    }

    /// Returns whether clients may open the tunnel here that a request asks for.
    pub fn takes_tunnel(&self, head: &RequestHead) -> bool {
        self.actions().any(|action| match action {
            RouteAction::Origin(OriginHandler::Proxy(proxy)) => {
                let protocol = head.protocol.as_deref().filter(|_| head.is_upgrade());
                head.is_websocket() && proxy.takes_websocket()
                    || protocol.is_some_and(|protocol| proxy.takes_upgrade(protocol))
            }
            RouteAction::Origin(OriginHandler::ConnectUdp(_)) => head.is_connect_udp(),
            RouteAction::Origin(OriginHandler::Files(_) | OriginHandler::FastCgi(_))
            | RouteAction::Local(_) => false,
        })
    }

    /// Returns whether requests may go to upstreams.
    pub fn forwards(&self) -> bool {
        self.actions().any(|action| {
            matches!(
                action,
                RouteAction::Origin(OriginHandler::Proxy(_) | OriginHandler::FastCgi(_))
            )
        })
    }

    fn actions(&self) -> impl Iterator<Item = &RouteAction> {
        std::iter::once(&self.action).chain(&self.fallback)
    }

    /// Returns what follows the route's prefix in a path that it was found for; the whole path if the route has no prefix.
    pub fn rest<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.path.prefix()).unwrap_or(path)
    }

    /// Returns the values of placeholders for a request that the route was found for.
    pub(super) fn values<'a>(&'a self, head: &'a RequestHead) -> Values<'a> {
        Values::new(head, &self.path)
    }

    /// Returns what [`Route::rest`] returns, without a slash in front.
    pub fn below<'a>(&self, path: &'a str) -> &'a str {
        let rest = self.rest(path);
        let slash = !self.path.prefix().ends_with('/');
        rest.strip_prefix('/').filter(|_| slash).unwrap_or(rest)
    }

    /// Changes the fields of a request as configured. `user` is the one whose password is to be verified.
    pub fn edit_request(&self, head: &mut RequestHead, peer: &Peer, user: Option<&[u8]>) {
        let values = self.values(head).with_peer(peer).with_user(user);
        let filled = self.request_headers.fill(&values);
        self.request_headers.apply(&mut head.headers, filled);
    }

    /// Returns the configured changes to the response to a request, if they depend on the request.
    pub fn fill_response(&self, head: &RequestHead) -> Option<FilledEdits> {
        self.response_headers.fill(head, &self.values(head))
    }

    /// Changes the fields of a final response with a status as configured. `filled` is what [`Route::fill_response`] returned for
    /// its request.
    pub fn edit_response(&self, status: u16, fields: &mut Fields, filled: Option<FilledEdits>) {
        self.response_headers.apply(status, fields, filled);
    }

    /// Returns the contents in place of those of error responses.
    pub fn error_pages(&self) -> &ErrorPages {
        &self.error_pages
    }

    /// Returns the rules about clients that may use the route.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the response of a handler that needs the head alone, with the route's changes; `None` if the route has
    /// another handler.
    pub fn respond(&self, head: &RequestHead) -> Option<Reply> {
        let RouteAction::Local(handler) = &self.action else {
            return None;
        };
        let mut reply = self.unedited(handler, head);
        self.edit_reply(&mut reply, head);
        Some(reply)
    }

    /// Returns the response of a handler of the route, without the route's changes to its fields.
    pub fn unedited(&self, handler: &LocalHandler, head: &RequestHead) -> Reply {
        let mut reply = handler.respond(head, self.below(&head.path), &self.values(head));
        if reply.body.len() == 0 || !matches!(handler, LocalHandler::Fixed(_)) {
            self.error_pages.apply_for(&mut reply, &head.headers);
        }
        reply
    }

    /// Returns an error response of the server itself with the route's page and its changes to fields.
    pub fn refuse(&self, mut reply: Reply, head: &RequestHead) -> Reply {
        self.error_pages.apply_for(&mut reply, &head.headers);
        self.edit_reply(&mut reply, head);
        reply
    }

    /// Changes the fields of the reply to a request as configured. Without changes, shared fields stay shared. A reply that depends
    /// on the encodings that the client accepts still says so.
    pub fn edit_reply(&self, reply: &mut Reply, head: &RequestHead) {
        let (status, fields) = (reply.status, &mut reply.headers);
        if !self.response_headers.change(status) {
            return;
        }
        let varies = self.compression.is_some() && compress::varies(fields);
        let filled = self.fill_response(head);
        self.response_headers.apply(status, fields.edit(), filled);
        if varies && !compress::varies(fields) {
            compress::add_vary(fields.edit());
        }
    }
}

/// Returns the path of a prefix that ends with a slash, without that.
fn without_slash(path: &PathPattern) -> Option<PathPattern> {
    match path {
        PathPattern::Prefix(prefix) if prefix.len() > 1 => {
            prefix.strip_suffix('/').map(|path| PathPattern::Exact(path.to_owned()))
        }
        _ => None,
    }
}

/// Returns whether other servers run the requests of a handler, and know folders as browsers do.
fn takes_requests_as_servers_do(action: &RouteAction) -> bool {
    matches!(action, RouteAction::Origin(OriginHandler::Proxy(_) | OriginHandler::FastCgi(_)))
}

/// Reads the error pages of a route.
fn error_pages(route: &sluicegate_config::Route) -> Result<ErrorPages, SiteError> {
    let pages = route.settings().error_pages.iter().map(|page| {
        let body = named_file::read(&page.file, named_file::PAGE).map_err(|cause| {
            SiteError::ErrorPage { route: route.label(), file: page.file.clone(), cause }
        })?;
        let content_type = content_type(page.file.as_os_str().as_bytes(), &[]);
        let compress = compression_of(route);
        let page_of = ErrorPage::new(content_type, body.into(), compress);
        Ok((page.statuses, page_of))
    });
    pages.collect::<Result<_, _>>().map(ErrorPages::new)
}

impl RequestRules for Route {
    fn prefix(&self) -> &str {
        self.path.prefix()
    }

    fn rest<'a>(&self, path: &'a CanonicalPath) -> &'a str {
        self.path.forward_rest(path)
    }

    fn rewrite(&self, head: &RequestHead) -> Option<Result<CanonicalPath, PathError>> {
        let rewrite = self.rewrite.as_ref()?;
        Some(rewrite.apply(&self.values(head)))
    }

    fn error_pages(&self) -> &ErrorPages {
        &self.error_pages
    }

    fn sets(&self, name: &HeaderName) -> bool {
        self.request_headers.sets(name)
    }

    fn replaced(&self) -> FieldNames {
        self.request_headers.replaced().clone()
    }

    fn removes(&self, name: &HeaderName) -> bool {
        self.request_headers.removes(name)
    }
}
