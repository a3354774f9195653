//! A relay between one client and a server, which can do what networks do.

use std::net::SocketAddr;

use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

enum Command {
    ChangePort,
    RepeatFirst,
}

/// Passes datagrams on as long as the runtime lives.
pub(crate) struct Relay {
    /// Address that the client connects to.
    pub(crate) address: SocketAddr,
    commands: UnboundedSender<Command>,
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Relay {
        Relay::start_for(server, usize::MAX).await
    }

    /// Starts a relay that changes its port after every `count` datagrams of a client. So it does not within a handshake of less: QUIC relies
    /// on stable addresses until that has ended (RFC 9000 §9).
    pub(crate) async fn start_restless(server: SocketAddr, count: usize) -> Relay {
        Relay::start_with(server, usize::MAX, count).await
    }

    /// Starts a relay that loses what the client sends after its first `count` datagrams.
    pub(crate) async fn start_for(server: SocketAddr, count: usize) -> Relay {
        Relay::start_with(server, count, usize::MAX).await
    }

    async fn start_with(server: SocketAddr, left: usize, stay: usize) -> Relay {
        let inside = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = inside.local_addr().unwrap();
        let (commands, inbox) = unbounded_channel();
        tokio::spawn(pass(inside, server, inbox, left, stay));
        Relay { address, commands }
    }

    /// Makes the server see another port from now on, as behind a NAT. Packets to the former port do not arrive.
    pub(crate) fn change_port(&self) {
        self.commands.send(Command::ChangePort).ok().unwrap();
    }

    /// Sends a copy of the client's first datagram.
    pub(crate) fn repeat_first(&self) {
        self.commands.send(Command::RepeatFirst).ok().unwrap();
    }
}

async fn pass(
    inside: UdpSocket,
    server: SocketAddr,
    mut commands: UnboundedReceiver<Command>,
    mut left: usize,
    stay: usize,
) {
    let mut outside = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    let (mut first, mut client, mut passed) = (Vec::new(), None, 0);
    let (mut up, mut down) = ([0; 2048], [0; 2048]);
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::ChangePort) => {
                    outside = UdpSocket::bind("0.0.0.0:0").await.unwrap();
                }
                Some(Command::RepeatFirst) => {
                    outside.send_to(&first, server).await.unwrap();
                }
                None => return,
            },
            received = inside.recv_from(&mut up) => {
                let (length, from) = received.unwrap();
                if client.replace(from) != Some(from) {
                    passed = 0;
                }
                passed += 1;
                if passed % stay == 0 {
                    outside = UdpSocket::bind("0.0.0.0:0").await.unwrap();
                }
                if first.is_empty() {
                    first = up[..length].to_vec();
                }
                if left > 0 {
                    left -= 1;
                    outside.send_to(&up[..length], server).await.unwrap();
                }
            }
            received = outside.recv_from(&mut down) => {
                let (length, _) = received.unwrap();
                if let Some(client) = client {
                    inside.send_to(&down[..length], client).await.unwrap();
                }
            }
        }
    }
}
