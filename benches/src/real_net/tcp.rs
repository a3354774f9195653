//! A flow of the kernel's TCP: data without end from the server's namespace to the client's.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use socket2::SockRef;

use crate::linkem::{Network, Priority, SERVER, prioritize};

/// Bytes of one call.
const BLOCK: usize = 128 << 10;

/// A flow of TCP, until it is dropped.
#[derive(Debug)]
pub struct TcpFlow {
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
    /// Port of the sender.
    pub port: u16,
}

impl TcpFlow {
    /// Starts a flow with a congestion control of the kernel: cubic, bbr, reno.
    ///
    /// # Errors
    ///
    /// The kernel does not have it, or the connection fails.
    pub fn start(network: &Network, congestion_control: &str) -> io::Result<Self> {
        let listener = network.server.within(|| TcpListener::bind((SERVER, 0)))??;
        // An accepted connection has it from its first packet.
        let set = SockRef::from(&listener).set_tcp_congestion(congestion_control.as_bytes());
        set.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the kernel has no congestion control {congestion_control}: {error}"),
            )
        })?;
        let address = listener.local_addr()?;
        let receiver = network.client.within(|| TcpStream::connect(address))??;
        let (sender, _) = listener.accept()?;
        let ends = [sender.try_clone()?, receiver.try_clone()?];
        let threads =
            vec![thread::spawn(move || send(sender)), thread::spawn(move || receive(receiver))];
        Ok(Self { ends, threads, port: address.port() })
    }
}

impl Drop for TcpFlow {
    fn drop(&mut self) {
        for end in &self.ends {
            // Ends the call in which its thread is. It fails if the other end has closed the connection, which ends it as well.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn send(mut stream: TcpStream) {
    prioritize(Priority::Program);
    let block = vec![b'.'; BLOCK];
    while stream.write_all(&block).is_ok() {}
}

fn receive(mut stream: TcpStream) {
    prioritize(Priority::Program);
    let mut block = vec![0; BLOCK];
    while stream.read(&mut block).is_ok_and(|length| length > 0) {}
}
