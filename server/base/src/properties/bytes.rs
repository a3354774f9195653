//! Choices out of a string.

/// The rest of a string. Past its end there are only zeros.
#[derive(Clone)]
pub struct Bytes<'a>(&'a [u8]);

/// Ends a part of a string; a control character, so that no part needs it to be worth trying.
const END: u8 = 0x1e;

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Bytes(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// Returns one of a list that is not empty.
    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::from(self.byte()) % list.len()]
    }

    /// Returns the next bytes, fewer where the string ends.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(count.min(self.0.len()));
        self.0 = later;
        now
    }

    /// Takes the bytes up to the next end of a part, or of the string.
    pub fn part(&mut self) -> &'a [u8] {
        let length = self.0.iter().position(|byte| *byte == END);
        let part = self.take(length.unwrap_or(self.0.len()));
        self.byte();
        part
    }

    /// Returns the same as text; what is no UTF-8 becomes U+FFFD.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.part()).into_owned()
    }

    /// Returns the parts that are left, as names and values with 0x1f between them.
    pub fn fields(&mut self) -> Vec<(&'a [u8], &'a [u8])> {
        let mut fields = Vec::new();
        while !self.is_empty() {
            let part = self.part();
            let mut halves = part.splitn(2, |byte| *byte == 0x1f);
            let name = halves.next().unwrap_or_default();
            fields.push((name, halves.next().unwrap_or_default()));
        }
        fields
    }
}
