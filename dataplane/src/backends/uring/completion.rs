//! Completions of a ring, and the tokens that identify their requests.

/// Identifies the purpose of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A socket's multishot receive.
    Receive(usize),
    /// The message described in a head.
    Send(usize),
    /// A socket's room to send.
    Writable(usize),
    /// The waker's eventfd.
    Wake,
    /// A value that no submission had.
    Unknown,
}

impl Token {
    const SHIFT: u32 = 32;

    pub(super) fn to_bits(self) -> u64 {
        let (kind, index) = match self {
            Self::Receive(index) => (1, index),
            Self::Send(index) => (2, index),
            Self::Writable(index) => (3, index),
            Self::Wake => (4, 0),
            Self::Unknown => (0, 0),
        };
        kind << Self::SHIFT | index as u64
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        let index = usize::try_from(bits & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        match bits >> Self::SHIFT {
            1 => Self::Receive(index),
            2 => Self::Send(index),
            3 => Self::Writable(index),
            4 => Self::Wake,
            _ => Self::Unknown,
        }
    }
}

/// One completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) token: Token,
    /// A number of bytes or events, or an error code.
    pub(super) result: Result<usize, i32>,
    /// The receive buffer that came with it, ours now.
    pub(super) buffer: Option<u16>,
    /// The request goes on and will complete again.
    pub(super) more: bool,
}
