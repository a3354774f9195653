//! A client as quiche makes them, for what no random datagram gets through.

use std::net::SocketAddr;

use boring::ssl::{SslContextBuilder, SslMethod};

/// Bytes that a server may send it before it reads.
const WINDOW: u64 = 40_000;

/// Asks for HTTP/3 and trusts anybody.
pub(super) struct Client {
    quic: quiche::Connection,
    pub(super) address: SocketAddr,
}

impl Client {
    /// Returns a client whose connection ID is `id` sixteen times.
    pub(super) fn new(address: SocketAddr, server: SocketAddr, id: u8) -> Client {
        // Not quiche's own context: that reads all of the system's certificates.
        let tls = SslContextBuilder::new(SslMethod::tls()).expect("a context");
        let config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls);
        let mut config = config.expect("version 1");
        let protocols = quiche::h3::APPLICATION_PROTOCOL;
        let set = config.set_application_protos(protocols);
        set.expect("protocols of HTTP/3");
        config.verify_peer(false);
        config.set_initial_max_streams_uni(3);
        config.set_initial_max_streams_bidi(1);
        config.set_initial_max_stream_data_uni(WINDOW);
        config.set_initial_max_stream_data_bidi_local(WINDOW);
        config.set_initial_max_data(WINDOW);
        config.set_active_connection_id_limit(4);
        let id = [id; 16];
        let id = quiche::ConnectionId::from_ref(&id);
        let quic = quiche::connect(None, &id, address, server, &mut config);
        Client { quic: quic.expect("a client without peculiarities"), address }
    }

    pub(super) fn is_established(&self) -> bool {
        self.quic.is_established()
    }

    /// Returns all datagrams that it wants to send now.
    pub(super) fn speak(&mut self) -> Vec<Vec<u8>> {
        let mut buffer = [0; 1500];
        let mut said = Vec::new();
        while said.len() < 64
            && let Ok((length, _)) = self.quic.send(&mut buffer)
        {
            said.push(buffer[..length].to_vec());
        }
        said
    }

    pub(super) fn hear(&mut self, datagram: &mut [u8], server: SocketAddr) {
        let info = quiche::RecvInfo { from: server, to: self.address };
        // Whatever it is, the client is there to go on.
        let _ = self.quic.recv(datagram, info);
    }

    /// Writes to a stream of its own: HTTP/3 frames, or what the server has to take for them.
    pub(super) fn write(&mut self, stream: u64, bytes: &[u8], last: bool) {
        let _ = self.quic.stream_send(stream, bytes, last);
    }

    pub(super) fn close(&mut self, code: u64) {
        let _ = self.quic.close(true, code, b"trial");
    }

    pub(super) fn on_timeout(&mut self) {
        self.quic.on_timeout();
    }
}
