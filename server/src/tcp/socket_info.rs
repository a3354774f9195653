//! What the system tells of a connection (TCP_INFO).
#![expect(unsafe_code, reason = "no library reads all of TCP_INFO")]

use std::os::fd::RawFd;
use std::time::Duration;

use sluicegate_base::observe::access::PathState;

/// Size of `tcp_info` up to the last field that is read here, bytes. Each release of Linux only adds to its end.
const SIZE: usize = 244;

/// Longest name of a congestion control algorithm, bytes, with the zero behind it (`TCP_CA_NAME_MAX`).
const ALGORITHM: usize = 16;
/// States of the system's congestion control, by number (`enum tcp_ca_state`).
const STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

/// State of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketInfo {
    fields: [u8; SIZE],
    /// Bytes of them that the system has told.
    length: usize,
}

impl SocketInfo {
    /// Reads the state; `None` if the number is that of another kind of file.
    pub(super) fn read(socket: RawFd) -> Option<SocketInfo> {
        let (fields, length) = option(socket, libc::TCP_INFO)?;
        Some(SocketInfo { fields, length })
    }

    /// Returns for how long a lack of room in the client's window has stopped the connection so far.
    pub(super) fn window_limited(&self) -> Duration {
        Duration::from_micros(self.long(176))
    }

    /// Returns the state of the path.
    pub(super) fn path_state(&self) -> PathState {
        // They are zero, or all ones, before the first sample.
        let time = |offset| match self.word(offset) {
            0 | u32::MAX => None,
            micros => Some(Duration::from_micros(micros.into())),
        };
        PathState {
            rtt: time(68),
            min_rtt: time(148),
            window: u64::from(self.word(80)) * self.segment(),
            delivery_rate: Some(self.long(160)).filter(|rate| *rate > 0),
            retransmitted: self.long(208),
            // Linux 6.7
            timeouts: self.at(240).map(|count| u16::from_ne_bytes(count).into()),
        }
    }

    /// Returns the state of the congestion control.
    pub(super) fn congestion_state(&self) -> &'static str {
        let [number] = self.at(1).unwrap_or_default();
        STATES.get(usize::from(number)).copied().unwrap_or("unknown")
    }

    /// Returns the most data that a segment has, bytes.
    pub(super) fn segment(&self) -> u64 {
        self.word(16).into()
    }

    /// Returns how long the client has sent nothing, not even an acknowledgement.
    pub(super) fn silence(&self) -> Duration {
        Duration::from_millis(self.word(52).min(self.word(56)).into())
    }

    /// Returns the segments that were sent again.
    pub(super) fn resent(&self) -> u64 {
        self.word(100).into()
    }

    /// Returns the bytes of data that the client has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.long(120)
    }

    /// Returns the bytes of data that were received.
    pub(super) fn received(&self) -> u64 {
        self.long(128)
    }

    /// Returns the bytes of data that were sent, those that were sent again included.
    pub(super) fn sent(&self) -> u64 {
        self.long(200)
    }

    /// Returns for how long data was unacknowledged, in all; `None` if none is now.
    pub(super) fn unacknowledged(&self) -> Option<Duration> {
        let is_waiting = self.word(24) > 0 || self.word(144) > 0;
        is_waiting.then(|| Duration::from_micros(self.long(168)))
    }

    /// Returns whether data waits for room in the client's window, which has none.
    pub(super) fn is_window_shut(&self) -> bool {
        // Linux 5.4
        let window = self.at(228).map(u32::from_ne_bytes);
        window == Some(0) && self.word(144) > 0
    }

    fn word(&self, offset: usize) -> u32 {
        self.at(offset).map_or(0, u32::from_ne_bytes)
    }

    fn long(&self, offset: usize) -> u64 {
        self.at(offset).map_or(0, u64::from_ne_bytes)
    }

    /// Returns a field; `None` if the system is too old to have it.
    fn at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let told = self.fields.get(..self.length)?;
        told.get(offset..offset + N)?.try_into().ok()
    }
}

/// Returns the name of the congestion control algorithm that the system has for a connection; `None` if the number is that of another
/// kind of file.
pub(super) fn algorithm(socket: RawFd) -> Option<String> {
    let (name, length) = option::<ALGORITHM>(socket, libc::TCP_CONGESTION)?;
    let name = name.get(..length)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Reads an option of a socket of TCP. Returns its bytes, and how many of them the system has written.
fn option<const N: usize>(socket: RawFd, name: libc::c_int) -> Option<([u8; N], usize)> {
    let mut value = [0_u8; N];
    let mut length = u32::try_from(N).ok()?;
    // SAFETY: the system writes at most `length` bytes to `value`, which has as many, and both outlive the call. It refuses a number
    // that is no socket's.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let length = usize::try_from(length).ok()?;
    (result == 0).then_some((value, length))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_client_that_does_not_read_is_seen_in_its_window() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let before = SocketInfo::read(stream.as_raw_fd()).unwrap();
        assert_eq!(before.window_limited(), Duration::ZERO);
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65_536]).is_ok() {}
        let limited = || SocketInfo::read(stream.as_raw_fd()).unwrap().window_limited();
        while limited() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        let info = SocketInfo::read(stream.as_raw_fd()).unwrap();
        assert!(info.sent() > 65_536 && info.segment() > 500 && info.received() == 0);
        assert!(info.unacknowledged().is_some_and(|time| time >= Duration::from_millis(20)));
        assert_eq!(info.congestion_state(), "open");
        let name = algorithm(stream.as_raw_fd()).unwrap();
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        assert!(known.unwrap().split_whitespace().any(|one| one == name), "{name}");
        let state = info.path_state();
        assert!(state.window > 1000 && state.rtt.is_some() && state.min_rtt.is_some(), "{state:?}");
    }

    #[test]
    fn another_socket_has_no_state_of_tcp() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(SocketInfo::read(socket.as_raw_fd()).is_none());
        assert!(algorithm(socket.as_raw_fd()).is_none());
    }
}
