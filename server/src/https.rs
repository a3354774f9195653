//! TLS of the server's own requests: to an authority of ACME, and to a collector of spans.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use boring::error::ErrorStack;
use boring::ssl::{SslConnector, SslMethod, SslVersion};
use boring::x509::X509;
use boring::x509::store::X509StoreBuilder;
use http::uri::Authority;
use sluicegate_base::named_file;
use thiserror::Error;
use tokio::net::TcpStream;

/// Cause that keeps a connection from being opened.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Error that keeps the certificates of other servers from being verified.
#[derive(Debug, Error)]
pub(crate) enum TrustError {
    /// No file of authorities is known.
    #[error("this host has no file of trusted authorities (package ca-certificates)")]
    NoFile,
    /// The file cannot be used.
    #[error("trusted authorities in {}: {cause}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
}

/// Returns a connector that trusts the authorities of a PEM file, or those that the host trusts.
///
/// # Errors
/// The file cannot be used, or there is none.
pub(crate) fn connector(ca: Option<&Path>) -> Result<SslConnector, TrustError> {
    let file = ca.map(Path::to_owned).or_else(|| openssl_probe::probe().cert_file);
    let path = file.ok_or(TrustError::NoFile)?;
    let unusable = |cause: String| TrustError::Unusable { path: path.clone(), cause };
    let pem = named_file::read(&path, named_file::PEM);
    let pem = pem.map_err(|error| unusable(error.to_string()))?;
    let connector = || -> Result<SslConnector, ErrorStack> {
        let mut builder = SslConnector::builder(SslMethod::tls())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        let mut store = X509StoreBuilder::new()?;
        for certificate in X509::stack_from_pem(&pem)? {
            store.add_cert(&certificate)?;
        }
        builder.set_cert_store_builder(store);
        Ok(builder.build())
    };
    connector().map_err(|error| unusable(error.to_string()))
}

/// Opens a connection over TCP.
///
/// # Errors
/// The name is unknown, or nobody accepts the connection.
pub(crate) async fn connect(
    authority: &Authority,
    default_port: u16,
) -> std::io::Result<TcpStream> {
    let port = authority.port_u16().unwrap_or(default_port);
    TcpStream::connect((name(authority), port)).await
}

/// Opens a connection over TLS.
///
/// # Errors
/// As of [`connect`], or the handshake fails.
pub(crate) async fn connect_tls(
    connector: &SslConnector,
    authority: &Authority,
) -> Result<tokio_boring::SslStream<TcpStream>, BoxError> {
    let stream = connect(authority, 443).await?;
    let handshake = tokio_boring::connect(connector.configure()?, name(authority), stream);
    handshake.await.map_err(|error| error.to_string().into())
}

/// Returns the host. Neither SNI nor certificates have the brackets of an IPv6 address.
fn name(authority: &Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}
