//! What a check finds, and what mends it.

use std::fmt::Display;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingState {
    /// The check does not apply to this configuration or host.
    NotApplicable,
    /// The host has what is wanted.
    Fine,
    /// The host does not say.
    Unknown,
    /// The server runs, but slower or worse than it could.
    Warning,
    /// The server cannot start with this configuration.
    Impossible,
}

impl FindingState {
    /// Returns the name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not_applicable",
            Self::Fine => "fine",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Impossible => "impossible",
        }
    }
}

/// Remedy of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Parameters of the host's kernel.
    Sysctls(Vec<(&'static str, String)>),
    /// A command on the host.
    Host(String),
    /// Options with which the container is started, by Docker or Podman.
    Container(String),
    /// A change of the configuration file.
    Configuration(String),
    /// No command does it.
    Advice(String),
}

impl Fix {
    /// Returns the place that the remedy belongs to.
    pub(crate) const fn place(&self) -> &'static str {
        match self {
            Self::Sysctls(_) | Self::Host(_) | Self::Advice(_) => "host",
            Self::Container(_) => "container",
            Self::Configuration(_) => "configuration",
        }
    }

    /// Returns the remedy as an operator types it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Sysctls(all) => {
                let all: Vec<String> = all.iter().map(|(key, v)| format!("{key}={v}")).collect();
                format!("sysctl -w {}", all.join(" "))
            }
            Self::Container(options) => format!("docker run {options} ..."),
            Self::Host(text) | Self::Configuration(text) | Self::Advice(text) => text.clone(),
        }
    }
}

/// Returns a word of a command that no shell reads as anything else.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Name of a check with the document that explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostCheck {
    /// Name, which stays the same from release to release.
    pub(crate) name: &'static str,
    /// Where to read more.
    pub(crate) source: &'static str,
}

/// What a check found at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFinding {
    /// The check.
    pub(crate) check: HostCheck,
    /// Group, interface or listener; empty for the whole host.
    pub(crate) subject: String,
    /// Result.
    pub(crate) state: FindingState,
    /// What was found, in a sentence.
    pub(crate) found: String,
    /// What is wanted; empty where that does not matter.
    pub(crate) wanted: String,
    /// Remedy, if there is anything to mend.
    pub(crate) fix: Option<Fix>,
}

impl HostCheck {
    fn finding(
        self,
        subject: &str,
        state: FindingState,
        found: String,
        wanted: &str,
    ) -> HostFinding {
        let (subject, wanted) = (subject.to_owned(), wanted.to_owned());
        HostFinding { check: self, subject, state, found, wanted, fix: None }
    }

    pub(super) fn fine(self, subject: &str, found: impl Display) -> HostFinding {
        self.finding(subject, FindingState::Fine, found.to_string(), "")
    }

    pub(super) fn unknown(self, subject: &str, cause: impl Display) -> HostFinding {
        self.finding(subject, FindingState::Unknown, cause.to_string(), "")
    }

    pub(super) fn skipped(self, subject: &str, cause: impl Display) -> HostFinding {
        self.finding(subject, FindingState::NotApplicable, cause.to_string(), "")
    }

    pub(super) fn warning(
        self,
        subject: &str,
        found: impl Display,
        wanted: &str,
        fix: Fix,
    ) -> HostFinding {
        let finding = self.finding(subject, FindingState::Warning, found.to_string(), wanted);
        HostFinding { fix: Some(fix), ..finding }
    }

    pub(super) fn impossible(
        self,
        subject: &str,
        found: impl Display,
        wanted: &str,
        fix: Fix,
    ) -> HostFinding {
        let finding = self.warning(subject, found, wanted, fix);
        HostFinding { state: FindingState::Impossible, ..finding }
    }
}
