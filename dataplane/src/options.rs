//! Options of sockets and drivers: described once, for configuration, help and checks.

use thiserror::Error;

/// What a plain number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A bare count.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
}

/// Type, default and bounds of an option; bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A whole number.
    Integer {
        /// Where the option is not given.
        default: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// On or off.
    Boolean {
        /// Where the option is not given.
        default: bool,
    },
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// The key in a configuration, snake case.
    pub name: &'static str,
    /// Type, default, bounds.
    pub kind: OptionKind,
    /// What the number counts.
    pub unit: Unit,
    /// One sentence for operators: what it does and when to touch it.
    pub summary: &'static str,
}

/// A value for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// For [`OptionKind::Integer`].
    Integer(u64),
    /// For [`OptionKind::Boolean`].
    Boolean(bool),
}

/// Why an option was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OptionError {
    /// No option has that name.
    #[error("unknown option `{name}`, expected one of: {}", .known.join(", "))]
    Unknown {
        /// As given.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A value of another type.
    #[error("option `{name}` expects {expected}")]
    Type {
        /// The option.
        name: &'static str,
        /// The type in words.
        expected: &'static str,
    },
    /// A value outside the bounds.
    #[error("option `{name}` must lie between {min} and {max}")]
    Bounds {
        /// The option.
        name: &'static str,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
}

/// What a listener's sockets are bound with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// See [`RECEIVE_BUFFER`].
    pub receive_buffer: usize,
    /// See [`SEND_BUFFER`].
    pub send_buffer: usize,
    /// See [`GRO`].
    pub gro: bool,
    /// See [`GSO`].
    pub gso: bool,
    /// See [`BUSY_POLL`].
    pub busy_poll: u32,
}

/// What a worker's driver is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverOptions {
    /// See [`RX_BUFFERS`].
    pub rx_buffers: usize,
    /// See [`TX_SLOTS`].
    pub tx_slots: usize,
}

const RECEIVE_BUFFER_DEFAULT: u32 = 8 << 20;
const SEND_BUFFER_DEFAULT: u32 = 4 << 20;
const BUSY_POLL_DEFAULT: u32 = 0;
const RX_BUFFERS_DEFAULT: u32 = 64;
const TX_SLOTS_DEFAULT: u32 = 8;

/// Of [`SocketOptions::receive_buffer`].
pub const RECEIVE_BUFFER: OptionSpec = OptionSpec {
    name: "receive_buffer",
    kind: OptionKind::Integer {
        default: RECEIVE_BUFFER_DEFAULT as u64,
        min: 64 << 10,
        max: 1 << 30,
    },
    unit: Unit::Bytes,
    summary: "Kernel memory for datagrams that wait to be read, per socket; raise it where the \
              kernel's UdpRcvbufErrors grows. Without CAP_NET_ADMIN net.core.rmem_max is the limit.",
};

/// Of [`SocketOptions::send_buffer`].
pub const SEND_BUFFER: OptionSpec = OptionSpec {
    name: "send_buffer",
    kind: OptionKind::Integer {
        default: SEND_BUFFER_DEFAULT as u64,
        min: 256 << 10,
        max: 1 << 30,
    },
    unit: Unit::Bytes,
    summary: "Kernel memory for datagrams on their way to the device, per socket; raise it on fast \
              links. Without CAP_NET_ADMIN net.core.wmem_max is the limit.",
};

/// Of [`SocketOptions::gro`].
pub const GRO: OptionSpec = OptionSpec {
    name: "gro",
    kind: OptionKind::Boolean { default: true },
    unit: Unit::Count,
    summary: "Let the kernel hand over several datagrams of one peer at once; turn it off only to \
              work around a driver.",
};

/// Of [`SocketOptions::gso`].
pub const GSO: OptionSpec = OptionSpec {
    name: "gso",
    kind: OptionKind::Boolean { default: true },
    unit: Unit::Count,
    summary: "Hand several datagrams to one peer to the kernel at once; turn it off only to work \
              around a driver.",
};

/// Of [`SocketOptions::busy_poll`].
pub const BUSY_POLL: OptionSpec = OptionSpec {
    name: "busy_poll",
    kind: OptionKind::Integer {
        default: BUSY_POLL_DEFAULT as u64,
        min: 0,
        max: 1000,
    },
    unit: Unit::Microseconds,
    summary: "How long the kernel asks the device's queue before a worker sleeps: lower latency for \
              more CPU. 0 is off; needs CAP_NET_ADMIN.",
};

/// Of [`DriverOptions::rx_buffers`].
pub const RX_BUFFERS: OptionSpec = OptionSpec {
    name: "rx_buffers",
    kind: OptionKind::Integer {
        default: RX_BUFFERS_DEFAULT as u64,
        min: 4,
        max: 4096,
    },
    unit: Unit::Count,
    summary: "Receive buffers of 64 KiB per worker; io_uring rounds up to a power of two, mio uses \
              at most 16. Raise it where rx_exhausted grows.",
};

