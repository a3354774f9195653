//! A client that keeps the rules, for what no random datagram gets through.

use std::net::SocketAddr;

use sluicegate_quic_client::{Ecn, Http3Client, Limits, ServerName, Trust, config};

/// Bytes that a server may send it before it reads.
const WINDOW: u64 = 40_000;

/// Asks for HTTP/3 and trusts anybody.
pub(super) struct Client {
    http: Http3Client,
}

impl Client {
    /// Returns a client whose connection ID is `id` sixteen times.
    pub(super) fn new(address: SocketAddr, server: SocketAddr, id: u8) -> Client {
        let limits = Limits {
            connection: WINDOW,
            stream: WINDOW,
            unidirectional: WINDOW,
            unidirectional_streams: 3,
        };
        let tls = Trust::Anyone.tls().expect("a context");
        let mut config = config(tls, &limits).expect("version 1");
        config.set_initial_max_streams_bidi(1);
        config.set_active_connection_id_limit(4);
        let name = ServerName::Ip(server.ip());
        let http = Http3Client::new(&mut config, name, &[id; 16], address, server);
        Client { http: http.expect("a client without peculiarities") }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.http.local()
    }

    pub(super) fn is_established(&self) -> bool {
        self.http.quic().is_established()
    }

    /// Returns all datagrams that it wants to send now.
    pub(super) fn speak(&mut self) -> Vec<Vec<u8>> {
        let mut buffer = [0; 1500];
        let mut said = Vec::new();
        while said.len() < 64
            && let Some(length) = self.http.next_datagram(&mut buffer)
        {
            said.push(buffer[..length].to_vec());
        }
        said
    }

    pub(super) fn hear(&mut self, datagram: &mut [u8]) {
        // Whatever it is, the client is there to go on.
        self.http.receive(datagram, Ecn::NotCapable);
    }

    /// Writes to a stream of its own: HTTP/3 frames, or what the server has to take for them.
    pub(super) fn write(&mut self, stream: u64, bytes: &[u8], last: bool) {
        let _ = self.http.quic_mut().stream_send(stream, bytes, last);
    }

    pub(super) fn close(&mut self, code: u64) {
        let _ = self.http.quic_mut().close(true, code, b"trial");
    }

    pub(super) fn on_timeout(&mut self) {
        self.http.quic_mut().on_timeout();
    }
}
