//! Reads an object of a file, be it the whole trace, a header or an event, and delivers its events while they are read.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use super::bounded::AtMost;
use super::contract::{Parts, ReadTally, Sink, TraceHeader};
use crate::event::Word;

/// Most bytes between two events, and of an event, in a file that is one object.
pub const MAX_BETWEEN_EVENTS: usize = 16 << 20;
/// Most keys of an event in the form of an array.
const MAX_FIELDS: usize = 16;
/// Fields of an event in the form of an array, unless the trace names them.
const USUAL_FIELDS: [&str; 4] = ["relative_time", "category", "event", "data"];
/// Fields of a file.
const FILE_FIELDS: [&str; 9] = [
    "qlog_version",
    "qlog_format",
    "file_schema",
    "serialization_format",
    "title",
    "description",
    "code_version",
    "summary",
    "event_schemas",
];
/// Fields of a trace. Any other one is skipped.
const TRACE_FIELDS: [&str; 9] = [
    "title",
    "description",
    "vantage_point",
    "common_fields",
    "configuration",
    "event_fields",
    "event_schemas",
    "time_format",
    "time_units",
];
/// Most bytes of a field of a file or a trace. One that is larger is skipped.
const MAX_FIELD: usize = 64 << 10;
/// Fields that make an object a header.
const MARKS: [&str; 3] = ["qlog_version", "qlog_format", "file_schema"];

/// Bounds what lies between two events: the parser would keep strings of any length.
#[derive(Debug)]
pub(super) struct Budgeted<R> {
    input: R,
    left: Rc<Cell<usize>>,
}

impl<R> Budgeted<R> {
    pub(super) fn new(input: R, left: Rc<Cell<usize>>) -> Budgeted<R> {
        Budgeted { input, left }
    }
}

impl<R: Read> Read for Budgeted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other(format!(
                "more than {} MiB without an event",
                MAX_BETWEEN_EVENTS >> 20
            )));
        }
        let length = bytes.len().min(left);
        let read = self.input.read(&mut bytes[..length])?;
        self.left.set(left - read);
        Ok(read)
    }
}

/// Passes traces and events on to a sink.
#[derive(Debug)]
pub(super) struct Delivery<'a, S> {
    sink: &'a mut S,
    header: TraceHeader,
    pub(super) tally: ReadTally,
    left: Rc<Cell<usize>>,
    /// Whether the sink has a trace that has not ended.
    is_open: bool,
    has_header: bool,
}

impl<'a, S: Sink> Delivery<'a, S> {
    pub(super) fn new(sink: &'a mut S) -> Delivery<'a, S> {
        Delivery {
            sink,
            header: TraceHeader::default(),
            tally: ReadTally::default(),
            left: Rc::new(Cell::new(MAX_BETWEEN_EVENTS)),
            is_open: false,
            has_header: false,
        }
    }

    /// Returns the number of bytes that may come before the next event.
    pub(super) fn budget(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.left)
    }

    pub(super) fn is_done(&self) -> bool {
        self.sink.is_done()
    }

    fn begin(&mut self) {
        if !self.is_open {
            self.is_open = true;
            self.tally.traces += 1;
            self.sink.on_trace(&self.header);
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.sink.on_trace_end(&self.header);
        }
        self.header.trace.clear();
    }

    fn event(&mut self, event: S::Event) {
        self.left.set(MAX_BETWEEN_EVENTS);
        if event.is_too_long() {
            self.tally.long_records += 1;
        } else if event.is_event() {
            self.begin();
            self.tally.events += 1;
            self.sink.on_event(event);
        } else {
            self.tally.bad_records += 1;
        }
    }

    /// Returns what was read, and whether it is a trace.
    pub(super) fn finish(mut self) -> (ReadTally, bool) {
        let is_trace = self.has_header || self.tally.events > 0;
        if is_trace && self.tally.traces == 0 {
            self.begin();
        }
        self.end();
        (self.tally, is_trace)
    }
}

/// Reads an object whose kind its keys tell.
pub(super) struct TopLevel<'d, 'a, S>(pub(super) &'d mut Delivery<'a, S>);

/// Implements `DeserializeSeed` by the visitor itself.
macro_rules! seed {
    ($type:ident, $value:ty) => {
        impl<'de, S: Sink> DeserializeSeed<'de> for $type<'_, '_, S> {
            type Value = $value;
            fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<$value, D::Error> {
                value.deserialize_any(self)
            }
        }
    };
}