/// Of [`DriverOptions::tx_slots`].
pub const TX_SLOTS: OptionSpec = OptionSpec {
    name: "tx_slots",
    kind: OptionKind::Integer {
        default: TX_SLOTS_DEFAULT as u64,
        min: 1,
        max: 256,
    },
    unit: Unit::Count,
    summary: "Transmit buffers of 64 KiB per worker that io_uring takes in one system call; mio \
              needs one and ignores this.",
};

impl SocketOptions {
    /// Every option, for configuration to compose.
    pub const SPECS: &'static [OptionSpec] = &[RECEIVE_BUFFER, SEND_BUFFER, GRO, GSO, BUSY_POLL];

    /// Sets one option by its name.
    ///
    /// # Errors
    /// An unknown name, a value of another type or out of bounds; nothing is changed then.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), OptionError> {
        match check(Self::SPECS, name, value)? {
            ("receive_buffer", Value::Integer(v)) => self.receive_buffer = saturate(v),
            ("send_buffer", Value::Integer(v)) => self.send_buffer = saturate(v),
            ("busy_poll", Value::Integer(v)) => {
                self.busy_poll = u32::try_from(v).unwrap_or(u32::MAX);
            }
            ("gro", Value::Boolean(v)) => self.gro = v,
            ("gso", Value::Boolean(v)) => self.gso = v,
            (name, _) => debug_assert!(false, "option `{name}` is described but not stored"),
        }
        Ok(())
    }
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            receive_buffer: RECEIVE_BUFFER_DEFAULT as usize,
            send_buffer: SEND_BUFFER_DEFAULT as usize,
            gro: true,
            gso: true,
            busy_poll: BUSY_POLL_DEFAULT,
        }
    }
}

impl DriverOptions {
    /// Every option, for configuration to compose.
    pub const SPECS: &'static [OptionSpec] = &[RX_BUFFERS, TX_SLOTS];

    /// Sets one option by its name.
    ///
    /// # Errors
    /// As with [`SocketOptions::set`].
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), OptionError> {
        match check(Self::SPECS, name, value)? {
            ("rx_buffers", Value::Integer(v)) => self.rx_buffers = saturate(v),
            ("tx_slots", Value::Integer(v)) => self.tx_slots = saturate(v),
            (name, _) => debug_assert!(false, "option `{name}` is described but not stored"),
        }
        Ok(())
    }
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            rx_buffers: RX_BUFFERS_DEFAULT as usize,
            tx_slots: TX_SLOTS_DEFAULT as usize,
        }
    }
}

fn saturate(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The described name and the value, if they fit each other.
fn check(
    specs: &'static [OptionSpec],
    name: &str,
    value: Value,
) -> Result<(&'static str, Value), OptionError> {
    let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
        return Err(OptionError::Unknown {
            name: name.to_owned(),
            known: specs.iter().map(|spec| spec.name).collect(),
        });
    };
    match (spec.kind, value) {
        (OptionKind::Integer { min, max, .. }, Value::Integer(v)) if v < min || v > max => {
            Err(OptionError::Bounds {
                name: spec.name,
                min,
                max,
            })
        }
        (OptionKind::Integer { .. }, Value::Boolean(_)) => Err(OptionError::Type {
            name: spec.name,
            expected: "a whole number",
        }),
        (OptionKind::Boolean { .. }, Value::Integer(_)) => Err(OptionError::Type {
            name: spec.name,
            expected: "true or false",
        }),
        _ => Ok((spec.name, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_of(spec: &OptionSpec) -> Value {
        match spec.kind {
            OptionKind::Integer { default, .. } => Value::Integer(default),
            OptionKind::Boolean { default } => Value::Boolean(default),
        }
    }

    #[test]
    fn described_defaults_are_the_defaults_and_every_option_can_be_set() {
        let mut socket = SocketOptions {
            receive_buffer: 0,
            send_buffer: 0,
            gro: false,
            gso: false,
            busy_poll: 7,
        };
        for spec in SocketOptions::SPECS {
            socket.set(spec.name, default_of(spec)).unwrap();
        }
        assert_eq!(socket, SocketOptions::default());
        let mut driver = DriverOptions {
            rx_buffers: 0,
            tx_slots: 0,
        };
        for spec in DriverOptions::SPECS {
            driver.set(spec.name, default_of(spec)).unwrap();
        }
        assert_eq!(driver, DriverOptions::default());
    }

    #[test]
    fn wrong_options_are_refused_with_the_reason() {
        let mut options = SocketOptions::default();
        let unknown = options
            .set("recieve_buffer", Value::Integer(1))
            .unwrap_err();
        assert!(unknown.to_string().contains("receive_buffer, send_buffer"));
        assert_eq!(
            options.set("gso", Value::Integer(1)),
            Err(OptionError::Type {
                name: "gso",
                expected: "true or false"
            })
        );
        assert_eq!(
            options.set("busy_poll", Value::Integer(1001)),
            Err(OptionError::Bounds {
                name: "busy_poll",
                min: 0,
                max: 1000
            })
        );
        assert_eq!(options, SocketOptions::default());
    }
}
