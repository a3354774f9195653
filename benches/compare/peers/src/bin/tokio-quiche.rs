//! Serves files over HTTP/3 by tokio-quiche, on one thread.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use futures::{SinkExt as _, StreamExt as _};
use quiche::h3::{Header, NameValue as _};
use sluicegate_peers::{Arguments, Body, STREAMS};
use tokio::net::UdpSocket;
use tokio_quiche::http3::driver::{IncomingH3Headers, OutboundFrame, ServerH3Event};
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::{ConnectionParams, InitialQuicConnection, ServerH3Driver, listen};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Largest payload of a datagram on a link with an MTU of 1500 bytes.
const PAYLOAD: usize = 1472;

fn main() -> Result<()> {
    let Some(arguments) = Arguments::read(&["tokio-quiche", "quiche", "boring"])? else {
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<()> {
    let socket = UdpSocket::bind(arguments.address).await?;
    let certificate = TlsCertificatePaths {
        cert: arguments.certificate.to_str().context("a name in UTF-8")?,
        private_key: arguments.key.to_str().context("a name in UTF-8")?,
        kind: CertificateKind::X509,
    };
    let parameters = ConnectionParams::new_server(settings(), certificate, Hooks::default());
    // Segmentation offload and all else that the socket has is turned on by this.
    let mut listeners = listen([socket], parameters, DefaultMetrics)?;
    let root: Arc<Path> = arguments.root.into();
    while let Some(connection) = listeners[0].next().await {
        // An error is that of a client's first packet.
        if let Ok(connection) = connection {
            accept(connection, Arc::clone(&root));
        }
    }
    Ok(())
}

/// Returns the library's defaults, with as many streams as the other servers allow, without a Retry, which none of them sends, and with
/// datagrams as large as theirs. Its search for the path's MTU ends far below what the path carries.
fn settings() -> QuicSettings {
    let mut settings = QuicSettings::default();
    settings.initial_max_streams_bidi = STREAMS.into();
    settings.disable_client_ip_validation = true;
    settings.max_send_udp_payload_size = PAYLOAD;
    settings
}

/// Starts the tasks of a connection, which end with it.
fn accept(connection: InitialQuicConnection<UdpSocket, DefaultMetrics>, root: Arc<Path>) {
    let (driver, mut controller) = ServerH3Driver::new(Http3Settings::default());
    connection.start(driver);
    tokio::spawn(async move {
        while let Some(event) = controller.event_receiver_mut().recv().await {
            if let ServerH3Event::Headers { incoming_headers, .. } = event {
                tokio::spawn(respond(incoming_headers, Arc::clone(&root)));
            }
        }
    });
}

async fn respond(request: IncomingH3Headers, root: Arc<Path>) -> Result<()> {
    let IncomingH3Headers { headers, mut send, .. } = request;
    let value = |name: &[u8]| {
        let header = headers.iter().find(|header| header.name() == name);
        header.and_then(|header| std::str::from_utf8(header.value()).ok())
    };
    let path = value(b":path").filter(|_| value(b":method") == Some("GET"));
    let body = path.and_then(|path| Body::open(&root, path));
    let status = if body.is_some() { "200" } else { "404" };
    let length = body.as_ref().map_or(0, Body::left).to_string();
    let head = vec![
        Header::new(b":status", status.as_bytes()),
        Header::new(b"content-length", length.as_bytes()),
    ];
    let closed = |_| anyhow!("the connection has ended");
    let head = OutboundFrame::Headers(head, None);
    send.send(head).await.map_err(closed)?;
    let Some(mut body) = body.filter(|body| body.left() > 0) else {
        let end = OutboundFrame::Body(Default::default(), true);
        return send.send(end).await.map_err(closed);
    };
    while body.left() > 0 {
        let piece = body.next()?;
        let piece = OutboundFrame::Body(piece.into(), body.left() == 0);
        send.send(piece).await.map_err(closed)?;
    }
    Ok(())
}
