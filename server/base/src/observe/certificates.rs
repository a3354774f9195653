//! Certificates in use, and when they expire.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::metrics::{Page, Show};

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Remaining days of validity below which the log warns.
const SOON: i64 = 14;

/// A certificate of a listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Certificate {
    /// Name of the listener.
    pub listener: String,
    /// First name that the certificate is for.
    pub name: String,
    /// End of its validity, in seconds since 1970.
    pub not_after: i64,
    /// Begin of its validity, in seconds since 1970.
    pub not_before: i64,
    /// Whether the server renews it itself; then it also says itself when that fails.
    pub automatic: bool,
}

/// The certificates of all listeners. The main thread sets them, and the admin address shows them.
#[derive(Debug, Default)]
pub struct Certificates(Mutex<Vec<Certificate>>);

/// Time that a certificate has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Enough,
    /// Less than [`SOON`] days.
    Days(i64),
    LessThanADay,
    Expired,
}

impl Certificates {
    /// Replaces the certificates. Of several with one name at a listener, the one that expires first is kept.
    pub fn set(&self, mut certificates: Vec<Certificate>) {
        certificates.sort_unstable();
        certificates.dedup_by(|later, first| {
            (&later.listener, &later.name) == (&first.listener, &first.name)
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = certificates;
    }

    /// Logs the certificates that expire soon or have expired; `unix` is the time since 1970.
    pub fn warn(&self, unix: Duration) {
        for certificate in self.all().into_iter().filter(|one| !one.automatic) {
            let Certificate { listener, name, not_after, not_before, .. } = certificate;
            let end = date(not_after);
            if seconds(unix) < not_before {
                let begin = date(not_before);
                tracing::error!(%listener, %name, %begin, "a certificate is not valid yet, so clients refuse it; correct the clock of this host, or the certificate, and reload");
            }
            match left(not_after, unix) {
                Left::Enough => {}
                Left::Days(days) => {
                    tracing::warn!(%listener, %name, days, %end, "a certificate expires soon; renew it and reload");
                }
                Left::LessThanADay => {
                    tracing::error!(%listener, %name, %end, "a certificate expires within a day; renew it and reload");
                }
                Left::Expired => {
                    tracing::error!(%listener, %name, %end, "a certificate has expired, so clients refuse it; renew it and reload");
                }
            }
        }
    }

    fn all(&self) -> Vec<Certificate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn seconds(unix: Duration) -> i64 {
    i64::try_from(unix.as_secs()).unwrap_or(i64::MAX)
}

/// Returns a time as people write it, in UTC.
fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

fn left(not_after: i64, unix: Duration) -> Left {
    match not_after.saturating_sub(seconds(unix)) {
        ..=0 => Left::Expired,
        seconds if seconds < DAY => Left::LessThanADay,
        seconds if seconds < SOON * DAY => Left::Days(seconds / DAY),
        _ => Left::Enough,
    }
}

impl Show for Certificates {
    fn show(&self, page: &mut Page) {
        page.family(
            "gauge",
            "sluicegate_certificate_expiry_timestamp_seconds",
            "End of a certificate's validity, in seconds since 1970, by listener and first name.",
        );
        for certificate in self.all() {
            let labels =
                [("listener", certificate.listener.as_str()), ("name", certificate.name.as_str())];
            page.sample(&labels, certificate.not_after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(listener: &str, name: &str, not_after: i64) -> Certificate {
        Certificate {
            listener: listener.to_owned(),
            name: name.to_owned(),
            not_after,
            not_before: 0,
            automatic: false,
        }
    }

    #[test]
    fn a_warning_comes_two_weeks_before_the_end_and_an_error_on_the_last_day() {
        let end = 2_000 * DAY;
        for (before, expected) in [
            (15 * DAY, Left::Enough),
            (14 * DAY, Left::Enough),
            (14 * DAY - 1, Left::Days(13)),
            (DAY, Left::Days(1)),
            (DAY - 1, Left::LessThanADay),
            (1, Left::LessThanADay),
            (0, Left::Expired),
            (-1000 * DAY, Left::Expired),
        ] {
            let now = Duration::from_secs(u64::try_from(end - before).unwrap());
            assert_eq!(left(end, now), expected, "{before}");
        }
    }

    #[test]
    fn times_are_dates_for_people() {
        assert_eq!(date(1_700_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(date(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn each_name_of_a_listener_has_one_sample_with_the_earliest_end() {
        let certificates = Certificates::default();
        certificates.set(vec![
            certificate("main", "a.example", 300),
            certificate("main", "b.example", 100),
            certificate("main", "a.example", 200),
            certificate("other", "a.example", 400),
        ]);
        let mut page = Page::default();
        certificates.show(&mut page);
        let text = page.into_text();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let name = "sluicegate_certificate_expiry_timestamp_seconds";
        let expected = [
            format!("{name}{{listener=\"main\",name=\"a.example\"}} 200"),
            format!("{name}{{listener=\"main\",name=\"b.example\"}} 100"),
            format!("{name}{{listener=\"other\",name=\"a.example\"}} 400"),
        ];
        assert_eq!(samples, expected);
    }
}
