//! The newer process's side of an upgrade: it takes over from the process that started it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rustix::stdio::{dup2_stdin, stdin};
use sluicegate_base::secrets::{GENERATIONS, Purpose, RootSecret, Secrets, generations_since};
use sluicegate_config::Config;
use sluicegate_dataplane::{Steering, TakenSockets};
use sluicegate_quic::cid::CidSchemes;
use thiserror::Error;

use super::events::{Event, OLDER, OlderNews, OtherNews};
use super::lanes::group_index;
use super::passed::{HandedSocket, Passed};
use crate::handover::message::{Hello, PROTOCOL};
use crate::handover::relay::{AddressLabels, Relay};
use crate::handover::{Bequest, Channel, Message, SocketKind};
use crate::snapshot::BoundListener;
use crate::tcp::TcpConfig;

/// Variable of the environment that says that the standard input is the way to the process before.
pub(super) const VARIABLE: &str = "SLUICEGATE_TAKEOVER";
/// Time for the process before to say what it hands over.
const OFFER: Duration = Duration::from_secs(10);

/// The process before, of which this one takes over.
pub(super) struct Takeover {
    channel: Arc<Channel>,
    /// Stream of datagrams.
    stream: Option<UnixStream>,
    /// What the processes leave each other, until it is used.
    pub(super) bequest: Option<Bequest>,
    /// Facts of it as of the start of this one.
    hello: Hello,
    /// Generation of the oldest process that still runs, if it is none that this one knows to have ended.
    oldest: Option<u8>,
    /// Numbers of the addresses of QUIC, with their listeners.
    labels: Vec<(u16, String, SocketAddr)>,
    /// Sockets of QUIC that it has handed over, with those behind them, until this process reads them.
    pub(super) taken: Vec<TakenSockets>,
    reads: bool,
    /// The process before has ended.
    has_ended: bool,
    /// Configuration of the fronts over TCP, until this process takes over.
    pub(super) over_tcp: Option<Arc<TcpConfig>>,
}

