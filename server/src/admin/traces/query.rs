//! Parameters of an order for traces.

use std::time::Duration;

use sluicegate_base::observe::connections::{ClientFilter, IdPrefix};

use crate::admin::client_filter::client;
use crate::admin::connections::connection_id;
use crate::admin::parameters::number;

/// Next connections of an order that names no number, and the most that there may be.
const DEFAULT_COUNT: usize = 10;
const MAX_COUNT: usize = 64;
/// Time in which the next connections are traced: the default, and the longest.
const MAX_TIME: Duration = Duration::from_secs(60);
/// Longest server name (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;

/// Parameters of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) target: Target,
    /// Most of the next connections.
    pub(super) count: usize,
    /// Time in which they must come.
    pub(super) time: Duration,
    /// What the flight recorder has of running connections is wanted, and no more.
    pub(super) recorder: bool,
}

/// Connections that are to be traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A running one.
    Connection(IdPrefix),
    /// Those of some clients, running ones and the next.
    Client(ClientFilter),
    /// The next that ask for a server name.
    ServerName(String),
}

impl Query {
    /// Reads the parameters.
    ///
    /// # Errors
    /// One is missing, unknown, comes twice or has a wrong value; the text names it and what is expected.
    pub(super) fn parse(text: &str) -> Result<Query, String> {
        let (mut target, mut count, mut time, mut recorder) = (None, None, None, None);
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let is_second = match &*name {
                "connection" => {
                    target.replace(Target::Connection(connection_id(&value)?)).is_some()
                }
                "client" => target.replace(Target::Client(client(&value)?)).is_some(),
                "sni" => target.replace(Target::ServerName(server_name(&value)?)).is_some(),
                "count" => count.replace(number(&name, &value, 1..=MAX_COUNT)?).is_some(),
                "for" => time.replace(duration(&value)?).is_some(),
                "recorder" => recorder.replace(switch(&value)?).is_some(),
                _ => {
                    return Err(format!(
                        "unknown parameter `{name}`; there are connection, client, sni, count, for and recorder\n"
                    ));
                }
            };
            if is_second {
                return Err(
                    "give one of connection, client and sni, and each parameter once\n".to_owned()
                );
            }
        }
        let target = target.ok_or(
            "which connections? give connection=ID, client=ADDRESS, client=NETWORK or sni=NAME\n",
        )?;
        if let Target::Connection(_) = target
            && (count.is_some() || time.is_some())
        {
            return Err("`count` and `for` are for the next connections; leave them out\n".into());
        }
        let recorder = recorder.unwrap_or(false);
        if recorder
            && (matches!(target, Target::ServerName(_)) || count.is_some() || time.is_some())
        {
            return Err(
                "the flight recorder has running connections: give connection=ID or client=ADDRESS, and neither `count` nor `for`\n"
                    .into(),
            );
        }
        let (count, time) = (count.unwrap_or(DEFAULT_COUNT), time.unwrap_or(MAX_TIME));
        Ok(Query { target, count, time, recorder })
    }
}

fn server_name(value: &str) -> Result<String, String> {
    let name = value.trim_end_matches('.');
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_name) {
        return Err(format!(
            "`sni` is `{value}`; expected a host name as clients send it, such as www.example.com\n"
        ));
    }
    Ok(name.to_owned())
}

fn switch(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("`recorder` is `{value}`; expected true or false\n"))
}

fn duration(value: &str) -> Result<Duration, String> {
    let seconds = value.strip_suffix('s').unwrap_or(value).parse().ok();
    let time = seconds.map(Duration::from_secs).filter(|time| !time.is_zero() && *time <= MAX_TIME);
    time.ok_or_else(|| {
        format!("`for` is `{value}`; expected seconds from 1s to {}s\n", MAX_TIME.as_secs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_name_connections_and_bounds() {
        let parse = |text| Query::parse(text).unwrap();
        let one = parse("connection=00aF");
        assert_eq!(one.target, Target::Connection(IdPrefix::parse("00af").unwrap()));
        let network = parse("client=192.0.2.0%2F24&for=5s&count=3");
        let filter = client("192.0.2.0/24").unwrap();
        let expected = Query {
            target: Target::Client(filter),
            count: 3,
            time: Duration::from_secs(5),
            recorder: false,
        };
        assert_eq!(network, expected);
        let name = parse("sni=www.example.com.&count=64");
        assert_eq!(name.target, Target::ServerName("www.example.com".to_owned()));
        assert_eq!((name.count, name.time), (64, MAX_TIME));
        assert!(parse("recorder=true&connection=0000").recorder && !one.recorder);
    }

    #[test]
    fn wrong_parameter_is_named_with_what_is_expected() {
        for (text, name, expected) in [
            ("", "which connections", "connection=ID"),
            ("connection=", "``", "hexadecimal"),
            ("connection=0000&for=5s", "`for`", "leave them out"),
            ("connection=0000&client=192.0.2.1", "one of", "once"),
            ("client=somebody", "`client` is `somebody`", "192.0.2.0/24"),
            ("client=192.0.2.0/33", "`client`", "network"),
            ("sni=a%20b", "`sni` is `a b`", "www.example.com"),
            ("sni=", "`sni`", "host name"),
            ("sni=a&count=65", "`count`", "from 1 to 64"),
            ("sni=a&count=0", "`count`", "from 1 to 64"),
            ("sni=a&for=61s", "`for`", "60s"),
            ("sni=a&for=0", "`for`", "1s"),
            ("sni=a&for=1m", "`for` is `1m`", "seconds"),
            ("sni=a&sni=a", "one of", "once"),
            ("connection=0000&recorder=yes", "`recorder` is `yes`", "true or false"),
            ("sni=a&recorder=true", "flight recorder", "connection=ID"),
            ("client=192.0.2.1&for=5s&recorder=true", "flight recorder", "nor `for`"),
            ("id=00", "`id`", "connection, client, sni"),
        ] {
            let reason = Query::parse(text).unwrap_err();
            assert!(reason.contains(name) && reason.contains(expected), "{text}: {reason}");
            assert!(reason.ends_with('\n'));
        }
    }
}
