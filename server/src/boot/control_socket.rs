//! The control socket: at this Unix socket the server's user, or root, has the configuration reloaded or the server upgraded, and learns
//! the verdict.
//!
//! A request is one line, `reload`, `upgrade`, `upgrade PROGRAM`, `back` or `status`. The response is a [`ControlVerdict`] in text, after which the server closes the connection. The socket
//! is in a folder of the server's own, has mode 0600, and the server asks the kernel who is at the other end.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use sluicegate_config::Config;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// Name of the socket in its folder.
const NAME: &str = "control.sock";
/// Request to reload.
const RELOAD: &str = "reload";
/// Request for an upgrade. A program may follow, behind a blank.
const UPGRADE: &str = "upgrade";
/// Request for the way back.
const BACK: &str = "back";
/// Request for the state of the server.
const STATUS: &str = "status";
/// Longest request, bytes.
const MAX_REQUEST: u64 = 8 * 1024;
/// Time for a client to send its request, and to take the response.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// Most clients at a time that have not sent their whole request.
const MOST_SILENT: usize = 8;
/// Most requests that wait for the main thread.
const MOST_REQUESTS: usize = 16;
/// Most responses that clients have not read yet.
const MOST_RESPONSES: usize = 8;
/// Time in which a verdict still reaches a client once the socket closes.
const LAST_REPLY: Duration = Duration::from_secs(1);
/// Time between two looks whether one does.
const LOOK: Duration = Duration::from_millis(5);
/// Pause after a failed accept: the system may be out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Largest response that a client reads, bytes: a status has about 150 for each listening address.
const MAX_RESPONSE: u64 = 16 * 1024 * 1024;
/// First word of the response after a reload that took effect.
const TAKEN: &str = "taken";
/// First word of the response after one that changed nothing.
const REFUSED: &str = "refused";

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// Reload the configuration.
    Reload,
    /// Start a program, or this one's file, and leave the service to it.
    Upgrade(Option<PathBuf>),
    /// Leave the service to the former process again.
    Back,
    /// Say which processes run, and what they serve.
    Status,
}

impl ControlRequest {
    /// Reads a line; `None` if it is no request.
    fn parse(line: &[u8]) -> Option<ControlRequest> {
        let line = line.strip_suffix(b"\n")?;
        let (name, argument) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (line.get(..at)?, line.get(at + 1..)),
            None => (line, None),
        };
        match (str::from_utf8(name).ok()?, argument) {
            (RELOAD, None) => Some(ControlRequest::Reload),
            (BACK, None) => Some(ControlRequest::Back),
            (STATUS, None) => Some(ControlRequest::Status),
            (UPGRADE, None) => Some(ControlRequest::Upgrade(None)),
            (UPGRADE, Some(program)) => {
                let program = PathBuf::from(OsStr::from_bytes(program));
                program.is_absolute().then_some(ControlRequest::Upgrade(Some(program)))
            }
            _ => None,
        }
    }

    /// Returns the line that asks for it.
    fn line(&self) -> Vec<u8> {
        let (name, argument) = match self {
            ControlRequest::Reload => (RELOAD, None),
            ControlRequest::Upgrade(program) => (UPGRADE, program.as_ref()),
            ControlRequest::Back => (BACK, None),
            ControlRequest::Status => (STATUS, None),
        };
        let mut line = name.as_bytes().to_vec();
        if let Some(argument) = argument {
            line.push(b' ');
            line.extend_from_slice(argument.as_os_str().as_bytes());
        }
        line.push(b'\n');
        line
    }
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlVerdict {
    /// Every worker has applied the configuration, or the other process serves: a text for people. The state as JSON.
    Taken(String),
    /// Everything is as before, for this reason, which may have several lines.
    Refused(String),
}

impl ControlVerdict {
    fn text(&self) -> String {
        match self {
            ControlVerdict::Taken(text) => format!("{TAKEN} {text}"),
            ControlVerdict::Refused(reason) => format!("{REFUSED} {reason}"),
        }
    }

