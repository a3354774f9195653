//! A finished profile of allocations, and its formats.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pprof::protos::{self, Message as _};

use super::dump::{Counts, Dump};
use crate::admin::flamegraph::error::RecordError;
use crate::admin::flamegraph::graph::{Profile, compress, draw, folded_name};
use crate::admin::flamegraph::query::Memory;
use crate::admin::flamegraph::symbols::{demangled, names};

/// Columns of the message for pprof, named and ordered as by Go's servers, with their units.
const COLUMNS: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// Allocations of the process within a time, by stacks of functions.
#[derive(Debug)]
pub(super) struct HeapProfile {
    /// Names of functions, innermost first.
    stacks: BTreeMap<Vec<String>, Counts>,
    /// Length of the recording; `None` if it has everything since the process started.
    length: Option<Duration>,
    /// What is shown.
    memory: Memory,
}

impl HeapProfile {
    pub(super) fn new(dump: &Dump, memory: Memory, length: Option<Duration>) -> Self {
        // The address to return to is after the call, and may be after the function.
        let calls = |stack: &[usize]| -> Vec<_> {
            stack.iter().map(|address| address.saturating_sub(1)).collect()
        };
        let all: BTreeSet<_> = dump.stacks.keys().flat_map(|stack| calls(stack)).collect();
        let names = names(&all);
        let name = |address: usize| {
            let name = names.get(&address).map_or("[unknown]", String::as_str);
            demangled(name)
        };
        let mut stacks: BTreeMap<_, Counts> = BTreeMap::new();
        for (stack, counts) in &dump.stacks {
            let mut functions: Vec<_> = calls(stack).into_iter().map(name).collect();
            functions.drain(..profiler_frames(&functions));
            *stacks.entry(functions).or_default() += *counts;
        }
        HeapProfile { stacks, length, memory }
    }

    /// Returns the bytes of all stacks.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.stacks.values().map(|counts| self.of(counts));
        all.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of a stack.
    fn of(&self, counts: &Counts) -> u64 {
        match self.memory {
            Memory::Allocated => counts.allocated.bytes,
            Memory::InUse => counts.in_use.bytes,
        }
    }
}

impl Profile for HeapProfile {
    fn svg(&self) -> Result<Vec<u8>, RecordError> {
        let (what, nothing) = match self.memory {
            Memory::Allocated => ("allocated", RecordError::NoAllocations),
            Memory::InUse => ("allocated and not freed", RecordError::NothingInUse),
        };
        let bytes = self.bytes();
        if bytes == 0 {
            return Err(nothing);
        }
        let when = match self.length {
            None => "since the process started".to_owned(),
            Some(length) => format!("in {} s", length.as_secs()),
        };
        let title = format!(
            "sluicegate {}: {bytes} bytes {what} {when}, estimated",
            env!("CARGO_PKG_VERSION")
        );
        draw(title, "bytes", &self.folded())
    }

    /// Its numbers are bytes.
    fn folded(&self) -> String {
        let counts = self.stacks.iter().map(|(stack, counts)| {
            let names = stack.iter().rev().map(|name| folded_name(name));
            (names.collect::<Vec<_>>(), self.of(counts))
        });
        let mut stacks: Vec<_> = counts.filter(|(_, bytes)| *bytes > 0).collect();
        stacks.sort();
        let lines = stacks.iter();
        lines.map(|(stack, bytes)| format!("{} {bytes}\n", stack.join(";"))).collect()
    }

    /// The message has both kinds of memory, and says which one to show.
    fn pprof(&self) -> Result<Vec<u8>, RecordError> {
        let mut texts = Texts::default();
        let sample_type = COLUMNS
            .map(|(ty, unit)| protos::ValueType { ty: texts.index(ty), unit: texts.index(unit) });
        let shown = match self.memory {
            Memory::Allocated => "alloc_space",
            Memory::InUse => "inuse_space",
        };
        let default_sample_type = texts.index(shown);
        let (mut functions, mut locations) = (Vec::new(), Vec::new());
        let mut known = BTreeMap::new();
        let mut sample = Vec::new();
        for (stack, counts) in &self.stacks {
            let location_id = stack.iter().map(|name| {
                *known.entry(name).or_insert_with(|| {
                    let id = functions.len() as u64 + 1;
                    let name = texts.index(name);
                    functions.push(protos::Function {
                        id,
                        name,
                        system_name: name,
                        ..Default::default()
                    });
                    let line = vec![protos::Line { function_id: id, line: 0 }];
                    locations.push(protos::Location { id, line, ..Default::default() });
                    id
                })
            });
            let Counts { allocated, in_use } = counts;
            let columns = [allocated.objects, allocated.bytes, in_use.objects, in_use.bytes];
            sample.push(protos::Sample {
                location_id: location_id.collect(),
                value: columns.map(|value| i64::try_from(value).unwrap_or(i64::MAX)).into(),
                ..Default::default()
            });
        }
        let message = protos::Profile {
            sample_type: sample_type.into(),
            sample,
            function: functions,
            location: locations,
            duration_nanos: i64::try_from(self.length.unwrap_or_default().as_nanos())
                .unwrap_or(i64::MAX),
            default_sample_type,
            string_table: texts.table,
            ..Default::default()
        };
        compress(&message.encode_to_vec())
    }
}

