//! An event as a file has it, and what it means.

use serde::de::{Deserialize as _, Deserializer, MapAccess};

use super::frames::{Close, Frames};
use super::scalar::{Scalar, Word, from_object};
use crate::number::whole;
use crate::reader::Parts;
use crate::wait::SenderWait;

/// Largest size of a packet, and of what is lost at once, that is believed, bytes: sums of it do not overflow.
const MAX_SIZE: u64 = 1 << 24;
/// Largest sum of packets or bytes that is believed.
const MAX_SUM: u64 = 1 << 32;
/// Greatest age of a connection that is believed, ms: a hundred years.
const MAX_AGE: f64 = 3.2e12;
/// Most probe timeouts in a row that are believed.
const MAX_TIMEOUTS: u64 = 1 << 10;

/// Packet number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Of Initial packets.
    Initial,
    /// Of Handshake packets.
    Handshake,
    /// Of 0-RTT and 1-RTT packets.
    Application,
    /// Packets without a number, and those of unknown type.
    None,
}

/// A packet.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedPacket {
    /// Space of its number.
    pub space: Space,
    /// Whether it is protected by keys of a complete handshake.
    pub is_1rtt: bool,
    /// Its number, if it has one.
    pub number: Option<u64>,
    /// Its size, bytes; 0 if the trace does not tell.
    pub size: u64,
    /// Whether it was sent because a probe timeout expired.
    pub is_probe: bool,
    /// What its frames say.
    pub frames: Frames,
}

/// State of loss recovery and congestion control. Only what has changed is there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecoveryMetrics {
    /// Least round-trip time, ms.
    pub min_rtt: Option<f64>,
    /// Smoothed round-trip time, ms.
    pub smoothed_rtt: Option<f64>,
    /// Latest sample, ms.
    pub latest_rtt: Option<f64>,
    /// Probe timeouts in a row.
    pub pto_count: Option<u64>,
    /// Congestion window, bytes.
    pub cwnd: Option<u64>,
    /// Bytes in flight.
    pub in_flight: Option<u64>,
    /// Slow start threshold, bytes; none while it is infinite.
    pub ssthresh: Option<u64>,
    /// Pacing rate, bits per second.
    pub pacing_rate: Option<f64>,
    /// Packets lost so far.
    pub lost_packets: Option<u64>,
    /// Bytes lost so far.
    pub lost_bytes: Option<u64>,
    /// Whether the application has nothing to send.
    pub app_limited: Option<bool>,
    /// State of mvfst's congestion controller.
    pub state: Option<Word>,
}

/// Packets of a while, as sums: those of a flight recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketSums {
    /// Packets sent.
    pub sent: u64,
    /// Bytes of packets sent.
    pub sent_bytes: u64,
    /// Bytes of packets acknowledged.
    pub acked_bytes: u64,
    /// Packets declared lost.
    pub lost: u64,
}

/// Begin or end of a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blocked {
    /// Stream that waits; `None` is the connection.
    pub stream: Option<u64>,
    /// What it waits for; `None` when the wait has ended.
    pub wait: Option<SenderWait>,
}

/// Meaning of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A packet was sent.
    Sent(Box<TracedPacket>),
    /// A packet was received.
    Received(Box<TracedPacket>),
    /// A packet was declared lost.
    Lost {
        /// Space of its number.
        space: Space,
        /// Its number.
        number: Option<u64>,
    },
    /// Packets were declared lost; mvfst does not say which.
    ManyLost {
        /// Number of packets.
        packets: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Packets since the last such event.
    Sums(PacketSums),
    /// Why a flight recorder wrote the trace, or what it noticed.
    Trigger {
        /// Name of the trigger.
        name: Word,
        /// When it fired, ms since the first event, if that is not the time of the event.
        at: Option<f64>,
        /// Age of the connection when it fired, ms.
        age: Option<f64>,
    },
    /// The connection has this age, ms.
    Age(f64),
    /// Metrics have changed.
    Metrics(RecoveryMetrics),
    /// The congestion controller is in this state now.
    CongestionState(Word),
    /// Another algorithm controls congestion from now on.
    Switched {
        /// The one before.
        old: Word,
        /// The new one.
        new: Word,
    },
    /// The connection is in this state now.
    ConnectionState(Word),
    /// The connection was closed.
    Closed {
        /// The error.
        close: Close,
        /// Cause, as `idle_timeout`.
        trigger: Word,
        /// Whether the peer closed it, if that is known.
        by_peer: Option<bool>,
    },
    /// The connection or a stream begins to wait, or goes on.
    Blocked(Blocked),
    /// A probe timeout expired.
    ProbeTimeout,
    /// Bounds of the congestion controller.
    Parameters {
        /// Least congestion window, bytes.
        min_window: Option<u64>,
        /// Largest datagram, bytes.
        max_datagram: Option<u64>,
    },
    /// The version of QUIC that was chosen.
    Version(Word),
    /// Any other event.
    Other,
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    /// Time since the first event, ms. Never less than that of the event before.
    pub at: f64,
    /// What happened.
    pub kind: Kind,
}

