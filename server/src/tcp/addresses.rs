//! Addresses of a connection: those of its stream, or those that a load balancer in front names.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use sluicegate_base::address::ValidatedAddress;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::front::Admission;
use super::proxy_protocol::{self, ProxyHeader};

/// Addresses of the two ends of a connection.
pub(super) struct Addresses {
    pub(super) client: ValidatedAddress,
    /// Address that the client has connected to, if it is known.
    pub(super) local: Option<SocketAddr>,
}

/// Returns the addresses of a connection: those of the stream, or those that a load balancer names. Returns `None` if it names none in
/// time, or if the client has too many connections.
pub(super) async fn addresses(
    admission: &mut Admission,
    stream: &mut TcpStream,
    sender: ValidatedAddress,
) -> Option<Addresses> {
    let front = Rc::clone(&admission.front);
    let config = front.config();
    let settings = admission.listener.settings(&config.listeners)?;
    let own = Addresses { client: sender, local: stream.local_addr().ok() };
    if !settings.proxy_protocol.contains(sender.ip()) {
        return Some(own);
    }
    let (name, trusted_proxies) =
        (Arc::clone(&settings.name), Arc::clone(&settings.trusted_proxies));
    let limit = config.site.limits().handshake_timeout;
    // A reload frees the certificates of the previous configuration.
    drop((config, settings));
    let read = timeout(limit, proxy_protocol::read(stream));
    let header = tokio::select! {
        header = read => header.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())),
        () = admission.listener.stopped() => return None,
    };
    match header {
        Ok(ProxyHeader::Sender) => Some(own),
        Ok(ProxyHeader::Client { client, server }) => {
            let client = ValidatedAddress::named_by(sender, client);
            let is_proxy = trusted_proxies.contains(client.ip());
            let may_enter = admission.name_client(client, is_proxy);
            may_enter.then_some(Addresses { client, local: Some(server) })
        }
        Err(error) => {
            tracing::trace!(%error, %sender, "no header of the PROXY protocol");
            front.count(|counters| counters.connections.refused_header += 1);
            // Balancers also check that a port is open, and close the connection at once.
            if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::TimedOut) {
                let missing = &front.share.missing_headers;
                missing.note(&name, sender.ip(), front.now());
            }
            None
        }
    }
}
