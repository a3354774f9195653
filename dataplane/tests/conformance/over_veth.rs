//! Runs the suite again for each driver that can have a link, in a network namespace with a veth pair to another, together
//! with the cases of `link.rs`.

use std::fmt::Display;
use std::process::Command;

use sluicegate_dataplane::requirements::skip;

use crate::rig::{Kind, OVER_A_LINK, io_uring};

/// Checks that the host allows such networks to whom `unshare` makes the user.
fn trial(unshare: &str) -> Result<(), impl Display> {
    let script = "ip link add home0 type veth peer name far0 && unshare -n true";
    let output = Command::new("unshare").args([unshare, "sh", "-c", script]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        output => Err(format!("no network namespaces and veth here: {output:?}")),
    }
}

fn run(kind: Kind, unshare: &str) {
    let output = Command::new("unshare")
        .args([unshare, "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--include-ignored", "--nocapture", "--test-threads", "1"])
        .args(["--skip", "over_veth::", "--skip", "namespace::"])
        .env(OVER_A_LINK, format!("{kind:?}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(said.contains(&format!("driver: {kind:?} as Server")));
    assert!(!said.contains("skipped without"));
}

#[test]
fn mio() {
    match trial("-rn") {
        Ok(()) => run(Kind::Mio, "-rn"),
        Err(cause) => skip("namespace", &cause),
    }
}

#[test]
fn io_uring_() {
    if let Err(cause) = io_uring() {
        return skip("io_uring", &cause);
    }
    match trial("-rn") {
        Ok(()) => run(Kind::IoUring, "-rn"),
        Err(cause) => skip("namespace", &cause),
    }
}

/// Runs the suite over a device of DPDK, which takes rights that a user namespace does not give.
fn dpdk(kind: Kind) {
    if cfg!(not(feature = "dpdk")) {
        return skip("dpdk", &"this build leaves DPDK out");
    }
    match trial("-n") {
        Ok(()) => run(kind, "-n"),
        Err(cause) => skip("dpdk", &cause),
    }
}

#[test]
fn dpdk_by_af_packet() {
    dpdk(Kind::AfPacket);
}

#[test]
fn dpdk_by_af_xdp() {
    dpdk(Kind::AfXdp);
}

#[test]
fn dpdk_by_af_xdp_beside_the_kernel() {
    dpdk(Kind::AfXdpBesideKernel);
}
