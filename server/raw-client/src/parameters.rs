//! Transport parameters (RFC 9000 §18).

use crate::varint::{Reader, varint};

/// Transport parameters by number, in the order in which they are sent.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<(u64, Vec<u8>)>);

impl Parameters {
    /// original_destination_connection_id.
    pub const ORIGINAL_DCID: u64 = 0x0;
    /// max_idle_timeout, milliseconds.
    pub const IDLE_TIMEOUT: u64 = 0x1;
    /// stateless_reset_token.
    pub const RESET_TOKEN: u64 = 0x2;
    /// initial_max_data.
    pub const MAX_DATA: u64 = 0x4;
    /// initial_max_stream_data_bidi_local.
    pub const MAX_STREAM_DATA: u64 = 0x5;
    /// initial_max_stream_data_uni.
    pub const MAX_STREAM_DATA_UNI: u64 = 0x7;
    /// initial_max_streams_uni.
    pub const MAX_STREAMS_UNI: u64 = 0x9;
    /// active_connection_id_limit.
    pub const CID_LIMIT: u64 = 0xe;
    /// initial_source_connection_id.
    pub const INITIAL_SCID: u64 = 0xf;
    /// retry_source_connection_id.
    pub const RETRY_SCID: u64 = 0x10;

    /// Returns what a client of HTTP/3 sends that reads large responses.
    #[must_use]
    pub fn plain() -> Parameters {
        let mut parameters = Parameters::default();
        for (id, value) in [
            (Parameters::MAX_DATA, 1 << 30),
            (Parameters::MAX_STREAM_DATA, 1 << 30),
            (Parameters::MAX_STREAM_DATA_UNI, 1 << 20),
            (Parameters::MAX_STREAMS_UNI, 16),
            (Parameters::CID_LIMIT, 8),
        ] {
            parameters = parameters.with(id, value);
        }
        parameters
    }

    /// Sets a parameter to an integer.
    #[must_use]
    pub fn with(self, id: u64, value: u64) -> Parameters {
        self.with_bytes(id, varint(value))
    }

    /// Sets a parameter to any bytes.
    #[must_use]
    pub fn with_bytes(mut self, id: u64, value: Vec<u8>) -> Parameters {
        self.0.retain(|(other, _)| *other != id);
        self.0.push((id, value));
        self
    }

    /// Adds a parameter, though it may be there already.
    #[must_use]
    pub fn and(mut self, id: u64, value: Vec<u8>) -> Parameters {
        self.0.push((id, value));
        self
    }

    /// Returns a parameter's bytes.
    #[must_use]
    pub fn bytes(&self, id: u64) -> Option<&[u8]> {
        let found = self.0.iter().find(|(other, _)| *other == id)?;
        Some(&found.1)
    }

    /// Returns a parameter that is an integer.
    #[must_use]
    pub fn integer(&self, id: u64) -> Option<u64> {
        Reader(self.bytes(id)?).varint()
    }

    #[must_use]
    pub(crate) fn write(&self) -> Vec<u8> {
        let each = self.0.iter();
        let each = each
            .map(|(id, value)| [varint(*id), varint(value.len() as u64), value.clone()].concat());
        each.collect::<Vec<_>>().concat()
    }

    /// Reads the server's; `None` if they are cut.
    pub(crate) fn read(bytes: &[u8]) -> Option<Parameters> {
        let mut reader = Reader(bytes);
        let mut parameters = Parameters::default();
        while !reader.is_empty() {
            let id = reader.varint()?;
            parameters.0.push((id, reader.prefixed()?.to_vec()));
        }
        Some(parameters)
    }
}
