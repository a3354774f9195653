//! The order `/debug/connections/ID/congestion_control`: another algorithm for a running connection.

use data_encoding::HEXLOWER;
use hyper::StatusCode;
use serde_json::{Value, json};
use sluicegate_base::observe::connections::ConnectionProtocol;
use sluicegate_cc::{Algorithm, OptionKind, Options, Registry, Value as OptionValue};
use sluicegate_quic::endpoint::switch::{AlgorithmSwitch, ControllerState};

use super::connections;
use super::cross_site::Purpose;
use super::parameters;
use super::response::{self, Page, text};
use super::worker_queries::WorkerQueries;
use crate::worker::{Command, SwitchCommand};

/// Sentence where a connection has no algorithm that could be switched.
const OVER_TCP: &str = "the connection is one over TCP, and its congestion control is the system's: net.ipv4.tcp_congestion_control (sysctl) \
    sets that of new connections\n";

/// Returns the connection ID in the path of an order; `None` for other paths.
pub(super) fn connection(path: &str) -> Option<&str> {
    path.strip_prefix(connections::PATH)?.strip_prefix('/')?.strip_suffix("/congestion_control")
}

/// Carries out an order for a connection, whose parameters have the form of a query.
pub(super) async fn respond(
    id: &str,
    parameters: &str,
    algorithms: &Registry,
    workers: &WorkerQueries,
) -> Page {
    let parsed = connections::connection_id(id)
        .and_then(|id| choice(parameters, algorithms).map(|choice| (id, choice)));
    let (id, (algorithm, options)) = match parsed {
        Ok(parsed) => parsed,
        Err(reason) => return response::wrong_parameters(reason),
    };
    let one = match connections::find_one(workers, &id, Purpose::Order).await {
        Ok((_, one)) => one,
        Err(page) => return page,
    };
    if one.protocol != ConnectionProtocol::Http3 {
        return text(StatusCode::CONFLICT, OVER_TCP);
    }
    let order = AlgorithmSwitch { connection: one.id, algorithm, options };
    let command = |reply| Command::Switch(Box::new(SwitchCommand { order: order.clone(), reply }));
    let replies = workers.ask(command).await;
    let found = replies.received.into_iter().find_map(|(name, outcome)| Some((name, outcome?)));
    let Some((worker, outcome)) = found else {
        if replies.silent.is_empty() {
            return text(StatusCode::NOT_FOUND, connections::NO_SUCH_ID);
        }
        return connections::no_reply(&replies.silent, Purpose::Order);
    };
    let Some(to) = outcome.to else {
        return text(StatusCode::CONFLICT, "the handshake is not complete; ask again\n");
    };
    let value = json!({
        "id": HEXLOWER.encode(&outcome.id),
        "worker": worker,
        "from": told(&outcome.from),
        "to": told(&to),
    });
    response::json(&value)
}

fn told(controller: &ControllerState) -> Value {
    json!({
        "algorithm": controller.algorithm,
        "state": controller.state,
        "congestion_window_bytes": controller.window,
    })
}

/// Reads the algorithm, and the options beside it.
///
/// # Errors
/// One is missing, unknown, comes twice or has a wrong value; the text names it and what is expected.
fn choice(parameters: &str, algorithms: &Registry) -> Result<(Algorithm, Options), String> {
    let names = || algorithms.names().collect::<Vec<_>>().join(", ");
    let mut pairs: Vec<_> = form_urlencoded::parse(parameters.as_bytes()).collect();
    let place = pairs.iter().position(|(name, _)| name == "algorithm");
    let (_, name) = place
        .map(|place| pairs.remove(place))
        .ok_or_else(|| format!("which algorithm? give algorithm=NAME, one of: {}\n", names()))?;
    let algorithm = *algorithms
        .find(&name)
        .ok_or_else(|| format!("unknown algorithm `{name}`; there are: {}\n", names()))?;
    let mut options = algorithm.defaults();
    for (place, (name, text)) in pairs.iter().enumerate() {
        if name == "algorithm" || pairs[..place].iter().any(|(before, _)| before == name) {
            return Err(parameters::twice(name));
        }
        let kind = algorithm.options.iter().find(|spec| spec.name == name).map(|spec| spec.kind);
        let Some(kind) = kind else {
            let known: Vec<_> = algorithm.options.iter().map(|spec| spec.name).collect();
            let known = known.join(", ");
            return Err(format!(
                "unknown option `{name}` of {}; it has: {known}\n",
                algorithm.name
            ));
        };
        let value = value(kind, text)
            .ok_or_else(|| format!("`{name}` is `{text}`; expected {}\n", kind.range()))?;
        options.set(name, value).map_err(|error| format!("{error}\n"))?;
    }
    Ok((algorithm, options))
}

/// Reads the value of an option.
fn value(kind: OptionKind, text: &str) -> Option<OptionValue> {
    match kind {
        OptionKind::Integer { .. } => text.parse().ok().map(OptionValue::Integer),
        OptionKind::Number { .. } => text.parse().ok().map(OptionValue::Number),
        OptionKind::Boolean { .. } => text.parse().ok().map(OptionValue::Boolean),
        OptionKind::Choice { among, .. } => {
            among.iter().find(|word| **word == text).map(|word| OptionValue::Choice(word))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_the_connection() {
        assert_eq!(connection("/debug/connections/8a0f/congestion_control"), Some("8a0f"));
        for other in ["/debug/connections/8a0f", "/debug/connections", "/congestion_control"] {
            assert_eq!(connection(other), None);
        }
    }

    #[test]
    fn algorithm_has_its_options_beside_it() {
        let registry = Registry::builtin();
        let choice = |text| choice(text, &registry);
        let (algorithm, options) = choice("algorithm=bbr3").unwrap();
        assert_eq!((algorithm.name, options), ("bbr3", algorithm.defaults()));
        let (algorithm, options) =
            choice("min_window=8&algorithm=cubic&slow_start=search").unwrap();
        assert_eq!((algorithm.name, options.choice("slow_start")), ("cubic", "search"));
        assert_eq!(options.integer("min_window"), 8);
    }

    #[test]
    fn wrong_parameter_is_named_with_what_is_expected() {
        let registry = Registry::builtin();
        for (text, name, expected) in [
            ("", "which algorithm", "cubic, "),
            ("algorithm=vegas", "`vegas`", "bbr3"),
            ("algorithm=bbr3&algorithm=cubic", "`algorithm`", "once"),
            ("algorithm=reno&min_window=2&min_window=2", "`min_window`", "once"),
            ("algorithm=reno&window=2", "`window` of reno", "min_window"),
            ("algorithm=reno&min_window=x", "`min_window` is `x`", "to"),
            ("algorithm=reno&min_window=0", "min_window", "2"),
            ("algorithm=reno&slow_start=fast", "`slow_start`", "search"),
        ] {
            let reason = choice(text, &registry).unwrap_err();
            assert!(reason.contains(name) && reason.contains(expected), "{text}: {reason}");
            assert!(reason.ends_with('\n'));
        }
    }
}