/// An event as a file has it.
#[derive(Debug, Default)]
pub struct RawEvent {
    pub(crate) time: Option<f64>,
    pub(crate) group: Word,
    category: Word,
    name: Word,
    data: Data,
}

impl Parts for RawEvent {
    fn take<'de, D: Deserializer<'de>>(&mut self, key: &str, value: D) -> Result<(), D::Error> {
        match key {
            "data" => self.data = Data::deserialize(value)?,
            "name" => self.name = Word::deserialize(value)?,
            "category" => self.category = Word::deserialize(value)?,
            "event" | "event_type" | "type" => self.name = Word::deserialize(value)?,
            "group_id" => self.group = Word::deserialize(value)?,
            "time" | "relative_time" | "delta_time" => {
                self.time = Scalar::deserialize(value)?.number();
            }
            _ => drop(serde::de::IgnoredAny::deserialize(value)?),
        }
        Ok(())
    }

    fn is_event(&self) -> bool {
        self.time.is_some() && !self.name.as_str().is_empty()
    }
}

impl RawEvent {
    /// Returns what it means. `unit` is the number of milliseconds in the trace's unit of time.
    pub(crate) fn meaning(self, unit: f64) -> Kind {
        let name = self.name.as_str().to_ascii_lowercase();
        let (category, name) = name.split_once(':').unwrap_or((self.category.as_str(), &name));
        let mut data = self.data;
        match name {
            "packet_sent" => Kind::Sent(Box::new(data.packet())),
            "packet_received" => Kind::Received(Box::new(data.packet())),
            "packet_lost" => {
                Kind::Lost { space: data.space(), number: data.packet_number.map(whole) }
            }
            "packets_lost" => Kind::ManyLost {
                packets: whole(data.lost_packets.unwrap_or(0.0)).min(MAX_SIZE),
                bytes: whole(data.lost_bytes.unwrap_or(0.0)).min(MAX_SIZE),
            },
            "metrics_updated"
            | "recovery_metrics_updated"
            | "metric_update"
            | "congestion_metric_update"
            | "app_limited_update" => Kind::Metrics(data.metrics(unit)),
            "congestion_state_updated" => Kind::CongestionState(data.new),
            "congestion_control_switched" if category == "sluicegate" => {
                Kind::Switched { old: data.old, new: data.new }
            }
            "connection_state_updated" => Kind::ConnectionState(data.new),
            "connection_closed" | "connection_close" => data.closed(),
            "connection_data_blocked_updated" => Kind::Blocked(data.blocked(None)),
            "stream_data_blocked_updated" => {
                let stream = Some(data.stream_id.map_or(0, whole));
                Kind::Blocked(data.blocked(stream))
            }
            "loss_timer_updated" | "timer_updated" | "loss_alarm" if data.is_expired_pto() => {
                Kind::ProbeTimeout
            }
            "recovery_parameters_set" => data.parameters(),
            "parameters_set" if category == "recovery" => data.parameters(),
            "packets" if category == "sluicegate" => Kind::Sums(data.sums()),
            "trigger" if category == "sluicegate" => {
                let at = data.at.filter(|at| *at >= 0.0);
                Kind::Trigger { name: data.trigger, at, age: data.age() }
            }
            "connection_state" if category == "sluicegate" => {
                data.age().map_or(Kind::Other, Kind::Age)
            }
            "version_information" => Kind::Version(data.chosen_version),
            _ => Kind::Other,
        }
    }
}

