//! Records as words, which is how the host writes them.

/// The words of a record's bytes.
pub(crate) fn words_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|i| {
        let word = bytes[8 * i..].first_chunk().expect("eight bytes");
        u64::from_ne_bytes(*word)
    })
}
