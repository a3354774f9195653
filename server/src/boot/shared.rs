//! State that all workers share.

use std::io::ErrorKind;
use std::sync::Arc;

use sluicegate_base::clients::relief::Holdings;
use sluicegate_base::observe::access::{AccessWriter, CurrentAccess, LogDestination};
use sluicegate_base::observe::memory_budget::MemoryBudget;
use sluicegate_base::observe::qlog::{CurrentTraces, Sampler};
use sluicegate_base::observe::request_logs::RequestLogWriters;
use sluicegate_base::observe::telemetry::{CurrentSpans, SpanWriter};
use sluicegate_base::secrets::{Secrets, SecretsConfig};
use sluicegate_config::{Config, LogTarget};
use sluicegate_http::auth::PasswordChecks;
use sluicegate_http::identification::Identification;
use sluicegate_http::route::Site;
use sluicegate_quic::cid::CidSchemes;
use sluicegate_quic::settings::{FlightRecorder, Tracing, visible};
use sluicegate_quic::token::UsedTokens;

use super::connection_ids;
use super::error::BootError;
use super::memory;
use super::memory::parts::Parts;
use crate::tcp::MissingHeaders;
use crate::telemetry::Collector;

/// State that all workers share. It does not change while the server runs.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) secrets: Arc<Secrets>,
    pub(super) used_tokens: Arc<UsedTokens>,
    pub(super) cids: CidSchemes,
    pub(super) site: Arc<Site>,
    pub(super) traces: Arc<CurrentTraces>,
    pub(super) access: Arc<CurrentAccess>,
    pub(super) spans: Arc<CurrentSpans>,
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) parts: Parts,
    pub(super) holdings: Arc<Holdings>,
    pub(super) passwords: Arc<PasswordChecks>,
    pub(super) missing_headers: Arc<MissingHeaders>,
}

impl Shared {
    /// Loads the secrets and compiles the routes.
    pub(super) fn new(config: Config) -> Result<Shared, BootError> {
        let place = SecretsConfig {
            key_file: config.server.secrets_file.clone(),
            state_dir: config.server.state_dir.clone(),
            accept_open: config.server.open_secrets,
        };
        let secrets = Arc::new(Secrets::load(&place)?);
        let lifetime = config.quic.session_lifetime;
        secrets.ticket_keys().set_lifetime(lifetime);
        secrets.keep_ticket_keys();
        let cids = connection_ids::schemes(&config)?;
        let identification = Identification::new(&config.tracing, &config.telemetry);
        let memory = Arc::new(memory::budget(config.server.memory_limit));
        let parts = Parts::of(memory.limit(), &config);
        let limits = parts.for_site(&config.limits);
        let site = Site::compile_identified(&config.routes, &limits, identification)?;
        let site = Arc::new(site);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let passwords = PasswordChecks::for_cores(cores).map_err(BootError::Thread)?;
        Ok(Shared {
            config,
            secrets,
            used_tokens: Arc::default(),
            cids,
            site,
            traces: Arc::default(),
            access: Arc::default(),
            spans: Arc::default(),
            memory,
            parts,
            holdings: Arc::default(),
            passwords: Arc::new(passwords),
            missing_headers: Arc::default(),
        })
    }

    /// Takes this start's share of the nonces of connection IDs: as late as it can, because a start that fails afterwards has used a
    /// share for nothing.
    pub(super) fn take_nonces(&mut self) -> Result<(), BootError> {
        self.cids.take_nonces(&self.secrets)?;
        Ok(())
    }
}

/// Returns how a configuration traces connections, if it does. Its writer is in effect once `traces` has it set.
pub(super) fn start_tracing(
    traces: &CurrentTraces,
    config: &Config,
    secrets: &Secrets,
) -> Result<Option<Tracing>, BootError> {
    let writer = traces.prepare(&config.qlog).map_err(BootError::Thread)?;
    let key = secrets.qlog_sampling_key();
    Ok(writer.map(|writer| Tracing {
        sampler: Arc::new(Sampler::new(config.qlog.sample_rate, key)),
        writer,
        level: config.qlog.level,
        visible: visible(&config.qlog.fields, config.qlog.query),
        recorder: config.qlog.recorder.then(|| FlightRecorder {
            memory: config.qlog.recorder_memory,
            stall: config.qlog.recorder_stall,
            dumps: traces.dumps(),
        }),
    }))
}

/// Opens the access log of a configuration and starts its export of spans, where it has them. They are in effect once `access` and
/// `spans` have them set.
pub(super) fn open_logs(
    access: &CurrentAccess,
    spans: &CurrentSpans,
    config: &Config,
) -> Result<RequestLogWriters, BootError> {
    let spans = start_export(spans, config)?;
    // Last, because it may create a file.
    Ok(RequestLogWriters { access: open_access_log(access, config)?, spans })
}

fn start_export(
    spans: &CurrentSpans,
    config: &Config,
) -> Result<Option<Arc<SpanWriter>>, BootError> {
    if config.telemetry.endpoint.is_none() {
        return Ok(None);
    }
    let collector = Collector::new(&config.telemetry)?;
    let writer = spans.prepare(&config.telemetry, Box::new(collector));
    writer.map(Some).map_err(BootError::Thread)
}

fn open_access_log(
    access: &CurrentAccess,
    config: &Config,
) -> Result<Option<Arc<AccessWriter>>, BootError> {
    let file = config.access_log.file.as_ref();
    let opened = access.prepare(&config.access_log);
    opened.map_err(|source| match file {
        Some(LogTarget::File(path)) if source.kind() == ErrorKind::IsADirectory => {
            BootError::LogIsFolder(path.clone())
        }
        _ => BootError::AccessLog {
            name: file.map(LogDestination::name).unwrap_or_default(),
            source,
        },
    })
}
