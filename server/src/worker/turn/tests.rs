use std::net::SocketAddr;

use sluicegate_dataplane::{Budget, Ecn, ListenerId, RxMeta, TxMeta, memory};

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
    let meta = TxMeta {
        peer: near,
        local: None,
        ecn: Ecn::NotCapable,
        departure: None,
    };
    let sent = client.transmit(Budget::UNLIMITED, |out| {
        let room = out.room(ListenerId(0), packet.len()).unwrap();
        room.copy_from_slice(&packet);
        out.commit(packet.len(), &meta);
    });
    sent.unwrap();
    worker.receive(now).unwrap();
    let counters = &worker.endpoint.counters;
    assert_eq!(counters.misrouted, 1);
    assert_eq!(counters.dropped[DropReason::MailboxFull], 1);
}
