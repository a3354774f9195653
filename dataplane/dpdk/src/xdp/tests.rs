//! The kernel runs the program over tables of frames.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use super::*;

mod interface;
#[path = "../../../src/requirements.rs"]
#[expect(unreachable_pub, reason = "the file is that of a crate above this one")]
mod requirements;

/// Action of a frame that would be redirected, if its queue had a socket: `XDP_TX`, which the program never returns else.
const REDIRECTED: u32 = 3;
const PASSED: u32 = 2;

const V4: &str = "192.0.2.1:443";
const V6: &str = "[2001:db8::1]:443";

struct Program {
    program: OwnedFd,
    _map: OwnedFd,
}

impl Program {
    fn load(frames: &XdpFrames) -> io::Result<Self> {
        let map = bpf::make_map(NAME, 4)?;
        let code = program::program(frames, map.as_raw_fd(), REDIRECTED.cast_signed()).unwrap();
        Ok(Self { program: bpf::load(NAME, &code)?, _map: map })
    }

    fn datagrams(vlan: Option<u16>, to: &[&str]) -> io::Result<Self> {
        let to = to.iter().map(|address| address.parse().unwrap()).collect();
        Self::load(&XdpFrames::Datagrams { vlan, to })
    }

    fn takes(&self, frame: &[u8]) -> bool {
        match bpf::test_run(self.program.as_fd(), frame).unwrap() {
            REDIRECTED => true,
            PASSED => false,
            action => panic!("{action} for {frame:?}"),
        }
    }
}

/// A frame with a tag, options and a payload, whose parts a case changes.
#[derive(Clone)]
struct Frame {
    tags: Vec<[u8; 4]>,
    options: usize,
    destination: SocketAddr,
    protocol: u8,
    fragment: u16,
    payload: usize,
}

impl Frame {
    fn to(destination: &str) -> Self {
        Self {
            tags: Vec::new(),
            options: 0,
            destination: destination.parse().unwrap(),
            protocol: 17,
            fragment: 0x4000,
            payload: 20,
        }
    }

    fn ethernet(&self, ethertype: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(self.tags.iter().flatten());
        frame.extend(ethertype.to_be_bytes());
        frame
    }

    fn bytes(&self) -> Vec<u8> {
        let udp = u16::try_from(8 + self.payload).unwrap();
        let mut frame;
        match self.destination.ip() {
            IpAddr::V4(destination) => {
                frame = self.ethernet(0x0800);
                let header = 20 + self.options;
                frame.extend([0x40 | u8::try_from(header / 4).unwrap(), 0]);
                frame.extend((u16::try_from(header).unwrap() + udp).to_be_bytes());
                frame.extend([0, 1]);
                frame.extend(self.fragment.to_be_bytes());
                frame.extend([64, self.protocol, 0, 0, 198, 51, 100, 1]);
                frame.extend(destination.octets());
                frame.resize(frame.len() + self.options, 1);
            }
            IpAddr::V6(destination) => {
                frame = self.ethernet(0x86dd);
                frame.extend([0x60, 0, 0, 0]);
                frame.extend(udp.to_be_bytes());
                frame.extend([self.protocol, 64]);
                frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
                frame.extend(destination.octets());
            }
        }
        frame.extend(4000u16.to_be_bytes());
        frame.extend(self.destination.port().to_be_bytes());
        frame.extend(udp.to_be_bytes());
        frame.extend([0, 0]);
        frame.resize(frame.len() + self.payload, 0xaa);
        frame
    }
}

/// Loads a program; where that is not permitted the test cannot run.
macro_rules! load {
    ($load:expr) => {
        match $load {
            Ok(program) => program,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return requirements::skip("dpdk", &e);
            }
            Err(e) => panic!("the kernel refuses the program: {e}"),
        }
    };
}

#[test]
fn only_datagrams_to_the_listeners_are_redirected() {
    let program = load!(Program::datagrams(None, &[V4, V6, "192.0.2.1:8443", "192.0.2.2:444"]));
    let to = |address: &str| program.takes(&Frame::to(address).bytes());
    for address in [V4, V6, "192.0.2.1:8443", "192.0.2.2:444"] {
        assert!(to(address), "{address}");
    }
    for address in [
        "192.0.2.1:444",
        "192.0.2.2:443",
        "192.0.2.3:443",
        "193.0.2.1:443",
        "[2001:db8::1]:444",
        "[2001:db8::2]:443",
        "[2001:db8:1::1]:443",
        "[2002:db8::1]:443",
        // The port's bytes in reverse order.
        "192.0.2.1:47873",
    ] {
        assert!(!to(address), "{address}");
    }
}

