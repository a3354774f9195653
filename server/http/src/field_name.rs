//! Names of fields as upstreams read them.

/// Returns whether an upstream may take the name for the other one: many do not tell `-` and `_` apart.
pub(crate) fn is_written_like(name: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    name.len() == other.len() && name.bytes().map(plain).eq(other.bytes().map(plain))
}
