//! Keys of 1-RTT packets and their updates (RFC 9001 §6).

use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};

/// Keys of one packet number space, for one direction each.
pub(crate) struct OneRtt {
    /// Header protection, which no update changes.
    pub(crate) local_header: Box<dyn HeaderProtectionKey>,
    pub(crate) remote_header: Box<dyn HeaderProtectionKey>,
    current: PacketKeySet,
    next: PacketKeySet,
    /// Key of the server's packets before the latest update.
    previous: Option<Box<dyn PacketKey>>,
    secrets: Secrets,
    /// Key Phase bit of the packets that the client sends.
    pub(crate) phase: bool,
}

impl OneRtt {
    pub(crate) fn new(keys: Keys, mut secrets: Secrets) -> OneRtt {
        OneRtt {
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            current: PacketKeySet { local: keys.local.packet, remote: keys.remote.packet },
            next: secrets.next_packet_keys(),
            previous: None,
            secrets,
            phase: false,
        }
    }

    /// Changes to the next keys in both directions, whether or not the server may.
    pub(crate) fn update(&mut self) {
        let next = std::mem::replace(&mut self.next, self.secrets.next_packet_keys());
        let current = std::mem::replace(&mut self.current, next);
        self.previous = Some(current.remote);
        self.phase = !self.phase;
    }

    pub(crate) fn local(&self) -> &dyn PacketKey {
        &*self.current.local
    }

    /// Decrypts a packet of the server; follows an update of its keys.
    pub(crate) fn open(
        &mut self,
        number: u64,
        phase: bool,
        header: &[u8],
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let open = |key: &dyn PacketKey| {
            let mut payload = payload.to_vec();
            let opened = key.decrypt_in_place(number, header, &mut payload);
            let length = opened.ok()?.len();
            payload.truncate(length);
            Some(payload)
        };
        if phase == self.phase {
            return open(&*self.current.remote);
        }
        if let Some(opened) = self.previous.as_deref().and_then(open) {
            return Some(opened);
        }
        let opened = open(&*self.next.remote)?;
        self.update();
        Some(opened)
    }
}
