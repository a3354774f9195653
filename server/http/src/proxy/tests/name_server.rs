//! Name server for tests (RFC 1035 §4.1).

use std::cell::Cell;
use std::net::Ipv4Addr;

use tokio::net::UdpSocket;

use super::*;

/// Name server that knows one name: it responds to each question for IPv4 addresses with the same records, and to each
/// other one with none.
pub(super) struct NameServer {
    pub(super) address: SocketAddr,
    state: Rc<State>,
    task: JoinHandle<()>,
}

struct State {
    addresses: RefCell<Vec<Ipv4Addr>>,
    /// Time to live, seconds.
    ttl: u32,
    /// Questions for IPv4 addresses so far.
    asked: Cell<u64>,
    is_broken: Cell<bool>,
    is_silent: Cell<bool>,
}

impl NameServer {
    pub(super) async fn new(ttl: u32, addresses: &[Ipv4Addr]) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let state = Rc::new(State {
            addresses: RefCell::new(addresses.to_vec()),
            ttl,
            asked: Cell::new(0),
            is_broken: Cell::new(false),
            is_silent: Cell::new(false),
        });
        let task = tokio::task::spawn_local(serve(socket, Rc::clone(&state)));
        NameServer { address, state, task }
    }

    /// Gives the name other addresses.
    pub(super) fn set(&self, addresses: &[Ipv4Addr]) {
        self.state.addresses.replace(addresses.to_vec());
    }

    /// Has all further questions fail (SERVFAIL).
    pub(super) fn fail(&self) {
        self.state.is_broken.set(true);
    }

    /// Leaves all further questions without a response.
    pub(super) fn hush(&self) {
        self.state.is_silent.set(true);
    }

    /// Returns the number of questions for IPv4 addresses so far.
    pub(super) fn asked(&self) -> u64 {
        self.state.asked.get()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(socket: UdpSocket, state: Rc<State>) {
    let mut buffer = [0; 1500];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let answer = state.answer(&buffer[..length]);
        if !state.is_silent.get() {
            socket.send_to(&answer, from).await.unwrap();
        }
    }
}

impl State {
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        // The labels of the name, then type and class.
        let mut end = 12;
        while question[end] != 0 {
            end += usize::from(question[end]) + 1;
        }
        let section = &question[12..end + 5];
        let is_a = section.ends_with(&[0, 1, 0, 1]);
        self.asked.set(self.asked.get() + u64::from(is_a));
        let is_broken = self.is_broken.get();
        let known = self.addresses.borrow();
        let addresses: &[Ipv4Addr] = if is_a && !is_broken { &known } else { &[] };
        let count = u8::try_from(addresses.len()).unwrap();
        let code = if is_broken { 2 } else { 0 };
        let mut answer = question[..2].to_vec();
        // A response with recursion, one question, these answers, and nothing else.
        answer.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
        answer.extend(section);
        for address in addresses {
            // The name is that of the question.
            answer.extend([0xc0, 12, 0, 1, 0, 1]);
            answer.extend(self.ttl.to_be_bytes());
            answer.extend([0, 4]);
            answer.extend(address.octets());
        }
        answer
    }
}
