//! HTTPS client for an authority's directory.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use boring::ssl::SslConnector;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use http::uri::{Authority, Scheme};
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use sluicegate_base::observe::acme::AcmeFailure;
use thiserror::Error;
use tokio::time::timeout;

use super::error::AcmeError;
use crate::https::{BoxError, connect_tls, connector};

/// Time for a request and its response.
const LIMIT: Duration = Duration::from_secs(30);
/// Largest body of a response, bytes: a chain of certificates has a few thousand.
const MAX_BODY: usize = 1 << 20;
/// Longest pause that an authority may ask for, seconds.
const LONGEST_PAUSE: u64 = 86_400;

/// HTTPS client that opens a connection for each request; an order takes about ten.
pub(super) struct HttpsClient {
    connector: SslConnector,
}

/// Failure of a request.
#[derive(Debug, Error)]
enum HttpsError {
    #[error("{0} is no URL of https")]
    Url(Uri),
    #[error("cannot connect to {0}: {1}")]
    Connect(Authority, BoxError),
    #[error("no valid response from {0}: {1}")]
    Exchange(Authority, BoxError),
    #[error("no response within {} s", LIMIT.as_secs())]
    Timeout,
}

impl HttpsClient {
    /// Makes a client that trusts the authorities of a PEM file, or those that the host trusts.
    pub(super) fn new(ca: Option<&PathBuf>) -> Result<HttpsClient, AcmeError> {
        let connector = connector(ca.map(PathBuf::as_path));
        let connector = connector.map_err(|error| AcmeError::new(AcmeFailure::Directory, error))?;
        Ok(HttpsClient { connector })
    }
}

impl HttpClient for HttpsClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let connector = self.connector.clone();
        Box::pin(async move {
            let exchanged = timeout(LIMIT, exchange(&connector, request)).await;
            let exchanged = exchanged.unwrap_or(Err(HttpsError::Timeout));
            exchanged.map_err(|error| instant_acme::Error::Other(Box::new(error)))
        })
    }
}

async fn exchange(
    connector: &SslConnector,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<BytesResponse, HttpsError> {
    let uri = request.uri().clone();
    let (Some(authority), true) = (uri.authority(), uri.scheme() == Some(&Scheme::HTTPS)) else {
        return Err(HttpsError::Url(uri));
    };
    let connected = connect_tls(connector, authority).await;
    let stream = connected.map_err(|error| HttpsError::Connect(authority.clone(), error))?;
    let failed = |error: BoxError| HttpsError::Exchange(authority.clone(), error);
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.into()))?;
    // It ends with the response, or when the sender is dropped.
    tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| HttpsError::Url(uri.clone()))?;
    let host = HeaderValue::try_from(authority.as_str());
    let host = host.map_err(|_| HttpsError::Url(uri.clone()))?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    let response = sender.send_request(request).await;
    let (mut parts, body) = response.map_err(|error| failed(error.into()))?.into_parts();
    shorten_pause(&mut parts.headers);
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(failed)?;
    Ok(BytesResponse { parts, body: Box::new(body.to_bytes()) })
}

/// Bounds the pause that an authority asks for in seconds. The library adds it to the clock, which cannot hold every number.
fn shorten_pause(headers: &mut HeaderMap) {
    let asked = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = asked.and_then(|text| text.trim().parse::<u64>().ok());
    if seconds.is_some_and(|seconds| seconds > LONGEST_PAUSE) {
        headers.insert(RETRY_AFTER, HeaderValue::from(LONGEST_PAUSE));
    }
}
