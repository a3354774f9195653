//! What tests need of a host, and which of it the environment requires to be there.
//!
//! A test that cannot run calls [`skip`]. `SLUICEGATE_REQUIRE`, a list with commas, turns that into a failure for the names that
//! it holds, so that a run that must cover everything cannot pass with tests left out.
#![expect(
    unsafe_code,
    reason = "offloads of an interface are turned off by an ioctl that has no safe wrapper"
)]

use std::ffi::CString;
use std::fmt::Display;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use crate::interface::named;

const VARIABLE: &str = "SLUICEGATE_REQUIRE";

/// Everything that a test may miss on a host.
const NAMES: [&str; 5] = ["io_uring", "namespace", "aioquic", "ptrace", "dpdk"];

/// Reports that a test cannot run on this host, for want of `missing`.
///
/// # Panics
/// The environment requires it, or requires something that no test knows.
pub fn skip(missing: &str, cause: &dyn Display) {
    assert!(NAMES.contains(&missing), "{missing} has no name here");
    let required = from_environment().unwrap_or_else(|unknown| panic!("{unknown}"));
    let is_required = required.iter().any(|name| name == missing);
    assert!(!is_required, "{missing} is required: {cause}");
    println!("skipped without {missing}: {cause}");
}

/// Has the kernel write checksums and VLAN tags into the frames of an interface, and cut them to size, before they leave.
/// What is left to a card that is not there, as at the end of a veth, would arrive wrong at a driver of frames.
///
/// # Panics
/// There is no such interface, or the process has no right to change it.
pub fn turn_offloads_off(interface: &str) {
    // `linux/ethtool.h`: the command, and zero for "off".
    const SET_TX_CHECKSUMS: u32 = 0x17;
    const SET_FLAGS: u32 = 0x26;
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let name = CString::new(interface).expect("a name without zeroes");
    for command in [SET_TX_CHECKSUMS, SET_FLAGS] {
        let mut command = [command, 0];
        let mut request = named(&name).expect("a short name");
        request.ifr_ifru.ifru_data = (&raw mut command).cast();
        // SAFETY: a local with a name that ends with a zero and a pointer to a local of the command's size.
        let result =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        let error = io::Error::last_os_error();
        assert_eq!(result, 0, "offloads of {interface}: {error}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test runner is configured by the environment"
)]
fn from_environment() -> Result<Vec<String>, String> {
    read(&std::env::var(VARIABLE).unwrap_or_default())
}

/// Reads a list of required names.
///
/// # Errors
/// Names a word that is none of [`NAMES`]: misspelt, it would require nothing.
fn read(list: &str) -> Result<Vec<String>, String> {
    let words = list.split(',').map(str::trim);
    let mut required = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !NAMES.contains(&word) {
            return Err(format!(
                "{VARIABLE} holds `{word}`; it may hold {}",
                NAMES.join(", ")
            ));
        }
        required.push(word.to_owned());
    }
    Ok(required)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_any_of_the_known_names() {
        assert_eq!(read(""), Ok(Vec::new()));
        assert_eq!(
            read("io_uring, ptrace,"),
            Ok(vec!["io_uring".to_owned(), "ptrace".to_owned()])
        );
        assert_eq!(read(&NAMES.join(",")).unwrap(), NAMES);
    }

    #[test]
    fn an_unknown_word_is_refused_by_name() {
        let refused = read("io_uring,aioquik").unwrap_err();
        assert!(refused.contains("`aioquik`"), "{refused}");
        assert!(refused.contains("aioquic"), "{refused}");
    }

    #[test]
    fn the_environment_requires_nothing_unknown() {
        assert!(from_environment().is_ok(), "{:?}", from_environment());
    }
}
