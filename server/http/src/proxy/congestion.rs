//! Congestion control of connections to upstreams over QUIC, as the site compiles it.

use std::cmp::Ordering;

use sluicegate_cc::{Algorithm, Options, Registry};
use sluicegate_config::CongestionControl;
use sluicegate_quic_client::Factory;

use super::tls::UpstreamTlsError;

/// Algorithm of a pool that names none.
const DEFAULT: &str = "cubic";

/// An algorithm with its options. Two of them are equal if they were made of the same settings.
#[derive(Clone)]
pub(super) struct CongestionSettings {
    /// The algorithm with all its options, as a file has it.
    text: String,
    algorithm: Algorithm,
    options: Options,
}

impl CongestionSettings {
    /// Returns the settings of a pool; those of [`DEFAULT`] if it names no algorithm.
    ///
    /// # Errors
    /// This build has no such algorithm.
    pub(super) fn new(
        control: Option<&CongestionControl>,
    ) -> Result<CongestionSettings, UpstreamTlsError> {
        let registry = Registry::builtin();
        let name = control.map_or(DEFAULT, |control| control.algorithm.as_str());
        let unknown = || UpstreamTlsError::UnknownAlgorithm(name.to_owned());
        let algorithm = *registry.find(name).ok_or_else(unknown)?;
        let text = control.map_or_else(|| name.to_owned(), CongestionControl::to_string);
        let options = control.map_or_else(|| algorithm.defaults(), |known| known.options.clone());
        Ok(CongestionSettings { text, algorithm, options })
    }

    /// Returns what makes a controller for each connection.
    pub(super) fn factory(&self) -> Factory {
        Factory::new(self.algorithm, self.options.clone())
    }
}

impl std::fmt::Debug for CongestionSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for CongestionSettings {
    fn eq(&self, other: &CongestionSettings) -> bool {
        self.text == other.text
    }
}

impl Eq for CongestionSettings {}

impl PartialOrd for CongestionSettings {
    fn partial_cmp(&self, other: &CongestionSettings) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CongestionSettings {
    fn cmp(&self, other: &CongestionSettings) -> Ordering {
        self.text.cmp(&other.text)
    }
}
