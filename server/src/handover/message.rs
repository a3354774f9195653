//! What the two processes say to each other, as JSON: a later version may add fields.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::stage::News;

/// Version of the protocol. Processes that speak different ones do not take over from each other.
pub(crate) const PROTOCOL: u64 = 3;

/// Use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketKind {
    /// QUIC.
    Udp,
    /// HTTP/1.1 and HTTP/2.
    Tcp,
    /// Pages of the admin address.
    Admin,
}

impl SocketKind {
    const ALL: [SocketKind; 3] = [SocketKind::Udp, SocketKind::Tcp, SocketKind::Admin];

    fn name(self) -> &'static str {
        match self {
            SocketKind::Udp => "udp",
            SocketKind::Tcp => "tcp",
            SocketKind::Admin => "admin",
        }
    }
}

/// What a process that drains says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DrainingProcess {
    /// Number of the process.
    pub(crate) process: u32,
    /// Generation of its connection IDs.
    pub(crate) generation: u8,
    /// Connections that are open, those over TCP included.
    pub(crate) connections: u64,
    /// Time until it ends, seconds.
    pub(crate) seconds_left: u64,
}

/// The older process's first words to the newer one: who it is, and how many sockets follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Version of the protocol.
    pub(crate) protocol: u64,
    /// Number of its process.
    pub(crate) process: u32,
    /// Generation of its connection IDs.
    pub(crate) generation: u8,
    /// Generation of the oldest process that still runs.
    pub(crate) oldest: u8,
    /// Generation of the newest one.
    pub(crate) newest: u8,
    /// Length of its connection IDs, and where their bytes stand.
    pub(crate) layout: String,
    /// Names of the kinds of connection IDs that it and older processes make.
    pub(crate) kinds: Vec<String>,
    /// Fingerprint of its secrets: which they are, and nothing else.
    pub(crate) secrets: String,
    /// Number of the messages with sockets that follow.
    pub(crate) sockets: usize,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The older process begins. Beside it is the stream for datagrams.
    Hello(Hello),
    /// A socket is beside it. Those of an address come in the order in which they were bound: from the older process all, and from the
    /// newer one those that it has bound behind them.
    Socket {
        /// Use of the socket.
        kind: SocketKind,
        /// Name of its listener.
        listener: String,
        /// Address in the configuration.
        configured: SocketAddr,
        /// Number of the address, by which frames name it.
        label: u16,
    },
    /// The process to which the service is left serves, but for reading the sockets of QUIC.
    Ready {
        /// Generation of its connection IDs.
        generation: u8,
    },
    /// The oldest process that still runs is of this generation now.
    Oldest {
        /// Generation of its connection IDs.
        generation: u8,
    },
    /// The process reads no more: the other one shall.
    Read,
    /// The process reads.
    Reading,
    /// It has left the service to a third process, or to nobody.
    Replaced,
    /// The newer process wants to leave the service to the older one again.
    Back,
    /// The newer process stays in service, though it has said otherwise.
    Stay,
    /// The older process does not take the service.
    Declined {
        /// Why.
        reason: String,
    },
    /// A process drains, this one or one behind it.
    Drains(DrainingProcess),
    /// The access log was renamed: open it again.
    Reopen,
    /// A message of a later version, which may be passed over.
    Unknown,
}

impl Message {
    pub(crate) fn to_text(&self) -> String {
        let value = match self {
            Message::Hello(Hello {
                protocol,
                process,
                generation,
                oldest,
                newest,
                layout,
                kinds,
                secrets,
                sockets,
            }) => json!({
                "type": "hello", "protocol": protocol, "process": process, "generation": generation, "oldest": oldest,
                "newest": newest, "layout": layout, "kinds": kinds, "secrets": secrets, "sockets": sockets,
            }),
            Message::Socket { kind, listener, configured, label } => json!({
                "type": "socket", "kind": kind.name(), "listener": listener,
                "configured": configured.to_string(), "label": label,
            }),
            Message::Ready { generation } => json!({ "type": "ready", "generation": generation }),
            Message::Oldest { generation } => json!({ "type": "oldest", "generation": generation }),
            Message::Read => json!({ "type": "read" }),
            Message::Reading => json!({ "type": "reading" }),
            Message::Replaced => json!({ "type": "replaced" }),
            Message::Back => json!({ "type": "back" }),
            Message::Stay => json!({ "type": "stay" }),
            Message::Declined { reason } => json!({ "type": "declined", "reason": reason }),
            Message::Drains(DrainingProcess { process, generation, connections, seconds_left }) => {
                json!({
                    "type": "drains", "process": process, "generation": generation, "connections": connections,
                    "seconds_left": seconds_left,
                })
            }
            Message::Reopen => json!({ "type": "reopen" }),
            Message::Unknown => json!({ "type": "unknown" }),
        };
        value.to_string()
    }

