//! Certificates by ACME: how many were issued, and what failed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::metrics::{Page, PerLabel, Show, labels, metrics};

labels! {
    /// Cause of a failure to obtain a certificate.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AcmeFailure {
        /// The authority's directory cannot be reached, or gives no valid response.
        Directory = "directory",
        /// The authority refuses the account.
        Account = "account",
        /// The authority refuses to issue so many certificates.
        RateLimit = "rate_limit",
        /// The authority found no valid response to its challenge.
        Challenge = "challenge",
        /// The authority refuses the certificate for another reason.
        Refused = "refused",
        /// The program that sets DNS records failed.
        Hook = "hook",
        /// The state directory cannot be used.
        Storage = "storage",
    }
}

metrics! {
    /// Counts of certificates by ACME.
    #[derive(Debug, Default)]
    struct Counts {
        /// Certificates that were obtained by ACME.
        issued: u64 = counter("sluicegate_acme_certificates_issued_total"),
        /// Failed attempts to obtain a certificate by ACME, by reason.
        failures: PerLabel<AcmeFailure> = counter("sluicegate_acme_failures_total" by "reason"),
    }
}

/// Certificates by ACME. The thread of renewals sets them, and the admin address shows them.
#[derive(Debug, Default)]
pub struct AcmeStatus(Mutex<Status>);

#[derive(Debug, Default)]
struct Status {
    counts: Counts,
    /// Time of the next attempt for each certificate, by its first name, in seconds since 1970.
    next: BTreeMap<String, i64>,
}

impl AcmeStatus {
    /// Counts a certificate that was obtained.
    pub fn issued(&self) {
        self.change(|status| status.counts.issued += 1);
    }

    /// Counts a failed attempt.
    pub fn failed(&self, cause: AcmeFailure) {
        self.change(|status| status.counts.failures[cause] += 1);
    }

    /// Sets the times of the next attempts, in seconds since 1970, by the first name of each certificate.
    pub fn set_next(&self, next: BTreeMap<String, i64>) {
        self.change(|status| status.next = next);
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Show for AcmeStatus {
    fn show(&self, page: &mut Page) {
        let status = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        status.counts.show(page);
        page.family(
            "gauge",
            "sluicegate_acme_next_attempt_timestamp_seconds",
            "Time of the next attempt to obtain a certificate by ACME, in seconds since 1970, by its first name.",
        );
        for (name, time) in &status.next {
            page.sample(&[("name", name.as_str())], time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_reason_and_next_attempts_shown_by_name() {
        let status = AcmeStatus::default();
        status.issued();
        status.failed(AcmeFailure::Challenge);
        status.set_next(BTreeMap::from([("a.example".to_owned(), 1_800_000_000)]));
        let mut page = Page::default();
        status.show(&mut page);
        let text = page.into_text();
        for line in [
            "sluicegate_acme_certificates_issued_total 1",
            "sluicegate_acme_failures_total{reason=\"challenge\"} 1",
            "sluicegate_acme_failures_total{reason=\"directory\"} 0",
            "sluicegate_acme_next_attempt_timestamp_seconds{name=\"a.example\"} 1800000000",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
