//! Groups and listeners.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sluicegate_dataplane::{DriverOptions, SocketOptions};
use toml::de::DeValue;

use super::words::{socket_address, words};
use super::{Root, congestion};
use crate::error::{Error, Position};
use crate::model::{CongestionRule, Cores, Group, Listener, Tls};
use crate::schema::{GROUP, LISTENER, RULE, TLS, TLS_MANY};
use crate::source::{Section, Source, shown};
use crate::value::{Item, kind_of, whole};

const MAX_CORE: u64 = 4095;
const MAX_ADDRESSES: usize = 64;
const MAX_NETWORKS: usize = 4096;
const MAX_IDENTITIES: usize = 256;

/// What must not occur twice, with the place where it first stood.
pub(super) struct Seen<T>(HashMap<T, usize>);

impl<T: std::hash::Hash + Eq> Seen<T> {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Notes `value` at byte `at`; an error names both places.
    pub(super) fn note(
        &mut self,
        source: &Source<'_>,
        at: usize,
        value: T,
        found: impl FnOnce() -> String,
        expected: &str,
    ) -> Result<(), Error> {
        match self.0.insert(value, at) {
            None => Ok(()),
            Some(first) => {
                let line = Position::of(source.text, first).line;
                let found = format!("{} again, first on line {line}", found());
                Err(source.error(at, found, expected))
            }
        }
    }
}

/// The groups of a file, or the default one.
pub(super) fn groups(root: &Root<'_>) -> Result<Vec<Group>, Error> {
    let mut names = Seen::new();
    let mut groups = Vec::new();
    for table in root.many(&GROUP)? {
        let at = table.position("name");
        let group = group(table)?;
        let found = || format!("group \"{}\"", group.name);
        names.note(
            root.source,
            at,
            group.name.clone(),
            found,
            "a name of its own",
        )?;
        groups.push(group);
    }
    if groups.is_empty() {
        groups.push(Group {
            name: "default".to_owned(),
            backend: Default::default(),
            cores: Cores::Auto,
            socket: SocketOptions::default(),
            driver: DriverOptions::default(),
        });
    }
    Ok(groups)
}

fn group(table: Section<'_>) -> Result<Group, Error> {
    let mut group = Group {
        name: table.given("name")?.text()?,
        backend: table.given("backend")?.backend()?,
        cores: cores(&table.given("cores")?)?,
        socket: SocketOptions::default(),
        driver: DriverOptions::default(),
    };
    for spec in SocketOptions::SPECS {
        if let Some(item) = table.item(spec.name)? {
            group
                .socket
                .set(spec.name, item.option()?)
                .map_err(|_| item.refused())?;
        }
    }
    for spec in DriverOptions::SPECS {
        if let Some(item) = table.item(spec.name)? {
            group
                .driver
                .set(spec.name, item.option()?)
                .map_err(|_| item.refused())?;
        }
    }
    table.finish();
    Ok(group)
}

fn cores(item: &Item<'_>) -> Result<Cores, Error> {
    let list: Option<Vec<u64>> = match &*item.value {
        DeValue::String(word) if word == "auto" => return Ok(Cores::Auto),
        DeValue::String(ranges) => core_ranges(ranges),
        DeValue::Array(entries) => entries
            .iter()
            .map(|e| e.get_ref().as_integer().and_then(whole))
            .collect(),
        _ => None,
    };
    let list = list.filter(|l| !l.is_empty() && l.iter().all(|core| *core <= MAX_CORE));
    let list = list.ok_or_else(|| item.refused())?;
    let mut sorted = list.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let found = format!("core {} twice in `cores`", pair[0]);
        return Err(item
            .source
            .error(item.at, found, item.key.kind.expectation()));
    }
    let list = list
        .into_iter()
        .map(usize::try_from)
        .collect::<Result<_, _>>();
    list.map(Cores::List).map_err(|_| item.refused())
}

