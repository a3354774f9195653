//! The object file that the driver of AF_XDP loads in place of a program of its own: it passes all frames to the kernel
//! until the port is open. Its map, where the driver stores its sockets, is never read.

use super::assembler::{Assembler, R0};
use super::bpf::MAP_TYPE_XSKMAP;
use super::program::PASS;

/// Name of the program; the kernel keeps up to 15 bytes.
pub(super) const NAME: &str = "sluicegate_pass";
/// Name of the map that the driver looks for.
const MAP: &str = "xsks_map";

/// Strings with offsets, each with a zero at its end; the first is empty.
struct Strings(Vec<u8>);

impl Strings {
    fn new() -> Self {
        Self(vec![0])
    }

    /// Appends a string, and returns its offset.
    fn add(&mut self, text: &str) -> u32 {
        let offset = offset(self.0.len());
        self.0.extend(text.as_bytes());
        self.0.push(0);
        offset
    }
}

fn offset(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Length of the map's definition: four pointers.
const DEFINITION: u32 = 32;

/// Returns the types of the map's definition in BTF, from which the loader reads its properties: each member of the
/// definition is a pointer to an array with as many elements as its value.
fn btf(queues: u32) -> Vec<u8> {
    const INT: u32 = 1 << 24;
    const POINTER: u32 = 2 << 24;
    const ARRAY: u32 = 3 << 24;
    const STRUCT: u32 = 4 << 24;
    const VARIABLE: u32 = 14 << 24;
    const SECTION: u32 = 15 << 24;
    const SIGNED_32: u32 = 1 << 24 | 32;
    let mut strings = Strings::new();
    let int = strings.add("int");
    let mut types = words(&[int, INT, 4, SIGNED_32]);
    // Types 2 to 7: an array and a pointer to it, for each value.
    for (index, count) in (0..).zip([MAP_TYPE_XSKMAP, 4, queues]) {
        types.extend(words(&[0, ARRAY, 0, 1, 1, count]));
        types.extend(words(&[0, POINTER, 2 + 2 * index]));
    }
    types.extend(words(&[0, STRUCT | 4, DEFINITION]));
    let members = [("type", 3), ("key_size", 5), ("value_size", 5), ("max_entries", 7)];
    for (index, (name, kind)) in (0..).zip(members) {
        types.extend(words(&[strings.add(name), kind, index * 64]));
    }
    types.extend(words(&[strings.add(MAP), VARIABLE, 8, 1]));
    types.extend(words(&[strings.add(".maps"), SECTION | 1, DEFINITION]));
    types.extend(words(&[9, 0, DEFINITION]));
    let (types_len, strings_len) = (offset(types.len()), offset(strings.0.len()));
    let mut btf = [0xeb9fu16.to_ne_bytes(), [1, 0]].concat();
    btf.extend(words(&[24, 0, types_len, types_len, strings_len]));
    btf.extend(types);
    btf.extend(strings.0);
    btf
}

/// Section of the file.
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    /// Section that this one refers to, and a number that depends on the kind.
    link: (u32, u32),
    entry: u64,
    content: Vec<u8>,
}

impl Section {
    /// Bytes of the program: flags of ELF for what is loaded, writable, executable.
    fn bits(name: &'static str, flags: u64, content: Vec<u8>) -> Self {
        Self { name, kind: 1, flags, link: (0, 0), entry: 0, content }
    }
}

/// Returns a symbol: a global object or function at the start of a section.
fn symbol(name: u32, kind: u8, section: u16, size: usize) -> Vec<u8> {
    const GLOBAL: u8 = 1 << 4;
    let mut symbol = words(&[name]);
    symbol.extend([GLOBAL | kind, 0]);
    symbol.extend(section.to_ne_bytes());
    symbol.extend([0; 8]);
    symbol.extend((size as u64).to_ne_bytes());
    symbol
}

/// Returns the file, in ELF, with a map for so many queues.
pub(super) fn object(queues: u32) -> Vec<u8> {
    const ALLOCATED: u64 = 2;
    const EXECUTABLE: u64 = 4;
    const WRITABLE: u64 = 1;
    const OBJECT: u8 = 1;
    const FUNCTION: u8 = 2;
    let mut asm = Assembler::default();
    asm.set(R0, PASS);
    asm.exit();
    let code = asm.finish().unwrap_or_default().concat();
    let mut strings = Strings::new();
    let mut symbols = vec![0; 24];
    symbols.extend(symbol(strings.add(NAME), FUNCTION, 1, code.len()));
    symbols.extend(symbol(strings.add(MAP), OBJECT, 2, DEFINITION as usize));
    let definition = vec![0; DEFINITION as usize];
    let sections = [
        Section::bits("xdp", ALLOCATED | EXECUTABLE, code),
        Section::bits(".maps", ALLOCATED | WRITABLE, definition),
        Section::bits(".BTF", 0, btf(queues)),
        Section {
            kind: 2,
            // The section of their names, and the first that is global.
            link: (5, 1),
            entry: 24,
            ..Section::bits(".symtab", 0, symbols)
        },
    ];
    file(sections, strings)
}

/// Lays the sections out in a file, with a last one for all names.
fn file(sections: [Section; 4], mut strings: Strings) -> Vec<u8> {
    const HEADER: usize = 64;
    const RELOCATABLE: u16 = 1;
    const MACHINE_BPF: u16 = 247;
    let mut table = vec![0; HEADER];
    let mut body = vec![0; HEADER];
    let mut add = |name: u32, section: &Section| {
        body.resize(body.len().next_multiple_of(8), 0);
        table.extend(words(&[name, section.kind]));
        let numbers = [section.flags, 0, body.len() as u64, section.content.len() as u64];
        table.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        table.extend(words(&[section.link.0, section.link.1]));
        table.extend([8, section.entry].iter().flat_map(|number: &u64| number.to_ne_bytes()));
        body.extend(&section.content);
    };
    for section in &sections {
        add(strings.add(section.name), section);
    }
    let name = strings.add(".strtab");
    let names = Section { kind: 3, ..Section::bits(".strtab", 0, strings.0) };
    add(name, &names);
    body.resize(body.len().next_multiple_of(8), 0);
    let at = body.len() as u64;
    let order = if cfg!(target_endian = "big") { 2 } else { 1 };
    // 64 bits, the byte order, the version.
    let mut header = vec![0x7f, b'E', b'L', b'F', 2, order, 1];
    header.resize(16, 0);
    header.extend([RELOCATABLE, MACHINE_BPF].iter().flat_map(|half| half.to_ne_bytes()));
    header.extend(words(&[1]));
    header.extend([0, 0, at].iter().flat_map(|number: &u64| number.to_ne_bytes()));
    header.extend(words(&[0]));
    // Lengths and counts of the header, of segments, of sections, and which section has the names.
    let halves: [u16; 6] = [64, 0, 0, 64, 6, 5];
    header.extend(halves.iter().flat_map(|half| half.to_ne_bytes()));
    body[..HEADER].copy_from_slice(&header);
    body.extend(table);
    body
}
