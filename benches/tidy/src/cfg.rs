//! Recognises items that exist only in tests.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Lit, Meta, MetaNameValue, Token};

/// Returns whether an attribute removes the item from a build for users: `#[test]`, or a `cfg` that holds only when
/// `test`, `fuzzing` or a feature for tests is set, which is one whose name begins with `test-`.
#[must_use]
pub fn test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.is_ident("test") {
            return true;
        }
        let Meta::List(list) = &attribute.meta else {
            return false;
        };
        path.is_ident("cfg")
            && list.parse_args::<Meta>().is_ok_and(|predicate| holds(&predicate) == Some(false))
    })
}

/// Returns whether the predicate holds for users; `None` where that depends on the platform or on features.
fn holds(predicate: &Meta) -> Option<bool> {
    let path = predicate.path();
    if path.is_ident("test") || path.is_ident("fuzzing") {
        return Some(false);
    }
    let list = match predicate {
        Meta::List(list) => list,
        Meta::NameValue(feature) if is_for_tests(feature) => return Some(false),
        _ => return None,
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut parts = parts.iter().map(holds);
    if path.is_ident("not") {
        parts.next()?.map(|inner| !inner)
    } else if path.is_ident("all") {
        fold(parts, false)
    } else if path.is_ident("any") {
        fold(parts, true)
    } else {
        None
    }
}

fn is_for_tests(feature: &MetaNameValue) -> bool {
    let Expr::Lit(value) = &feature.value else {
        return false;
    };
    matches!(&value.lit, Lit::Str(name) if name.value().starts_with("test-"))
}

/// Combines parts of which a single `decisive` one settles the whole.
fn fold(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut whole = Some(!decisive);
    for part in parts {
        match part {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => whole = None,
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn predicates_that_need_test_or_fuzzing_are_recognised() {
        let only: [Attribute; 6] = [
            parse_quote!(#[test]),
            parse_quote!(#[cfg(test)]),
            parse_quote!(#[cfg(any(test, fuzzing))]),
            parse_quote!(#[cfg(feature = "test-backends")]),
            parse_quote!(#[cfg(all(unix, test))]),
            parse_quote!(#[cfg(not(not(fuzzing)))]),
        ];
        assert_eq!(only.map(|attribute| test_only(&[attribute])), [true; 6]);
        let not: [Attribute; 4] = [
            parse_quote!(#[cfg(not(test))]),
            parse_quote!(#[cfg(any(test, unix))]),
            parse_quote!(#[cfg(feature = "test")]),
            parse_quote!(#[must_use]),
        ];
        assert_eq!(not.map(|attribute| test_only(&[attribute])), [false; 4]);
    }
}
