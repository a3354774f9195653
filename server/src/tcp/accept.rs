//! Accepts connections of a listening socket.

use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;

use sluicegate_dataplane::ListenerId;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::front::Front;
use super::listener_phases::Phase;
use super::serve::serve;

/// Pause after the system refused to accept a connection, for instance for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until its listener drains. The socket is closed then, so the system refuses further ones. While too many TLS
/// handshakes wait for their turn, connections stay in the queue of the system, which refuses further ones when it is full.
pub(super) async fn accept(
    front: Rc<Front>,
    listener: ListenerId,
    socket: TcpListener,
    mut phase: watch::Receiver<Phase>,
) {
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::error!(%error, "a listening socket of TCP cannot be used");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = async {
                if front.has_tls(listener) {
                    front.handshakes.room().await;
                }
                socket.accept().await
            } => accepted,
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
        };
        match accepted {
            Ok((stream, client)) => {
                if let Some(admission) = front.admit(listener, client, &phase) {
                    spawn_local(serve(admission, listener, stream, client));
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                front.count(|counters| counters.connections.refused_system += 1);
                sleep(PAUSE).await;
            }
        }
    }
}
