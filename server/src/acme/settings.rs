//! The part of a configuration that certificates by ACME are obtained by.

use std::collections::BTreeSet;

use sluicegate_config::{Acme, Config};

use super::store::AcmeStore;

/// Everything that the thread of renewals needs of a configuration.
#[derive(Clone, Debug)]
pub struct AcmeSettings {
    /// The authority, and the account at it.
    pub acme: Acme,
    /// Folder of keys and certificates.
    pub store: AcmeStore,
    /// Host names of each certificate, as the configuration lists them.
    pub certificates: BTreeSet<Vec<String>>,
}

impl AcmeSettings {
    /// Returns the settings; `None` if the configuration has no certificate by ACME.
    pub fn of(config: &Config) -> Option<AcmeSettings> {
        let certificates = config.listeners.iter().flat_map(|l| &l.tls);
        let names = certificates.map(|tls| tls.acme.clone());
        let certificates: BTreeSet<_> = names.filter(|names| !names.is_empty()).collect();
        if certificates.is_empty() {
            return None;
        }
        Some(AcmeSettings {
            acme: config.acme.clone(),
            store: AcmeStore::of(config)?,
            certificates,
        })
    }
}
