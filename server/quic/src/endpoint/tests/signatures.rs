//! Handshakes with a key of RSA, whose signatures come from other threads.

use std::sync::mpsc::channel;

use boring::asn1::Asn1Time;
use boring::hash::MessageDigest;
use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::x509::{X509, X509NameBuilder};
use sluicegate_base::signing;
use sluicegate_base::tls::{Alternatives, Identity, ListenerTls};

use super::super::super::transport::server_config;
use super::*;
use crate::testing::{Bench, Client, settings};

fn identity() -> Identity {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut leaf = X509::builder().unwrap();
    leaf.set_subject_name(&name).unwrap();
    leaf.set_issuer_name(&name).unwrap();
    leaf.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    leaf.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    leaf.set_pubkey(&key).unwrap();
    leaf.sign(&key, MessageDigest::sha256()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, file) = (folder.path().join("certificate"), folder.path().join("key"));
    std::fs::write(&certificate, leaf.build().to_pem().unwrap()).unwrap();
    std::fs::write(&file, key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    Identity::load(&certificate, &file, true).unwrap()
}

fn bench(identity: &Identity) -> Bench {
    Bench::new(settings(|settings| {
        let tls = ListenerTls {
            listener: "main",
            secrets: &settings.secrets,
            quic: &settings.quic,
            limits: &settings.limits,
        };
        let transport = server_config::<PageSession>(&tls, identity, &Alternatives::default());
        let listener = settings.listeners.get_mut(&ListenerId(0));
        listener.unwrap().config = transport.unwrap();
    }))
}

/// Returns the lengths of the datagrams.
fn lengths(datagrams: &[Vec<u8>]) -> Vec<usize> {
    datagrams.iter().map(Vec::len).collect()
}

#[test]
fn the_first_flight_leaves_as_a_whole_once_it_is_signed() {
    let identity = identity();
    let mut at_once = bench(&identity);
    let mut client = Client::new("192.0.2.1:5000");
    client.speak(&mut at_once.endpoint, at_once.now);
    let whole = at_once.said();
    assert!(!whole.is_empty());
    let (sender, signed) = channel();
    signing::sign_elsewhere(move |connection| sender.send(connection).unwrap());
    let mut later = bench(&identity);
    let mut client = Client::new("192.0.2.1:5000");
    client.speak(&mut later.endpoint, later.now);
    assert!(later.said().is_empty());
    later.endpoint.on_signature(signed.recv().unwrap());
    let said = later.said();
    assert_eq!(lengths(&said), lengths(&whole));
    client.hear(said);
    client.speak(&mut later.endpoint, later.now);
    client.hear(later.said());
    assert!(client.quic.is_established());
}
