//! HTTP/3 by `h3` over `quinn`.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3_quinn::{BidiStream, OpenStreams};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use crate::server::Folder;

/// Longest duration of one test's exchange.
const WAIT_LIMIT: Duration = Duration::from_secs(240);

/// Pause between two attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Handshakes of `connect_in_turn` at a time.
const TURNS: usize = 50;

/// Runs a test's exchange.
pub(crate) fn run<F: Future>(exchange: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let bounded = tokio::time::timeout(WAIT_LIMIT, exchange).await;
        bounded.expect("the exchange should have ended long ago")
    })
}

/// A UDP socket and whom to trust.
pub(crate) struct Client {
    pub(crate) endpoint: quinn::Endpoint,
    config: quinn::ClientConfig,
    turns: Semaphore,
}

impl Client {
    pub(crate) fn new(folder: &Folder) -> Client {
        Client::bound(folder, Ipv4Addr::LOCALHOST)
    }

    /// Returns a client that is bound to a port of `address`.
    pub(crate) fn bound(folder: &Folder, address: Ipv4Addr) -> Client {
        Client::at(folder, (address, 0).into())
    }

    /// Returns a client that is bound to `address`.
    pub(crate) fn at(folder: &Folder, address: SocketAddr) -> Client {
        let tls = Client::trusting(folder).with_no_client_auth();
        Client::over(tls, address)
    }

