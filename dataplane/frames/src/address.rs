//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address, in the order of the bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address of all stations of a link.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Returns whether the address is one of a group of stations, or of all.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether the address is that of one station: neither a group nor all zeros.
    #[must_use]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self.0 != [0; 6]
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is no Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an Ethernet address: expected six bytes in hexadecimal, such as 02:00:00:00:00:01")]
pub struct MacAddrError;

impl FromStr for MacAddr {
    type Err = MacAddrError;

    fn from_str(text: &str) -> Result<Self, MacAddrError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(MacAddrError)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(MacAddrError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| MacAddrError)?;
        }
        if parts.next().is_some() {
            return Err(MacAddrError);
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_both_ways() {
        let address = MacAddr([0x02, 0, 0xab, 0, 0, 0x1f]);
        assert_eq!(address.to_string(), "02:00:ab:00:00:1f");
        assert_eq!(address.to_string().parse(), Ok(address));
        assert_eq!("FF:ff:FF:ff:FF:ff".parse(), Ok(MacAddr::BROADCAST));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "2:0:0:0:0:1",
            "02-00-00-00-00-01",
            "+2:00:00:00:00:01",
            "02:00:00:00:00:0g",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(MacAddrError), "{text}");
        }
    }
}
