//! What a sender waits for, by the reasons of draft-ietf-quic-qlog-quic-events-13.

/// Reason for which a connection sends nothing at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderWait {
    /// The handshake is not complete.
    Handshake,
    /// The client has not proved its address.
    Amplification,
    /// The congestion window is full.
    Congestion,
    /// The next packet has its time.
    Pacing,
    /// The peer's window for all streams is full.
    ConnectionFlow,
    /// The peer's window for a stream is full.
    StreamFlow,
    /// The peer's limit on streams is reached.
    StreamId,
    /// The sender's own turn.
    Scheduling,
    /// There is nothing to send.
    Application,
    /// None of these.
    Nothing,
}

impl SenderWait {
    /// All waits, in the order of their numbers.
    pub const ALL: [SenderWait; 10] = [
        SenderWait::Handshake,
        SenderWait::Amplification,
        SenderWait::Congestion,
        SenderWait::Pacing,
        SenderWait::ConnectionFlow,
        SenderWait::StreamFlow,
        SenderWait::StreamId,
        SenderWait::Scheduling,
        SenderWait::Application,
        SenderWait::Nothing,
    ];

    /// Name in a trace and in the output.
    pub fn name(self) -> &'static str {
        match self {
            SenderWait::Handshake => "handshake",
            SenderWait::Amplification => "amplification_protection",
            SenderWait::Congestion => "congestion_control",
            SenderWait::Pacing => "pacing",
            SenderWait::ConnectionFlow => "connection_flow_control",
            SenderWait::StreamFlow => "stream_flow_control",
            SenderWait::StreamId => "stream_id",
            SenderWait::Scheduling => "scheduling",
            SenderWait::Application => "application",
            SenderWait::Nothing => "nothing",
        }
    }

    /// Returns the wait of a reason in a trace.
    pub fn of_reason(reason: &str) -> Option<SenderWait> {
        // Earlier drafts have `scheduled`.
        if reason == "scheduled" {
            return Some(SenderWait::Scheduling);
        }
        SenderWait::ALL.into_iter().find(|wait| wait.name() == reason)
    }

    /// Returns whether it is the network, or the controller's notion of it, that holds data back.
    pub fn is_congestion(self) -> bool {
        matches!(self, SenderWait::Congestion | SenderWait::Pacing)
    }

    /// Returns whether the peer's windows hold data back.
    pub fn is_flow_control(self) -> bool {
        matches!(self, SenderWait::ConnectionFlow | SenderWait::StreamFlow | SenderWait::StreamId)
    }
}