/// The fields of all events together: the name of an event may come after its data.
#[derive(Debug, Default)]
struct Data {
    min_rtt: Option<f64>,
    smoothed_rtt: Option<f64>,
    latest_rtt: Option<f64>,
    pto_count: Option<f64>,
    cwnd: Option<f64>,
    in_flight: Option<f64>,
    ssthresh: Option<f64>,
    pacing_rate: Option<f64>,
    lost_packets: Option<f64>,
    lost_bytes: Option<f64>,
    app_limited: Option<bool>,
    packet_number: Option<f64>,
    size: Option<f64>,
    min_window: Option<f64>,
    max_datagram: Option<f64>,
    stream_id: Option<f64>,
    sent: Option<f64>,
    sent_bytes: Option<f64>,
    acked_bytes: Option<f64>,
    lost: Option<f64>,
    at: Option<f64>,
    age: Option<f64>,
    error_code: Option<f64>,
    packet_type: Word,
    old: Word,
    new: Word,
    state: Word,
    reason: Word,
    error: Word,
    trigger: Word,
    owner: Word,
    event_type: Word,
    timer_type: Word,
    chosen_version: Word,
    frames: Frames,
}

from_object!(Data);

impl Data {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "frames" => self.frames = map.next_value()?,
            "header" | "raw" => {
                let PacketFields { number, size, packet_type } = map.next_value()?;
                self.packet_number = number.or(self.packet_number);
                self.size = size.or(self.size);
                if !packet_type.as_str().is_empty() {
                    self.packet_type = packet_type;
                }
            }
            "cf_lost_packets" | "lost_packets" => self.lost_packets = total(map)?,
            "cf_lost_bytes" | "lost_bytes" => self.lost_bytes = total(map)?,
            _ => {
                let value: Scalar = map.next_value()?;
                self.take_scalar(key, value);
            }
        }
        Ok(())
    }

    fn take_scalar(&mut self, key: &str, value: Scalar) {
        let (amount, word) = (value.amount(), value.word());
        match key {
            "min_rtt" => self.min_rtt = amount,
            "smoothed_rtt" => self.smoothed_rtt = amount,
            "latest_rtt" => self.latest_rtt = amount,
            "pto_count" => self.pto_count = amount,
            "congestion_window" | "cwnd" | "current_cwnd" => self.cwnd = amount,
            "bytes_in_flight" => self.in_flight = amount,
            "ssthresh" => self.ssthresh = amount,
            "pacing_rate" => self.pacing_rate = amount,
            "cf_app_limited" => self.app_limited = value.is_true(),
            "app_limited" => self.app_limited = Some(word.as_str() == "APP_LIMITED"),
            "packet_number" => self.packet_number = amount,
            "packet_size" => self.size = amount,
            "minimum_congestion_window" => self.min_window = amount,
            "max_datagram_size" => self.max_datagram = amount,
            "stream_id" => self.stream_id = amount,
            "sent" => self.sent = amount,
            "sent_bytes" => self.sent_bytes = amount,
            "acked_bytes" => self.acked_bytes = amount,
            "lost" => self.lost = amount,
            "at" => self.at = amount,
            "age" => self.age = amount,
            "error_code" | "connection_code" | "application_code" => self.error_code = amount,
            "packet_type" | "type" => self.packet_type = word,
            "old" => self.old = word,
            "new" => self.new = word,
            "state" => self.state = word,
            "reason" => self.reason = word,
            "connection_error" | "application_error" | "error" => self.error = word,
            "trigger" => self.trigger = word,
            "initiator" | "owner" => self.owner = word,
            "event_type" => self.event_type = word,
            "timer_type" => self.timer_type = word,
            "chosen_version" => {
                self.chosen_version =
                    amount.map_or(word, |number| Word::new(&format!("{:x}", whole(number))));
                if !word.as_str().is_empty() {
                    self.chosen_version = word;
                }
            }
            _ => {}
        }
    }

    fn space(&self) -> Space {
        match self.packet_type.as_str() {
            "initial" | "INITIAL" => Space::Initial,
            "handshake" | "HANDSHAKE" => Space::Handshake,
            "0RTT" | "1RTT" | "ZERO_RTT" => Space::Application,
            _ if self.packet_type.as_str().is_empty() && self.packet_number.is_some() => {
                Space::Application
            }
            _ => Space::None,
        }
    }

    fn packet(&mut self) -> TracedPacket {
        TracedPacket {
            space: self.space(),
            // Some writers name no types: what they have is then taken for data.
            is_1rtt: matches!(self.packet_type.as_str(), "1RTT" | ""),
            number: self.packet_number.map(whole),
            size: whole(self.size.unwrap_or(0.0)).min(MAX_SIZE),
            is_probe: self.trigger.as_str() == "pto_probe",
            frames: std::mem::take(&mut self.frames),
        }
    }

    fn metrics(&self, unit: f64) -> RecoveryMetrics {
        let ms = |time: Option<f64>| time.map(|time| time * unit);
        // quiche and others write an infinite threshold as the largest number of a machine word.
        let finite = |number: &u64| *number < 1 << 50;
        RecoveryMetrics {
            min_rtt: ms(self.min_rtt),
            smoothed_rtt: ms(self.smoothed_rtt),
            latest_rtt: ms(self.latest_rtt),
            pto_count: self.pto_count.map(|count| whole(count).min(MAX_TIMEOUTS)),
            cwnd: self.cwnd.map(whole).filter(finite),
            in_flight: self.in_flight.map(whole).filter(finite),
            ssthresh: self.ssthresh.map(whole).filter(finite),
            pacing_rate: self.pacing_rate,
            lost_packets: self.lost_packets.map(whole).filter(finite),
            lost_bytes: self.lost_bytes.map(whole).filter(finite),
            app_limited: self.app_limited,
            state: Some(self.state).filter(|state| !state.as_str().is_empty()),
        }
    }

    fn sums(&self) -> PacketSums {
        let sum = |sum: Option<f64>| sum.map_or(0, whole).min(MAX_SUM);
        PacketSums {
            sent: sum(self.sent),
            sent_bytes: sum(self.sent_bytes),
            acked_bytes: sum(self.acked_bytes),
            lost: sum(self.lost),
        }
    }

    fn age(&self) -> Option<f64> {
        self.age.filter(|age| (0.0..=MAX_AGE).contains(age))
    }

    fn closed(&self) -> Kind {
        Kind::Closed {
            close: Close { code: self.error_code, error: self.error, reason: self.reason },
            trigger: self.trigger,
            by_peer: match self.owner.as_str() {
                "remote" => Some(true),
                "local" => Some(false),
                _ => None,
            },
        }
    }

    fn blocked(&self, stream: Option<u64>) -> Blocked {
        let is_blocked = self.new.as_str() == "blocked";
        let wait = SenderWait::of_reason(self.reason.as_str()).unwrap_or(SenderWait::Nothing);
        Blocked { stream, wait: is_blocked.then_some(wait) }
    }

    fn is_expired_pto(&self) -> bool {
        let is_pto = |word: &Word| word.as_str().eq_ignore_ascii_case("pto");
        self.event_type.as_str() == "expired" && is_pto(&self.timer_type)
            || is_pto(&self.packet_type)
    }

    fn parameters(&self) -> Kind {
        Kind::Parameters {
            min_window: self.min_window.map(whole),
            max_datagram: self.max_datagram.map(whole),
        }
    }
}

