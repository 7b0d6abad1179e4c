//! The functions that processes of a module have asked for, kept from one program to the next.

use std::collections::BTreeSet;

use everwarp_cache::{Cache, Key, Kind};

/// The version of an entry's layout and of the numbers of functions in it.
const FORMAT: &str = "functions asked for 1";

/// The cache's entry for a module. It is a hint: a program that does not find it asks again.
#[derive(Clone, Debug)]
pub(crate) struct AskedFunctions {
    cache: Cache,
    key: String,
}

impl AskedFunctions {
    /// The entry for the module whose code has this hash.
    pub(crate) fn of(hash: &[u8], cache: Cache) -> Self {
        let key = Key::new().with(FORMAT).with(hash).text();
        Self { cache, key }
    }

    /// The functions of each round, if all of them may be `left_out` of an image.
    pub(crate) fn read(&self, left_out: &BTreeSet<u32>) -> Vec<BTreeSet<u32>> {
        let entry = self.cache.read(Kind::Image, &self.key);
        let rounds = entry.and_then(|bytes| decode(&bytes, left_out));
        rounds.unwrap_or_default()
    }

    /// Keeps the functions of each round. Without a cache it does nothing.
    pub(crate) fn write<'f>(&self, name: &str, rounds: impl Iterator<Item = &'f BTreeSet<u32>>) {
        let label = format!("{name}: the functions that its processes have called");
        // The images are kept as well, and say if the folder cannot be written.
        let _ = self
            .cache
            .write(Kind::Image, &self.key, &label, &encode(rounds));
    }
}

/// For each round the number of its functions and the functions, each in 4 bytes, little-endian.
fn encode<'f>(rounds: impl Iterator<Item = &'f BTreeSet<u32>>) -> Vec<u8> {
    let mut words = Vec::new();
    for round in rounds {
        words.push(round.len() as u32);
        words.extend(round);
    }
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The rounds of an entry, unless a function is in none of the module's images or in two rounds.
fn decode(bytes: &[u8], left_out: &BTreeSet<u32>) -> Option<Vec<BTreeSet<u32>>> {
    let (words, rest) = bytes.as_chunks();
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
    let (mut rounds, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(count) = words.next() {
        let mut round = BTreeSet::new();
        for _ in 0..count {
            let function = words.next().filter(|f| left_out.contains(f))?;
            if !seen.insert(function) {
                return None;
            }
            round.insert(function);
        }
        if round.is_empty() {
            return None;
        }
        rounds.push(round);
    }
    rest.is_empty().then_some(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(functions: &[u32]) -> BTreeSet<u32> {
        functions.iter().copied().collect()
    }

    #[test]
    fn rounds_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::at(&folder.path().join("cache"));
        let of = |hash: &[u8]| AskedFunctions::of(hash, cache.clone());
        let left_out = set(&[2, 3, 5, 7]);
        assert!(of(b"a").read(&left_out).is_empty());
        let rounds = [set(&[5, 2]), set(&[7])];
        of(b"a").write("m", rounds.iter());
        assert_eq!(of(b"a").read(&left_out), rounds);
        assert!(of(b"b").read(&left_out).is_empty());
        // The entry is of a module with other functions.
        assert!(of(b"a").read(&set(&[2, 5])).is_empty());
    }

    #[test]
    fn damaged_entries_are_not_read() {
        let left_out = set(&[1, 2]);
        let words = |words: &[u32]| -> Vec<u8> {
            let words = words.iter().copied();
            words.flat_map(u32::to_le_bytes).collect()
        };
        assert_eq!(decode(&words(&[1, 2]), &left_out), Some(vec![set(&[2])]));
        for bad in [&[2, 1][..], &[1, 1, 1, 1], &[0], &[1, 9], &[u32::MAX, 1]] {
            assert_eq!(decode(&words(bad), &left_out), None, "{bad:?}");
        }
        assert_eq!(decode(&words(&[1, 2])[..7], &left_out), None);
    }
}
