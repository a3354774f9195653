//! What the system tells of a connection (TCP_INFO).
#![expect(unsafe_code, reason = "no library reads all of TCP_INFO")]

use std::os::fd::RawFd;
use std::time::Duration;

use sluicegate_base::observe::access::PathState;

/// Size of `tcp_info` up to the last field that is read here, bytes. Each release of Linux only adds to its end.
const SIZE: usize = 244;

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
        let mut fields = [0_u8; SIZE];
        let mut length = u32::try_from(SIZE).ok()?;
        // SAFETY: the system writes at most `length` bytes to `fields`, which has as many, and both outlive the call. It refuses a number
        // that is no socket's.
        let result = unsafe {
            libc::getsockopt(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                fields.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let length = usize::try_from(length).ok()?;
        (result == 0).then_some(SocketInfo { fields, length })
    }

    /// Returns for how long a lack of room in the client's window has stopped the connection so far.
    pub(super) fn window_limited(&self) -> Duration {
        Duration::from_micros(self.at(176).map_or(0, u64::from_ne_bytes))
    }

    /// Returns the state of the path.
    pub(super) fn path_state(&self) -> PathState {
        let word = |offset| self.at(offset).map_or(0, u32::from_ne_bytes);
        let long = |offset| self.at(offset).map_or(0, u64::from_ne_bytes);
        // They are zero, or all ones, before the first sample.
        let time = |offset| match word(offset) {
            0 | u32::MAX => None,
            micros => Some(Duration::from_micros(micros.into())),
        };
        PathState {
            rtt: time(68),
            min_rtt: time(148),
            window: u64::from(word(80)) * u64::from(word(16)),
            delivery_rate: Some(long(160)).filter(|rate| *rate > 0),
            retransmitted: long(208),
            // Linux 6.7
            timeouts: self.at(240).map(|count| u16::from_ne_bytes(count).into()),
        }
    }

    /// Returns a field; `None` if the system is too old to have it.
    fn at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let told = self.fields.get(..self.length)?;
        told.get(offset..offset + N)?.try_into().ok()
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
        assert!(state.window > 1000 && state.rtt.is_some() && state.min_rtt.is_some(), "{state:?}");
    }

    #[test]
    fn another_socket_has_no_state_of_tcp() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(SocketInfo::read(socket.as_raw_fd()).is_none());
    }
}
