//! A server with any congestion control, also quiche's own, on a real socket and in real time. It serves one connection.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluicegate_dataplane::Ecn;
use sluicegate_sim::Source;

use super::error::RealNetError;
use crate::linkem::{Priority, await_readable, prioritize};
use crate::virtual_net::{BareConnection, Control, Sender as _, server_config};

/// Largest datagram, bytes.
const LARGEST: usize = 1 << 16;

/// Longest sleep, after which the thread looks whether it shall end.
const NAP: Duration = Duration::from_millis(10);

/// A running server, until it is dropped. It answers each request with the same body.
#[derive(Debug)]
pub struct QuicheServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), RealNetError>>>,
}

impl QuicheServer {
    /// Starts a server on a socket, with bodies of `bytes`.
    ///
    /// # Errors
    ///
    /// The control is unknown, or the system has no thread to spare.
    pub fn start(socket: UdpSocket, control: Control, bytes: u64) -> Result<Self, RealNetError> {
        socket.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("quiche".to_owned());
        let thread = thread.spawn(move || serve(&socket, control, bytes, &stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for QuicheServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A server that broke the protocol has failed its client already.
            let _ = thread.join();
        }
    }
}

fn serve(
    socket: &UdpSocket,
    control: Control,
    bytes: u64,
    stop: &AtomicBool,
) -> Result<(), RealNetError> {
    prioritize(Priority::Program);
    let mut config = server_config(control)?;
    let local = socket.local_addr()?;
    let start = quiche::clock::now();
    let mut connection = None;
    let mut buffer = vec![0; LARGEST];
    while !stop.load(Ordering::Relaxed) {
        while let Some((length, from)) = receive(socket, &mut buffer)? {
            let server = match &mut connection {
                Some(server) => server,
                none => {
                    let body = Source::Bulk(bytes);
                    none.insert(BareConnection::accept(&mut config, from, local, body, start)?)
                }
            };
            let datagram = &mut buffer[..length];
            server.receive(from, local, datagram, Ecn::NotCapable, quiche::clock::now());
        }
        let mut limit = NAP;
        if let Some(server) = &mut connection {
            let now = quiche::clock::now();
            // A full socket loses the datagram, as a full network card does.
            server.turn(now, |to, _, datagram| drop(socket.send_to(datagram, to)))?;
            let next = server.next_turn(now);
            let now = quiche::clock::now();
            let wait = next.map(|at| at.saturating_duration_since(now));
            limit = wait.map_or(NAP, |wait| wait.min(NAP));
        }
        await_readable([socket.as_fd()], limit)?;
    }
    Ok(())
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        received => received.map(Some),
    }
}
