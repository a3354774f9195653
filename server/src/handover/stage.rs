//! A process that leaves the service to another one, as a pure machine: what has happened, and what is to be done next.
//!
//! The older process leaves it to the one that it has started, and gets it back if that one leaves it in the same way, or ends without a
//! word.

/// Progress of a process on its way out of the service, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The other process starts, or makes ready to serve again.
    Starting,
    /// The other one gets new connections from this one, which waits for its open handshakes.
    Forwarding,
    /// Nobody reads: the other one was told to.
    Changing,
    /// The other one reads, and this one drains.
    Draining,
    /// This one drains, and is not to serve again: the other one has left the service to another, or to nobody.
    Passed,
    /// This one takes new connections again, and the newer one still reads.
    Returning,
    /// This one reads again, and the newer one drains.
    Returned,
}

/// Something that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The other process serves, with connection IDs of this generation.
    Ready(u8),
    /// The other process does not take the service.
    Declined,
    /// No handshake is open here, or they have had their time.
    HandshakesDone,
    /// The other one reads.
    Reading,
    /// The other one has left the service to a third one, or to nobody.
    Replaced,
    /// The newer one wants to leave the service to this one.
    Back,
    /// The newer one stays in service.
    Stay,
    /// The newer one reads no more: this one shall.
    Read,
    /// The other one has ended.
    Gone,
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Forward datagrams of the other process, and leave new connections to it.
    Forward(u8),
    /// Stop reading, and then tell the other one to read.
    Change,
    /// Drain, and end.
    Drain,
    /// Go on as before: this process stays in service.
    Undo,
    /// Take the new connections that the newer one forwards, and tell it so.
    Prepare,
    /// Take no new connections, as before [`Action::Prepare`].
    DrainAgain,
    /// Read, and serve again.
    Serve,
    /// Forget the other one, which has drained.
    Forget,
    /// Stop: the way to the process that reads is gone.
    Stop,
    /// Nothing.
    Nothing,
}

impl Stage {
    /// Returns what to do, and goes on. `None` as the next stage: there is no other process any more, or nothing was left to it.
    #[must_use]
    pub(crate) fn on(self, news: News) -> (Option<Stage>, Action) {
        match (self, news) {
            (Stage::Starting, News::Ready(generation)) => {
                (Some(Stage::Forwarding), Action::Forward(generation))
            }
            (Stage::Forwarding, News::HandshakesDone) => (Some(Stage::Changing), Action::Change),
            (Stage::Changing, News::Reading) => (Some(Stage::Draining), Action::Drain),
            (
                Stage::Starting | Stage::Forwarding | Stage::Changing,
                News::Gone | News::Declined,
            ) => (None, Action::Undo),
            (Stage::Draining, News::Replaced) => (Some(Stage::Passed), Action::Nothing),
            (Stage::Passed, News::Reading) => (Some(Stage::Draining), Action::Nothing),
            (Stage::Draining, News::Back) => (Some(Stage::Returning), Action::Prepare),
            (Stage::Returning, News::Stay) => (Some(Stage::Draining), Action::DrainAgain),
            (Stage::Returning, News::Read) => (Some(Stage::Returned), Action::Serve),
            (Stage::Returned, News::Gone) => (None, Action::Forget),
            (Stage::Draining | Stage::Returning, News::Gone) => (None, Action::Serve),
            // Two that read the same sockets would take each other's datagrams for a stranger's.
            (Stage::Passed, News::Gone) => (None, Action::Stop),
            // A process that says things out of order changes nothing.
            _ => (Some(self), Action::Nothing),
        }
    }

    /// Returns whether this process drains because another one serves, or is about to leave that state.
    pub(crate) fn drains(self) -> bool {
        matches!(self, Stage::Draining | Stage::Passed | Stage::Returning)
    }

    /// Returns whether this process is on its way out, and still serves.
    pub(crate) fn is_leaving(self) -> bool {
        matches!(self, Stage::Starting | Stage::Forwarding | Stage::Changing)
    }
}

#[cfg(test)]
mod tests;