#[test]
fn everything_else_stays_with_the_kernel() {
    let program = load!(Program::datagrams(None, &[V4, V6]));
    for address in [V4, V6] {
        let good = Frame::to(address);
        assert!(program.takes(&good.bytes()));
        for protocol in [0, 1, 6, 44, 50, 58, 60, 132] {
            let other = Frame { protocol, ..good.clone() };
            assert!(!program.takes(&other.bytes()), "{address}: {protocol}");
        }
        // ARP, LLDP, 802.3 lengths, and the other family's number.
        for ethertype in [0x0806u16, 0x88cc, 0x0040, 0x8100, 0x0008] {
            let mut frame = good.bytes();
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            assert!(!program.takes(&frame), "{address}: {ethertype:#x}");
        }
        for version in [0x00, 0x50, 0x70, 0xf0] {
            let mut frame = good.bytes();
            frame[14] = version | frame[14] & 0x0f;
            assert!(!program.takes(&frame), "{address}: {version:#x}");
        }
        let tagged = Frame { tags: vec![[0x81, 0, 0, 7]], ..good };
        assert!(!program.takes(&tagged.bytes()));
    }
    let mut swapped = Frame::to(V4).bytes();
    swapped[12..14].copy_from_slice(&[0x86, 0xdd]);
    assert!(!program.takes(&swapped));
}

#[test]
fn fragments_of_ipv4_stay_and_options_do_not_matter() {
    let program = load!(Program::datagrams(None, &[V4]));
    // Reserved bit and "don't fragment" may be set.
    for (fragment, taken) in [
        (0x0000, true),
        (0x4000, true),
        (0x8000, true),
        (0x2000, false),
        (0x0001, false),
        (0x1fff, false),
        (0x6000, false),
    ] {
        let frame = Frame { fragment, ..Frame::to(V4) };
        assert_eq!(program.takes(&frame.bytes()), taken, "{fragment:#x}");
    }
    for options in (0..=40).step_by(4) {
        let frame = Frame { options, ..Frame::to(V4) };
        assert!(program.takes(&frame.bytes()), "{options}");
    }
    for words in 0..5 {
        let mut short = Frame::to(V4).bytes();
        short[14] = 0x40 | words;
        assert!(!program.takes(&short), "{words}");
    }
}

#[test]
fn frames_cut_short_before_the_payload_stay() {
    let plain = load!(Program::datagrams(None, &[V4, V6]));
    let tagged = load!(Program::datagrams(Some(7), &[V4, V6]));
    let tags = vec![[0x81, 0, 0xe0, 7]];
    for (program, frame) in [
        (&plain, Frame::to(V4)),
        (&plain, Frame { options: 40, ..Frame::to(V4) }),
        (&plain, Frame::to(V6)),
        (&tagged, Frame { tags: tags.clone(), ..Frame::to(V4) }),
        (&tagged, Frame { tags, ..Frame::to(V6) }),
    ] {
        let bytes = frame.bytes();
        let headers = bytes.len() - frame.payload;
        // The kernel tests no frames shorter than an Ethernet header, and no card delivers one.
        for length in 14..bytes.len() {
            assert_eq!(program.takes(&bytes[..length]), length >= headers, "{length}: {bytes:?}");
        }
    }
}

#[test]
fn the_tag_must_be_that_of_the_vlan() {
    let program = load!(Program::datagrams(Some(7), &[V4, V6]));
    for address in [V4, V6] {
        for (tags, taken) in [
            (vec![[0x81, 0, 0, 7]], true),
            // Priority bits.
            (vec![[0x81, 0, 0xf0, 7]], true),
            (vec![], false),
            (vec![[0x81, 0, 0, 8]], false),
            (vec![[0x81, 0, 1, 7]], false),
            (vec![[0x88, 0xa8, 0, 7]], false),
            (vec![[0x81, 0, 0, 7], [0x81, 0, 0, 7]], false),
        ] {
            let frame = Frame { tags: tags.clone(), ..Frame::to(address) };
            assert_eq!(program.takes(&frame.bytes()), taken, "{tags:?}");
        }
    }
}

#[test]
fn a_program_of_one_family_passes_the_other() {
    for (own, other) in [(V4, V6), (V6, V4)] {
        let program = load!(Program::datagrams(None, &[own]));
        assert!(program.takes(&Frame::to(own).bytes()));
        assert!(!program.takes(&Frame::to(other).bytes()));
    }
}

#[test]
fn all_frames_are_redirected_if_that_is_asked_for_and_none_without_a_listener() {
    let all = load!(Program::load(&XdpFrames::All));
    let none = load!(Program::datagrams(None, &[]));
    for frame in [Frame::to(V4).bytes(), vec![0; 14], vec![0xff; 60]] {
        assert!(all.takes(&frame));
        assert!(!none.takes(&frame));
    }
}

#[test]
fn the_kernel_takes_as_many_destinations_as_a_configuration_may_have_and_too_many_are_no_program() {
    let program = load!(Program::load(&many(64, 64)));
    assert!(program.takes(&Frame::to("10.0.0.63:64").bytes()));
    assert!(program.takes(&Frame::to("[fd00::3f]:64").bytes()));
    assert!(!program.takes(&Frame::to("[fd00::3f]:65").bytes()));
    assert!(program::program(&many(200, 200), 0, 0).is_none());
}

/// Returns datagrams to so many addresses of each family, with so many ports each.
fn many(addresses: u16, ports: u16) -> XdpFrames {
    let to = (0..addresses).flat_map(|a| {
        let [high, low] = a.to_be_bytes();
        let v4 = IpAddr::from([10, 0, high, low]);
        let v6 = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, a]);
        (1..=ports).flat_map(move |port| [v4, v6].map(|ip| SocketAddr::new(ip, port)))
    });
    XdpFrames::Datagrams { vlan: None, to: to.collect() }
}
