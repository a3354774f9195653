//! The program on an interface: attached, in the way of others, and left behind.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, PoisonError};

use super::super::*;
use super::{many, requirements};

/// Runs a function in a network namespace with an interface `sga` that is a veth.
fn with_veth(function: impl FnOnce(u32) + Send) {
    // A command that starts has copies of all descriptors for a moment, and keeps another test's link.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            // SAFETY: changes the namespace of this thread, which ends with the test.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return requirements::skip("dpdk", &io::Error::last_os_error());
            }
            let script = "ip link add sga type veth peer name sgb && ip link set sga up";
            let mut command = std::process::Command::new("sh");
            assert!(command.args(["-c", script]).status().unwrap().success());
            function(index_of("sga").unwrap());
        });
        there.join().unwrap();
    });
}

fn options() -> XdpOptions {
    XdpOptions { interface: "sga".to_owned(), frames: XdpFrames::All }
}

#[test]
fn the_program_stays_while_its_link_lives_and_a_second_one_is_refused() {
    with_veth(|interface| {
        assert_eq!(netlink::program_id(interface).unwrap(), None);
        let link = XdpOpening::new(&options(), 2).unwrap().attach().unwrap();
        let id = netlink::program_id(interface).unwrap().unwrap();
        assert_eq!(bpf::program_name(id).unwrap(), "sluicegate");
        let second = XdpOpening::new(&options(), 2).unwrap_err();
        assert!(second.cause.contains("sga has one already: sluicegate"), "{second}");
        assert_eq!(netlink::program_id(interface).unwrap(), Some(id));
        drop(link);
        assert_eq!(netlink::program_id(interface).unwrap(), None);
    });
}

#[test]
fn what_a_killed_process_left_is_removed_and_what_others_put_there_is_not() {
    with_veth(|interface| {
        let map = bpf::make_map(NAME, 1).unwrap();
        let code = program::program(&XdpFrames::All, map.as_raw_fd(), program::PASS).unwrap();
        for (name, is_ours) in [(b"sluicegate_pass\0", true), (b"firewall\0\0\0\0\0\0\0\0", false)]
        {
            let program = bpf::load(name, &code).unwrap();
            netlink::set(interface, program.as_raw_fd()).unwrap();
            drop(program);
            let opening = XdpOpening::new(&options(), 2);
            assert_eq!(netlink::program_id(interface).unwrap().is_none(), is_ours);
            match opening {
                Ok(_) => assert!(is_ours),
                Err(e) => assert_eq!(
                    e.to_string(),
                    "attach an XDP program: sga has one already: firewall"
                ),
            }
        }
    });
}

#[test]
fn the_error_says_how_to_remove_a_program_whose_name_the_process_may_not_know() {
    with_veth(|interface| {
        let map = bpf::make_map(NAME, 1).unwrap();
        let code = program::program(&XdpFrames::All, map.as_raw_fd(), program::PASS).unwrap();
        let left = bpf::load(b"sluicegate_pass\0", &code).unwrap();
        netlink::set(interface, left.as_raw_fd()).unwrap();
        keep_capabilities(&THREE).unwrap();
        let id = netlink::program_id(interface).unwrap().unwrap();
        assert_eq!(
            XdpOpening::new(&options(), 2).unwrap_err().to_string(),
            format!(
                "attach an XDP program: sga has one already: number {id}, of unknown name; \
                 if a server left it that was killed at its start: ip link set dev sga xdp off"
            )
        );
    });
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let missing = XdpOptions { interface: "nowhere0".to_owned(), ..options() };
    let error = XdpOpening::new(&missing, 1).unwrap_err();
    assert!(error.cause.contains("no interface nowhere0"), "{error}");
}

/// CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, as deploy/dpdk.md says.
const THREE: [u32; 3] = [12, 13, 39];

/// Leaves this thread with these capabilities only, numbers of linux/capability.h.
fn keep_capabilities(kept: &[u32]) -> io::Result<()> {
    // Version 3, of this thread.
    let header = [0x2008_0522u32, 0];
    // Effective, permitted and inheritable ones, numbers 0 to 31 and then 32 to 63.
    let mut sets = [[0u32; 3]; 2];
    for number in kept {
        let set = &mut sets[(number / 32) as usize];
        set[0] |= 1 << (number % 32);
        set[1] |= 1 << (number % 32);
    }
    // SAFETY: locals of the layout that capset(2) reads.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const sets) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[test]
fn three_capabilities_are_enough() {
    with_veth(|_| {
        keep_capabilities(&THREE).unwrap();
        for frames in [many(64, 64), XdpFrames::All] {
            let options = XdpOptions { frames, ..options() };
            drop(XdpOpening::new(&options, 2).unwrap().attach().unwrap());
        }
    });
}
