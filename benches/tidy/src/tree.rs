//! The modules of a crate as its source declares them, without those that exist only in tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Expr, Item, Lit, Meta};

use crate::cfg::test_only;
use crate::imports::Import;
use crate::uses::{Method, Named, named_paths};

/// Index of a module in [`Tree::modules`].
pub type ModuleId = usize;

/// All modules of one crate.
#[derive(Debug, Default)]
pub struct Tree {
    /// Every module after its parent; the root is the first.
    pub modules: Vec<Module>,
}

/// One module: a file, or a block inside of one.
#[derive(Debug)]
pub struct Module {
    /// Names from the crate's root, which itself has none.
    pub path: Vec<String>,
    /// The file that holds the module's text, relative to the repository's root.
    pub file: PathBuf,
    /// The module that declares this one.
    pub parent: Option<ModuleId>,
    /// Declared modules by name.
    pub children: BTreeMap<String, ModuleId>,
    /// Names of types, functions, constants, traits and macros that are defined here.
    pub items: BTreeSet<String>,
    /// Names that `use` brings in.
    pub imports: Vec<Import>,
    /// Paths that the code names outside of `use`.
    pub named: Vec<Named>,
    /// Methods that are defined here, apart from those of traits.
    pub methods: Vec<Method>,
    /// Methods of its own type that a method calls.
    pub own_calls: Vec<Method>,
}

/// Reads files; tests have one without a disk.
pub trait Source {
    /// Returns the file's text, if the file exists.
    fn text(&self, file: &Path) -> Option<String>;
}

impl<F: Fn(&Path) -> Option<String>> Source for F {
    fn text(&self, file: &Path) -> Option<String> {
        self(file)
    }
}

impl Tree {
    /// Reads the crate whose root is `file`.
    ///
    /// # Panics
    ///
    /// When a file is missing or is not Rust.
    #[must_use]
    pub fn read(source: &dyn Source, file: &Path) -> Self {
        let mut tree = Self::default();
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        tree.read_file(source, Vec::new(), None, file, &folder);
        tree
    }

    fn read_file(
        &mut self,
        source: &dyn Source,
        path: Vec<String>,
        parent: Option<ModuleId>,
        file: &Path,
        folder: &Path,
    ) -> ModuleId {
        let text = source.text(file);
        let text = text.unwrap_or_else(|| panic!("there is no {}", file.display()));
        let parsed = syn::parse_file(&text);
        let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(source, path, parent, file, folder, &parsed.items)
    }

    /// Adds a module, and what it declares; files of its children are below `folder`.
    fn add(
        &mut self,
        source: &dyn Source,
        path: Vec<String>,
        parent: Option<ModuleId>,
        file: &Path,
        folder: &Path,
        items: &[Item],
    ) -> ModuleId {
        let id = self.modules.len();
        let used = named_paths(items);
        self.modules.push(Module {
            path: path.clone(),
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: items.iter().filter_map(defined).collect(),
            imports: used.imports,
            named: used.named,
            methods: used.methods,
            own_calls: used.own_calls,
        });
        for item in items {
            let Item::Mod(module) = item else { continue };
            if test_only(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let path = [path.as_slice(), std::slice::from_ref(&name)].concat();
            let below = folder.join(&name);
            let child = if let Some((_, items)) = &module.content {
                self.add(source, path, Some(id), file, &below, items)
            } else {
                let file = path_attribute(module, file).unwrap_or_else(|| {
                    let flat = folder.join(format!("{name}.rs"));
                    if source.text(&flat).is_some() { flat } else { below.join("mod.rs") }
                });
                self.read_file(source, path, Some(id), &file, &below)
            };
            self.modules[id].children.insert(name, child);
        }
        id
    }
}

fn path_attribute(module: &syn::ItemMod, file: &Path) -> Option<PathBuf> {
    let attribute = module.attrs.iter().find(|a| a.path().is_ident("path"))?;
    let Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    let Expr::Lit(literal) = &pair.value else {
        return None;
    };
    let Lit::Str(name) = &literal.lit else {
        return None;
    };
    Some(file.with_file_name(name.value()))
}

/// Returns the name that an item defines in its module.
fn defined(item: &Item) -> Option<String> {
    let (ident, attributes) = match item {
        Item::Const(item) => (&item.ident, &item.attrs),
        Item::Enum(item) => (&item.ident, &item.attrs),
        Item::Fn(item) => (&item.sig.ident, &item.attrs),
        Item::Macro(item) => (item.ident.as_ref()?, &item.attrs),
        Item::Static(item) => (&item.ident, &item.attrs),
        Item::Struct(item) => (&item.ident, &item.attrs),
        Item::Trait(item) => (&item.ident, &item.attrs),
        Item::TraitAlias(item) => (&item.ident, &item.attrs),
        Item::Type(item) => (&item.ident, &item.attrs),
        Item::Union(item) => (&item.ident, &item.attrs),
        _ => return None,
    };
    (!test_only(attributes)).then(|| ident.to_string())
}
