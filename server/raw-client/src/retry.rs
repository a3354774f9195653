//! Retry packets (RFC 9000 §17.2.5, RFC 9001 §5.8).

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Key and nonce of every Retry's tag (RFC 9001 §5.8).
const KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
const TAG: usize = 16;

/// Returns a Retry packet without its tag, if the tag is right for the connection ID that the client chose first.
pub(crate) fn verify<'a>(packet: &'a [u8], original_dcid: &[u8]) -> Option<&'a [u8]> {
    let (body, tag) = packet.split_at_checked(packet.len().checked_sub(TAG)?)?;
    let length = u8::try_from(original_dcid.len()).ok()?;
    let pseudo = [&[length], original_dcid, body].concat();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).ok()?);
    let nonce = Nonce::assume_unique_for_key(NONCE);
    let made = key.seal_in_place_separate_tag(nonce, Aad::from(pseudo), &mut []);
    (made.ok()?.as_ref() == tag).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_is_verified() {
        // RFC 9001 §A.4.
        let packet = [
            0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62,
            0xb5, 0x74, 0x6f, 0x6b, 0x65, 0x6e, 0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82,
            0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24, 0x96, 0xba,
        ];
        let dcid = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        assert_eq!(verify(&packet, &dcid), Some(&packet[..20]));
        assert_eq!(verify(&packet, &dcid[1..]), None);
    }
}
