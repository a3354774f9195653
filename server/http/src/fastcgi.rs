//! Has FastCGI servers, such as PHP-FPM, run scripts for requests (FastCGI 1.0, RFC 3875).
//!
//! The path of a request chooses a script below the route's root, by the rules for files: only a regular file is run, and the name that
//! the server gets is the one that was looked at. Bodies stream both ways, and neither side is read faster than the other accepts.
//! The beginning of a request's body is there before the server gets the request, so that slow clients take none of its few processes; one
//! of unknown length is there as a whole, because scripts need to know the length. Each request has a connection of its own, which closes
//! with it, so a client that leaves ends its script.

mod buffers;
mod definition;
mod error_log;
mod exchange;
mod exchange_error;
mod head;
mod params;
mod records;
mod relay;
mod script;
mod session;
#[cfg(test)]
mod tests;
mod upload;

use std::sync::Arc;

use rustix::io::Errno;

pub use self::buffers::BodyBuffers;
pub use self::definition::{Admitted, RouteFastCgi, ThreadState};
use self::exchange::Exchange;
use self::script::{Asked, Found, PathError, Script};
use crate::exchange::handler::Incoming;
use crate::exchange::{Reply, RequestHead};
use crate::files::redirect_to_folder;

/// Responds to a request by a script of its route's folder. Dropping the future closes the connection to the FastCGI server.
pub async fn serve(
    thread: ThreadState<'_>,
    route: &RouteFastCgi,
    admitted: Admitted<'_>,
    incoming: Incoming,
) {
    let reporter = incoming.reporter();
    let Incoming { request, body, reply } = incoming;
    let rest = admitted.rest;
    match find(thread, route, rest, &request.head).await {
        Ok(script) => {
            let prefix = request.head.path.strip_suffix(rest).unwrap_or_default();
            let exchange = Exchange::new(thread, route, admitted, &request, reporter);
            exchange.run(prefix, &script, body, reply).await;
        }
        Err(mut response) => {
            drop(body);
            let head = &request.head;
            admitted.rules.error_pages().apply_for(&mut response, &head.headers);
            // A client that has cancelled waits for nothing.
            let _ = reply.reply(response, head.method == "HEAD").await;
        }
    }
}

/// Returns the script for a request.
///
/// # Errors
/// There is none; the error is the response.
async fn find(
    thread: ThreadState<'_>,
    route: &RouteFastCgi,
    rest: &str,
    head: &RequestHead,
) -> Result<Script, Reply> {
    let asked = Asked::of(&head.path, rest, &route.settings.split);
    let asked = asked.map_err(|error| match error {
        PathError::Malformed => Reply::plain(400, "400 malformed path\n"),
        PathError::TooLong => Reply::plain(414, "414 path too long\n"),
    })?;
    let (root, symlinks) = (&route.settings.root, route.settings.symlinks);
    let settings = Arc::clone(&route.settings);
    let choose = move |below: &_| script::find(below, &settings, asked.as_ref());
    match thread.files.look(root, symlinks, choose).await {
        Ok(Found::Script(script)) => Ok(script),
        Ok(Found::Folder) => Err(moved(head)),
        Ok(Found::Nothing) => Err(Reply::plain(404, "404 not found\n")),
        Err(Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV) => {
            Err(Reply::plain(403, "403 this script is not for you\n"))
        }
        Err(errno) => {
            let root = root.display();
            tracing::warn!(%root, path = %head.path, "a script cannot be looked for: {errno}");
            Err(match errno {
                Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
                    Reply::plain(503, "503 too many files are open\n")
                }
                _ => Reply::plain(500, "500 the script cannot be looked for\n"),
            })
        }
    }
}

/// Returns the redirect to the path of a folder with its slash.
fn moved(head: &RequestHead) -> Reply {
    let plan = redirect_to_folder(head);
    Reply { headers: plan.fields.into(), ..Reply::plain(plan.status, "301 this is a folder\n") }
}
