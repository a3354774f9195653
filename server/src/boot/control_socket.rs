//! The control socket: at this Unix socket the server's user, or root, has the configuration reloaded and learns the verdict.
//!
//! A request is one line, `reload`. The response is a [`ReloadVerdict`] in text, after which the server closes the connection. The socket
//! is in a folder of the server's own, has mode 0600, and the server asks the kernel who is at the other end.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use sluicegate_config::Config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Name of the socket in its folder.
const NAME: &str = "control.sock";
/// The request.
const RELOAD: &[u8] = b"reload\n";
/// Time for a client to send its request, and to take the response.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// Most clients at a time that have not sent their whole request.
const MOST_SILENT: usize = 8;
/// Most requests that wait for the main thread.
const MOST_REQUESTS: usize = 16;
/// Pause after a failed accept: the system may be out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Largest response that a client reads, bytes.
const MAX_RESPONSE: u64 = 64 * 1024;
/// First word of the response after a reload that took effect.
const TAKEN: &str = "taken";
/// First word of the response after one that changed nothing.
const REFUSED: &str = "refused";

/// Result of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadVerdict {
    /// Every worker has applied the configuration: a text for people.
    Taken(String),
    /// The previous configuration stays in effect, for this reason, which may have several lines.
    Refused(String),
}

impl ReloadVerdict {
    fn text(&self) -> String {
        match self {
            ReloadVerdict::Taken(text) => format!("{TAKEN} {text}"),
            ReloadVerdict::Refused(reason) => format!("{REFUSED} {reason}"),
        }
    }

    /// Reads a response; `None` if it is not whole, or not of this protocol.
    fn parse(response: &str) -> Option<ReloadVerdict> {
        match response.strip_suffix('\n')?.split_once(' ')? {
            (TAKEN, text) => Some(ReloadVerdict::Taken(text.to_owned())),
            (REFUSED, reason) => Some(ReloadVerdict::Refused(reason.to_owned())),
            _ => None,
        }
    }
}

/// Takes the verdict of a reload. The client may have closed the connection.
pub(super) type Reply = oneshot::Sender<ReloadVerdict>;

/// The socket of a server that runs. It is removed when this is dropped, unless another server has replaced it.
pub(super) struct ControlSocket {
    path: PathBuf,
    /// Device and inode of the socket.
    identity: (u64, u64),
    _open: oneshot::Sender<()>,
}

/// Returns the path of a server's control socket: in its state directory, or else in the folder that a service manager made for
/// its run (`RuntimeDirectory=` of systemd). `None` if it has neither.
pub fn control_socket(config: &Config, runtime_dir: Option<&Path>) -> Option<PathBuf> {
    let folder = config.server.state_dir.as_deref().or(runtime_dir);
    folder.map(|folder| folder.join(NAME))
}

impl ControlSocket {
    /// Opens the socket, and sends one message per request to `events`. A server without it serves all the same, and the log says
    /// so.
    pub(super) fn open<T: Send + 'static>(
        path: Option<PathBuf>,
        events: Sender<T>,
        message: fn(Reply) -> T,
    ) -> Option<ControlSocket> {
        let path = path?;
        let ask = move |reply| events.send(message(reply)).is_ok();
        match ControlSocket::bind(&path, ask) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(
                    path = %path.display(), %error,
                    "no control socket, so `sluicegate reload` cannot ask this server: send SIGHUP instead, and read the log"
                );
                None
            }
        }
    }

    /// Binds under another name first, and renames: a socket that a killed server has left gives way, and so does that of a server
    /// that this one replaces.
    fn bind(
        path: &Path,
        ask: impl Fn(Reply) -> bool + Send + 'static,
    ) -> io::Result<ControlSocket> {
        let draft = path.with_extension(std::process::id().to_string());
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = std::os::unix::net::UnixListener::bind(&draft)?;
        let set_up = || {
            fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            fs::rename(&draft, path)?;
            let found = fs::symlink_metadata(path)?;
            io::Result::Ok((found.dev(), found.ino()))
        };
        let identity = set_up().inspect_err(|_| drop(fs::remove_file(&draft)))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (open, dropped) = oneshot::channel();
        std::thread::Builder::new().name("control-socket".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, &ask) => {}
                    _ = dropped => {}
                }
            });
        })?;
        Ok(ControlSocket { path: path.to_owned(), identity, _open: open })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            // One that is left does no harm: the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reads the requests of several clients at a time, so that a silent one delays nobody. They are served one after the other, as the
