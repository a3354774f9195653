//! Names of functions, from the symbol tables of the program and its libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use findshlibs::{SharedLibrary as _, TargetSharedLibrary};
use object::{Object as _, ObjectSymbol as _, ReadCache, SymbolKind};
use pprof::Symbol;

/// Link to the program's file (proc(5)), which holds when an upgrade has replaced or removed the file of that name.
const PROGRAM: &str = "/proc/self/exe";

/// A file with code, and where it is in memory.
#[derive(Debug)]
struct Module {
    path: PathBuf,
    start: usize,
    len: usize,
    /// Difference between an address in memory and in the file's symbol table.
    bias: usize,
}

/// Returns the names of the functions at these addresses, as the linker knows them. Code without a symbol has the name of its file
/// in brackets.
pub(super) fn names(addresses: &BTreeSet<usize>) -> BTreeMap<usize, String> {
    let mut modules = Vec::new();
    TargetSharedLibrary::each(|library| {
        modules.push(Module {
            path: library.name().into(),
            start: library.actual_load_addr().0,
            len: library.len(),
            bias: library.virtual_memory_bias().0,
        });
    });
    let program = std::env::current_exe().ok();
    let mut names = BTreeMap::new();
    for module in modules {
        let end = module.start.saturating_add(module.len);
        let inside: BTreeSet<usize> = addresses.range(module.start..end).copied().collect();
        if inside.is_empty() {
            continue;
        }
        let file = module.path.file_name().unwrap_or_default();
        let file = format!("[{}]", file.to_string_lossy());
        let is_program = program.as_ref() == Some(&module.path);
        let path = if is_program { PROGRAM.as_ref() } else { &*module.path };
        let mut known = symbols(path, module.bias, &inside).unwrap_or_default();
        names.extend(inside.into_iter().map(|address| {
            let name = known.remove(&address);
            (address, name.unwrap_or_else(|| file.clone()))
        }));
    }
    names
}

/// Returns a function's name in the form of its language.
pub(super) fn demangled(name: &str) -> String {
    symbol(name).name()
}

/// Returns a function that is known by its name alone.
pub(super) fn symbol(name: &str) -> Symbol {
    Symbol { name: Some(name.into()), addr: None, lineno: None, filename: None }
}

/// Returns the symbols at these addresses in memory; `None` if the file cannot be read.
fn symbols(
    path: &Path,
    bias: usize,
    addresses: &BTreeSet<usize>,
) -> Option<BTreeMap<usize, String>> {
    // It reads the tables, not the whole file.
    let content = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&content).ok()?;
    let mut names = BTreeMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
            continue;
        }
        let (Ok(start), Ok(size)) =
            (usize::try_from(symbol.address()), usize::try_from(symbol.size()))
        else {
            continue;
        };
        let start = start.saturating_add(bias);
        for address in addresses.range(start..start.saturating_add(size)) {
            let name = || String::from_utf8_lossy(symbol.name_bytes().unwrap_or_default());
            names.entry(*address).or_insert_with(|| name().into_owned());
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn of_a_known_name(number: u64) -> u64 {
        std::hint::black_box(number).wrapping_mul(31)
    }

    #[test]
    fn functions_have_the_names_of_their_symbols() {
        let ours = of_a_known_name as fn(u64) -> u64 as usize;
        let nowhere = 1;
        let found = names(&BTreeSet::from([nowhere, ours, ours + 1]));
        assert!(found[&ours].contains("of_a_known_name"), "{found:?}");
        assert_eq!(found[&ours], found[&(ours + 1)]);
        assert!(!found.contains_key(&nowhere));
    }
}
