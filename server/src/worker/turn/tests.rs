use std::net::SocketAddr;

use sluicegate_dataplane::{Ecn, ListenerId, RxMeta, TxMeta, memory};

use super::super::mailbox::mailbox;
use super::*;
use crate::quic::cid::CidGenerator;
use crate::quic::settings::Settings;

#[test]
fn a_stray_that_a_full_mailbox_refuses_is_counted() {
    let [far, near]: [SocketAddr; 2] =
        ["192.0.2.1:5000", "192.0.2.2:443"].map(|a| a.parse().unwrap());
    let (mut client, server) = memory::pair(far, near);
    let settings = Settings::plain(0, 2);
    let generation = settings.secrets.generation();
    let now = clock::now();
    let ((own, inbox), (other, _others_inbox)) = (mailbox(), mailbox());
    let misrouted = RxMeta {
        listener: ListenerId(0),
        peer: far,
        local: near,
        ecn: Ecn::NotCapable,
        stride: 1,
    };
    while other.send(Command::Misrouted(misrouted, vec![0])) {}
    let mut worker = Worker::new(
        Driver::Memory(server),
        Endpoint::new(settings, now),
        inbox,
        Arc::new(vec![own, other]),
    );
    let mut packet = vec![0x40; 100];
    packet[1..17].copy_from_slice(CidGenerator::new(1, generation).generate().as_bytes());
    let mut packets = vec![packet];
    let sent = client.transmit(1, |buffer| {
        let packet = packets.pop()?;
        buffer[..packet.len()].copy_from_slice(&packet);
        Some(TxMeta {
            listener: ListenerId(0),
            peer: near,
            local: None,
            ecn: Ecn::NotCapable,
            len: packet.len(),
            segment: packet.len(),
        })
    });
    sent.unwrap();
    worker.receive(now).unwrap();
    let counters = &worker.endpoint.counters;
    assert_eq!(counters.misrouted, 1);
    assert_eq!(counters.dropped[DropReason::MailboxFull.index()], 1);
}
