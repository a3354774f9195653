//! Ranks the encodings that a client accepts (RFC 9110 §12.5.3).

use http::HeaderValue;
use http::header::ACCEPT_ENCODING;

use super::fields::Fields;

/// Encoding of a body. A later variant is preferred if the client's weights are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// The original, without an encoding.
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Brotli,
}

const CODINGS: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

impl Coding {
    /// Returns its name in fields.
    fn token(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
        }
    }

    /// Returns the suffix of a variant's file name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Gzip => ".gz",
            Coding::Zstd => ".zst",
            Coding::Brotli => ".br",
        }
    }

    /// Returns the value of `content-encoding`, which the original lacks.
    pub(crate) fn field(self) -> Option<HeaderValue> {
        (self != Coding::Identity).then(|| HeaderValue::from_static(self.token()))
    }

    fn named(token: &str) -> Option<Coding> {
        let found = CODINGS.into_iter().find(|coding| token.eq_ignore_ascii_case(coding.token()));
        // RFC 9110 §8.4.1.3
        found.or_else(|| token.eq_ignore_ascii_case("x-gzip").then_some(Coding::Gzip))
    }
}

/// Encodings that a client accepts, best first, up to the original, which always exists. Clients with the same preference get the
/// same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Preference {
    codings: [Coding; 4],
    count: u8,
}

impl Preference {
    /// Preference for the original alone.
    pub(crate) const ORIGINAL: Preference = Preference { codings: [Coding::Identity; 4], count: 1 };

    /// Returns the preference of the client that sent these fields. Without `accept-encoding` it is the original, though such a client
    /// accepts any. An encoding that is not named is not accepted; `identity` is, as the last. Ignores members that cannot be
    /// parsed.
    pub(crate) fn of(headers: &Fields) -> Preference {
        let weights = Weights::of(headers);
        let mut wanted = Vec::with_capacity(4);
        for coding in CODINGS {
            // The least weight that can be written is 1.
            let unnamed = (coding == Coding::Identity).then_some((0, true));
            match weights.weight(coding).map(|weight| (weight, false)).or(unnamed) {
                Some((0, false)) | None => {}
                Some((weight, _)) => wanted.push((std::cmp::Reverse(weight), coding)),
            }
        }
        wanted.sort_by_key(|(weight, _)| *weight);
        Preference::first(wanted.into_iter().map(|(_, coding)| coding))
    }

    fn first(wanted: impl Iterator<Item = Coding>) -> Preference {
        let mut preference = Preference { count: 0, ..Preference::ORIGINAL };
        for (slot, coding) in preference.codings.iter_mut().zip(wanted) {
            *slot = coding;
            preference.count += 1;
            if coding == Coding::Identity {
                break;
            }
        }
        preference
    }

    /// Returns the encodings, best first; without the original only if the client refuses it.
    pub(crate) fn codings(&self) -> &[Coding] {
        &self.codings[..usize::from(self.count)]
    }
}

/// Weights of the encodings that a client names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    named: [Option<u16>; 4],
    /// Weight of those that are not named (`*`).
    others: Option<u16>,
}

impl Weights {
    /// Reads the weights of `accept-encoding`; ignores members that cannot be parsed.
    pub(crate) fn of(headers: &Fields) -> Weights {
        let mut weights = Weights::default();
        let values = headers.iter().filter(|(name, _)| name == ACCEPT_ENCODING);
        for value in values.filter_map(|(_, value)| value.to_str().ok()) {
            for (token, weight) in value.split(',').filter_map(weighted) {
                if token == "*" {
                    weights.others = Some(weight);
                } else if let Some(coding) = Coding::named(token) {
                    weights.named[coding as usize] = Some(weight);
                }
            }
        }
        weights
    }

    /// Returns the weight of an encoding in thousandths; `None` if neither it nor `*` is named.
    fn weight(&self, coding: Coding) -> Option<u16> {
        self.named[coding as usize].or(self.others)
    }

    /// Returns the encoding of `among` that the client prefers, the first of those with the same weight; `None` if it prefers
    /// the original or accepts none of them.
    pub(crate) fn best(&self, among: impl Iterator<Item = Coding>) -> Option<Coding> {
        let least = self.weight(Coding::Identity).unwrap_or(0).max(1);
        let mut best = None;
        for coding in among {
            let weight = self.weight(coding).unwrap_or(0);
            if weight >= least && best.is_none_or(|(most, _)| weight > most) {
                best = Some((weight, coding));
            }
        }
        best.map(|(_, coding)| coding)
    }
}