    /// Returns a client that shows a certificate, with its key in PKCS #8.
    pub(crate) fn showing(
        folder: &Folder,
        certificate: rustls::pki_types::CertificateDer<'static>,
        key: Vec<u8>,
    ) -> Client {
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key).into();
        let tls = Client::trusting(folder).with_client_auth_cert(vec![certificate], key);
        Client::over(tls.unwrap(), (Ipv4Addr::LOCALHOST, 0).into())
    }

    /// Returns a client whose later connections may begin with early data.
    pub(crate) fn hasty(folder: &Folder) -> Client {
        let mut tls = Client::trusting(folder).with_no_client_auth();
        tls.enable_early_data = true;
        Client::over(tls, (Ipv4Addr::LOCALHOST, 0).into())
    }

    fn trusting(
        folder: &Folder,
    ) -> rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(folder.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider);
        let tls = tls.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        tls.with_root_certificates(roots)
    }

    fn over(mut tls: rustls::ClientConfig, address: SocketAddr) -> Client {
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
        let endpoint = quinn::Endpoint::client(address).unwrap();
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        let mut transport = quinn::TransportConfig::default();
        // A server learns of a NAT's new port only by something that comes from there.
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        config.transport_config(Arc::new(transport));
        Client { endpoint, config, turns: Semaphore::new(TURNS) }
    }

    /// Returns a client at another port, and at that address, with what this one keeps for later connections: tickets and tokens.
    pub(crate) fn elsewhere(&self, address: Ipv4Addr) -> Client {
        Client {
            endpoint: quinn::Endpoint::client((address, 0).into()).unwrap(),
            config: self.config.clone(),
            turns: Semaphore::new(TURNS),
        }
    }

    /// Returns a client at another port of the same address, with what this one keeps.
    pub(crate) fn beside(&self) -> Client {
        match self.endpoint.local_addr().unwrap().ip() {
            IpAddr::V4(address) => self.elsewhere(address),
            IpAddr::V6(address) => panic!("a client at {address}"),
        }
    }

    /// Returns the client with a receive window of that many bytes for each stream.
    pub(crate) fn taking(mut self, window: u32) -> Client {
        let mut transport = quinn::TransportConfig::default();
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        transport.stream_receive_window(window.into());
        self.config.transport_config(Arc::new(transport));
        self
    }

    /// Returns the client without PINGs: its connections stay silent between requests.
    pub(crate) fn quiet(mut self) -> Client {
        let transport = quinn::TransportConfig::default();
        self.config.transport_config(Arc::new(transport));
        self
    }

    /// Opens a connection, without HTTP/3.
    pub(crate) async fn dial(&self, server: SocketAddr) -> quinn::Connection {
        let config = self.config.clone();
        let connecting = self.endpoint.connect_with(config, server, "localhost");
        connecting.unwrap().await.unwrap()
    }

    pub(crate) async fn connect(&self, server: SocketAddr) -> Session {
        self.connect_with(self.config.clone(), server).await
    }

    /// Connects so that requests are early data, after an earlier connection. Returns what tells whether the server takes them, too.
    pub(crate) async fn connect_early(
        &self,
        server: SocketAddr,
    ) -> (Session, quinn::ZeroRttAccepted) {
        let attempt = self.endpoint.connect_with(self.config.clone(), server, "localhost");
        let early = attempt.unwrap().into_0rtt();
        let Ok((connection, accepted)) = early else {
            panic!("no ticket of an earlier connection");
        };
        (Session::over(connection).await, accepted)
    }

    /// Connects as one of hundreds, with few handshakes at a time: a busy machine does not end hundreds within the server's
    /// `handshake_timeout`.
    pub(crate) async fn connect_in_turn(&self, server: SocketAddr) -> Session {
        let _turn = self.turns.acquire().await.unwrap();
        self.connect(server).await
    }

    /// Connects with that destination connection ID in the first packet.
    pub(crate) async fn connect_as(&self, server: SocketAddr, dcid: [u8; 16]) -> Session {
        let mut config = self.config.clone();
        config.initial_dst_cid_provider(Arc::new(move || quinn::ConnectionId::new(&dcid)));
        self.connect_with(config, server).await
    }

    /// Connects with that token in the first packet.
    pub(crate) async fn connect_with_token(&self, server: SocketAddr, token: Vec<u8>) -> Session {
        let mut config = self.config.clone();
        config.token_store(Arc::new(OneToken(token.into())));
        self.connect_with(config, server).await
    }

    /// `None` where the handshake fails.
    pub(crate) async fn try_connect(&self, server: SocketAddr) -> Option<Session> {
        let attempt = self.endpoint.connect_with(self.config.clone(), server, "localhost");
        Some(Session::over(attempt.unwrap().await.ok()?).await)
    }

    /// Tries until the server accepts a connection.
    pub(crate) async fn connect_when_accepted(&self, server: SocketAddr) -> Session {
        loop {
            if let Some(session) = self.try_connect(server).await {
                return session;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Returns the error of a connection that the server does not accept.
    pub(crate) async fn refusal(&self, server: SocketAddr) -> quinn::ConnectionError {
        let config = self.config.clone();
        let connecting = self.endpoint.connect_with(config, server, "localhost");
        connecting.unwrap().await.unwrap_err()
    }

    async fn connect_with(&self, config: quinn::ClientConfig, server: SocketAddr) -> Session {
        let connection =
            self.endpoint.connect_with(config, server, "localhost").unwrap().await.unwrap();
        Session::over(connection).await
    }
}

/// Holds the same token for every server.
struct OneToken(Bytes);

impl quinn::TokenStore for OneToken {
    fn insert(&self, _: &str, _: Bytes) {}

    fn take(&self, _: &str) -> Option<Bytes> {
        Some(self.0.clone())
    }
}

/// An HTTP/3 connection; closed when dropped.
pub(crate) struct Session {
    pub(crate) connection: quinn::Connection,
    requests: SendRequest<OpenStreams, Bytes>,
}

impl Session {
    async fn over(connection: quinn::Connection) -> Session {
        let transport = h3_quinn::Connection::new(connection.clone());
        let (mut driver, requests) = h3::client::new(transport).await.unwrap();
        tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
        Session { connection, requests }
    }

    /// Sends `GET path`, and returns the response with its head.
    pub(crate) async fn get(&mut self, path: &str) -> Response {
        self.try_get(path).await.unwrap()
    }

    /// Does the same with these fields.
    pub(crate) async fn get_with(&mut self, path: &str, fields: &[(&str, &[u8])]) -> Response {
        self.try_get_with(path, fields).await.unwrap()
    }

    /// Sends `GET path`, and reads nothing of the response.
    pub(crate) async fn ask(&mut self, path: &str) -> RequestStream<BidiStream<Bytes>, Bytes> {
        let request = http::Request::get(format!("https://localhost{path}")).body(());
        let mut stream = self.requests.send_request(request.unwrap()).await.unwrap();
        stream.finish().await.unwrap();
        stream
    }

    /// Sends `POST path` with the generator's first `length` bytes.
    pub(crate) async fn upload(&mut self, path: &str, length: u64) -> Response {
        let request = http::Request::post(format!("https://localhost{path}"))
            .header("content-length", length)
            .body(());
        let mut stream = self.requests.send_request(request.unwrap()).await.unwrap();
        let mut at = 0;
        while at < length {
            let block = generated(at, length.min(at + 65_536) - at);
            at += block.len() as u64;
            stream.send_data(block.into()).await.unwrap();
        }
        stream.finish().await.unwrap();
        let head = stream.recv_response().await.unwrap();
        Response { head, stream }
    }

    /// Sends the head of a request, whose body the test sends.
    pub(crate) async fn begin(
        &mut self,
        request: http::Request<()>,
    ) -> RequestStream<BidiStream<Bytes>, Bytes> {
        self.requests.send_request(request).await.unwrap()
    }

    pub(crate) async fn try_get(&mut self, path: &str) -> Result<Response, h3::error::StreamError> {
        self.try_get_with(path, &[]).await
    }

    async fn try_get_with(
        &mut self,
        path: &str,
        fields: &[(&str, &[u8])],
    ) -> Result<Response, h3::error::StreamError> {
        let mut request = http::Request::get(format!("https://localhost{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        self.try_ask(request.body(()).unwrap()).await
    }

    /// Sends a request without a body.
    pub(crate) async fn try_ask(
        &mut self,
        request: http::Request<()>,
    ) -> Result<Response, h3::error::StreamError> {
        let mut stream = self.requests.send_request(request).await?;
        stream.finish().await?;
        let head = stream.recv_response().await?;
        Ok(Response { head, stream })
    }
}

/// A response on its way.
pub(crate) struct Response {
    pub(crate) head: http::Response<()>,
    stream: RequestStream<BidiStream<Bytes>, Bytes>,
}

impl Response {
    /// Waits for the final head behind an informational one.
    pub(crate) async fn try_finally(&mut self) -> Result<(), h3::error::StreamError> {
        while self.head.status().is_informational() {
            self.head = self.stream.recv_response().await?;
        }
        Ok(())
    }

    /// Returns the next piece of the body.
    pub(crate) async fn piece(&mut self) -> Option<Bytes> {
        self.try_piece().await.unwrap()
    }

    /// Tells the server that no more of it is wanted.
    pub(crate) fn cancel(mut self) {
        self.stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    }

    pub(crate) async fn try_piece(&mut self) -> Result<Option<Bytes>, h3::error::StreamError> {
        let piece = self.stream.recv_data().await?;
        Ok(piece.map(|mut piece| piece.copy_to_bytes(piece.remaining())))
    }

    pub(crate) async fn text(self) -> String {
        String::from_utf8(self.bytes().await).unwrap()
    }

    pub(crate) async fn bytes(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await {
            body.extend_from_slice(&piece);
        }
        body
    }

    /// Reads on until `counted` holds `target` bytes, or the end.
    pub(crate) async fn count(&mut self, counted: &mut Counted, target: u64) {
        while counted.bytes < target {
            let Some(piece) = self.piece().await else {
                return;
            };
            counted.check(&piece);
        }
    }

    /// Reads the rest and expects `total` bytes in all.
    pub(crate) async fn count_to_the_end(&mut self, counted: &mut Counted, total: u64) {
        self.count(counted, u64::MAX).await;
        assert_eq!(counted.bytes, total);
    }
}

/// The generator's bytes, little-endian 64-bit numbers from 0 on, of which each is checked.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) bytes: u64,
}

impl Counted {
    pub(crate) fn check(&mut self, piece: &[u8]) {
        let length = piece.len() as u64;
        let expected = generated(self.bytes, length);
        let mut pairs = piece.iter().zip(&expected);
        assert!(
            piece == expected,
            "byte {:?} of those from {} on",
            pairs.position(|(byte, expected)| byte != expected),
            self.bytes
        );
        self.bytes += length;
    }
}

/// Returns `length` of the generator's bytes from `at` on. It makes whole words: this code is not optimised, and tests need many bytes.
pub(crate) fn generated(at: u64, length: u64) -> Vec<u8> {
    let before = usize::try_from(at % 8).unwrap();
    let end = before + usize::try_from(length).unwrap();
    let mut bytes = vec![0; end.next_multiple_of(8)];
    for (word, place) in (at / 8..).zip(bytes.chunks_exact_mut(8)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(end);
    bytes.drain(..before);
    bytes
}

/// Returns SHA-256 of the generator's first `length` bytes, in hex.
pub(crate) fn generated_sha256(length: u64) -> String {
    let digest = Sha256::digest(generated(0, length));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