/// main thread makes one reload after the other.
async fn serve(listener: std::os::unix::net::UnixListener, ask: &impl Fn(Reply) -> bool) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "the control socket is not served"),
    };
    let (requests, received) = mpsc::channel(MOST_REQUESTS);
    tokio::join!(accept(listener, requests), reload_for(received, ask));
}

/// Accepts clients. Where too many are silent, the one that has been so for longest is closed.
async fn accept(listener: UnixListener, requests: mpsc::Sender<UnixStream>) {
    let mut silent = VecDeque::<AbortHandle>::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                silent.retain(|client| !client.is_finished());
                if silent.len() == MOST_SILENT
                    && let Some(first) = silent.pop_front()
                {
                    first.abort();
                }
                let client = tokio::spawn(receive(stream, requests.clone()));
                silent.push_back(client.abort_handle());
                // Those that have sent their requests do not count as silent once these were read.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::debug!(%error, "the control socket accepts no connection; retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Receives the request of a client, and passes the client on or refuses it.
async fn receive(mut stream: UnixStream, requests: mpsc::Sender<UnixStream>) {
    let refusal = match read_request(&mut stream).await {
        Ok(None) => match requests.try_send(stream) {
            Ok(()) => return,
            Err(error) => {
                stream = error.into_inner();
                "too many others wait for a reload"
            }
        },
        Ok(Some(refusal)) => refusal,
        Err(error) => return log_failure(&error),
    };
    respond(stream, ReloadVerdict::Refused(refusal.into())).await;
}

/// Waits for a client's request to reload. Returns the reason to refuse it, if there is one.
async fn read_request(stream: &mut UnixStream) -> io::Result<Option<&'static str>> {
    if !may_reload(stream.peer_cred()?.uid()) {
        return Ok(Some("only root and the server's own user may reload it"));
    }
    let mut request = [0; RELOAD.len()];
    timeout(CLIENT_LIMIT, stream.read_exact(&mut request)).await??;
    let is_known = request == RELOAD;
    Ok((!is_known).then_some("this version of the server knows no other request"))
}

/// Has the main thread reload for each client in turn. A response fits in the buffer of its socket, so that a client that does not
/// read it delays nobody.
async fn reload_for(mut clients: mpsc::Receiver<UnixStream>, ask: &impl Fn(Reply) -> bool) {
    while let Some(stream) = clients.recv().await {
        respond(stream, verdict(ask).await).await;
    }
}

async fn respond(mut stream: UnixStream, verdict: ReloadVerdict) {
    let text = verdict.text() + "\n";
    let written = timeout(CLIENT_LIMIT, stream.write_all(text.as_bytes())).await;
    if let Err(error) = written.unwrap_or_else(|late| Err(late.into())) {
        log_failure(&error);
    }
}

fn log_failure(error: &io::Error) {
    tracing::debug!(%error, "a connection to the control socket failed");
}

fn may_reload(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Has the main thread reload, and waits for the verdict.
async fn verdict(ask: &impl Fn(Reply) -> bool) -> ReloadVerdict {
    let (reply, verdict) = oneshot::channel();
    let verdict = if ask(reply) { verdict.await.ok() } else { None };
    verdict.unwrap_or_else(|| {
        ReloadVerdict::Refused("the server stops before every worker has applied it".into())
    })
}

/// Asks the server at a control socket to reload its configuration, and returns the verdict.
///
/// # Errors
/// Nobody listens there, this user may not connect, or the verdict does not come within the time: `TimedOut`, or `InvalidData` if the
/// server ended meanwhile.
pub fn ask_to_reload(socket: &Path, limit: Duration) -> io::Result<ReloadVerdict> {
    let mut stream = std::os::unix::net::UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(RELOAD)?;
    let mut response = String::new();
    let read = stream.take(MAX_RESPONSE).read_to_string(&mut response);
    match read {
        Ok(_) => ReloadVerdict::parse(&response).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