/// Parses `token;q=0.5`; the weight is in thousandths.
fn weighted(member: &str) -> Option<(&str, u16)> {
    let mut parts = member.split(';').map(|part| part.trim_matches([' ', '\t']));
    let token = parts.next().filter(|token| !token.is_empty())?;
    let mut weight = 1000;
    for part in parts {
        let (name, value) = part.split_once('=')?;
        if name.eq_ignore_ascii_case("q") {
            weight = thousandths(value)?;
        }
    }
    Some((token, weight))
}

/// Parses a weight (RFC 9110 §12.4.2): from 0 to 1 with up to three digits behind the point.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !matches!(whole, "0" | "1") || !digits || fraction.len() > 3 {
        return None;
    }
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    let weight = if whole == "1" { 1000 } else { 0 } + fraction;
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::Coding::{Brotli, Gzip, Identity, Zstd};
    use super::*;

    fn preference(values: &[&'static str]) -> Preference {
        let line = |value: &&'static str| (ACCEPT_ENCODING, HeaderValue::from_static(value));
        Preference::of(&values.iter().map(line).collect())
    }

    #[test]
    fn the_heaviest_comes_first() {
        for (value, expected) in [
            ("gzip, deflate, br, zstd", &[Brotli, Zstd, Gzip, Identity][..]),
            ("gzip", &[Gzip, Identity]),
            ("X-GZip", &[Gzip, Identity]),
            ("", &[Identity]),
            ("deflate", &[Identity]),
            ("gzip;q=0.5, br;q=0.25", &[Gzip, Brotli, Identity]),
            ("gzip;q=0.5 , br ; Q=0.501", &[Brotli, Gzip, Identity]),
            ("gzip;q=0", &[Identity]),
            ("gzip;q=0.5, identity", &[Identity]),
            ("gzip;q=0.5, identity;q=0.5", &[Gzip, Identity]),
            ("gzip;q=0.001", &[Gzip, Identity]),
            ("*", &[Brotli, Zstd, Gzip, Identity]),
            ("*;q=0.5, gzip", &[Gzip, Brotli, Zstd, Identity]),
            ("br, *;q=0.1, zstd;q=0", &[Brotli, Gzip, Identity]),
        ] {
            assert_eq!(preference(&[value]).codings(), expected, "{value}");
        }
        assert_eq!(preference(&[]), Preference::ORIGINAL);
        let split = preference(&["gzip;q=0.5", "br"]);
        assert_eq!(split.codings(), [Brotli, Gzip, Identity]);
    }

    #[test]
    fn the_original_can_be_refused() {
        for (value, expected) in [
            ("identity;q=0", &[][..]),
            ("*;q=0", &[]),
            ("gzip, *;q=0.000", &[Gzip]),
            ("gzip, identity;q=0.0", &[Gzip]),
            ("*;q=0, identity;q=0.1", &[Identity]),
        ] {
            assert_eq!(preference(&[value]).codings(), expected, "{value}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        for value in [
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=-1",
            "gzip;q=0.0001",
            "gzip;q=",
            "gzip;q",
            "gzip;q=0x1",
            ";q=1",
            ",,,",
            "gz ip",
            "gzip;q=.5",
            "gzip;q=+1",
        ] {
            assert_eq!(preference(&[value]), Preference::ORIGINAL, "{value}");
        }
        assert_eq!(preference(&["gzip;q=9, br"]).codings(), [Brotli, Identity]);
    }

    /// Otherwise a cache would hold a file more than once.
    #[test]
    fn what_comes_behind_the_original_makes_no_difference() {
        assert_eq!(
            preference(&["identity, gzip;q=0.5"]),
            preference(&["identity;q=0.9, br;q=0.1, zstd;q=0.2"])
        );
    }

    #[test]
    fn the_first_of_the_heaviest_is_used_unless_the_original_weighs_more() {
        let among = || [Zstd, Brotli, Gzip].into_iter();
        for (value, expected) in [
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, br", Some(Brotli)),
            ("gzip;q=1.0, br;q=0.9", Some(Gzip)),
            ("*", Some(Zstd)),
            ("zstd;q=0, *", Some(Brotli)),
            ("gzip;q=0.5, identity", None),
            ("gzip;q=0.5, identity;q=0.5", Some(Gzip)),
            ("gzip, identity;q=0", Some(Gzip)),
            ("gzip;q=0.2, identity;q=0", Some(Gzip)),
            ("identity;q=0", None),
            ("gzip;q=0", None),
            ("*;q=0", None),
            ("", None),
        ] {
            let fields = vec![(ACCEPT_ENCODING, HeaderValue::from_static(value))];
            assert_eq!(Weights::of(&fields).best(among()), expected, "{value}");
        }
        assert_eq!(Weights::of(&Vec::new()).best(among()), None);
        let gzip = vec![(ACCEPT_ENCODING, HeaderValue::from_static("br, gzip;q=0.1"))];
        assert_eq!(Weights::of(&gzip).best([Gzip].into_iter()), Some(Gzip));
    }
}
