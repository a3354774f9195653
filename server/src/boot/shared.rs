//! State that all workers share.

use std::sync::Arc;

use sluicegate_config::Config;

use super::error::BootError;
use super::memory;
use crate::http::identification::Identification;
use crate::http::route::Site;
use crate::observe::access::{AccessWriter, CurrentAccess, Target};
use crate::observe::memory_budget::MemoryBudget;
use crate::observe::qlog::{QlogOptions, QlogWriter, Sampler};
use crate::quic::secrets::{Secrets, SecretsConfig};
use crate::quic::settings::{Tracing, visible};
use crate::quic::token::UsedTokens;

/// State that all workers share. It does not change while the server runs.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) secrets: Arc<Secrets>,
    pub(super) used_tokens: Arc<UsedTokens>,
    pub(super) site: Arc<Site>,
    pub(super) tracing: Option<Tracing>,
    pub(super) access: Arc<CurrentAccess>,
    pub(super) memory: Arc<MemoryBudget>,
}

impl Shared {
    /// Loads the secrets, compiles the routes and starts the logs.
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
        let site = Site::compile(&config.routes, &config.limits)?;
        let site = Arc::new(site.with_identification(Identification::new(&config.tracing)));
        let tracing = start_tracing(&config, &secrets)?;
        let access = Arc::<CurrentAccess>::default();
        let log = open_access_log(&access, &config)?;
        access.set(&config.access_log, log);
        let memory = Arc::new(memory::budget(config.server.memory_limit));
        Ok(Shared {
            config,
            secrets,
            used_tokens: Arc::default(),
            site,
            tracing,
            access,
            memory,
        })
    }
}

fn start_tracing(config: &Config, secrets: &Secrets) -> Result<Option<Tracing>, BootError> {
    let (rate, Some(directory)) = (config.qlog.sample_rate, config.qlog.directory.clone()) else {
        return Ok(None);
    };
    if rate <= 0.0 {
        return Ok(None);
    }
    let options = QlogOptions {
        max_open: usize::try_from(config.qlog.max_open_traces).unwrap_or(usize::MAX),
        max_trace_bytes: config.qlog.max_trace_bytes,
        max_directory_bytes: config.qlog.max_total_bytes,
        queue_bytes: config.qlog.queue,
        ..QlogOptions::new(directory)
    };
    let writer = QlogWriter::start(&options).map_err(BootError::Thread)?;
    Ok(Some(Tracing {
        sampler: Arc::new(Sampler::new(rate, secrets.qlog_sampling_key())),
        writer: Arc::new(writer),
        level: config.qlog.level,
        visible: visible(&config.qlog.fields, config.qlog.query),
    }))
}

/// Opens the access log of a configuration, if it has one. It is in effect once `access` has it set.
pub(super) fn open_access_log(
    access: &CurrentAccess,
    config: &Config,
) -> Result<Option<Arc<AccessWriter>>, BootError> {
    let file = config.access_log.file.as_ref();
    access
        .prepare(&config.access_log)
        .map_err(|source| BootError::AccessLog {
            name: file.map(Target::name).unwrap_or_default(),
            source,
        })
}
