//! Field values that the server makes.

use http::HeaderValue;

/// Returns a field value of visible ASCII characters and spaces.
pub(crate) fn visible(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("made of visible ASCII characters and spaces")
}
