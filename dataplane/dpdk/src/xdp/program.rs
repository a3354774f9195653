//! The XDP program of an interface: which frames go to the sockets of AF_XDP. All others stay with the kernel.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::assembler::{Assembler, Instruction, Label, R0, R1, R2, R3, R4, R5, R6, Size};

/// Frames that go to the sockets of AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XdpFrames {
    /// All.
    All,
    /// UDP datagrams in one piece; the kernel gets all other frames.
    Datagrams {
        /// VLAN whose tag the frames have; frames without a tag if `None`.
        vlan: Option<u16>,
        /// Destinations.
        to: Vec<SocketAddr>,
    },
}

/// `enum xdp_action`: the kernel takes the frame.
pub(super) const PASS: i32 = 2;
/// `BPF_FUNC_redirect_map` in linux/bpf.h.
const REDIRECT_MAP: i32 = 51;

/// Offsets in `struct xdp_md`: start and end of the frame, and the receive queue.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

const ETHERNET: i16 = 14;
const TAG: i16 = 4;
const IPV4: i16 = 20;
const IPV6: i16 = 40;
const UDP: i16 = 8;
/// Offset of the destination port in the header of UDP.
const UDP_DESTINATION: i16 = 2;
const PROTOCOL_UDP: i32 = 17;

/// Bits of flags and offset that only fragments have.
const IPV4_FRAGMENT: u16 = 0x3fff;

/// Ports by address.
type Destinations = BTreeMap<IpAddr, Vec<u16>>;

/// Makes the program. `map` is the descriptor of the map with the sockets by queue; a frame whose queue has none gets the
/// action `otherwise`. Returns `None` where there are too many destinations.
pub(super) fn program(frames: &XdpFrames, map: i32, otherwise: i32) -> Option<Vec<Instruction>> {
    let mut asm = Assembler::default();
    asm.load(R6, Size::Word, R1, CONTEXT_QUEUE);
    if let XdpFrames::Datagrams { vlan, to } = frames {
        let redirect = asm.label();
        let mut destinations = Destinations::new();
        for address in to {
            let ports = destinations.entry(address.ip()).or_default();
            if !ports.contains(&address.port()) {
                ports.push(address.port());
            }
        }
        select(&mut asm, *vlan, &destinations, redirect);
        if destinations.is_empty() {
            return asm.finish();
        }
        asm.place(redirect);
    }
    asm.load_map(R1, map);
    asm.copy(R2, R6);
    asm.set(R3, otherwise);
    asm.call(REDIRECT_MAP);
    asm.exit();
    asm.finish()
}

/// Jumps to `redirect` with the datagrams to these destinations, and passes all other frames.
///
/// R2 and R3 are the start and the end of the frame, R4 and R5 point into it or hold what was read.
fn select(asm: &mut Assembler, vlan: Option<u16>, destinations: &Destinations, redirect: Label) {
    let pass = asm.label();
    let l2 = if vlan.is_some() { ETHERNET + TAG } else { ETHERNET };
    asm.load(R2, Size::Word, R1, CONTEXT_DATA);
    asm.load(R3, Size::Word, R1, CONTEXT_END);
    reach(asm, l2, pass);
    if let Some(vlan) = vlan {
        asm.load(R5, Size::Half, R2, ETHERNET - 2);
        asm.jump_unless_equal_imm(R5, half(0x8100), pass);
        asm.load(R5, Size::Half, R2, ETHERNET);
        asm.and_imm(R5, half(0x0fff));
        asm.jump_unless_equal_imm(R5, half(vlan & 0x0fff), pass);
    }
    asm.load(R5, Size::Half, R2, l2 - 2);
    let (v4, v6): (Vec<_>, Vec<_>) = destinations.iter().partition(|(ip, _)| ip.is_ipv4());
    let other = asm.label();
    if !v4.is_empty() {
        asm.jump_unless_equal_imm(R5, half(0x0800), other);
        ipv4_header(asm, l2, pass);
        destinations_of(asm, &v4, l2 + 16, (pass, redirect));
    }
    asm.place(other);
    if !v6.is_empty() {
        asm.jump_unless_equal_imm(R5, half(0x86dd), pass);
        ipv6_header(asm, l2, pass);
        destinations_of(asm, &v6, l2 + 24, (pass, redirect));
    }
    asm.place(pass);
    asm.set(R0, PASS);
    asm.exit();
}

/// Passes frames that are shorter than `len`.
fn reach(asm: &mut Assembler, len: i16, pass: Label) {
    asm.copy(R4, R2);
    asm.add_imm(R4, len.into());
    asm.jump_if_greater(R4, R3, pass);
}

/// Leaves the destination port in R5. Passes what is no UDP, and fragments, which the kernel puts together.
fn ipv4_header(asm: &mut Assembler, l2: i16, pass: Label) {
    reach(asm, l2 + IPV4, pass);
    asm.load(R5, Size::Byte, R2, l2 + 9);
    asm.jump_unless_equal_imm(R5, PROTOCOL_UDP, pass);
    asm.load(R5, Size::Half, R2, l2 + 6);
    asm.and_imm(R5, half(IPV4_FRAGMENT));
    asm.jump_unless_equal_imm(R5, 0, pass);
    asm.load(R0, Size::Byte, R2, l2);
    let done = asm.label();
    // Version 4, and a length in units of 4 bytes: there may be options. Each length has code of its own, because without
    // CAP_PERFMON the kernel lets no program add what it read to the position of a frame.
    for units in 5..=15 {
        let next = asm.label();
        asm.jump_unless_equal_imm(R0, 0x40 | i32::from(units), next);
        reach(asm, l2 + 4 * units + UDP, pass);
        asm.load(R5, Size::Half, R2, l2 + 4 * units + UDP_DESTINATION);
        asm.jump(done);
        asm.place(next);
    }
    asm.jump(pass);
    asm.place(done);
}

/// Leaves the destination port in R5. Passes what is no UDP; extension headers, that of fragments among them, are none.
fn ipv6_header(asm: &mut Assembler, l2: i16, pass: Label) {
    reach(asm, l2 + IPV6 + UDP, pass);
    asm.load(R5, Size::Byte, R2, l2);
    asm.and_imm(R5, 0xf0);
    asm.jump_unless_equal_imm(R5, 0x60, pass);
    asm.load(R5, Size::Byte, R2, l2 + 6);
    asm.jump_unless_equal_imm(R5, PROTOCOL_UDP, pass);
    asm.load(R5, Size::Half, R2, l2 + IPV6 + UDP_DESTINATION);
}

/// Compares the address at `at` and the port in R5 with those of one family. None of the compared registers change.
fn destinations_of(
    asm: &mut Assembler,
    destinations: &[(&IpAddr, &Vec<u16>)],
    at: i16,
    (pass, redirect): (Label, Label),
) {
    for (ip, ports) in destinations {
        let next = asm.label();
        let mut offset = at;
        for word in words(**ip) {
            asm.load(R4, Size::Word, R2, offset);
            asm.jump_unless_equal_word(R4, word, next);
            offset += 4;
        }
        for port in *ports {
            asm.jump_if_equal_imm(R5, half(*port), redirect);
        }
        asm.jump(pass);
        asm.place(next);
    }
    asm.jump(pass);
}

/// Returns a half word of the network as a load reads it.
fn half(value: u16) -> i32 {
    value.to_be().into()
}

/// Returns the words of an address as loads read them.
fn words(ip: IpAddr) -> Vec<u32> {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = bytes.as_chunks();
    words.iter().copied().map(u32::from_ne_bytes).collect()
}
