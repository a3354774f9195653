//! A collector, to which spans are sent over one connection that stays open.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use sluicegate_base::observe::telemetry::{ExportError, Span, SpanSink};
use sluicegate_config::Telemetry;
use thiserror::Error;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::encode::{ServiceResource, encode};
use crate::https::{BoxError, TrustError, connect, connect_tls, connector};

/// Largest body of a response that is read, bytes.
const MAX_BODY: usize = 64 << 10;
/// Longest part of a body in the log, characters.
const SHOWN: usize = 200;

/// Error of settings by which no collector can be reached.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// The authorities that the collector's certificate is verified by cannot be read.
    #[error("`telemetry.{key}`: {cause}")]
    Trust {
        /// Key that must be changed.
        key: &'static str,
        /// The cause.
        cause: String,
    },
    /// The URL or a field cannot be sent.
    #[error("`telemetry.{0}` cannot be sent")]
    Unsendable(&'static str),
    /// The system gives no event queue.
    #[error("cannot make a runtime")]
    Runtime(#[source] io::Error),
}

/// Sends spans to the collector of a configuration.
pub struct Collector {
    runtime: Runtime,
    endpoint: Uri,
    ca: Option<PathBuf>,
    fields: HeaderMap,
    limit: Duration,
    resource: ServiceResource,
    open: Option<SendRequest<Full<Bytes>>>,
}

/// Failure of one request.
#[derive(Debug, Error)]
enum Failure {
    #[error("cannot connect to {0}: {1}")]
    Connect(String, BoxError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("no valid response from {0}: {1}")]
    Exchange(String, BoxError),
    #[error("no response from {0} within {1:?}")]
    Timeout(String, Duration),
}

impl Collector {
    /// Returns a collector to which nothing is connected yet.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(settings: &Telemetry) -> Result<Collector, CollectorError> {
        let endpoint = settings.endpoint.as_deref().unwrap_or_default();
        let endpoint: Uri = endpoint.parse().map_err(|_| CollectorError::Unsendable("endpoint"))?;
        if endpoint.scheme() == Some(&Scheme::HTTPS) {
            let trusted = connector(settings.ca.as_deref());
            let key = if settings.ca.is_some() { "ca" } else { "endpoint" };
            let unusable =
                |error: TrustError| CollectorError::Trust { key, cause: error.to_string() };
            trusted.map_err(unusable)?;
        }
        let fields = settings.headers.iter().map(|(name, value)| {
            let mut value = HeaderValue::try_from(value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        });
        let fields: Option<HeaderMap> = fields.collect();
        let mut fields = fields.ok_or(CollectorError::Unsendable("headers"))?;
        let host = endpoint.authority().and_then(|host| HeaderValue::try_from(host.as_str()).ok());
        fields.insert(HOST, host.ok_or(CollectorError::Unsendable("endpoint"))?);
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let agent = concat!("sluicegate/", env!("CARGO_PKG_VERSION"));
        fields.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        // The names of a collector are looked up on threads of the runtime's.
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
        Ok(Collector {
            runtime: runtime.map_err(CollectorError::Runtime)?,
            endpoint,
            ca: settings.ca.clone(),
            fields,
            limit: settings.timeout,
            resource: ServiceResource::of_host(&settings.service_name),
            open: None,
        })
    }
}

impl SpanSink for Collector {
    fn export(&mut self, spans: &[Span]) -> Result<u64, ExportError> {
        let body = Bytes::from(encode(spans, &self.resource));
        let place = place(&self.endpoint);
        let Collector { runtime, open, endpoint, ca, fields, limit, .. } = self;
        let mut connection = Connection { open, endpoint, ca: ca.as_ref(), fields };
        let exchange = async { timeout(*limit, connection.exchange(&body)).await };
        let exchanged = runtime.block_on(exchange);
        let exchanged = exchanged.unwrap_or_else(|_| Err(Failure::Timeout(place.clone(), *limit)));
        if exchanged.is_err() {
            // What is left of it may belong to the request that failed.
            self.open = None;
        }
        let response = exchanged.map_err(|failure| ExportError {
            cause: failure.to_string(),
            is_transient: true,
            is_too_large: false,
            pause: None,
        })?;
        verdict(&place, &response)
    }
}

/// A connection to the collector, opened where there is none.
struct Connection<'a> {
    open: &'a mut Option<SendRequest<Full<Bytes>>>,
    endpoint: &'a Uri,
    ca: Option<&'a PathBuf>,
    fields: &'a HeaderMap,
}

