//! Selects the congestion control that the server runs.

use std::fmt;
use std::time::Duration;

use sluicegate_cc::{Algorithm, Options, Registry};

use super::configured_algorithm::ConfiguredAlgorithm;
use super::error::SimulationError;
use super::watch::{self, Watch};

/// A congestion control for the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// An algorithm of this product, through the product's adapter.
    Ours(ConfiguredAlgorithm),
    /// quiche's own CUBIC.
    QuicheCubic {
        /// Whether its idle restart is the mended one.
        idle_fix: bool,
    },
    /// quiche's own Reno.
    QuicheReno,
    /// quiche's own BBR, version 2.
    QuicheBbr2,
}

impl Control {
    /// Returns an algorithm of this product at its default options.
    pub const fn of(algorithm: &'static str) -> Self {
        Self::Ours(ConfiguredAlgorithm::of(algorithm))
    }

    /// Returns every algorithm of this product at its default options.
    pub fn ours() -> impl Iterator<Item = Self> {
        Registry::builtin().names().map(Self::of).collect::<Vec<_>>().into_iter()
    }

    /// Returns whether it is an algorithm of this product.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Returns the algorithm of this product with all its options.
    ///
    /// # Errors
    ///
    /// It is not one of this product, or it refuses an option.
    pub(crate) fn find(self) -> Result<(Algorithm, Options), SimulationError> {
        match self {
            Self::Ours(configured) => configured.find(),
            _ => Err(SimulationError::UnknownAlgorithm(self.to_string())),
        }
    }

    /// Returns whether it responds to CE marks in the way of L4S.
    pub fn is_scalable(self) -> bool {
        self.find().is_ok_and(|(algorithm, _)| algorithm.scalable)
    }

    /// Returns those of quiche that comparisons use.
    pub fn quic() -> impl Iterator<Item = Self> {
        [
            Self::QuicheCubic { idle_fix: false },
            Self::QuicheCubic { idle_fix: true },
            Self::QuicheReno,
            Self::QuicheBbr2,
        ]
        .into_iter()
    }

    /// Returns the control of that name, as [`fmt::Display`] writes it, if it has its default options.
    pub fn named(name: &str) -> Option<Self> {
        Self::ours().chain(Self::quic()).find(|control| control.to_string() == name)
    }

    /// Sets this control for the server's connections. Samples of an algorithm of ours start over with it.
    pub(super) fn attach(self, config: &mut quiche::Config) -> Result<(), SimulationError> {
        watch::forget();
        match self {
            Self::Ours(configured) => {
                let (algorithm, options) = configured.find()?;
                let watched = watch::watched(algorithm, Watch::Connection, Duration::ZERO);
                config.set_cc_factory(quiche::cc::Factory::new(watched, options));
            }
            Self::QuicheCubic { idle_fix } => {
                config.set_cc_algorithm_name("cubic")?;
                config.set_enable_cubic_idle_restart_fix(idle_fix);
            }
            Self::QuicheReno => config.set_cc_algorithm_name("reno")?,
            Self::QuicheBbr2 => config.set_cc_algorithm_name("bbr2_gcongestion")?,
        }
        Ok(())
    }
}

impl From<&'static str> for Control {
    fn from(algorithm: &'static str) -> Self {
        Self::of(algorithm)
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ours(configured) => return f.pad(&configured.to_string()),
            Self::QuicheCubic { idle_fix: false } => "quiche-cubic-unfixed",
            Self::QuicheCubic { idle_fix: true } => "quiche-cubic",
            Self::QuicheReno => "quiche-reno",
            Self::QuicheBbr2 => "quiche-bbr2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_is_found_by_its_own_name() {
        for control in Control::ours().chain(Control::quic()) {
            assert_eq!(Control::named(&control.to_string()), Some(control));
        }
        assert_eq!(Control::named("no-such-control"), None);
    }
}