/// Implements the methods of a [`Visitor`] for values without parts.
macro_rules! no_scalars {
    ($value:expr) => {
        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a part of a trace")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}

seed!(TopLevel, ());

impl<'de, S: Sink> Visitor<'de> for TopLevel<'_, '_, S> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let delivery = self.0;
        let mut event = S::Event::default();
        let mut file = serde_json::Map::new();
        let mut is_header = false;
        while let Some(key) = map.next_key::<Word>()? {
            let key = key.as_str();
            match key {
                "traces" => {
                    delivery.header.file = file.clone();
                    map.next_value_seed(Traces(delivery))?;
                    is_header = true;
                }
                "trace" => {
                    delivery.end();
                    delivery.header.file = file.clone();
                    map.next_value_seed(Trace(delivery))?;
                    is_header = true;
                }
                "events" => {
                    delivery.header.file = file.clone();
                    map.next_value_seed(Events { delivery, fields: Vec::new() })?;
                    is_header = true;
                }
                _ if FILE_FIELDS.contains(&key) => {
                    is_header |= MARKS.contains(&key);
                    if let Some(value) = map.next_value_seed(AtMost(MAX_FIELD))? {
                        file.insert(key.to_owned(), value);
                    }
                }
                _ => map.next_value_seed(Field { parts: &mut event, key })?,
            }
        }
        if is_header {
            delivery.has_header = true;
            delivery.header.file = file;
        } else {
            delivery.event(event);
        }
        Ok(())
    }
}

/// The traces of a file.
struct Traces<'d, 'a, S>(&'d mut Delivery<'a, S>);

seed!(Traces, ());

impl<'de, S: Sink> Visitor<'de> for Traces<'_, '_, S> {
    type Value = ();
    no_scalars!(());

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        loop {
            self.0.end();
            self.0.has_header = true;
            if seq.next_element_seed(Trace(self.0))?.is_none() {
                return Ok(());
            }
            self.0.begin();
        }
    }
}

/// A trace. Its events may be here, or in the records that follow.
struct Trace<'d, 'a, S>(&'d mut Delivery<'a, S>);

seed!(Trace, ());

impl<'de, S: Sink> Visitor<'de> for Trace<'_, '_, S> {
    type Value = ();
    no_scalars!(());

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let delivery = self.0;
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Word>()? {
            match key.as_str() {
                "events" => {
                    let fields = std::mem::take(&mut fields);
                    map.next_value_seed(Events { delivery, fields })?;
                }
                key if TRACE_FIELDS.contains(&key) => {
                    let Some(value) = map.next_value_seed(AtMost(MAX_FIELD))? else {
                        continue;
                    };
                    if key == "event_fields" {
                        let names = value.as_array().into_iter().flatten();
                        let names = names.filter_map(Value::as_str).take(MAX_FIELDS);
                        fields = names.map(str::to_ascii_lowercase).collect();
                    }
                    delivery.header.trace.insert(key.to_owned(), value);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The events of a trace. `fields` are the keys of events in the form of an array.
struct Events<'d, 'a, S> {
    delivery: &'d mut Delivery<'a, S>,
    fields: Vec<String>,
}

seed!(Events, ());

impl<'de, S: Sink> Visitor<'de> for Events<'_, '_, S> {
    type Value = ();
    no_scalars!(());

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        if self.fields.is_empty() {
            self.fields = USUAL_FIELDS.map(str::to_owned).to_vec();
        }
        self.delivery.begin();
        while let Some(event) = seq.next_element_seed(OneEvent { of: &self })? {
            self.delivery.event(event);
            if self.delivery.is_done() {
                return Err(A::Error::custom("the rest is not wanted"));
            }
        }
        Ok(())
    }
}

/// An event, as an object or an array.
struct OneEvent<'e, 'd, 'a, S> {
    of: &'e Events<'d, 'a, S>,
}

impl<'de, S: Sink> DeserializeSeed<'de> for OneEvent<'_, '_, '_, S> {
    type Value = S::Event;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Event, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for OneEvent<'_, '_, '_, S> {
    type Value = S::Event;
    no_scalars!(S::Event::default());

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<S::Event, A::Error> {
        let mut event = S::Event::default();
        while let Some(key) = map.next_key::<Word>()? {
            map.next_value_seed(Field { parts: &mut event, key: key.as_str() })?;
        }
        Ok(event)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<S::Event, A::Error> {
        let mut event = S::Event::default();
        for key in &self.of.fields {
            if seq.next_element_seed(Field { parts: &mut event, key })?.is_none() {
                return Ok(event);
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(event)
    }
}

/// A field of an event.
struct Field<'f, P> {
    parts: &'f mut P,
    key: &'f str,
}

impl<'de, P: Parts> DeserializeSeed<'de> for Field<'_, P> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        self.parts.take(self.key, value)
    }
}
