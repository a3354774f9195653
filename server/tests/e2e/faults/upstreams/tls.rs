//! TLS of upstreams, and its faults.

use std::sync::Arc;

use boring::pkey::{PKey, Private};
use boring::ssl::{AlpnError, SslAcceptor, SslMethod, select_next_proto};
use boring::x509::X509;
use sluicegate_base::self_signed;

use super::peer::{Peer, Protocol, start};
use super::{DISTRUSTED, Fault, NO_TLS, NOT_OPEN, Table, fault};
use crate::fronts::FRONTS;
use crate::server::Folder;

/// Keys of a pool that trusts the upstreams' authority and expects their name.
pub(super) const TRUSTED: &str = "tls_ca = \"upstream.pem\"\ntls_name = \"app.test\"";
const OTHER_NAME: &str = "tls_ca = \"upstream.pem\"\ntls_name = \"other.test\"";
const OTHER_CA: &str = "tls_ca = \"other.pem\"\ntls_name = \"app.test\"";

/// Upstreams in whose place something else listens.
const NO_UPSTREAMS: &[Fault] = &[
    fault(
        "no_tls",
        |peer| {
            peer.send("HTTP/1.1 400 Bad Request\r\n\r\n")?;
            peer.end()
        },
        NO_TLS,
    ),
    fault(
        "closed",
        |peer| {
            peer.read_exact(&mut [0; 100])?;
            peer.end()
        },
        NO_TLS,
    ),
    fault("slow_handshake", Peer::wait, NOT_OPEN),
];

/// Key and certificate of the upstreams, for `app.test`.
pub(super) struct Certificate {
    key: PKey<Private>,
    certificate: X509,
}

impl Certificate {
    /// Makes the certificate, and writes it and another one of the same name to `upstream.pem` and `other.pem`.
    pub(super) fn write(folder: &Folder) -> Certificate {
        let [other, own] = ["other.pem", "upstream.pem"].map(|name| {
            let key = self_signed::key().unwrap();
            let now = sluicegate_base::clock::unix();
            let certificate = self_signed::certificate(&key, &["app.test"], &[1], now).unwrap();
            std::fs::write(folder.path(name), certificate.to_pem().unwrap()).unwrap();
            Certificate { key, certificate }
        });
        drop(other);
        own
    }

    pub(super) fn acceptor(&self, protocol: Protocol) -> Arc<SslAcceptor> {
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
        acceptor.set_certificate(&self.certificate).unwrap();
        acceptor.set_private_key(&self.key).unwrap();
        if protocol == Protocol::Http2 {
            acceptor.set_alpn_select_callback(|_, offered| {
                select_next_proto(b"\x02h2", offered).ok_or(AlpnError::NOACK)
            });
        }
        Arc::new(acceptor.build())
    }
}

/// Adds the faults of TLS.
pub(super) fn add(table: &mut Table, certificate: &Certificate) {
    let acceptor = certificate.acceptor(Protocol::Http1);
    for front in FRONTS {
        for (name, keys) in [("other_name", OTHER_NAME), ("other_ca", OTHER_CA)] {
            let upstream = start(Peer::wait, Some(Arc::clone(&acceptor)), &table.open);
            let upstream = format!("https://{upstream}");
            table.add(front, &format!("tls/{name}"), &upstream, keys, DISTRUSTED);
        }
        for fault in NO_UPSTREAMS {
            let upstream = format!("https://{}", start(fault.serve, None, &table.open));
            let name = format!("tls/{}", fault.name);
            table.add(front, &name, &upstream, TRUSTED, fault.expected);
        }
    }
}
