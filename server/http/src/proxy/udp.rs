//! Tunnels for UDP (CONNECT-UDP, RFC 9298), whose datagrams pass in capsules (RFC 9297).

mod capsules;
mod counters;
mod refusal;
mod target;
#[cfg(test)]
mod tests;
mod tunnel;
mod tunnels;

use http::{HeaderName, HeaderValue};
use sluicegate_config::ConnectUdp;
use tokio::net::UdpSocket;

pub use counters::UdpTunnelCounters;
use refusal::TunnelRefusal;
use target::Target;
use tunnel::{End, Tunnel};
use tunnels::Open;
pub use tunnels::UdpTunnels;

use crate::exchange::ErrorPages;
use crate::exchange::handler::Incoming;
use crate::exchange::message::{HandlerReport, Head};

/// Tells the client that both directions consist of capsules (RFC 9297 §3.4).
const CAPSULE_PROTOCOL: (HeaderName, HeaderValue) =
    (HeaderName::from_static("capsule-protocol"), HeaderValue::from_static("?1"));

/// Opens the tunnel that a request asks for, and carries its datagrams until the client ends it or it is idle. `rest` is the part of the
/// path that names the target. Dropping the future closes the tunnel.
pub async fn serve(
    tunnels: &UdpTunnels,
    (settings, pages): (&ConnectUdp, &ErrorPages),
    rest: &str,
    incoming: Incoming,
) {
    let reporter = incoming.reporter();
    let report = |target: Option<&Target>, cause| {
        reporter.report(|| HandlerReport {
            upstream: target.map(|target| target.to_string().into()),
            attempts: u64::from(target.is_some()),
            cause,
            ..HandlerReport::default()
        });
    };
    let target = Target::parse(rest);
    let opened = open(tunnels, settings, target.as_ref(), &incoming).await;
    let (_open, socket) = match opened {
        Ok(opened) => opened,
        Err(refusal) => {
            tunnels.count(|counters| counters.refused[refusal] += 1);
            report(target.as_ref(), refusal.cause());
            let mut reply = refusal.reply();
            pages.apply(&mut reply);
            // A client that has cancelled waits for nothing.
            let _ = incoming.reply.reply(reply, false).await;
            return;
        }
    };
    tunnels.count(|counters| counters.opened += 1);
    report(target.as_ref(), None);
    let head = Head { status: 200, fields: vec![CAPSULE_PROTOCOL], length: None, end: false };
    let Ok(mut writer) = incoming.reply.head(head).await else {
        return;
    };
    let tunnel = Tunnel { tunnels, socket: &socket, idle_timeout: settings.idle_timeout };
    match tunnel.run(incoming.body, &mut writer).await {
        End::Client | End::Idle => {
            // The client may have gone.
            let _ = writer.end(None).await;
        }
        // The writer is dropped, which resets the stream.
        End::Malformed => {
            tunnels.count(|counters| counters.malformed += 1);
            report(target.as_ref(), Some("capsule"));
        }
        End::Gone => {}
    }
}

async fn open<'a>(
    tunnels: &'a UdpTunnels,
    settings: &ConnectUdp,
    target: Option<&Target>,
    incoming: &Incoming,
) -> Result<(Open<'a>, UdpSocket), TunnelRefusal> {
    if !incoming.request.head.is_connect_udp() {
        return Err(TunnelRefusal::Method);
    }
    let target = target.ok_or(TunnelRefusal::Malformed)?;
    let open = Open::new(tunnels, incoming.request.peer.address, settings.max_tunnels)
        .ok_or(TunnelRefusal::Full)?;
    let address = target.address(&settings.targets).await?;
    let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).await;
    let socket = socket.map_err(|_| TunnelRefusal::System)?;
    socket.connect(address).await.map_err(|_| TunnelRefusal::System)?;
    Ok((open, socket))
}
