//! Opens connections over TCP.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use boring::ssl::{Ssl, SslContext, SslMode};
use rustix::io::Errno;
use socket2::{Domain, Type};

use super::Tcp;
use super::handshake::Handshake;
use super::requests::Requests;
use super::resumption::{keep_sessions, resume};
use super::stream::{READ, Socket};
use crate::client::sessions::Sessions;
use crate::client::transport::ConnectOptions;
use crate::context::Context;
use crate::plan::Plan;
use crate::protocol::{Protocol, Version};
use crate::tls;

/// Settings that the TCP connections of a thread share.
pub(crate) struct TcpConnector {
    /// TLS, unless the server is one of `http`.
    tls: Option<SslContext>,
    sessions: Sessions,
    requests: Rc<Requests>,
    /// Room for a read.
    buffer: Rc<RefCell<Vec<u8>>>,
}

impl TcpConnector {
    /// # Errors
    /// There is no such group, the file of issuers cannot be used, or a request cannot be made.
    pub(crate) fn new(plan: &Plan) -> anyhow::Result<TcpConnector> {
        let sessions = Sessions::new(plan);
        let tls = match &plan.protocol {
            Protocol::Tls(offered) => {
                let mut tls = tls::context(&plan.options)?;
                let names = offered.iter().map(|version| version.alpn());
                let list = names.flat_map(|name| {
                    let length = u8::try_from(name.len()).unwrap_or_default();
                    std::iter::once(length).chain(name.bytes())
                });
                // hyper may repeat a write that had to wait from another place, with more bytes behind it.
                tls.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
                tls.set_alpn_protos(&list.collect::<Vec<_>>())?;
                if sessions.are_kept() {
                    keep_sessions(&mut tls, &sessions);
                }
                Some(tls.build())
            }
            _ => None,
        };
        Ok(TcpConnector {
            tls,
            sessions,
            requests: Rc::new(Requests::new(&plan.heads)?),
            buffer: Rc::new(RefCell::new(vec![0; READ])),
        })
    }

    /// Begins to connect to the server.
    ///
    /// # Errors
    /// There is no route, no descriptor left, or the name is none that TLS can send.
    pub(crate) fn open(
        &self,
        options: ConnectOptions<'_>,
        cx: &Context<'_>,
    ) -> anyhow::Result<Tcp> {
        let peer = cx.plan.addresses[options.address];
        let tls = self.tls.as_ref().map(|tls| self.prepare(tls, cx.plan, peer));
        let socket = socket2::Socket::new(Domain::for_address(peer), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(ip) = options.local {
            socket.bind(&SocketAddr::new(ip, 0).into())?;
        }
        match socket.connect(&peer.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                return Err(error.into());
            }
            _ => {}
        }
        let socket = Socket(Rc::new(socket.into()));
        let buffer = Rc::clone(&self.buffer);
        let handshake = Handshake::new(socket.clone(), tls.transpose()?, buffer);
        let is_h2c = cx.plan.protocol == Protocol::Plain(Version::Http2);
        Ok(Tcp::new(socket, handshake, Rc::clone(&self.requests), is_h2c))
    }

    /// Returns TLS for a connection to `peer`.
    fn prepare(&self, tls: &SslContext, plan: &Plan, peer: SocketAddr) -> anyhow::Result<Ssl> {
        let mut ssl = Ssl::new(tls)?;
        match plan.server_name.as_deref() {
            Some(name) => {
                ssl.set_hostname(name)?;
                ssl.param_mut().set_host(name)?;
            }
            // An address is no server name (RFC 6066 §3), and is looked for elsewhere in the certificate.
            None => ssl.param_mut().set_ip(peer.ip())?,
        }
        if let Some(session) = self.sessions.next() {
            resume(&mut ssl, &session)?;
        }
        Ok(ssl)
    }
}