    /// Reads a response; `None` if it is not whole, or not of this protocol.
    fn parse(response: &str) -> Option<ControlVerdict> {
        match response.strip_suffix('\n')?.split_once(' ')? {
            (TAKEN, text) => Some(ControlVerdict::Taken(text.to_owned())),
            (REFUSED, reason) => Some(ControlVerdict::Refused(reason.to_owned())),
            _ => None,
        }
    }
}

/// Takes the verdict. The client may have closed the connection.
pub(super) type Reply = oneshot::Sender<ControlVerdict>;

/// Sends the verdict to those who wait for it.
pub(super) fn send_verdict(replies: impl IntoIterator<Item = Reply>, verdict: &ControlVerdict) {
    for reply in replies {
        // The client may have gone.
        let _ = reply.send(verdict.clone());
    }
}

/// The place of the control socket, until it is opened and afterwards.
pub(super) struct Control {
    open: Box<dyn Fn() -> Option<ControlSocket>>,
    socket: Option<ControlSocket>,
}

impl Control {
    /// Makes it of the arguments of [`ControlSocket::open`].
    pub(super) fn new<T: Send + 'static>(
        path: Option<PathBuf>,
        events: Sender<T>,
        message: fn(ControlRequest, Reply) -> T,
    ) -> Control {
        let open = move || ControlSocket::open(path.clone(), events.clone(), message);
        Control { open: Box::new(open), socket: None }
    }

    /// Opens it, unless it is open at its place: another process may have had it since.
    pub(super) fn open(&mut self) {
        if !self.socket.as_ref().is_some_and(ControlSocket::is_in_place) {
            self.socket = (self.open)();
        }
    }
}

/// The socket of a server that runs. It is removed when this is dropped, unless another server has replaced it.
pub(super) struct ControlSocket {
    path: PathBuf,
    /// Device and inode of the socket.
    identity: (u64, u64),
    /// Its thread, which ends once this is dropped.
    open: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
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
        message: fn(ControlRequest, Reply) -> T,
    ) -> Option<ControlSocket> {
        let path = path?;
        let ask = move |request, reply| events.send(message(request, reply)).is_ok();
        match ControlSocket::bind(&path, ask) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(
                    path = %path.display(), %error,
                    "no control socket, so `sluicegate reload`, `upgrade` and `status` cannot ask this server: send SIGHUP to reload, or SIGUSR2 to \
                     upgrade, and read the log"
                );
                None
            }
        }
    }

    /// Binds under another name first, and renames: a socket that a killed server has left gives way, and so does that of a server
    /// that this one replaces.
    fn bind(
        path: &Path,
        ask: impl Fn(ControlRequest, Reply) -> bool + Send + 'static,
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
        let thread = std::thread::Builder::new().name("control-socket".into());
        let thread = thread.spawn(move || {
            let replies = Cell::new(false);
            runtime.block_on(async {
                let mut serving = pin!(serve(listener, &ask, &replies));
                tokio::select! {
                    () = &mut serving => {}
                    _ = dropped => {
                        // Whoever waits for a verdict still gets it.
                        let rest = timeout(LAST_REPLY, async {
                            while replies.get() {
                                tokio::select! {
                                    () = &mut serving => {}
                                    () = tokio::time::sleep(LOOK) => {}
                                }
                            }
                        });
                        let _ = rest.await;
                    }
                }
            });
        })?;
        Ok(ControlSocket { path: path.to_owned(), identity, open: Some((open, thread)) })
    }

    /// Returns whether its path leads to it.
    fn is_in_place(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // While it is open, no other socket can have its inode.
        if self.is_in_place() {
            // One that is left does no harm: the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
        if let Some((open, thread)) = self.open.take() {
            drop(open);
            // It ends soon, and a panic there was logged.
            let _ = thread.join();
        }
    }
}

/// Reads the requests of several clients at a time, so that a silent one delays nobody. They are served one after the other, as the
/// main thread makes one reload after the other.
async fn serve(
    listener: std::os::unix::net::UnixListener,
    ask: &impl Fn(ControlRequest, Reply) -> bool,
    replies: &Cell<bool>,
) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "the control socket is not served"),
    };
    let (requests, received) = mpsc::channel(MOST_REQUESTS);
    tokio::join!(accept(listener, requests), ask_for(received, ask, replies));
}

