//! The client: a handshake as it should be, and behind it whatever a test sends.

mod receive;

use std::collections::BTreeMap;

use rustls::quic::{ClientConnection, DirectionalKeys, HeaderProtectionKey, Keys, PacketKey};

use crate::frame::Frame;
use crate::keys::OneRtt;
use crate::packet::{PacketHeader, PacketKind};
use crate::parameters::Parameters;
use crate::ranges::Ranges;
use crate::stream::{Reassembly, ReceivedStream};
use crate::tls::Tls;

/// Smallest datagram with an Initial packet (RFC 9000 §14.1).
const MIN_INITIAL: usize = 1200;
/// Bytes of a stream in one packet that [`Client::write`] sends.
const SLICE: usize = 1100;

/// Replies that the client sends on its own.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Acknowledges each datagram of the server at once.
    pub acks: bool,
    /// Goes on with the handshake.
    pub handshake: bool,
    /// Responds to PATH_CHALLENGE.
    pub paths: bool,
}

/// Everything that a client begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// TLS, and tickets of earlier connections.
    pub tls: Tls,
    /// Transport parameters, without the connection ID, which is added.
    pub parameters: Parameters,
    /// Connection ID that the client chooses for the server.
    pub dcid: Vec<u8>,
    /// The client's own connection ID.
    pub scid: Vec<u8>,
    /// Token of the first Initial packets.
    pub token: Vec<u8>,
}

impl Setup {
    /// Returns what an honest client begins with. Connection IDs differ for each number.
    #[must_use]
    pub fn new(number: u64) -> Setup {
        Setup {
            tls: Tls::default(),
            parameters: Parameters::plain(),
            dcid: number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
            scid: number.to_be_bytes().to_vec(),
            token: Vec::new(),
        }
    }
}

/// State of a packet number space.
#[derive(Default)]
struct Space {
    next: u64,
    received: Ranges,
    owes_ack: bool,
    crypto: Reassembly,
    /// Bytes of TLS to be sent, and how many were sent before.
    unsent: Vec<u8>,
    sent: u64,
    /// Largest packet number that the server acknowledged.
    acked: Option<u64>,
}

/// A client. Fields that tests change take effect with the next packet.
pub struct Client {
    /// Destination connection ID of packets.
    pub dcid: Vec<u8>,
    /// Source connection ID of packets.
    pub scid: Vec<u8>,
    /// Token of Initial packets.
    pub token: Vec<u8>,
    /// Replies that it sends on its own.
    pub policy: Policy,
    /// Offset in every stream: packets that contain the byte there are not acknowledged.
    pub withheld: Option<u64>,
    /// Frames received, but ACK, CRYPTO, PADDING and STREAM, in order. A test may clear them.
    pub frames: Vec<Frame>,
    /// Streams received.
    pub streams: BTreeMap<u64, ReceivedStream>,
    /// Versions of a Version Negotiation packet.
    pub versions: Option<Vec<u32>>,
    /// Number of Retry packets that it followed.
    pub retries: usize,
    /// Whether it received a stateless reset of its connection.
    pub is_reset: bool,
    /// Error of TLS, if the server's messages are wrong.
    pub tls_error: Option<rustls::Error>,
    tls: ClientConnection,
    first_dcid: Vec<u8>,
    retry_scid: Option<Vec<u8>>,
    /// The server's first connection ID, once it is known.
    server_scid: Option<Vec<u8>>,
    initial: Keys,
    early: Option<DirectionalKeys>,
    handshake: Option<Keys>,
    one_rtt: Option<OneRtt>,
    /// First messages of TLS, for a Retry.
    hello: Vec<u8>,
    /// Packet number space of what TLS writes now.
    level: usize,
    spaces: [Space; 3],
    offsets: BTreeMap<u64, u64>,
    datagrams: Vec<Vec<u8>>,
}

impl Client {
    /// Returns a client that has a first flight to send.
    #[must_use]
    pub fn new(setup: Setup) -> Client {
        let mut parameters = setup.parameters;
        if parameters.bytes(Parameters::INITIAL_SCID).is_none() {
            parameters = parameters.with_bytes(Parameters::INITIAL_SCID, setup.scid.clone());
        }
        let mut client = Client {
            tls: setup.tls.connect(parameters.write()),
            initial: Tls::initial_keys(&setup.dcid),
            first_dcid: setup.dcid.clone(),
            dcid: setup.dcid,
            scid: setup.scid,
            token: setup.token,
            policy: Policy { acks: true, handshake: true, paths: true },
            withheld: None,
            frames: Vec::new(),
            streams: BTreeMap::new(),
            versions: None,
            retries: 0,
            is_reset: false,
            tls_error: None,
            retry_scid: None,
            server_scid: None,
            early: None,
            handshake: None,
            one_rtt: None,
            hello: Vec::new(),
            level: 0,
            spaces: Default::default(),
            offsets: BTreeMap::new(),
            datagrams: Vec::new(),
        };
        client.pump_tls();
        client.hello = client.spaces[0].unsent.clone();
        client.early = client.tls.zero_rtt_keys();
        client.respond();
        client
    }

