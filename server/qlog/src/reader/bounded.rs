//! Reads values of any kind without letting them take any amount of memory.

use std::fmt;

use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};

/// What a value costs besides its text, bytes: `[0,0,0]` takes more memory than text.
const VALUE_COST: usize = 16;

/// Bytes that values may yet take.
#[derive(Debug)]
pub(crate) struct Budget(Option<usize>);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget(Some(bytes))
    }

    /// Returns whether something did not fit.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.is_none()
    }

    /// Takes a text of this length out of the budget. Returns whether it fits.
    pub(crate) fn take(&mut self, text: usize) -> bool {
        self.0 = self.0.and_then(|left| left.checked_sub(text.saturating_add(VALUE_COST)));
        self.0.is_some()
    }

    /// Reads a value, or skips it if it does not fit.
    pub(crate) fn read<'de, D: Deserializer<'de>>(
        &mut self,
        value: D,
    ) -> Result<Option<Value>, D::Error> {
        let value = Piece(self).deserialize(value)?;
        Ok((!self.is_spent()).then_some(value))
    }
}

/// Reads a value of at most so many bytes; a larger one is skipped.
pub(super) struct AtMost(pub(super) usize);

impl<'de> DeserializeSeed<'de> for AtMost {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Option<Value>, D::Error> {
        Budget::new(self.0).read(value)
    }
}

/// A value, or a part of one. What comes after the end of the budget is null.
struct Piece<'b>(&'b mut Budget);

impl<'de> DeserializeSeed<'de> for Piece<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        if self.0.take(0) {
            return value.deserialize_any(self);
        }
        IgnoredAny::deserialize(value)?;
        Ok(Value::Null)
    }
}

impl<'de> Visitor<'de> for Piece<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        let fits = self.0.take(value.len());
        Ok(if fits { Value::from(value) } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(Piece(self.0))? {
            if !self.0.is_spent() {
                list.push(value);
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key_seed(Piece(self.0))? {
            let value = map.next_value_seed(Piece(self.0))?;
            if let (Value::String(key), false) = (key, self.0.is_spent()) {
                object.insert(key, value);
            }
        }
        Ok(Value::Object(object))
    }
}