    /// Returns the news in a message that either process may send on its way into the service.
    pub(crate) fn news(&self) -> Option<News> {
        match self {
            Message::Ready { generation } => Some(News::Ready(*generation)),
            Message::Reading => Some(News::Reading),
            Message::Replaced => Some(News::Replaced),
            _ => None,
        }
    }

    /// Reads a message; `None` if it is none of this protocol.
    pub(crate) fn parse(text: &[u8]) -> Option<Message> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let small = |key: &str| u8::try_from(value[key].as_u64()?).ok();
        let generation = || small("generation");
        Some(match value["type"].as_str()? {
            "hello" => Message::Hello(Hello {
                protocol: value["protocol"].as_u64()?,
                process: u32::try_from(value["process"].as_u64()?).ok()?,
                generation: generation()?,
                oldest: small("oldest")?,
                newest: small("newest")?,
                layout: value["layout"].as_str()?.to_owned(),
                kinds: texts(&value["kinds"])?,
                secrets: value["secrets"].as_str()?.to_owned(),
                sockets: usize::try_from(value["sockets"].as_u64()?).ok()?,
            }),
            "socket" => {
                let kind = value["kind"].as_str()?;
                Message::Socket {
                    kind: SocketKind::ALL.into_iter().find(|one| one.name() == kind)?,
                    listener: value["listener"].as_str()?.to_owned(),
                    configured: value["configured"].as_str()?.parse().ok()?,
                    label: u16::try_from(value["label"].as_u64()?).ok()?,
                }
            }
            "ready" => Message::Ready { generation: generation()? },
            "oldest" => Message::Oldest { generation: generation()? },
            "read" => Message::Read,
            "reading" => Message::Reading,
            "replaced" => Message::Replaced,
            "back" => Message::Back,
            "stay" => Message::Stay,
            "reopen" => Message::Reopen,
            "drains" => Message::Drains(DrainingProcess {
                process: u32::try_from(value["process"].as_u64()?).ok()?,
                generation: generation()?,
                connections: value["connections"].as_u64()?,
                seconds_left: value["seconds_left"].as_u64()?,
            }),
            "declined" => Message::Declined { reason: value["reason"].as_str()?.to_owned() },
            _ => Message::Unknown,
        })
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let texts = value.as_array()?.iter();
    texts.map(|text| Some(text.as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_read_as_it_was_written() {
        let socket = |kind, configured: &str| Message::Socket {
            kind,
            listener: "a \"b\"".to_owned(),
            configured: configured.parse().unwrap(),
            label: 65_535,
        };
        let all = [
            Message::Hello(Hello {
                protocol: PROTOCOL,
                process: u32::MAX,
                generation: 63,
                oldest: 60,
                newest: 62,
                layout: "16".to_owned(),
                kinds: vec!["plain".to_owned()],
                secrets: "a0".to_owned(),
                sockets: 1280,
            }),
            socket(SocketKind::Udp, "[fe80::1%3]:443"),
            socket(SocketKind::Tcp, "0.0.0.0:0"),
            socket(SocketKind::Admin, "127.0.0.1:9180"),
            Message::Ready { generation: 0 },
            Message::Oldest { generation: 7 },
            Message::Read,
            Message::Reading,
            Message::Replaced,
            Message::Back,
            Message::Stay,
            Message::Reopen,
            Message::Drains(DrainingProcess {
                process: 7,
                generation: 63,
                connections: 1 << 40,
                seconds_left: 0,
            }),
            Message::Declined { reason: "it stops".to_owned() },
        ];
        for message in all {
            assert_eq!(Message::parse(message.to_text().as_bytes()), Some(message));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in [
            "",
            "7",
            "{}",
            "[]",
            "{\"type\":7}",
            "{\"type\":\"hello\"}",
            "{\"type\":\"ready\",\"generation\":256}",
            "{\"type\":\"socket\",\"kind\":\"udp\",\"listener\":\"a\",\"configured\":\"x\",\"label\":0}",
        ] {
            assert_eq!(Message::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Message::parse(&[0xff, 0]), None);
        assert_eq!(Message::parse(b"{\"type\":\"sing\"}"), Some(Message::Unknown));
    }
}
