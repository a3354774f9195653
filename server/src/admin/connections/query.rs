//! Parameters of a request for connections.

use sluicegate_base::observe::account::Wait;
use sluicegate_base::observe::connections::{
    ConnectionFilter, ConnectionProtocol, IdPrefix, Order,
};
use sluicegate_base::observe::metrics::Label;

use crate::admin::client_filter::client;
use crate::admin::parameters::{self, number, word};

/// Connections in a list without `limit`, and the most that there may be.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1000;
const ORDERS: [(&str, Order); 5] = [
    ("busy", Order::Busy),
    ("stalled", Order::Stalled),
    ("age", Order::Age),
    ("sent", Order::Sent),
    ("lost", Order::Lost),
];

/// Parameters of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) selection: ConnectionFilter,
    pub(super) order: Order,
    pub(super) limit: usize,
}

impl Query {
    /// Reads the query of a list.
    ///
    /// # Errors
    /// A parameter is unknown, comes twice or has a wrong value; the text names it and what is expected.
    pub(super) fn parse(text: &str) -> Result<Query, String> {
        let mut selection = ConnectionFilter::default();
        let (mut order, mut limit) = (None, None);
        let protocols = labels(ConnectionProtocol::ALL);
        let waits = labels(Wait::ALL);
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let is_second = match &*name {
                "client" => selection.client.replace(client(&value)?).is_some(),
                "protocol" => {
                    let protocol = word(&name, &value, protocols.clone())?;
                    selection.protocol.replace(protocol).is_some()
                }
                "listener" => selection.listener.replace(value.into_owned()).is_some(),
                "algorithm" => selection.algorithm.replace(value.into_owned()).is_some(),
                "wait" => selection.wait.replace(word(&name, &value, waits.clone())?).is_some(),
                "sort" => order.replace(word(&name, &value, ORDERS.into_iter())?).is_some(),
                "limit" => limit.replace(number(&name, &value, 1..=MAX_LIMIT)?).is_some(),
                _ => {
                    return Err(format!(
                        "unknown parameter `{name}`; there are client, protocol, listener, algorithm, wait, sort and limit\n"
                    ));
                }
            };
            if is_second {
                return Err(parameters::twice(&name));
            }
        }
        Ok(Query {
            selection,
            order: order.unwrap_or_default(),
            limit: limit.unwrap_or(DEFAULT_LIMIT),
        })
    }

    /// Reads the ID in a path, behind which no parameters may stand.
    ///
    /// # Errors
    /// It is none; the text says what is expected.
    pub(super) fn for_id(id: &str, query: &str) -> Result<Query, String> {
        if !query.is_empty() {
            return Err("a connection's page takes no parameters\n".to_owned());
        }
        let selection =
            ConnectionFilter { id: Some(connection_id(id)?), ..ConnectionFilter::default() };
        Ok(Query { selection, order: Order::default(), limit: 1 })
    }
}

/// Reads a connection ID, or the first digits of one.
///
/// # Errors
/// It is none; the text says what is expected.
pub(in crate::admin) fn connection_id(id: &str) -> Result<IdPrefix, String> {
    IdPrefix::parse(id).ok_or_else(|| {
        format!("`{id}` is no connection ID; expected 4 to 40 hexadecimal digits, as the access log has them, or the first of them\n")
    })
}

fn labels<L: Label + Copy>(all: &'static [L]) -> impl Iterator<Item = (&'static str, L)> + Clone {
    all.iter().map(|label| (label.name(), *label))
}

#[cfg(test)]
mod tests {
    use sluicegate_base::observe::connections::ClientFilter;

    use super::*;

    #[test]
    fn parameters_select_and_sort() {
        let all = Query {
            selection: ConnectionFilter::default(),
            order: Order::Busy,
            limit: DEFAULT_LIMIT,
        };
        assert_eq!(Query::parse(""), Ok(all));
        let query = "client=192.0.2.1:50000&listener=edge&algorithm=bbr3&protocol=h3&wait=pacing&sort=lost&limit=7";
        let query = Query::parse(query).unwrap();
        assert_eq!((query.order, query.limit), (Order::Lost, 7));
        let selection = query.selection;
        let filter = |network: &str, port| ClientFilter::new(network.parse().unwrap(), port);
        assert_eq!(selection.client, Some(filter("192.0.2.1/32", Some(50_000))));
        assert_eq!(selection.listener.as_deref(), Some("edge"));
        assert_eq!(selection.algorithm.as_deref(), Some("bbr3"));
        assert_eq!(
            (selection.wait, selection.protocol),
            (Some(Wait::Pacing), Some(ConnectionProtocol::Http3))
        );
        for (text, port) in
            [("[2001:db8::1]:5", Some(5)), ("2001:db8::1", None), ("[2001:db8::1]", None)]
        {
            let query = Query::parse(&format!("client={text}")).unwrap();
            assert_eq!(query.selection.client, Some(filter("2001:db8::1/128", port)));
        }
    }

    #[test]
    fn wrong_parameter_is_named_with_what_is_expected() {
        for (text, name, expected) in [
            ("client=somebody", "`client` is `somebody`", "192.0.2.1"),
            ("client", "`client` is ``", "IP address"),
            ("wait=luck", "`wait`", "congestion_control"),
            ("protocol=quic", "`protocol` is `quic`", "http/1, h2, h3"),
            ("sort=name", "`sort`", "busy, stalled, age, sent, lost"),
            ("limit=0", "`limit`", "from 1 to 1000"),
            ("limit=1001", "`limit`", "from 1 to 1000"),
            ("limit=1&limit=1", "`limit`", "once"),
            ("user=x", "`user`", "client, protocol, listener"),
        ] {
            let reason = Query::parse(text).unwrap_err();
            assert!(reason.contains(name) && reason.contains(expected), "{reason}");
            assert!(reason.ends_with('\n'));
        }
    }

    #[test]
    fn id_is_hexadecimal() {
        let id = |text: &str| Query::for_id(text, "").map(|query| query.selection.id.unwrap());
        let whole = id("00aFff").unwrap();
        assert!(whole.is_whole(&[0, 0xaf, 0xff]) && whole.begins(&[0, 0xaf, 0xff, 1]));
        assert!(id(&"11".repeat(20)).unwrap().is_whole(&[0x11; 20]));
        let odd = id("00afa").unwrap();
        assert!(
            odd.begins(&[0, 0xaf, 0xa5])
                && !odd.begins(&[0, 0xaf, 0x5a])
                && !odd.begins(&[0, 0xaf])
        );
        for text in ["", "0", "00a", "000g", "0000g", "é0", "+1", "0x11", "a/b", &"11".repeat(21)]
        {
            assert!(id(text).unwrap_err().contains("hexadecimal"), "{text}");
        }
        assert!(Query::for_id("00", "limit=1").is_err());
    }
}