/// A client that waits for its verdict, and its request.
type Client = (UnixStream, ControlRequest);

/// Accepts clients. Where too many are silent, the one that has been so for longest is closed.
async fn accept(listener: UnixListener, requests: mpsc::Sender<Client>) {
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
                tracing::warn!(%error, "the control socket accepts no connection; retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Receives the request of a client, and passes the client on or refuses it.
async fn receive(mut stream: UnixStream, requests: mpsc::Sender<Client>) {
    let refusal = match read_request(&mut stream).await {
        Ok(Ok(request)) => match requests.try_send((stream, request)) {
            Ok(()) => return,
            Err(error) => {
                (stream, _) = error.into_inner();
                "too many others wait"
            }
        },
        Ok(Err(refusal)) => refusal,
        Err(error) => return log_failure(&error),
    };
    respond(stream, ControlVerdict::Refused(refusal.into())).await;
}

/// Waits for a client's request, or finds a reason to refuse it.
async fn read_request(stream: &mut UnixStream) -> io::Result<Result<ControlRequest, &'static str>> {
    let user = stream.peer_cred()?.uid();
    if !may_ask(user) {
        return Ok(Err("only root and the server's own user may ask it"));
    }
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(MAX_REQUEST));
    timeout(CLIENT_LIMIT, reader.read_until(b'\n', &mut line)).await??;
    let request = ControlRequest::parse(&line);
    // Another program of the server's user gets none of its rights.
    if matches!(request, Some(ControlRequest::Upgrade(Some(_)))) && user != 0 {
        return Ok(Err("only root may name a program"));
    }
    Ok(request.ok_or("this version of the server knows no such request"))
}

/// Passes each client's request to the main thread in turn. A client that does not read its response delays nobody.
async fn ask_for(
    mut clients: mpsc::Receiver<Client>,
    ask: &impl Fn(ControlRequest, Reply) -> bool,
    replies: &Cell<bool>,
) {
    let mut responses = JoinSet::new();
    loop {
        tokio::select! {
            client = clients.recv(), if responses.len() < MOST_RESPONSES => {
                let Some((stream, request)) = client else {
                    return;
                };
                replies.set(true);
                let verdict = verdict(request, ask).await;
                responses.spawn(respond(stream, verdict));
            }
            Some(_) = responses.join_next() => {}
        }
        replies.set(!responses.is_empty());
    }
}

async fn respond(mut stream: UnixStream, verdict: ControlVerdict) {
    let text = verdict.text() + "\n";
    let written = timeout(CLIENT_LIMIT, stream.write_all(text.as_bytes())).await;
    if let Err(error) = written.unwrap_or_else(|late| Err(late.into())) {
        log_failure(&error);
    }
}

fn log_failure(error: &io::Error) {
    tracing::debug!(%error, "a connection to the control socket failed");
}

fn may_ask(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// Passes a request to the main thread, and waits for the verdict.
async fn verdict(
    request: ControlRequest,
    ask: &impl Fn(ControlRequest, Reply) -> bool,
) -> ControlVerdict {
    let (reply, verdict) = oneshot::channel();
    let verdict = if ask(request, reply) { verdict.await.ok() } else { None };
    verdict.unwrap_or_else(|| ControlVerdict::Refused("the server stops before that".into()))
}

/// Asks the server at a control socket, and returns the verdict.
///
/// # Errors
/// Nobody listens there, this user may not connect, or the verdict does not come within the time: `TimedOut`, or `InvalidData` if the
/// server ended meanwhile.
pub fn ask_server(
    socket: &Path,
    request: &ControlRequest,
    limit: Duration,
) -> io::Result<ControlVerdict> {
    let mut stream = std::os::unix::net::UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(&request.line())?;
    let mut response = String::new();
    let read = stream.take(MAX_RESPONSE).read_to_string(&mut response);
    match read {
        Ok(_) => ControlVerdict::parse(&response).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
