//! The thread of renewals by ACME: started when a configuration has such certificates.

use std::sync::Arc;

use sluicegate_base::observe::lifecycle::Lifecycle;
use sluicegate_config::Config;

use crate::acme::{AcmeSettings, Renewals};

/// The thread of renewals by ACME, if the configuration in effect has such certificates.
pub(super) struct AcmeRenewals {
    on_change: Arc<dyn Fn() + Send + Sync>,
    lifecycle: Arc<Lifecycle>,
    running: Option<Renewals>,
}

impl AcmeRenewals {
    /// Takes the way by which the main thread learns of certificates, from another thread. Nothing is started yet.
    pub(super) fn new(
        on_change: impl Fn() + Send + Sync + 'static,
        lifecycle: &Arc<Lifecycle>,
    ) -> AcmeRenewals {
        AcmeRenewals {
            on_change: Arc::new(on_change),
            lifecycle: Arc::clone(lifecycle),
            running: None,
        }
    }

    /// Obtains and renews the certificates of a configuration from now on.
    pub(super) fn adopt(&mut self, config: &Config) {
        let Some(settings) = AcmeSettings::of(config) else {
            self.running = None;
            return;
        };
        if let Some(running) = &self.running {
            running.adopt(settings);
            return;
        }
        let on_change = Arc::clone(&self.on_change);
        let status = Arc::clone(self.lifecycle.acme());
        match Renewals::start(settings, status, move || on_change()) {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                tracing::error!(%error, "no thread for ACME, so no certificate is renewed; restart the server");
            }
        }
    }
}