impl Connection<'_> {
    /// Sends a request and reads its response. The collector may have closed a connection that was open, and another one is tried then.
    async fn exchange(&mut self, body: &Bytes) -> Result<Response<Bytes>, Failure> {
        if let Some(mut sender) = self.open.take()
            && sender.ready().await.is_ok()
            && let Ok(response) = self.send(sender, body).await
        {
            return Ok(response);
        }
        let sender = self.connect().await?;
        self.send(sender, body).await
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let failed = |error: BoxError| Failure::Connect(place(self.endpoint), error);
        let authority = self.endpoint.authority().ok_or_else(|| failed("no host".into()))?;
        if self.endpoint.scheme() == Some(&Scheme::HTTPS) {
            // Read each time, because the file may have changed.
            let connector = connector(self.ca.map(PathBuf::as_path))?;
            let stream = connect_tls(&connector, authority).await.map_err(failed)?;
            return handshake(TokioIo::new(stream)).await.map_err(failed);
        }
        let stream = connect(authority, 80).await.map_err(|error| failed(error.into()))?;
        handshake(TokioIo::new(stream)).await.map_err(failed)
    }

    async fn send(
        &mut self,
        mut sender: SendRequest<Full<Bytes>>,
        body: &Bytes,
    ) -> Result<Response<Bytes>, Failure> {
        let failed = |error: BoxError| Failure::Exchange(place(self.endpoint), error);
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        let path = self.endpoint.path_and_query();
        *request.uri_mut() = path.map(|path| Uri::from(path.clone())).unwrap_or_default();
        *request.headers_mut() = self.fields.clone();
        let response = sender.send_request(request).await;
        let (parts, body) = response.map_err(|error| failed(error.into()))?.into_parts();
        match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => {
                *self.open = Some(sender);
                Ok(Response::from_parts(parts, body.to_bytes()))
            }
            // It has the spans, and would have them twice.
            Err(error) if parts.status.is_success() => {
                tracing::debug!(%error, "telemetry: the body of a successful response cannot be read");
                Ok(Response::from_parts(parts, Bytes::new()))
            }
            Err(error) => Err(failed(error)),
        }
    }
}

async fn handshake<T>(stream: T) -> Result<SendRequest<Full<Bytes>>, BoxError>
where
    T: Read + Write + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(stream).await?;
    // It ends when the collector closes the connection, or when the sender is dropped.
    tokio::spawn(connection);
    Ok(sender)
}

/// Returns a URL for the log, without its query, which may hold a key.
fn place(url: &Uri) -> String {
    let (scheme, authority) = (url.scheme_str(), url.authority().map(Authority::as_str));
    format!("{}://{}{}", scheme.unwrap_or_default(), authority.unwrap_or_default(), url.path())
}

/// Returns what a response says about a batch (OTLP §OTLP/HTTP Response): the number of rejected spans.
fn verdict(place: &str, response: &Response<Bytes>) -> Result<u64, ExportError> {
    let status = response.status();
    if status.is_success() {
        let parsed = ExportTraceServiceResponse::decode(response.body().clone());
        let parsed = parsed.inspect_err(|error| {
            tracing::debug!(%error, "telemetry: the body of a successful response is no OTLP");
        });
        let partial = parsed.ok().and_then(|parsed| parsed.partial_success);
        let rejected = partial.map_or(0, |partial| partial.rejected_spans);
        return Ok(u64::try_from(rejected).unwrap_or(0));
    }
    let is_transient = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let asked = asked.and_then(|text| text.trim().parse().ok());
    Err(ExportError {
        cause: format!("{place} responded {status}{}", remedy(status, response.body())),
        is_transient,
        is_too_large: status == StatusCode::PAYLOAD_TOO_LARGE,
        pause: asked.map(Duration::from_secs).filter(|_| is_transient),
    })
}

/// Returns what an operator may do about a status, or what the collector says.
fn remedy(status: StatusCode, body: &Bytes) -> String {
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            "; check the path of telemetry.endpoint, which is /v1/traces for most collectors".into()
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; check the credentials in telemetry.headers".into()
        }
        _ => {
            let text = String::from_utf8_lossy(body);
            let plain = text.trim().chars().take(SHOWN);
            let plain: String =
                plain.map(|c| if c.is_control() || c == '\u{fffd}' { ' ' } else { c }).collect();
            if plain.trim().is_empty() { String::new() } else { format!(": {}", plain.trim()) }
        }
    }
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Collector").field(&self.endpoint).finish()
    }
}

#[cfg(test)]
mod tests;
