//! The client over a UDP socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::client::{Client, Setup};
use crate::frame::Frame;

/// Time without a datagram after which the client sends something that the server responds to.
const SILENCE: Duration = Duration::from_millis(250);
/// Silences after which nothing is waited for any longer.
const SILENCES: usize = 240;

/// A client with a socket of its own. It sends nothing by itself but what [`Client`] queues, a first flight that got no
/// response, and a PING where the server is silent for long.
pub struct Socket {
    /// The client.
    pub client: Client,
    socket: UdpSocket,
    buffer: Vec<u8>,
}

impl Socket {
    /// Binds a port of `local` and sends the first flight to `server`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn open(local: SocketAddr, server: SocketAddr, setup: Setup) -> io::Result<Socket> {
        let mut socket = Socket {
            client: Client::new(setup),
            socket: bound(local, server)?,
            buffer: vec![0; 65_536],
        };
        socket.flush();
        Ok(socket)
    }

    /// Goes on from another port of `local`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn move_to(&mut self, local: SocketAddr) -> io::Result<()> {
        self.socket = bound(local, self.socket.peer_addr()?)?;
        Ok(())
    }

    /// Sends what the client has queued. What the socket does not take is lost, as in a network.
    pub fn flush(&mut self) {
        for datagram in self.client.take_datagrams() {
            let _ = self.socket.send(&datagram);
        }
    }

    /// Sends what is queued, and receives until nothing arrives for `pause`.
    ///
    /// # Panics
    /// If `pause` is zero.
    pub fn exchange(&mut self, pause: Duration) {
        self.flush();
        while self.receive(pause) {
            self.flush();
        }
    }

    /// Sends and receives until `seen` returns something; `None` if the server is silent for a minute before that, in
    /// all.
    pub fn until<T>(&mut self, mut seen: impl FnMut(&mut Client) -> Option<T>) -> Option<T> {
        let mut silences = 0;
        loop {
            self.flush();
            if let Some(found) = seen(&mut self.client) {
                self.flush();
                return Some(found);
            }
            if self.receive(SILENCE) {
                continue;
            }
            // The server may respond to what is sent next, so that these need not be in a row.
            silences += 1;
            if silences == SILENCES {
                return None;
            }
            if self.client.is_established() {
                self.client.send(&[Frame::Ping]);
            } else {
                self.client.repeat_hello();
            }
        }
    }

    /// Waits until the server has confirmed the handshake. Returns whether it has.
    pub fn establish(&mut self) -> bool {
        let confirmed = self.until(|client| client.is_confirmed().then_some(()));
        confirmed.is_some()
    }

    /// Receives a datagram if one arrives within `wait`. Returns whether one did.
    fn receive(&mut self, wait: Duration) -> bool {
        let set = self.socket.set_read_timeout(Some(wait));
        set.expect("a time to wait");
        let received = self.socket.recv(&mut self.buffer);
        if let Ok(length) = received {
            self.client.receive(&self.buffer[..length]);
        }
        received.is_ok()
    }
}

fn bound(local: SocketAddr, server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    socket.connect(server)?;
    Ok(socket)
}
