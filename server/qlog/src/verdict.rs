//! What is wrong with a connection, from when to when, and by what evidence.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is wrong.
    Fine,
    /// Slow, and the path or the peer may be the cause.
    Warning,
    /// The connection failed, or nearly.
    Severe,
    /// The sender itself is at fault: nothing on the path explains it.
    Critical,
}

/// What it is. Of two that are as bad, the earlier one says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The window stays at its minimum although data waits.
    PinnedAtFloor,
    /// The controller is in recovery, or enters it again and again, and nothing is lost.
    StuckInRecovery,
    /// The rate is far below what the connection once delivered, although data waits.
    Trickle,
    /// The handshake did not complete.
    HandshakeIncomplete,
    /// The peer does not respond.
    PeerSilent,
    /// An error closed the connection.
    ClosedByError,
    /// Packets are lost all the time.
    PersistentLoss,
    /// Many packets are lost.
    HeavyLoss,
    /// The peer does not read.
    FlowControlLimited,
    /// The network, as the controller takes it, sets the pace.
    NetworkLimited,
    /// There is little to send.
    ApplicationLimited,
    /// This end sends next to nothing: the trace of a receiver.
    Receiver,
    /// Nothing stands out.
    Unremarkable,
    /// The trace has neither packets nor a window.
    NothingToJudge,
}

impl Finding {
    /// Returns it in words.
    pub fn words(self) -> &'static str {
        match self {
            Finding::PinnedAtFloor => "pinned at the floor",
            Finding::StuckInRecovery => "stuck in recovery without loss",
            Finding::Trickle => "down to a trickle",
            Finding::HandshakeIncomplete => "handshake did not complete",
            Finding::PeerSilent => "peer went silent",
            Finding::ClosedByError => "closed by an error",
            Finding::PersistentLoss => "persistent loss",
            Finding::HeavyLoss => "heavy loss",
            Finding::FlowControlLimited => "limited by the peer's flow control",
            Finding::NetworkLimited => "limited by the network",
            Finding::ApplicationLimited => "limited by the application: nothing wrong here",
            Finding::Receiver => "a receiver's trace: nothing wrong here",
            Finding::Unremarkable => "nothing stands out",
            Finding::NothingToJudge => "nothing to judge",
        }
    }
}

/// A finding with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What it is.
    pub finding: Finding,
    /// How bad it is.
    pub severity: Severity,
    /// Its beginning, ms since the first event.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
    /// Why this is believed.
    pub evidence: String,
}

impl Verdict {
    /// Its duration, ms.
    pub fn duration(&self) -> f64 {
        self.to_ms - self.from_ms
    }
}

/// Sorts verdicts, the worst one first.
pub(crate) fn sort(verdicts: &mut [Verdict]) {
    verdicts.sort_by(|one, other| {
        other.severity.cmp(&one.severity).then(one.finding.cmp(&other.finding))
    });
}
