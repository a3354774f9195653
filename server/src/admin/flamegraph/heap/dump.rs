//! Reads the file in which jemalloc writes its samples.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Samples of a process: `heap_v2/INTERVAL`, then for each stack a line `@ ADDRESS…`, innermost first, and one with its counts.
/// Then the files in memory, which do not matter here.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Dump {
    /// Addresses to return to, innermost first, and what was allocated there.
    pub(super) stacks: BTreeMap<Vec<usize>, Counts>,
}

/// Estimates of what a stack allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) allocated: Amount,
    /// Part of it that was not free again at the end.
    pub(super) in_use: Amount,
}

/// Blocks of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        for (sum, part) in
            [(&mut self.allocated, other.allocated), (&mut self.in_use, other.in_use)]
        {
            sum.objects = sum.objects.saturating_add(part.objects);
            sum.bytes = sum.bytes.saturating_add(part.bytes);
        }
    }
}

impl Amount {
    fn since(self, earlier: Amount) -> Amount {
        Amount {
            objects: self.objects.saturating_sub(earlier.objects),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

impl Dump {
    /// Returns what was allocated after an earlier dump. In use is by how much that has grown, which blocks that are older and were
    /// freed meanwhile reduce.
    pub(super) fn since(mut self, earlier: &Dump) -> Dump {
        for (stack, counts) in &mut self.stacks {
            if let Some(before) = earlier.stacks.get(stack) {
                counts.allocated = counts.allocated.since(before.allocated);
                counts.in_use = counts.in_use.since(before.in_use);
            }
        }
        self
    }

    /// Reads a file; `None` if it has another form.
    pub(super) fn parse(text: &str) -> Option<Dump> {
        let mut lines = text.lines();
        let interval = lines.next()?.strip_prefix("heap_v2/")?.parse().ok()?;
        let mut stacks: BTreeMap<_, Counts> = BTreeMap::new();
        let mut stack = None;
        for line in lines.take_while(|line| !line.starts_with("MAPPED_LIBRARIES")) {
            if let Some(addresses) = line.strip_prefix('@') {
                let address = |word: &str| usize::from_str_radix(word.strip_prefix("0x")?, 16).ok();
                let addresses = addresses.split_ascii_whitespace().map(address);
                stack = Some(addresses.collect::<Option<Vec<_>>>()?);
            } else if let Some(counts) = line.trim_start().strip_prefix("t*:") {
                // The first one, before all stacks, has the sum. Lines of single threads follow each.
                if let Some(stack) = stack.take() {
                    *stacks.entry(stack).or_default() += counted(counts, interval)?;
                }
            }
        }
        Some(Dump { stacks })
    }
}

/// Reads `OBJECTS: BYTES [OBJECTS: BYTES]`, sampled in use and allocated.
fn counted(text: &str, interval: f64) -> Option<Counts> {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|number| !number.is_empty())
        .map(|number| number.parse::<u64>());
    let mut amount = || {
        let objects = numbers.next()?.ok()?;
        Some(estimate(objects, numbers.next()?.ok()?, interval))
    };
    let in_use = amount()?;
    Some(Counts { allocated: amount()?, in_use })
}

/// Estimates what was allocated by what was sampled: a block is sampled with the probability 1 − e^(−size / interval).
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates; casts from f64 saturate"
)]
fn estimate(objects: u64, bytes: u64, interval: f64) -> Amount {
    if objects == 0 {
        return Amount::default();
    }
    let (objects, bytes) = (objects as f64, bytes as f64);
    let probability = -(-bytes / objects / interval).exp_m1();
    if probability <= 0.0 {
        return Amount::default();
    }
    Amount {
        objects: (objects / probability).round() as u64,
        bytes: (bytes / probability).round() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(objects: u64, bytes: u64) -> Amount {
        Amount { objects, bytes }
    }

    #[test]
    fn a_dump_has_stacks_with_estimates() {
        let text = "heap_v2/524288\n  t*: 3: 1056768 [5: 1064960]\n  t0: 3: 1056768 [5: 1064960]\n\
                    @ 0x10 0x2f 0x3\n  t*: 1: 8192 [2: 16384]\n  t0: 1: 8192 [2: 16384]\n\
                    @ 0x20\n  t*: 2: 104857600 [2: 104857600]\n  t1: 2: 104857600 [2: 104857600]\n\n\
                    MAPPED_LIBRARIES:\n@ 0x1\n";
        let dump = Dump::parse(text).unwrap();
        assert_eq!(dump.stacks.len(), 2);
        let (small, large) = (&dump.stacks[&vec![16, 47, 3]], &dump.stacks[&vec![32]]);
        // Of blocks of 8 KiB, one in 64.5 is sampled; of those of 50 MiB each one.
        assert_eq!(small.in_use, amount(65, 528_395));
        assert_eq!(small.allocated, amount(129, 1_056_789));
        assert_eq!(large.in_use, amount(2, 104_857_600));
    }

    #[test]
    fn the_difference_of_two_dumps_is_what_came_between() {
        let dump = |in_use: u64, allocated: u64| {
            let text = format!(
                "heap_v2/1\n@ 0x1\n t*: {in_use}: {} [{allocated}: {}]\n",
                in_use * 4096,
                allocated * 4096
            );
            Dump::parse(&text).unwrap()
        };
        let between = |first, second: Dump| second.since(&first).stacks[&vec![1]];
        let grown = between(dump(2, 5), dump(3, 9));
        assert_eq!(grown.in_use, amount(1, 4_096));
        assert_eq!(grown.allocated, amount(4, 4 * 4_096));
        assert_eq!(between(dump(2, 5), dump(1, 5)).in_use, amount(0, 0));
        assert_eq!(between(Dump::default(), dump(1, 1)).in_use, amount(1, 4_096));
    }

    #[test]
    fn another_form_is_refused() {
        for text in
            ["", "heap_v1/1\n", "heap_v2/x\n", "heap_v2/1\n@ 0xg\n", "heap_v2/1\n@ 0x1\n t*: 1:\n"]
        {
            assert_eq!(Dump::parse(text), None, "{text}");
        }
        assert!(Dump::parse("heap_v2/1\n").unwrap().stacks.is_empty());
    }

    #[test]
    fn nothing_sampled_is_nothing_allocated() {
        assert_eq!(estimate(0, 5, 1.0), amount(0, 0));
        assert_eq!(estimate(5, 0, 1.0), amount(0, 0));
    }
}
