//! Validity of a certificate.

use boring::asn1::{Asn1Time, Asn1TimeRef};
use boring::error::ErrorStack;
use boring::x509::X509Ref;

/// Returns the begin of a certificate's validity, in seconds since 1970.
pub(super) fn begin(certificate: &X509Ref) -> Result<i64, ErrorStack> {
    unix(certificate.not_before())
}

/// Returns the end of a certificate's validity, in seconds since 1970.
pub(super) fn end(certificate: &X509Ref) -> Result<i64, ErrorStack> {
    unix(certificate.not_after())
}

fn unix(time: &Asn1TimeRef) -> Result<i64, ErrorStack> {
    let left = Asn1Time::from_unix(0)?.diff(time)?;
    Ok(i64::from(left.days) * 86_400 + i64::from(left.secs))
}
