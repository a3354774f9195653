//! How the connection was closed.

use crate::event::{Close, Word};
use crate::number::whole;
use crate::text::plain;
use crate::verdict::{Finding, Severity, Verdict};

/// H3_NO_ERROR (RFC 9114 §8.1).
const H3_NO_ERROR: f64 = 256.0;

/// The first word on the end.
#[derive(Debug, Default)]
pub(super) struct Closing {
    close: Option<Close>,
    trigger: Word,
    by_peer: Option<bool>,
    at: f64,
}

impl Closing {
    pub(super) fn on_frame(&mut self, close: Close, by_peer: bool, at: f64) {
        if self.close.is_none() {
            self.close = Some(close);
            self.by_peer = Some(by_peer);
            self.at = at;
        }
    }

    pub(super) fn on_event(&mut self, close: Close, trigger: Word, by_peer: Option<bool>, at: f64) {
        if self.close.is_none() {
            self.close = Some(close);
            self.by_peer = by_peer;
            self.at = at;
        }
        self.trigger = trigger;
    }

    pub(super) fn verdict(&self, end: f64) -> Option<Verdict> {
        let close = self.close?;
        let name = close.error.as_str().to_ascii_lowercase().replace(' ', "_");
        let has_code =
            close.code.is_some_and(|code| code > 0.0 && whole(code) != whole(H3_NO_ERROR));
        let has_name =
            !matches!(&*name, "" | "unknown" | "no_error" | "h3_no_error" | "http_no_error")
                && !name.contains("no_error");
        let is_bad_end = matches!(
            self.trigger.as_str(),
            "error" | "stateless_reset" | "version_mismatch" | "handshake_timeout"
        );
        let is_error = match close.code {
            Some(_) => has_code,
            None => has_name || is_bad_end,
        };
        if !is_error {
            return None;
        }
        let who = match self.by_peer {
            Some(true) => "the peer closed it",
            Some(false) => "this end closed it",
            None => "closed",
        };
        let mut evidence = who.to_owned();
        if has_name {
            evidence += &format!(", {}", plain(close.error.as_str()));
        }
        if let Some(code) = close.code {
            evidence += &format!(", code {:#x}", whole(code));
        }
        if !self.trigger.as_str().is_empty() {
            evidence += &format!(", trigger {}", plain(self.trigger.as_str()));
        }
        if !close.reason.as_str().is_empty() {
            evidence += &format!(": {}", plain(close.reason.as_str()));
        }
        Some(Verdict {
            finding: Finding::ClosedByError,
            severity: Severity::Warning,
            from_ms: self.at,
            to_ms: end,
            evidence,
        })
    }
}
