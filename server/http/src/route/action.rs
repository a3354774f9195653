//! Compiles the handlers of a route.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING};
use sluicegate_base::named_file;
use sluicegate_base::observe::account::Wait;
use sluicegate_config::{Compress, ConnectUdp, Handler};

use super::error::SiteError;
use super::local::{FixedReply, LocalHandler};
use super::location::Location;
use crate::fastcgi::RouteFastCgi;
use crate::files::{Folder, FolderCompiler};
use crate::proxy::{PoolCompiler, RouteProxy};

/// A handler by the thread that runs it. Clones share files and pools.
#[derive(Clone, Debug)]
pub enum RouteAction {
    /// The front's thread builds the response.
    Local(LocalHandler),
    /// The origin thread runs the handler.
    Origin(OriginHandler),
}

/// The kinds of handler that may wait, with their settings.
#[derive(Clone, Debug)]
pub enum OriginHandler {
    /// Serves the files of a folder.
    Files(Folder),
    /// Forwards requests to upstreams.
    Proxy(Box<RouteProxy>),
    /// Has FastCGI servers run scripts.
    FastCgi(Box<RouteFastCgi>),
    /// Opens tunnels for UDP.
    ConnectUdp(Arc<ConnectUdp>),
}

impl RouteAction {
    /// Returns what its handler waits for at first, if it waits.
    pub(crate) fn wait(&self) -> Wait {
        match self {
            RouteAction::Local(_) => Wait::Application,
            RouteAction::Origin(OriginHandler::Files(_)) => Wait::File,
            RouteAction::Origin(OriginHandler::Proxy(_) | OriginHandler::FastCgi(_)) => {
                Wait::UpstreamResponse
            }
            RouteAction::Origin(OriginHandler::ConnectUdp(_)) => Wait::UpstreamConnect,
        }
    }

    pub(super) fn compile(
        route: &sluicegate_config::Route,
        handler: &Handler,
        pools: &mut PoolCompiler<'_>,
        folders: &mut FolderCompiler<'_>,
    ) -> Result<RouteAction, SiteError> {
        Ok(match handler {
            Handler::Generate(generate) => {
                RouteAction::Local(LocalHandler::Generate { max_size: generate.max_size })
            }
            Handler::Redirect(redirect) => {
                RouteAction::Local(LocalHandler::Redirect(Location::new(redirect)))
            }
            Handler::ConnectUdp(settings) => {
                RouteAction::Origin(OriginHandler::ConnectUdp(Arc::new(settings.clone())))
            }
            Handler::Proxy(proxy) => {
                let compiled = pools.compile(proxy).map_err(|cause| SiteError::Tls {
                    pool: proxy.pool.pool().name.clone(),
                    cause,
                })?;
                RouteAction::Origin(OriginHandler::Proxy(Box::new(compiled)))
            }
            Handler::FastCgi(fastcgi) => {
                check_folder(&fastcgi.root).map_err(|cause| SiteError::ScriptRoot {
                    route: route.label(),
                    root: fastcgi.root.clone(),
                    cause,
                })?;
                let compiled = RouteFastCgi::compile(fastcgi, pools);
                let compiled = compiled.map_err(|cause| SiteError::Tls {
                    pool: fastcgi.pool().pool().name.clone(),
                    cause,
                })?;
                RouteAction::Origin(OriginHandler::FastCgi(Box::new(compiled)))
            }
            Handler::Files(files) => {
                fs::read_dir(&files.root).map_err(|cause| SiteError::Root {
                    route: route.label(),
                    root: files.root.clone(),
                    cause,
                })?;
                let compress = compression_of(route);
                let scripts = scripts_of(route);
                RouteAction::Origin(OriginHandler::Files(folders.compile(files, compress, scripts)))
            }
            Handler::Fixed(reply) => RouteAction::Local(LocalHandler::Fixed(fixed(route, reply)?)),
        })
    }
}

/// Compiles a fixed response.
fn fixed(
    route: &sluicegate_config::Route,
    reply: &sluicegate_config::Fixed,
) -> Result<FixedReply, SiteError> {
    let bytes = match &reply.body_file {
        None => Bytes::from(reply.body.clone().unwrap_or_default()),
        Some(file) => {
            let read = named_file::read(file, named_file::PAGE);
            Bytes::from(read.map_err(|cause| SiteError::BodyFile {
                route: route.label(),
                file: file.clone(),
                cause,
            })?)
        }
    };
    let value = HeaderValue::from_str(&reply.content_type);
    let content_type = value.map_err(|_| refused_field(route, reply.content_type.clone()))?;
    let compress = compression_of(route);
    Ok(FixedReply::new(reply.status, content_type, bytes, compress))
}

/// Returns the endings of the scripts that another handler of the route runs.
fn scripts_of(route: &sluicegate_config::Route) -> &[String] {
    let mut scripts = route.handlers().filter_map(|handler| match handler {
        Handler::FastCgi(fastcgi) => Some(&*fastcgi.split),
        _ => None,
    });
    scripts.next().unwrap_or_default()
}

/// Checks that a folder can be entered; what is in it may be closed to the server.
fn check_folder(folder: &Path) -> io::Result<()> {
    if fs::metadata(folder.join("."))?.is_dir() {
        Ok(())
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// Returns how a route compresses; `None` if it does not, or if its changes to responses say how they are encoded or remove what
/// says so: a client would take compressed bytes for others.
pub(super) fn compression_of(route: &sluicegate_config::Route) -> Option<&Arc<Compress>> {
    let settings = route.settings();
    let is_encoding = |name: &str| name == CONTENT_ENCODING.as_str();
    // Whatever their conditions are: what is compressed in advance does not know its status.
    let is_fixed = settings.response_headers.iter().any(|table| {
        let edits = &table.edits;
        let mut lines = edits.set.iter().chain(&edits.add);
        edits.remove.iter().any(|name| is_encoding(name))
            || lines.any(|(name, value)| {
                is_encoding(name)
                    || name == CACHE_CONTROL.as_str()
                        && value.to_ascii_lowercase().contains("no-transform")
            })
    });
    settings.compression.settings().filter(|_| !is_fixed)
}

/// Returns the error for a field that cannot stand in a header.
pub(super) fn refused_field(route: &sluicegate_config::Route, field: String) -> SiteError {
    SiteError::Field { route: route.label(), field: field.escape_debug().to_string() }
}
