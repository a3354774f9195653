//! Accepts connections of a listening socket.

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sluicegate_base::address::ValidatedAddress;
use tokio::net::TcpStream;
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;

use super::front::Front;
use super::listener_phases::{FrontListener, Phase};
use super::serve::serve;

/// Most connections that the system has established and no front has accepted, per socket.
pub const BACKLOG: u16 = 4096;

/// Pause after the system refused to accept a connection, for instance for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until its listener drains, and then those that the system has established already. The socket is closed
/// then, so the system refuses further ones, unless a service manager holds it, too. While too many TLS handshakes wait for their turn, connections stay in that queue.
pub(super) async fn accept(front: Rc<Front>, listener: Rc<FrontListener>, socket: TcpListener) {
    match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => accept_all(&front, &listener, socket).await,
        Err(error) => tracing::error!(%error, "a listening socket of TCP cannot be used"),
    }
    front.on_close(&listener);
}

async fn accept_all(
    front: &Rc<Front>,
    listener: &Rc<FrontListener>,
    socket: tokio::net::TcpListener,
) {
    let mut phase = listener.phase();
    loop {
        let accepted = tokio::select! {
            accepted = async {
                wait_for_room(front, listener).await;
                socket.accept().await
            } => accepted,
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
        };
        match accepted {
            Ok((stream, sender)) => {
                let sender = ValidatedAddress::by_tcp_handshake(sender);
                begin(front, listener, stream, sender);
            }
            Err(error) => {
                refused(front, &error);
                sleep(PAUSE).await;
            }
        }
    }
    if let Ok(socket) = socket.into_std() {
        tokio::select! {
            () = accept_queued(front, listener, &socket) => {}
            () = listener.stopped() => {}
        }
    }
}

/// Accepts the connections that wait in the system's queue: their clients may have sent requests.
async fn accept_queued(front: &Rc<Front>, listener: &Rc<FrontListener>, socket: &TcpListener) {
    let mut left = BACKLOG;
    while left > 0 {
        wait_for_room(front, listener).await;
        match socket.accept() {
            Ok((stream, sender)) => {
                let sender = ValidatedAddress::by_tcp_handshake(sender);
                left -= 1;
                let _ = stream.set_nonblocking(true);
                if let Ok(stream) = TcpStream::from_std(stream) {
                    begin(front, listener, stream, sender);
                }
                yield_now().await;
            }
            // Without a descriptor the system does not even look into the queue.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock && is_waiting(socket) => {
                refused(front, &error);
                sleep(PAUSE).await;
            }
            Err(_) => return,
        }
    }
}

/// Waits until the listener may accept another connection.
async fn wait_for_room(front: &Front, listener: &FrontListener) {
    let settings = listener.settings(&front.config().listeners);
    if settings.is_some_and(|settings| settings.tls.is_some()) {
        front.handshakes.room().await;
    }
}

/// Returns whether a connection waits in the queue.
fn is_waiting(socket: &TcpListener) -> bool {
    let mut queue = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut queue, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn begin(
    front: &Rc<Front>,
    listener: &Rc<FrontListener>,
    stream: TcpStream,
    sender: ValidatedAddress,
) {
    if let Some(admission) = front.admit(listener, sender) {
        spawn_local(serve(admission, stream, sender));
    }
}

fn refused(front: &Front, error: &io::Error) {
    tracing::debug!(%error, "a connection was not accepted");
    front.count(|counters| counters.connections.refused_system += 1);
}
