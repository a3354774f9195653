//! Schemes as the configuration wants them, with what stands in the environment and in files.

use std::ffi::OsString;
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use sluicegate_base::named_file;
use sluicegate_base::secrets::{NONCE_OF_PROCESS, Nonces, Secrets, SecretsError, hex_key};
use sluicegate_cid::HostId;
use sluicegate_config::{CidFormat, ConnectionIds, ServerId, ServerIdEncoding, ServerIdPlace};
use sluicegate_dataplane::Steering;

use super::connection_id::MAX_V1_CID;
use super::katran::Katran;
use super::layout::Layout;
use super::plain::Plain;
use super::quic_lb::{Pool, Routable};
use super::scheme::CidScheme;

/// Length of a nonce that is not configured, bytes.
const USUAL_NONCE: u16 = 8;

/// Surroundings of the process, in which the configuration finds server IDs and keys.
#[derive(Clone, Copy)]
pub struct CidSurroundings<'a> {
    /// Returns a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Whether key files that other users have access to are accepted.
    pub accept_open: bool,
    /// Whether a state directory remembers which nonces were used.
    pub has_state_dir: bool,
}

/// Error in `quic.connection_ids`, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`quic.connection_ids.{key}`: {reason}")]
pub struct CidError {
    /// Place of the table, counted from 0.
    pub table: usize,
    /// Key that the error is about.
    pub key: &'static str,
    reason: String,
}