impl Takeover {
    /// Takes what the process before hands over, if one has started this process.
    ///
    /// # Errors
    /// It does not say, or not in this protocol.
    #[expect(clippy::disallowed_methods, reason = "only a child of a server has the variable")]
    pub(super) fn find() -> Result<Option<(Takeover, Passed)>, TakeoverError> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let channel = stdin().as_fd().try_clone_to_owned().map_err(TakeoverError::Channel)?;
        // The copy alone is used, and no program that this one starts gets it.
        let nothing = File::open("/dev/null").map_err(TakeoverError::Channel)?;
        dup2_stdin(&nothing).map_err(|error| TakeoverError::Channel(error.into()))?;
        let channel = Channel::of(channel);
        channel.set_limit(Some(OFFER)).map_err(TakeoverError::Channel)?;
        let taken = Takeover::receive(channel)?;
        Ok(Some(taken))
    }

    fn receive(channel: Channel) -> Result<(Takeover, Passed), TakeoverError> {
        let receive = || {
            let received = channel.receive().map_err(TakeoverError::Channel)?;
            received.ok_or(TakeoverError::Channel(io::ErrorKind::UnexpectedEof.into()))
        };
        let (Message::Hello(hello), beside) = receive()? else {
            return Err(TakeoverError::Strange);
        };
        let mut beside = beside.into_iter();
        let stream = beside.next().ok_or(TakeoverError::Strange)?;
        if hello.protocol != PROTOCOL {
            return Err(TakeoverError::Protocol(hello.protocol));
        }
        let (mut handed, mut labels) = (Vec::new(), Vec::<(u16, String, SocketAddr)>::new());
        for _ in 0..hello.sockets {
            let (Message::Socket { kind, listener, configured, label }, beside) = receive()? else {
                return Err(TakeoverError::Strange);
            };
            let socket = beside.into_iter().next().ok_or(TakeoverError::Strange)?;
            let is_new = !labels.iter().any(|(other, ..)| *other == label);
            if kind == SocketKind::Udp && is_new {
                labels.push((label, listener.clone(), configured));
            }
            handed.push(HandedSocket { kind, listener, configured, socket });
        }
        channel.set_limit(None).map_err(TakeoverError::Channel)?;
        let takeover = Takeover {
            channel: Arc::new(channel),
            stream: Some(stream.into()),
            bequest: beside.next().map(Bequest::of),
            oldest: Some(hello.oldest),
            hello,
            labels,
            taken: Vec::new(),
            reads: false,
            has_ended: false,
            over_tcp: None,
        };
        Ok((takeover, Passed::handed_over(handed)))
    }

    /// Checks that this process reads the IDs of those before it and has their secrets, and that none that still runs has its generation.
    ///
    /// # Errors
    /// It does not, or one has.
    pub(super) fn check(&self, secrets: &Secrets, cids: &CidSchemes) -> Result<(), TakeoverError> {
        let (hello, own) = (&self.hello, cids.kinds());
        if layout(cids) != hello.layout || hello.kinds.iter().any(|kind| !own.contains(kind)) {
            return Err(TakeoverError::Layout);
        }
        // Those of the process before may have been rotated since it read them.
        if !secrets.roots().iter().any(|root| fingerprint(root) == hello.secrets) {
            return Err(TakeoverError::Secrets);
        }
        let generation = secrets.generation();
        let Some(oldest) = self.oldest else {
            return Ok(());
        };
        if generations_since(oldest, generation) <= generations_since(oldest, hello.newest) {
            return Err(TakeoverError::Generations);
        }
        Ok(())
    }

    /// Returns the kinds of connection IDs that processes make which still run, beside this one.
    pub(super) fn kinds(&self) -> &[String] {
        if self.oldest.is_some() { &self.hello.kinds } else { &[] }
    }

    /// Returns the generation of the oldest process that still runs, beside this one.
    pub(super) fn oldest(&self) -> Option<u8> {
        self.oldest
    }

    /// Notes which process is the oldest now. What it said before its end may come after that.
    pub(super) fn set_oldest(&mut self, oldest: Option<u8>) {
        self.oldest = self.oldest.and(oldest);
    }

    /// Connects the workers with the process before by `relay`, which may bring datagrams from now on, gives it the sockets that were bound
    /// behind its own, and tells it that this process serves.
    ///
    /// # Errors
    /// It has ended, or the system gives no thread.
    pub(super) fn ready(
        &mut self,
        relay: Relay,
        bound: &[BoundListener],
        generation: u8,
        events: &Sender<Event>,
    ) -> io::Result<()> {
        let closed = events.clone();
        if let Some(stream) = self.stream.take() {
            relay.start(stream, move || drop(closed.send(Event::Older(OlderNews::Closed))))?;
        }
        // If it has ended already, the thread below learns of it, and this process reads.
        for taken in &self.taken {
            let bound = bound.iter().find(|bound| bound.at.id == taken.listener());
            if let Some(message) = bound.and_then(|bound| self.socket_of(bound)) {
                let mut added = taken.added().iter();
                let _ = added.try_for_each(|socket| {
                    self.channel.offer(&message, std::slice::from_ref(socket))
                });
            }
        }
        self.send(&Message::Ready { generation });
        let (channel, events) = (Arc::clone(&self.channel), events.clone());
        std::thread::Builder::new().name("takeover".into()).spawn(move || {
            follow(&channel, |event| events.send(event).is_ok());
        })?;
        Ok(())
    }

    /// Returns the numbers of the addresses of QUIC that this process has, too.
    pub(super) fn address_labels(
        &self,
        config: &Config,
        bound: &[BoundListener],
        steering: Steering,
    ) -> AddressLabels {
        let mut labels = AddressLabels::new(steering);
        for (label, listener, configured) in &self.labels {
            let mut bound = bound.iter().filter(|bound| bound.at.protocols.has_quic());
            let found = bound.find(|bound| bound.name == *listener && bound.is_at(*configured));
            if let Some(found) = found {
                let id = found.at.id;
                labels.add(*label, id, group_index(config, &found.at.group));
                let taken = self.taken.iter().find(|taken| taken.listener() == id);
                labels.add_sockets(id, taken.map_or(0, TakenSockets::count));
            }
        }
        labels
    }

    /// Returns the message that names a socket of an address to the process before, if that has the address.
    fn socket_of(&self, bound: &BoundListener) -> Option<Message> {
        let found = self.label_of(bound);
        found.map(|(label, listener, configured)| Message::Socket {
            kind: SocketKind::Udp,
            listener: listener.clone(),
            configured: *configured,
            label: *label,
        })
    }

    fn label_of(&self, bound: &BoundListener) -> Option<&(u16, String, SocketAddr)> {
        let mut labels = self.labels.iter();
        labels.find(|(_, name, configured)| bound.name == *name && bound.is_at(*configured))
    }

    /// Gives the process before a socket of an address that was bound behind those that it has. Without it, the address is not one that it
    /// could serve again.
    pub(super) fn add_socket(&mut self, bound: &BoundListener, socket: OwnedFd) {
        let Some(message) = self.socket_of(bound) else {
            return;
        };
        if self.channel.send_beside(&message, socket).is_err() {
            self.labels
                .retain(|(_, name, configured)| bound.name != *name || !bound.is_at(*configured));
        }
    }

    /// Has the kernel steer to all sockets that this process is to read.
    ///
    /// # Errors
    /// The kernel takes no program.
    pub(super) fn steer(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.taken).iter().try_for_each(TakenSockets::steer)
    }

    /// Notes that the workers read, and tells the process before.
    pub(super) fn on_reading(&mut self) {
        self.send(&Message::Reading);
        self.reads = true;
    }

    /// Sends the process before a message.
    pub(super) fn send(&self, message: &Message) {
        // It may have ended.
        let _ = self.channel.send(message);
    }

    /// Returns the way to the process before.
    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Returns the number of the process before.
    pub(super) fn process(&self) -> u32 {
        self.hello.process
    }

    /// Returns whether the process before reads connection IDs of a kind.
    pub(super) fn reads_kind(&self, kind: &String) -> bool {
        self.hello.kinds.contains(kind)
    }

    /// Returns whether the process before has an address of QUIC.
    pub(super) fn knows(&self, bound: &BoundListener) -> bool {
        self.label_of(bound).is_some()
    }

    /// Notes that the process before has ended. Its last datagrams may still come.
    pub(super) fn on_end(&mut self) {
        self.has_ended = true;
    }

    /// Returns whether the process before lives.
    pub(super) fn lives(&self) -> bool {
        self.is_connected() && !self.has_ended
    }

    /// Returns whether datagrams of the process before may still come.
    pub(super) fn is_connected(&self) -> bool {
        self.oldest.is_some()
    }

    /// Tells the process before that this one does not take over.
    pub(super) fn give_up(&self) {
        self.channel.close();
    }

    /// Returns whether the workers read the sockets.
    pub(super) fn reads(&self) -> bool {
        self.reads
    }
}

