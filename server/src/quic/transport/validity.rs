//! Validity of a certificate.

use boring::asn1::Asn1Time;
use boring::error::ErrorStack;
use boring::x509::X509Ref;

/// Returns the end of a certificate's validity, in seconds since 1970.
pub(super) fn end(certificate: &X509Ref) -> Result<i64, ErrorStack> {
    let left = Asn1Time::from_unix(0)?.diff(certificate.not_after())?;
    Ok(i64::from(left.days) * 86_400 + i64::from(left.secs))
}
