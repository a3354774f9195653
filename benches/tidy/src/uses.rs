//! The paths that a module's code names.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item};

use crate::cfg::test_only;
use crate::imports::{Import, imports};

/// A path in the code, outside of `use`.
#[derive(Clone, Debug)]
pub struct Named {
    /// Names as written, without generic arguments.
    pub segments: Vec<String>,
    /// Line of the file.
    pub line: usize,
}

/// A method of a type.
#[derive(Clone, Debug)]
pub struct Method {
    /// Path of the type as the `impl` writes it, without generic arguments.
    pub owner: Vec<String>,
    /// Name of the method.
    pub name: String,
    /// Line of the file.
    pub line: usize,
}

/// Everything that a module's own code names.
#[derive(Debug, Default)]
pub struct Used {
    /// Names brought in by `use`, including those inside of functions.
    pub imports: Vec<Import>,
    /// Names in paths: in signatures, expressions, patterns, and the tokens of macros.
    pub named: Vec<Named>,
    /// Methods that are defined here, apart from those of traits.
    pub methods: Vec<Method>,
    /// Methods of its own type that a method calls: `self.name()` or `Self::name()`.
    pub own_calls: Vec<Method>,
}

/// Collects what the items name, apart from modules among them and from what exists only in tests.
#[must_use]
pub fn named_paths(items: &[Item]) -> Used {
    let mut collector = Collector::default();
    for item in items {
        collector.visit_item(item);
    }
    collector.used
}

#[derive(Default)]
struct Collector {
    used: Used,
    /// Type of the `impl` around.
    owner: Option<Vec<String>>,
}

impl Collector {
    fn path(&mut self, path: &syn::Path) {
        let segments = segments(path);
        let line = path.segments.first().map_or(0, |s| s.ident.span().start().line);
        if let [own, name] = segments.as_slice()
            && own == "Self"
        {
            self.own_call(name.clone(), line);
        }
        self.used.named.push(Named { segments, line });
    }

    fn own_call(&mut self, name: String, line: usize) {
        if let Some(owner) = &self.owner {
            self.used.own_calls.push(Method { owner: owner.clone(), name, line });
        }
    }

    /// Finds `a::b::c` in the tokens of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) if !follows_dot_or_quote(&tokens[..at]) => {
                    let mut segments = vec![first.to_string()];
                    while let Some(next) = segment_after(&tokens[at + 1..]) {
                        segments.push(next);
                        at += 3;
                    }
                    let line = first.span().start().line;
                    self.used.named.push(Named { segments, line });
                }
                _ => {}
            }
            at += 1;
        }
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Returns whether an identifier after these tokens is a field, a method or a lifetime; `..` is a range.
fn follows_dot_or_quote(before: &[TokenTree]) -> bool {
    let punct = |back: usize| match before.len().checked_sub(back).map(|at| &before[at]) {
        Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
        _ => None,
    };
    match punct(1) {
        Some('\'') => true,
        Some('.') => punct(2) != Some('.'),
        _ => false,
    }
}

/// Returns the name after `::`, if the tokens begin so.
fn segment_after(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [TokenTree::Punct(one), TokenTree::Punct(two), TokenTree::Ident(name), ..]
            if one.as_char() == ':' && two.as_char() == ':' =>
        {
            Some(name.to_string())
        }
        _ => None,
    }
}

macro_rules! unless_test_only {
    ($($method:ident($node:ty), $attributes:expr;)*) => {$(
        fn $method(&mut self, node: &'ast $node) {
            let attributes: fn(&$node) -> &[Attribute] = $attributes;
            if !test_only(attributes(node)) {
                visit::$method(self, node);
            }
        }
    )*};
}

impl<'ast> Visit<'ast> for Collector {
    unless_test_only! {
        visit_arm(syn::Arm), |node| &node.attrs;
        visit_field(syn::Field), |node| &node.attrs;
        visit_field_value(syn::FieldValue), |node| &node.attrs;
        visit_impl_item(syn::ImplItem), impl_attributes;
        visit_local(syn::Local), |node| &node.attrs;
        visit_stmt_macro(syn::StmtMacro), |node| &node.attrs;
        visit_variant(syn::Variant), |node| &node.attrs;
    }

    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(_) => {}
            Item::Use(item) if !test_only(&item.attrs) => self.used.imports.extend(imports(item)),
            Item::Use(_) => {}
            _ if test_only(item_attributes(item)) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let owner = match &*block.self_ty {
            syn::Type::Path(path) => Some(segments(&path.path)),
            _ => None,
        };
        let outer = std::mem::replace(&mut self.owner, owner.clone());
        if let (None, Some(owner)) = (&block.trait_, owner) {
            for item in &block.items {
                if let syn::ImplItem::Fn(method) = item
                    && !test_only(&method.attrs)
                {
                    let ident = &method.sig.ident;
                    let (name, line) = (ident.to_string(), ident.span().start().line);
                    self.used.methods.push(Method { owner: owner.clone(), name, line });
                }
            }
        }
        visit::visit_item_impl(self, block);
        self.owner = outer;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let syn::Expr::Path(receiver) = &*call.receiver
            && receiver.path.is_ident("self")
        {
            self.own_call(call.method.to_string(), call.method.span().start().line);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.path(&invocation.path);
        self.tokens(invocation.tokens.clone());
    }
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        _ => &[],
    }
}

fn impl_attributes(item: &syn::ImplItem) -> &[Attribute] {
    match item {
        syn::ImplItem::Const(item) => &item.attrs,
        syn::ImplItem::Fn(item) => &item.attrs,
        syn::ImplItem::Type(item) => &item.attrs,
        syn::ImplItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}