/// Reads `0-3,6`; `None` for anything else and for cores that are too large to expand.
fn core_ranges(text: &str) -> Option<Vec<u64>> {
    let number = |word: &str| {
        let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        word.parse().ok().filter(|core| plain && *core <= MAX_CORE)
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (number(first.trim())?, number(last.trim())?);
        if last < first || list.len() > usize::try_from(MAX_CORE).unwrap_or(usize::MAX) {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

pub(super) fn listeners(root: &Root<'_>, groups: &[Group]) -> Result<Vec<Listener>, Error> {
    let mut names = Seen::new();
    let mut served = Seen::new();
    let mut listeners = Vec::new();
    for table in root.many(&LISTENER)? {
        let at = table.position("name");
        let listener = listener(table, groups, &mut served)?;
        let found = || format!("listener \"{}\"", listener.name);
        names.note(
            root.source,
            at,
            listener.name.clone(),
            found,
            "a name of its own",
        )?;
        listeners.push(listener);
    }
    if listeners.is_empty() {
        let found = "no listener in the file";
        return Err(root.source.error(0, found, "at least one [[listener]]"));
    }
    Ok(listeners)
}

fn listener(
    table: Section<'_>,
    groups: &[Group],
    served: &mut Seen<SocketAddr>,
) -> Result<Listener, Error> {
    let listener = Listener {
        name: table.given("name")?.text()?,
        addresses: addresses(&table.given("address")?, served)?,
        group: group_of(&table.given("group")?, groups)?,
        congestion_control: congestion::read(&table.given("congestion_control")?)?,
        congestion_rules: rules(&table)?,
        low_rtt_guard: match table.item("low_rtt_guard")? {
            Some(item) => Some(item.duration()?),
            None => None,
        },
        tls: tls(&table, &table.given("tls")?)?,
    };
    table.finish();
    Ok(listener)
}

fn rules(listener: &Section<'_>) -> Result<Vec<CongestionRule>, Error> {
    // Asked for so that the reading is complete; the tables are opened with their places.
    listener.item("congestion_rule")?;
    let Some(value) = listener.raw("congestion_rule") else {
        return Ok(Vec::new());
    };
    let rule = |table: Section<'_>| {
        let rule = CongestionRule {
            networks: networks(&table.given("networks")?)?,
            share: table.given("share")?.ratio()?,
            congestion_control: congestion::read(&table.given("congestion_control")?)?,
        };
        table.finish();
        Ok(rule)
    };
    let tables = Section::open_many(listener.source, &RULE, value)?;
    tables.into_iter().map(rule).collect()
}

fn networks(item: &Item<'_>) -> Result<Vec<IpNet>, Error> {
    if item.value.as_str() == Some("all") {
        return Ok(vec![
            IpNet::from(Ipv4Net::default()),
            IpNet::from(Ipv6Net::default()),
        ]);
    }
    let network = |(at, word): (usize, &DeValue<'_>)| {
        let text = word.as_str().unwrap_or_default();
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let network = text.parse::<IpNet>().ok().or_else(|| address().ok());
        let network = network.ok_or_else(|| {
            let found = format!("{} for `networks`", kind_of(word));
            item.source.error(at, found, item.key.kind.expectation())
        })?;
        if network == network.trunc() {
            return Ok(network);
        }
        let found = format!("network {network}, whose address has bits beyond the prefix");
        let expected = format!("{}, or a longer prefix", network.trunc());
        Err(item.source.error(at, found, expected))
    };
    let words = words(&item.value, item.at, 1..=MAX_NETWORKS);
    words.into_iter().map(network).collect()
}

fn group_of(item: &Item<'_>, groups: &[Group]) -> Result<String, Error> {
    let name = item.text()?;
    if groups.iter().any(|g| g.name == name) {
        return Ok(name);
    }
    let known: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
    let found = format!("no [[group]] is named \"{}\"", shown(&name));
    Err(item.source.unknown(item.at, found, &name, &known))
}

fn addresses(item: &Item<'_>, served: &mut Seen<SocketAddr>) -> Result<Vec<SocketAddr>, Error> {
    let words = words(&item.value, item.at, 1..=MAX_ADDRESSES);
    let mut addresses = Vec::with_capacity(words.len());
    for (at, word) in words {
        let address = word.as_str().and_then(socket_address).ok_or_else(|| {
            let found = format!("{} for `address`", kind_of(word));
            item.source.error(at, found, item.key.kind.expectation())
        })?;
        // Each use of port 0 gets a port of its own.
        if address.port() != 0 {
            let found = || format!("address {address}");
            served.note(
                item.source,
                at,
                address,
                found,
                "an address that is served once",
            )?;
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// One certificate, several, or none.
fn tls(listener: &Section<'_>, item: &Item<'_>) -> Result<Vec<Tls>, Error> {
    match (&*item.value, listener.raw("tls")) {
        (DeValue::String(word), _) if word == "self-signed" => Ok(Vec::new()),
        (DeValue::Table(_), Some(value)) => {
            Ok(vec![identity(Section::open(item.source, &TLS, value)?)?])
        }
        (DeValue::Array(tables), Some(value))
            if (1..=MAX_IDENTITIES).contains(&tables.len())
                && tables.iter().all(|t| t.get_ref().is_table()) =>
        {
            let tables = Section::open_many(item.source, &TLS_MANY, value)?;
            tables.into_iter().map(identity).collect()
        }
        _ => Err(item.refused()),
    }
}

fn identity(table: Section<'_>) -> Result<Tls, Error> {
    let tls = Tls {
        certificate: table.given("certificate")?.path()?,
        key: table.given("key")?.path()?,
    };
    table.finish();
    Ok(tls)
}