/// Largest number of innermost frames that may be those of jemalloc's profiler.
const PROFILER_DEPTH: usize = 8;

/// Returns the number of innermost frames that belong to jemalloc's profiler itself.
fn profiler_frames(functions: &[String]) -> usize {
    let of_profiler = |name: &String| name.contains("prof_") && !name.contains("::");
    let innermost = &functions[..functions.len().min(PROFILER_DEPTH)];
    innermost.iter().rposition(of_profiler).map_or(0, |last| last + 1)
}

/// The message's texts, each once. The first one is empty.
struct Texts {
    table: Vec<String>,
    indices: BTreeMap<String, i64>,
}

impl Default for Texts {
    fn default() -> Self {
        Texts { table: vec![String::new()], indices: BTreeMap::new() }
    }
}

impl Texts {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(index) = self.indices.get(text) {
            return *index;
        }
        let index = i64::try_from(self.table.len()).unwrap_or(i64::MAX);
        self.table.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::super::dump::Amount;
    use super::*;

    fn profile(memory: Memory, stacks: &[(&[&str], u64, u64)]) -> HeapProfile {
        let stacks = stacks.iter().map(|(stack, allocated, in_use)| {
            let amount = |bytes| Amount { objects: bytes / 8, bytes };
            let counts = Counts { allocated: amount(*allocated), in_use: amount(*in_use) };
            (stack.iter().map(|name| (*name).to_owned()).collect(), counts)
        });
        HeapProfile { stacks: stacks.collect(), length: Some(Duration::from_secs(3)), memory }
    }

    #[test]
    fn both_kinds_are_drawn_in_bytes() {
        let stacks: [(&[&str], _, _); 2] =
            [(&["malloc", "turn", "main"], 64, 0), (&["malloc", "main"], 32, 16)];
        let [allocated, in_use] =
            [Memory::Allocated, Memory::InUse].map(|memory| profile(memory, &stacks));
        let folded = "main;malloc 32\nmain;turn;malloc 64\n";
        assert_eq!(allocated.folded(), folded);
        assert_eq!(in_use.folded(), "main;malloc 16\n");
        let svg = String::from_utf8(allocated.svg().unwrap()).unwrap();
        assert!(svg.contains("turn (64 bytes, 66.67%)"), "{svg}");
        assert!(svg.contains("96 bytes allocated in 3 s"), "{svg}");
        let svg = String::from_utf8(in_use.svg().unwrap()).unwrap();
        let title = "16 bytes allocated and not freed in 3 s";
        assert!(svg.contains(title), "{svg}");
    }

    #[test]
    fn pprof_has_the_columns_of_go() {
        let profile =
            profile(Memory::InUse, &[(&["malloc", "turn"], 64, 0), (&["malloc", "main"], 32, 16)]);
        let mut message = Vec::new();
        let compressed = profile.pprof().unwrap();
        GzDecoder::new(&*compressed).read_to_end(&mut message).unwrap();
        let message = protos::Profile::decode(&*message).unwrap();
        let text = |index: i64| message.string_table[usize::try_from(index).unwrap()].as_str();
        assert_eq!(text(message.default_sample_type), "inuse_space");
        let columns = message.sample_type.iter().map(|column| text(column.ty));
        assert!(columns.eq(COLUMNS.map(|(name, _)| name)));
        assert_eq!(text(0), "");
        let values: Vec<_> = message.sample.iter().map(|sample| &sample.value[..]).collect();
        assert_eq!(values, [[4, 32, 2, 16], [8, 64, 0, 0]]);
        let function = |id: u64| text(message.function[usize::try_from(id - 1).unwrap()].name);
        let stack: Vec<_> = message.sample[1].location_id.iter().map(|id| function(*id)).collect();
        assert_eq!(stack, ["malloc", "turn"]);
    }

    #[test]
    fn nothing_in_use_is_no_graph() {
        let profile = |memory| profile(memory, &[(&["main"], 8, 0)]);
        assert!(profile(Memory::Allocated).svg().is_ok());
        let refusal = profile(Memory::InUse).svg().unwrap_err().to_string();
        assert!(refusal.contains("in use at the end"), "{refusal}");
    }

    #[test]
    fn frames_of_the_profiler_are_left_out() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let stack = names(&[
            "prof_backtrace_impl",
            "_rjem_je_prof_tctx_create",
            "malloc",
            "a::prof_b",
            "main",
        ]);
        assert_eq!(profiler_frames(&stack), 2);
        assert_eq!(profiler_frames(&names(&["malloc", "main"])), 0);
    }
}
