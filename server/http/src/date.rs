//! The `date` field of responses.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use http::HeaderValue;

thread_local! {
    /// Second that was formatted last, and its text.
    static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((u64::MAX, HeaderValue::from_static(""))) };
}

/// Returns the date at `unix` since 1970 in its preferred form (RFC 9110 §5.6.7); it is formatted once a second.
pub fn at(unix: Duration) -> HeaderValue {
    LAST.with_borrow_mut(|(second, text)| {
        if *second != unix.as_secs() {
            *second = unix.as_secs();
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(*second);
            let date = HeaderValue::try_from(httpdate::fmt_http_date(date));
            *text = date.expect("letters, digits, spaces, commas and colons");
        }
        text.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_changes_with_the_second() {
        for (millis, expected) in [
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778_000, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            assert_eq!(at(Duration::from_millis(millis)), expected);
        }
    }
}
