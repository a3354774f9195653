//! What the system tells of a connection (TCP_INFO).
#![expect(unsafe_code, reason = "no library reads all of TCP_INFO")]

use std::os::fd::RawFd;
use std::time::Duration;

use sluicegate_base::observe::access::PathState;

/// Size of `tcp_info` up to the last field that is read here, bytes. Each release of Linux only adds to its end.
const SIZE: usize = 244;

/// State of a connection. What an older system does not tell is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketInfo([u8; SIZE]);

impl SocketInfo {
    /// Reads the state; `None` if the number is that of another kind of file.
    pub(super) fn read(socket: RawFd) -> Option<SocketInfo> {
        let mut info = [0; SIZE];
        let mut length = u32::try_from(SIZE).ok()?;
        // SAFETY: the system writes at most `length` bytes to `info`, which has as many, and both outlive the call. It refuses a number
        // that is no socket's.
        let result = unsafe {
            libc::getsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        (result == 0).then_some(SocketInfo(info))
    }

    /// Returns for how long a lack of room in the client's window has stopped the connection so far.
    pub(super) fn window_limited(&self) -> Duration {
        Duration::from_micros(self.long(176))
    }

    /// Returns the state of the path.
    pub(super) fn path_state(&self) -> PathState {
        let micros = |micros| Duration::from_micros(u64::from(micros));
        let min_rtt = self.word(148);
        PathState {
            rtt: micros(self.word(68)),
            // It is all ones before the first sample.
            min_rtt: micros(if min_rtt == u32::MAX { 0 } else { min_rtt }),
            window: u64::from(self.word(80)) * u64::from(self.word(16)),
            delivery_rate: Some(self.long(160)).filter(|rate| *rate > 0),
            retransmitted: self.long(208),
            timeouts: u64::from(u16::from_ne_bytes(self.at(240))),
        }
    }

    fn word(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.at(offset))
    }

    fn long(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.at(offset))
    }

    fn at<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut field = [0; N];
        if let Some(bytes) = self.0.get(offset..offset + N) {
            field.copy_from_slice(bytes);
        }
        field
    }
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
        let state = SocketInfo::read(stream.as_raw_fd()).unwrap().path_state();
        assert!(state.window > 1000 && state.rtt > Duration::ZERO, "{state:?}");
        assert!(Duration::ZERO < state.min_rtt && state.min_rtt <= state.rtt * 2, "{state:?}");
    }

    #[test]
    fn another_socket_has_no_state_of_tcp() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(SocketInfo::read(socket.as_raw_fd()).is_none());
    }
}
