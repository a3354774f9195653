//! The page `/`: a window on the running server for people, which asks the other pages for its figures.

use std::sync::LazyLock;

use boring::base64::encode_block;
use boring::sha::sha256;
use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY};

use super::response::{Page, page};

/// Path of the page.
pub(super) const PATH: &str = "/";

const HTML: &str = include_str!("dashboard/dashboard.html");

/// Lets the page's own script and styles run, and ask this address alone. Names that clients chose stand in it as text.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let script = hash(HTML, "<script>", "</script>");
    let policy = format!(
        "default-src 'none'; script-src '{script}'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// Returns the response with the page.
pub(super) fn respond() -> Page {
    let mut response = page(StatusCode::OK, "text/html; charset=utf-8", HTML.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Returns the source expression (W3C CSP3 §2.3.1) of what stands between two tags.
fn hash(html: &str, begin: &str, end: &str) -> String {
    let behind = html.split_once(begin).map_or("", |(_, behind)| behind);
    let content = behind.split_once(end).map_or("", |(content, _)| content);
    format!("sha256-{}", encode_block(&sha256(content.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_names_the_script_and_no_other_source() {
        let response = respond();
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("script-src 'sha256-"), "{policy}");
        assert_eq!(HTML.matches("<script").count(), 1);
        // A handler in an attribute would not run.
        assert!(!HTML.contains(" onclick=") && !HTML.contains("innerHTML"));
        assert_eq!(
            hash("a<b></b>c", "<b>", "</b>"),
            "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
    }
}