/// Reports what the process before says until it ends, or `report` returns false.
fn follow(channel: &Channel, report: impl Fn(Event) -> bool) {
    while let Ok(Some((message, _))) = channel.receive() {
        let event = match message {
            Message::Drains(process) => Event::Drains(OLDER, process),
            Message::Reopen => Event::Reopen(OLDER),
            Message::Read => Event::Older(OlderNews::Read),
            Message::Oldest { generation } => Event::Older(OlderNews::Oldest(generation)),
            Message::Declined { reason } => Event::Other(OLDER, OtherNews::Declined(reason)),
            other => match other.news() {
                Some(news) => Event::Other(OLDER, OtherNews::News(news)),
                None => continue,
            },
        };
        if !report(event) {
            return;
        }
    }
    report(Event::Older(OlderNews::Gone));
}

/// Reads what a process hands over, whatever has come by a channel. A fuzz target calls it.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_offer(channel: Channel) {
    drop(Takeover::receive(channel));
}

/// Returns the layout of connection IDs, as far as another process must know it to tell whose they are.
pub(super) fn layout(cids: &CidSchemes) -> String {
    format!("{} {:?}", cids.scheme().cid_len(), cids.steering())
}

/// Returns which secret it is, and nothing else of it.
pub(super) fn fingerprint(root: &RootSecret) -> String {
    HEXLOWER.encode(&root.derive::<16>(Purpose::KeyId))
}

/// Error of taking over from another process.
#[derive(Debug, Error)]
pub enum TakeoverError {
    /// The way to the process before is broken.
    #[error("cannot learn what the process before hands over: {0}")]
    Channel(#[source] io::Error),
    /// IDs of the process before would not be told from a stranger's.
    #[error(
        "this configuration does not read the connection IDs of the running server: keep the table that it makes them by in \
         `quic.connection_ids`, with its lengths, server ID and key, until its connections have ended, or restart"
    )]
    Layout,
    /// The secrets are others.
    #[error(
        "the secrets are not those of the running server: keep its `state_dir` and `secrets_file` for an upgrade; reload first if `secrets_file` has changed"
    )]
    Secrets,
    /// There are as many processes as generations.
    #[error("{} processes of this server still drain: wait until some have ended, or set a shorter `drain_timeout`", GENERATIONS - 1)]
    Generations,
    /// It sent a message that is not part of the offer.
    #[error(
        "the process before says something else than what it hands over: it may be of another version; restart instead"
    )]
    Strange,
    /// It speaks another version of the protocol.
    #[error(
        "the process before hands over by version {0} of the protocol, and this one knows version {PROTOCOL}: restart instead"
    )]
    Protocol(u64),
}
