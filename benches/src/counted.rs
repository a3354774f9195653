//! Sections whose instructions are counted, if the program runs under callgrind.

use std::hint::black_box;

/// Part of the name of the function around each section: callgrind counts while a function with it runs (`--toggle-collect`).
pub(crate) const SECTION: &str = "counted_section";

/// Runs `work`, and has its instructions counted. Sections do not nest: one within another would end the count.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> T {
    let mut work = Some(work);
    let mut result = None;
    counted_section(&mut || result = work.take().map(|work| work()));
    result.expect("the section has run")
}

/// The only function with the name of a [`SECTION`].
#[inline(never)]
fn counted_section(work: &mut dyn FnMut()) {
    let depth = black_box(1_u8);
    work();
    // Something is left to do after the call, so it is no jump, which would end the section.
    black_box(depth);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_returns_the_result_of_its_work() {
        assert_eq!(counted(|| 7), 7);
        assert!(std::any::type_name_of_val(&counted_section).ends_with(SECTION));
    }
}
