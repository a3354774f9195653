//! Values of a trace that are read whatever their type: one of the wrong type is as good as absent.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Longest word, bytes. Longer than each name that is known.
const MAX_WORD: usize = 48;

/// The beginning of a string, without an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word {
    length: u8,
    bytes: [u8; MAX_WORD],
}

impl Word {
    /// Returns the beginning of a string that fits.
    pub fn new(text: &str) -> Word {
        let mut end = text.len().min(MAX_WORD);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; MAX_WORD];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Word { length: u8::try_from(end).unwrap_or(0), bytes }
    }

    /// The string.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or("")
    }
}

impl Default for Word {
    fn default() -> Self {
        Word::new("")
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(out)
    }
}

/// A number, a string, a Boolean, or what is neither.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Scalar {
    #[default]
    Other,
    Bool(bool),
    Number(f64),
    Word(Word),
}

impl Scalar {
    /// Returns the finite number, also of a string: mvfst writes times so.
    pub(crate) fn number(&self) -> Option<f64> {
        let number = match self {
            Scalar::Number(number) => *number,
            Scalar::Word(word) => word.as_str().parse().ok()?,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// Returns a count or a size.
    pub(crate) fn amount(&self) -> Option<f64> {
        self.number().filter(|number| *number >= 0.0)
    }

    pub(crate) fn word(&self) -> Word {
        match self {
            Scalar::Word(word) => *word,
            _ => Word::default(),
        }
    }

    pub(crate) fn is_true(&self) -> Option<bool> {
        match self {
            Scalar::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

/// Implements the methods of a [`Visitor`] for all types but the given ones, each returning a default.
macro_rules! otherwise {
    (@scalars) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("any value")
        }
    };
    (@sequence) => {
        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut seq: A,
        ) -> Result<Self::Value, A::Error> {
            while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
    (@map) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            while map.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}
pub(crate) use otherwise;

/// Implements `Deserialize` for a type that is read from an object, key by key, by its method `take`.
macro_rules! from_object {
    ($type:ty) => {
        impl<'de> serde::de::Deserialize<'de> for $type {
            fn deserialize<D: serde::de::Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
                struct Keys;
                impl<'de> serde::de::Visitor<'de> for Keys {
                    type Value = $type;
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut read = <$type>::default();
                        while let Some(key) = map.next_key::<$crate::event::Word>()? {
                            read.take(key.as_str(), &mut map)?;
                        }
                        Ok(read)
                    }
                    $crate::event::scalar::otherwise!(@scalars);
                    $crate::event::scalar::otherwise!(@sequence);
                }
                value.deserialize_any(Keys)
            }
        }
    };
}
pub(crate) use from_object;

struct AnyScalar;

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value as f64))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value as f64))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Word(Word::new(value)))
    }
    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(AnyScalar)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Ok(Scalar::deserialize(value)?.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_between_characters() {
        let long = "ä".repeat(MAX_WORD);
        assert_eq!(Word::new(&long).as_str(), "ä".repeat(MAX_WORD / 2));
        assert_eq!(Word::new("").as_str(), "");
    }

    #[test]
    fn numbers_may_be_strings_and_are_finite() {
        let number = |text: &str| serde_json::from_str::<Scalar>(text).unwrap().number();
        assert_eq!(number("1.5"), Some(1.5));
        assert_eq!(number("\"31\""), Some(31.0));
        for text in ["\"NaN\"", "\"inf\"", "null", "[1]", "{\"a\":[{}]}", "true", "\"x\""] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
