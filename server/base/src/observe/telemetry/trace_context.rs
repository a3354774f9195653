//! Trace contexts, as the field `traceparent` carries them (W3C Trace Context).

use data_encoding::HEXLOWER;

/// Length of a `traceparent` of version 00, bytes.
pub const HEADER_LENGTH: usize = 55;

/// Flag of a request whose spans are recorded (Trace Context §3.2.2.5).
const SAMPLED: u8 = 1;

/// Place of a request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// ID of the trace; not all zero.
    pub trace_id: [u8; 16],
    /// ID of the span; not all zero. In the field of a request it is the span of who sends the request.
    pub span_id: [u8; 8],
    /// Whether the span is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a value of `traceparent`; `None` if it is not valid (Trace Context §3.2). Versions above 00 may have further parts.
    pub fn parse(value: &[u8]) -> Option<TraceContext> {
        let (known, rest) = value.split_at_checked(HEADER_LENGTH)?;
        let mut parts = known.split(|byte| *byte == b'-');
        let [version] = hex(parts.next()?)?;
        let trace_id = hex(parts.next()?)?;
        let span_id = hex(parts.next()?)?;
        let [flags] = hex::<1>(parts.next()?)?;
        let is_whole = match version {
            0xff => false,
            0 => rest.is_empty(),
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let is_valid = is_whole && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(TraceContext { trace_id, span_id, is_sampled: flags & SAMPLED != 0 })
    }

    /// Returns the value of `traceparent`, of version 00.
    pub fn header(&self) -> [u8; HEADER_LENGTH] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        HEXLOWER.encode_mut(&self.trace_id, &mut text[3..35]);
        HEXLOWER.encode_mut(&self.span_id, &mut text[36..52]);
        if self.is_sampled {
            text[HEADER_LENGTH - 1] = b'1';
        }
        text
    }

    /// Returns the context of the call to an upstream for the request of this span. Its ID differs in the first bit, so that nobody needs
    /// to remember it; a random one would be no less likely to meet another.
    #[must_use]
    pub fn of_upstream(&self) -> TraceContext {
        let mut span_id = self.span_id;
        span_id[0] ^= 0x80;
        // The ID that differs from none in the first bit alone.
        if span_id == [0; 8] {
            span_id[7] = 1;
        }
        TraceContext { span_id, ..*self }
    }
}

/// Reads two digits in lower case for each byte, of which there must be just so many.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    HEXLOWER.decode_mut(digits, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONTEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn contexts_are_valid_as_the_w3c_defines() {
        let long = format!("01{}-more", &CONTEXT[2..]);
        for valid in [CONTEXT, &long, &format!("01{}", &CONTEXT[2..])] {
            let context = TraceContext::parse(valid.as_bytes()).unwrap();
            assert_eq!(context.header(), CONTEXT.as_bytes(), "{valid}");
        }
        for invalid in [
            "",
            &CONTEXT[1..],
            &CONTEXT[..54],
            &format!("{CONTEXT}-more"),
            &format!("01{}more", &CONTEXT[2..]),
            &format!("ff{}", &CONTEXT[2..]),
            &CONTEXT.to_uppercase(),
            &CONTEXT.replace('-', "_"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333--01",
        ] {
            assert_eq!(TraceContext::parse(invalid.as_bytes()), None, "{invalid}");
        }
    }

    #[test]
    fn only_the_sampled_flag_counts() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let text = format!("{}{flags}", &CONTEXT[..53]);
            assert_eq!(TraceContext::parse(text.as_bytes()).unwrap().is_sampled, is_sampled);
        }
    }

    #[test]
    fn call_to_an_upstream_has_another_id_in_the_same_trace() {
        let server = TraceContext::parse(CONTEXT.as_bytes()).unwrap();
        let call = server.of_upstream();
        assert_eq!((call.trace_id, call.is_sampled), (server.trace_id, true));
        assert_ne!(call.span_id, server.span_id);
        let odd = TraceContext { span_id: [0x80, 0, 0, 0, 0, 0, 0, 0], ..server };
        assert_ne!(odd.of_upstream().span_id, [0; 8]);
    }

    proptest! {
        /// What parses is what it is written as, apart from the version, further parts and unknown flags.
        #[test]
        fn any_bytes_parse_to_what_they_say_or_to_nothing(
            noise in prop::collection::vec(any::<u8>(), 0..80),
            at in 0..HEADER_LENGTH,
            byte in any::<u8>(),
        ) {
            let mut near = CONTEXT.as_bytes().to_vec();
            near[at] = byte;
            for value in [&noise, &near] {
                if let Some(context) = TraceContext::parse(value) {
                    prop_assert_eq!(&context.header()[2..53], &value[2..53]);
                    prop_assert_eq!(TraceContext::parse(&context.header()), Some(context));
                }
            }
        }
    }
}
