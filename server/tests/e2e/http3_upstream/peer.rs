//! Upstream that speaks HTTP/3 by `h3` over `quinn`, in the process of the tests.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h3_quinn::BidiStream;
use http::Request;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use crate::server::Folder;

/// Stream of a request.
pub(super) type PeerStream = h3::server::RequestStream<BidiStream<Bytes>, Bytes>;

/// Upstream with the folder's certificate.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Peer {
    /// Starts an upstream whose requests are handled by `handle`, each in a task of its own.
    pub(super) fn start<H, F>(folder: &Folder, handle: H) -> Peer
    where
        H: Fn(Request<()>, PeerStream) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Peer::serving(folder, quinn::TransportConfig::default(), move |connection| {
            let handle = handle.clone();
            async move {
                let http = h3_quinn::Connection::new(connection);
                let mut http = h3::server::Connection::new(http).await.unwrap();
                while let Ok(Some(resolver)) = http.accept().await {
                    let handle = handle.clone();
                    tokio::spawn(async move {
                        if let Ok((request, stream)) = resolver.resolve_request().await {
                            handle(request, stream).await;
                        }
                    });
                }
            }
        })
    }

    /// Starts an upstream whose connections are served by `serve`, each in a task of its own.
    pub(super) fn serving<S, F>(
        folder: &Folder,
        transport: quinn::TransportConfig,
        serve: S,
    ) -> Peer
    where
        S: Fn(quinn::Connection) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let key = PrivateKeyDer::from_pem_file(folder.path("key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider);
        let tls = tls.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        let chain = vec![folder.certificate.clone()];
        let mut tls = tls.with_no_client_auth().with_single_cert(chain, key).unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let tls = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let guard = runtime.enter();
        let endpoint = quinn::Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        drop(guard);
        let address = endpoint.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&connections);
        runtime.spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                if let Ok(connection) = incoming.await {
                    tokio::spawn(serve(connection));
                }
            }
        });
        Peer { address, connections, runtime: Some(runtime) }
    }

    /// Returns the number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Peer {
    /// Ends the upstream without a word.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