/// The fields of a packet's `header` and of `raw`.
#[derive(Debug, Default)]
struct PacketFields {
    number: Option<f64>,
    size: Option<f64>,
    packet_type: Word,
}

from_object!(PacketFields);

impl PacketFields {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let value: Scalar = map.next_value()?;
        match key {
            "packet_number" => self.number = value.amount(),
            "length" | "packet_size" => self.size = value.amount(),
            "packet_type" => self.packet_type = value.word(),
            _ => {}
        }
        Ok(())
    }
}

/// Returns a number, or the `total` of an object.
fn total<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<f64>, A::Error> {
    Ok(map.next_value::<Total>()?.0)
}

#[derive(Debug, Default)]
struct Total(Option<f64>);

impl<'de> serde::de::Deserialize<'de> for Total {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
            type Value = Total;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("any value")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Total, E> {
                Ok(Total(Some(value as f64)))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Total, E> {
                Ok(Total(None))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Total, E> {
                Ok(Total(Some(value).filter(|value| *value >= 0.0)))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Total, E> {
                Ok(Total(None))
            }
            fn visit_str<E>(self, _: &str) -> Result<Total, E> {
                Ok(Total(None))
            }
            fn visit_unit<E>(self) -> Result<Total, E> {
                Ok(Total(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Total, A::Error> {
                let mut total = None;
                while let Some((key, value)) = map.next_entry::<Word, Scalar>()? {
                    if key.as_str() == "total" {
                        total = value.amount();
                    }
                }
                Ok(Total(total))
            }
            super::scalar::otherwise!(@sequence);
        }
        value.deserialize_any(Either)
    }
}