    /// Returns the first messages of TLS.
    #[must_use]
    pub fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// Takes the datagrams that are to be sent.
    pub fn take_datagrams(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.datagrams)
    }

    /// Queues a datagram as it is.
    pub fn queue(&mut self, datagram: Vec<u8>) {
        self.datagrams.push(datagram);
    }

    /// Queues a datagram with one 1-RTT packet.
    pub fn send(&mut self, frames: &[Frame]) {
        let packet = self.packet(PacketKind::OneRtt, frames);
        self.datagrams.push(packet);
    }

    /// Queues bytes of a stream behind those before, in as many 1-RTT packets as they need.
    pub fn write(&mut self, stream: u64, data: &[u8], fin: bool) {
        let frames = self.stream_frames(stream, data, fin);
        frames.into_iter().for_each(|frame| self.send(&[frame]));
    }

    /// Returns STREAM frames with bytes of a stream behind those before.
    pub fn stream_frames(&mut self, stream: u64, data: &[u8], fin: bool) -> Vec<Frame> {
        let next = self.offsets.entry(stream).or_default();
        let mut slices: Vec<&[u8]> = data.chunks(SLICE).collect();
        if slices.is_empty() {
            slices.push(&[]);
        }
        let last = slices.len() - 1;
        let frame = |(index, slice): (usize, &&[u8])| {
            let offset = *next;
            *next += slice.len() as u64;
            Frame::Stream { stream, offset, data: slice.to_vec(), fin: fin && index == last }
        };
        slices.iter().enumerate().map(frame).collect()
    }

    /// Returns a protected packet with the next number of its space.
    ///
    /// # Panics
    /// Without keys for packets of that kind.
    pub fn packet(&mut self, kind: PacketKind, frames: &[Frame]) -> Vec<u8> {
        let number = self.skip(kind, 1);
        self.packet_numbered(kind, number, frames)
    }

    /// Leaves out packet numbers. Returns the first of them.
    pub fn skip(&mut self, kind: PacketKind, count: u64) -> u64 {
        let next = &mut self.spaces[kind.space()].next;
        *next += count;
        *next - count
    }

    /// Returns a protected packet with any number.
    ///
    /// # Panics
    /// Without keys for packets of that kind.
    #[must_use]
    pub fn packet_numbered(&self, kind: PacketKind, number: u64, frames: &[Frame]) -> Vec<u8> {
        let header = PacketHeader {
            kind,
            dcid: &self.dcid,
            scid: &self.scid,
            token: &self.token,
            phase: self.one_rtt.as_ref().is_some_and(|keys| keys.phase),
            number,
        };
        let (header_key, key) = self.local(kind).expect("keys for such packets");
        header.seal(frames, header_key, key)
    }

    /// Returns packets as one datagram, padded within its first packet if that is an Initial.
    pub fn datagram(&mut self, packets: &[(PacketKind, Vec<Frame>)]) -> Vec<u8> {
        let mut made = Vec::new();
        for (kind, frames) in packets {
            let number = self.skip(*kind, 1);
            made.push((number, self.packet_numbered(*kind, number, frames)));
        }
        let length: usize = made.iter().map(|(_, packet)| packet.len()).sum();
        if let Some((PacketKind::Initial, frames)) = packets.first()
            && length < MIN_INITIAL
        {
            let padding = Frame::Padding(MIN_INITIAL - length);
            let frames = [&frames[..], &[padding]].concat();
            made[0].1 = self.packet_numbered(PacketKind::Initial, made[0].0, &frames);
        }
        made.into_iter().flat_map(|(_, packet)| packet).collect()
    }

    /// Begins to use the next 1-RTT keys, whether or not the server has acknowledged a packet under the present ones.
    ///
    /// # Panics
    /// Without 1-RTT keys.
    pub fn update_keys(&mut self) {
        self.one_rtt.as_mut().expect("1-RTT keys").update();
    }

    /// Returns the Key Phase bit that it sends.
    #[must_use]
    pub fn key_phase(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|keys| keys.phase)
    }

    fn local(&self, kind: PacketKind) -> Option<(&dyn HeaderProtectionKey, &dyn PacketKey)> {
        let keys = match kind {
            PacketKind::Initial => &self.initial.local,
            PacketKind::ZeroRtt => self.early.as_ref()?,
            PacketKind::Handshake => &self.handshake.as_ref()?.local,
            PacketKind::OneRtt => {
                let keys = self.one_rtt.as_ref()?;
                return Some((&*keys.local_header, keys.local()));
            }
        };
        Some((&*keys.header, &*keys.packet))
    }

    /// Returns whether it may send packets of that kind.
    #[must_use]
    pub fn has_keys(&self, kind: PacketKind) -> bool {
        self.local(kind).is_some()
    }

    /// Returns whether the server accepted the early data.
    #[must_use]
    pub fn is_early_data_accepted(&self) -> bool {
        self.tls.is_early_data_accepted()
    }

    /// Returns whether the handshake resumed a session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Returns the number of session tickets received.
    #[must_use]
    pub fn tickets(&self) -> u32 {
        self.tls.tls13_tickets_received()
    }

    /// Returns whether the handshake is complete.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.one_rtt.is_some() && !self.tls.is_handshaking()
    }

    /// Returns whether the server has confirmed the handshake.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.frames.contains(&Frame::HandshakeDone)
    }

    /// Returns the error code of the server's CONNECTION_CLOSE, and whether its application closed the connection.
    #[must_use]
    pub fn closed(&self) -> Option<(bool, u64)> {
        self.frames.iter().find_map(|frame| match frame {
            Frame::Close { application, code, .. } => Some((*application, *code)),
            _ => None,
        })
    }

    /// Returns the largest number of the server's packets of that space, and of the client's that the server has
    /// acknowledged.
    #[must_use]
    pub fn largest(&self, kind: PacketKind) -> (Option<u64>, Option<u64>) {
        let space = &self.spaces[kind.space()];
        (space.received.largest(), space.acked)
    }

    /// Returns whether a packet with this number was received.
    #[must_use]
    pub fn has_received(&self, kind: PacketKind, number: u64) -> bool {
        self.spaces[kind.space()].received.contains(number)
    }

    /// Returns the server's transport parameters, once they are known.
    #[must_use]
    pub fn server_parameters(&self) -> Option<Parameters> {
        Parameters::read(self.tls.quic_transport_parameters()?)
    }
}
