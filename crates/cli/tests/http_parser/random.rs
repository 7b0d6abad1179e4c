//! Random numbers from a seed, and changes of inputs.

/// A generator of random numbers (xorshift, Marsaglia 2003).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 11) % end as u64) as usize
    }

    pub(crate) fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Changes some bytes: at most four times it replaces, inserts, removes, or repeats a part.
    pub(crate) fn change(&mut self, bytes: &mut Vec<u8>) {
        const BYTES: &[u8] = b"\r\n\t \0:;,/?#%*@=+-0159aAfFxX\x7f\x80\xc3\xa9\xff\"()[]{}";
        for _ in 0..self.below(5) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] = *self.one_of(BYTES),
                1 => bytes.insert(at, *self.one_of(BYTES)),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                3 => {
                    let end = at + self.below(bytes.len() - at + 1).min(40);
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => bytes.truncate(bytes.len().saturating_sub(self.below(3))),
            }
        }
    }

    /// Divides bytes into segments of up to `most` bytes.
    pub(crate) fn segments(&mut self, bytes: &[u8], most: usize) -> Vec<Vec<u8>> {
        let mut segments = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (segment, after) = rest.split_at((1 + self.below(most)).min(rest.len()));
            segments.push(segment.to_vec());
            rest = after;
        }
        segments
    }
}
