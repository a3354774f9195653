//! Serves files over HTTP/3 by quinn and h3, on one thread.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use h3::server::{Connection, RequestResolver};
use http::{Method, Response, StatusCode};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig, TransportConfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sluicegate_peers::{Arguments, Body, STREAMS};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> Result<()> {
    let Some(arguments) = Arguments::read(&["quinn", "h3", "rustls", "aws-lc-rs"])? else {
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<()> {
    let endpoint = Endpoint::server(configuration(&arguments)?, arguments.address)?;
    let root: Arc<Path> = arguments.root.into();
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(connection(incoming, Arc::clone(&root)));
    }
    Ok(())
}

/// Returns the library's defaults with TLS, and with as many streams as the other servers allow.
fn configuration(arguments: &Arguments) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificates = CertificateDer::pem_file_iter(&arguments.certificate)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(
            certificates.collect::<Result<_, _>>()?,
            PrivateKeyDer::from_pem_file(&arguments.key)?,
        )?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicServerConfig::try_from(tls)?;
    let mut configuration = ServerConfig::with_crypto(Arc::new(tls));
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(STREAMS.into());
    configuration.transport_config(Arc::new(transport));
    Ok(configuration)
}

/// Serves a connection to its end. The client sees its errors.
async fn connection(incoming: Incoming, root: Arc<Path>) -> Result<()> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut connection = Connection::<_, Bytes>::new(connection).await?;
    while let Some(request) = connection.accept().await? {
        tokio::spawn(respond(request, Arc::clone(&root)));
    }
    Ok(())
}

async fn respond(
    request: RequestResolver<h3_quinn::Connection, Bytes>,
    root: Arc<Path>,
) -> Result<()> {
    let (request, mut stream) = request.resolve_request().await?;
    // Quinn sends STOP_SENDING on a stream that is dropped before its end, and clients count that as an error.
    while stream.recv_data().await?.is_some() {}
    let is_get = request.method() == Method::GET;
    let body = is_get.then(|| Body::open(&root, request.uri().path()));
    let Some(mut body) = body.flatten() else {
        let response = Response::builder().status(StatusCode::NOT_FOUND);
        stream.send_response(response.body(())?).await?;
        return Ok(stream.finish().await?);
    };
    let response = Response::builder().header("content-length", body.left());
    stream.send_response(response.body(())?).await?;
    while body.left() > 0 {
        stream.send_data(body.next()?.into()).await?;
    }
    Ok(stream.finish().await?)
}
