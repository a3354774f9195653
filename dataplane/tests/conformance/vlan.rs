//! The VLAN of a link's peer: an interface of the kernel where it has VLANs, else a program that tags and untags.
#![expect(
    unsafe_code,
    reason = "programs of the kernel are loaded by a system call that has no wrapper"
)]

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;

use crate::veth::sh;

/// Puts the kernel's end of a link in a VLAN. Returns the interface that gets its addresses.
pub(crate) fn enter(interface: &str, vlan: u16) -> String {
    let tagged = format!("{interface}.{vlan}");
    let added = Command::new("ip")
        .args(["link", "add", "link", interface, "name", &tagged])
        .args(["type", "vlan", "id", &vlan.to_string()])
        .output()
        .unwrap();
    if added.status.success() {
        sh(&format!("ip link set {tagged} up"));
        return tagged;
    }
    // This kernel has no VLANs.
    let name = CString::new(interface).unwrap();
    // SAFETY: reads a string that ends with a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    attach(index, INGRESS, &untag(vlan));
    attach(index, EGRESS, &tag(vlan));
    interface.to_owned()
}

/// Instruction of a program: code, registers, offset and value, as in `linux/bpf.h`.
type Step = u64;

const fn step(code: u8, target: u8, source: u8, offset: u16, value: u32) -> Step {
    code as u64
        | (target as u64) << 8
        | (source as u64) << 12
        | (offset as u64) << 16
        | (value as u64) << 32
}

/// `BPF_ALU64 | BPF_MOV | BPF_K`
const SET: u8 = 0xb7;
/// `BPF_JMP | BPF_CALL`
const CALL: u8 = 0x85;
/// `BPF_JMP | BPF_EXIT`
const EXIT: u8 = 0x95;
/// `BPF_LDX | BPF_MEM | BPF_W`
const LOAD: u8 = 0x61;
/// `BPF_JMP | BPF_JEQ | BPF_K`
const EQUAL: u8 = 0x15;

/// What a program returns: on with the frame, or drop it.
const PASS: u32 = 0;
const DROP: u32 = 2;

/// Pushes a tag.
fn tag(vlan: u16) -> [Step; 5] {
    const VLAN_PUSH: u32 = 18;
    [
        step(SET, 2, 0, 0, u32::from(0x8100u16.to_be())),
        step(SET, 3, 0, 0, vlan.into()),
        step(CALL, 0, 0, 0, VLAN_PUSH),
        step(SET, 0, 0, 0, PASS),
        step(EXIT, 0, 0, 0, 0),
    ]
}

/// Takes the tag off, and drops frames without it.
fn untag(vlan: u16) -> [Step; 7] {
    const VLAN_POP: u32 = 19;
    /// Offset of `vlan_tci` in `struct __sk_buff`.
    const TAG: u16 = 24;
    [
        step(LOAD, 2, 1, TAG, 0),
        step(EQUAL, 2, 0, 2, vlan.into()),
        step(SET, 0, 0, 0, DROP),
        step(EXIT, 0, 0, 0, 0),
        step(CALL, 0, 0, 0, VLAN_POP),
        step(SET, 0, 0, 0, PASS),
        step(EXIT, 0, 0, 0, 0),
    ]
}

/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS`
const INGRESS: u32 = 46;
const EGRESS: u32 = 47;

/// Has a program see the frames of an interface, until that is removed.
fn attach(interface: u32, place: u32, steps: &[Step]) {
    const LOAD_PROGRAM: libc::c_long = 5;
    const ATTACH: libc::c_long = 8;
    /// `BPF_PROG_TYPE_SCHED_CLS`
    const CLASSIFIER: u32 = 3;

    /// The first fields of `BPF_PROG_LOAD`.
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        steps: u64,
        license: u64,
        rest: [u64; 4],
    }
    /// The first fields of `BPF_PROG_ATTACH`.
    #[repr(C)]
    struct Attach {
        interface: u32,
        program: i32,
        place: u32,
        rest: [u32; 5],
    }
    let load = Load {
        kind: CLASSIFIER,
        count: u32::try_from(steps.len()).unwrap(),
        steps: steps.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        rest: [0; 4],
    };
    // SAFETY: a local of this length, whose pointers are to a slice of as many steps and to a string that ends with a zero.
    let program =
        unsafe { libc::syscall(libc::SYS_bpf, LOAD_PROGRAM, &raw const load, size_of::<Load>()) };
    assert!(program >= 0, "{:?}", std::io::Error::last_os_error());
    // SAFETY: the kernel just opened it, and nobody else has it.
    let program = unsafe { OwnedFd::from_raw_fd(program.try_into().unwrap()) };
    let attach = Attach { interface, program: program.as_raw_fd(), place, rest: [0; 5] };
    // SAFETY: a local of this length without pointers.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, ATTACH, &raw const attach, size_of::<Attach>()) };
    assert_eq!(result, 0, "{:?}", std::io::Error::last_os_error());
}