/// Error about a key of a table.
type KeyError = (&'static str, String);

/// The scheme of a process, from which each worker makes its own.
#[derive(Clone)]
pub struct CidSchemes {
    kind: Kind,
    /// Layout in words, if it is configured.
    layout: Option<String>,
}

#[derive(Clone)]
enum Kind {
    Plain,
    Katran(Katran),
    QuicLb { layout: Layout, pools: Vec<Pool> },
}

impl CidSchemes {
    /// Returns the scheme of a server by itself.
    pub fn plain() -> CidSchemes {
        CidSchemes { kind: Kind::Plain, layout: None }
    }

    /// Reads what the tables of a configuration name, and checks that it makes IDs.
    ///
    /// # Errors
    /// A variable or file is missing or holds something else, or an ID would be too long.
    pub fn read(
        tables: &[ConnectionIds],
        surroundings: CidSurroundings<'_>,
    ) -> Result<CidSchemes, CidError> {
        let failed = |table| move |(key, reason)| CidError { table, key, reason };
        let Some(first) = tables.first() else {
            return Ok(CidSchemes::plain());
        };
        match first.format {
            CidFormat::Plain => {
                let layout = Some(in_words(Layout::PLAIN, &[]));
                Ok(CidSchemes { kind: Kind::Plain, layout })
            }
            CidFormat::Katran => of_katran(first, surroundings).map_err(failed(0)),
            CidFormat::QuicLb => {
                let mut pools = Vec::new();
                for (table, ids) in tables.iter().enumerate() {
                    pools.extend(pool(ids, surroundings).map_err(failed(table))?);
                }
                let last = tables.len() - 1;
                refuse_shared_id(&pools).map_err(failed(last))?;
                of_quic_lb(pools).map_err(failed(last))
            }
        }
    }

    /// Takes nonces that no earlier start has used. If there are none left, IDs are not routable, and an error is logged.
    ///
    /// # Errors
    /// The state directory cannot tell or remember which are used.
    pub fn take_nonces(&mut self, secrets: &Secrets) -> Result<(), SecretsError> {
        // IDs are made under the first configuration alone.
        if let Kind::QuicLb { pools, .. } = &mut self.kind
            && let Some(pool) = pools.first_mut()
            && let Some(key) = &pool.key
        {
            let secret = [&key[..], &pool.server_id].concat();
            pool.nonces = Arc::new(match secrets.take_nonces(&secret, pool.nonce) {
                Err(error @ SecretsError::NoncesUsedUp { .. }) => {
                    tracing::error!(%error, "connection IDs are not routable");
                    Nonces::used_up()
                }
                taken => taken?,
            });
        }
        Ok(())
    }

    /// Returns the nonces of IDs that are encrypted.
    pub fn nonces(&self) -> Option<&Arc<Nonces>> {
        match &self.kind {
            Kind::QuicLb { pools, .. } => {
                pools.first().filter(|pool| pool.key.is_some()).map(|pool| &pool.nonces)
            }
            Kind::Plain | Kind::Katran(_) => None,
        }
    }

    /// Returns the scheme of a worker.
    pub fn scheme(&self) -> Box<dyn CidScheme> {
        match &self.kind {
            Kind::Plain => Box::new(Plain),
            Kind::Katran(katran) => Box::new(*katran),
            Kind::QuicLb { layout, pools } => Box::new(Routable::new(*layout, pools)),
        }
    }

    /// Returns how the kernel finds the worker of a datagram.
    pub fn steering(&self) -> Steering {
        self.scheme().steering()
    }

    /// Returns a name for each kind of ID that the scheme takes for its own; it makes those of the first. The names tell nothing of keys.
    pub fn kinds(&self) -> Vec<String> {
        match &self.kind {
            Kind::Plain => vec!["plain".to_owned()],
            Kind::Katran(katran) => vec![format!("{:?}", katran.host)],
            Kind::QuicLb { pools, .. } if pools.is_empty() => vec!["unroutable".to_owned()],
            Kind::QuicLb { pools, .. } => pools.iter().map(Pool::name).collect(),
        }
    }

    /// Returns the layout of an ID in words, if the configuration has one: `19 bytes: octet 1, …`.
    pub fn layout(&self) -> Option<&str> {
        self.layout.as_deref()
    }
}

fn of_katran(
    ids: &ConnectionIds,
    surroundings: CidSurroundings<'_>,
) -> Result<CidSchemes, KeyError> {
    let server_id = ids.server_id.as_ref().ok_or_else(|| {
        ("server_id", "missing; set it to the number of the host, such as \"0x0102\"".to_owned())
    })?;
    let number = read_server_id(server_id, surroundings)?;
    let host = HostId::from_bytes(&number);
    let host = host.map_err(|error| ("server_id", format!("{error}, not {}", number.len())))?;
    let routing = host.routing_len();
    let layout = Layout::behind(routing, 0).ok_or_else(|| too_long(&[("host", routing)]))?;
    let name = format!("version {} and host ID", host.version());
    let words = in_words(layout, &[(&name, routing)]);
    Ok(CidSchemes { kind: Kind::Katran(Katran { host, layout }), layout: Some(words) })
}

/// Returns the configuration of a table; `None` for IDs that no balancer can route.
fn pool(ids: &ConnectionIds, surroundings: CidSurroundings<'_>) -> Result<Option<Pool>, KeyError> {
    let Some(server_id) = &ids.server_id else {
        return Ok(None);
    };
    let key = ids.key_file.as_deref().map(|path| hex_key::read(path, surroundings.accept_open));
    let key = key.transpose().map_err(|error| ("key_file", error.to_string()))?;
    let nonce = usize::from(ids.nonce.unwrap_or(USUAL_NONCE));
    if key.is_some() && nonce < NONCE_OF_PROCESS && !surroundings.has_state_dir {
        let reason = format!(
            "{nonce} bytes may repeat after a restart; set `server.state_dir`, which remembers the used ones, or at least {NONCE_OF_PROCESS}"
        );
        return Err(("nonce", reason));
    }
    let pool = Pool {
        config: u8::try_from(ids.config.unwrap_or(0)).unwrap_or(u8::MAX),
        server_id: read_server_id(server_id, surroundings)?,
        nonce,
        key,
        nonces: Arc::new(Nonces::of_process(nonce)),
    };
    match (pool.format(), Layout::behind(pool.routing_len(), nonce)) {
        (Ok(_), Some(_)) => Ok(Some(pool)),
        _ => Err(too_long(&pool.parts())),
    }
}

/// Who sees IDs with and without a key could otherwise tell which texts belong together (draft-ietf-quic-load-balancers §9.7).
fn refuse_shared_id(pools: &[Pool]) -> Result<(), KeyError> {
    match pools {
        [first, second]
            if first.key.is_some() != second.key.is_some()
                && first.server_id == second.server_id =>
        {
            let reason =
                "the same with a key and without one; the server needs another ID with the key";
            Err(("server_id", reason.to_owned()))
        }
        _ => Ok(()),
    }
}

/// The places of worker and generation are the same in IDs of all configurations: behind the longest routing part.
fn of_quic_lb(pools: Vec<Pool>) -> Result<CidSchemes, KeyError> {
    let Some(longest) = pools.iter().max_by_key(|pool| pool.routing_len()) else {
        let layout = Layout::behind(1, 0).ok_or_else(|| too_long(&[("octet", 1)]))?;
        let words = in_words(layout, &[("octet (not routable)", 1)]);
        let kind = Kind::QuicLb { layout, pools };
        return Ok(CidSchemes { kind, layout: Some(words) });
    };
    let routing = longest.routing_len();
    let random = pools.iter().map(|pool| pool.nonce).min().unwrap_or(0);
    let layout = Layout::behind(routing, random).ok_or_else(|| too_long(&longest.parts()))?;
    let each = pools.iter().map(|pool| {
        let name = format!("octet (configuration {})", pool.config);
        let encrypted = if pool.key.is_some() { "encrypted " } else { "" };
        let server_id = format!("{encrypted}server ID");
        let padding = routing - pool.routing_len();
        let parts = [
            (name.as_str(), 1),
            (&server_id, pool.server_id.len()),
            ("nonce", pool.nonce),
            ("random", padding),
        ];
        in_words(layout, &parts[..if padding > 0 { 4 } else { 3 }])
    });
    let layout_words: Vec<String> = each.collect();
    let kind = Kind::QuicLb { layout, pools };
    Ok(CidSchemes { kind, layout: Some(layout_words.join("; or ")) })
}

fn list(parts: &[(&str, usize)]) -> String {
    let parts: Vec<_> = parts.iter().map(|(name, len)| format!("{name} {len}")).collect();
    parts.join(", ")
}

fn in_words(layout: Layout, routing: &[(&str, usize)]) -> String {
    let own = [("worker", 1), ("generation", 1), ("random", layout.entropy())];
    let own = &own[..if layout.entropy() > 0 { 3 } else { 2 }];
    format!("{} bytes: {}", layout.len(), list(&[routing, own].concat()))
}

fn too_long(routing: &[(&str, usize)]) -> KeyError {
    let parts = [routing, &[("worker", 1), ("generation", 1)]].concat();
    let len: usize = parts.iter().map(|(_, len)| len).sum();
    let reason = format!(
        "{} bytes ({}) do not fit into the {MAX_V1_CID} of a connection ID; shorten server ID or nonce",
        len,
        list(&parts)
    );
    ("nonce", reason)
}

fn read_server_id(id: &ServerId, surroundings: CidSurroundings<'_>) -> Result<Vec<u8>, KeyError> {
    let refuse = |reason| ("server_id", reason);
    let place = match id {
        ServerId::Bytes(bytes) => return Ok(bytes.clone()),
        ServerId::At(place) => place,
    };
    let (name, text) = text_at(place, surroundings).map_err(refuse)?;
    let text = text.trim_end();
    let (encoding, bytes) = match place.encoding {
        ServerIdEncoding::Hex => {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            ("hexadecimal", HEXLOWER_PERMISSIVE.decode(digits.as_bytes()))
        }
        ServerIdEncoding::Base64 => ("base64", BASE64.decode(text.as_bytes())),
    };
    let bytes = bytes.ok().filter(|bytes| (1..=MAX_V1_CID).contains(&bytes.len()));
    bytes.ok_or_else(|| refuse(format!("{name} does not hold the bytes of an ID in {encoding}")))
}

/// Returns the name of the place, and the text there.
fn text_at(
    place: &ServerIdPlace,
    surroundings: CidSurroundings<'_>,
) -> Result<(String, String), String> {
    if let Some(path) = &place.file {
        let name = path.display().to_string();
        let text = named_file::read_text(path, named_file::SECRET);
        return match text {
            Ok(text) => Ok((name, text)),
            Err(error) => Err(format!("cannot read {name}: {error}")),
        };
    }
    let name = place.env.clone().unwrap_or_default();
    match (surroundings.variable)(&name).map(OsString::into_string) {
        Some(Ok(text)) => Ok((name, text)),
        Some(Err(_)) => Err(format!("the variable {name} of the environment is not UTF-8")),
        None => Err(format!("the environment has no variable {name}; set it, or correct its name")),
    }
}
