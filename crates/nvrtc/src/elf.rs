//! Just enough of ELF to list a cubin's sections.

/// The section names of a 64-bit little-endian ELF file; `None` if it is not one, or is cut short.
pub(crate) fn section_names(file: &[u8]) -> Option<Vec<&str>> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(number(file, 0x28, 8)?).ok()?;
    let entry_size = usize::try_from(number(file, 0x3a, 2)?).ok()?;
    let count = usize::try_from(number(file, 0x3c, 2)?).ok()?;
    let names_index = usize::try_from(number(file, 0x3e, 2)?).ok()?;
    let header = |index: usize| {
        let start = table.checked_add(index.checked_mul(entry_size)?)?;
        file.get(start..start.checked_add(entry_size)?)
    };
    let names_header = header(names_index)?;
    let offset = usize::try_from(number(names_header, 0x18, 8)?).ok()?;
    let size = usize::try_from(number(names_header, 0x20, 8)?).ok()?;
    let names = file.get(offset..offset.checked_add(size)?)?;
    (0..count)
        .map(|index| {
            let start = usize::try_from(number(header(index)?, 0, 4)?).ok()?;
            let name = names.get(start..)?.split(|&b| b == 0).next()?;
            str::from_utf8(name).ok()
        })
        .collect()
}

/// The unsigned number of `size` bytes at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with the sections "", ".a" and ".names".
    fn sample() -> Vec<u8> {
        let names = b"\0.a\0.names\0";
        let mut file = vec![0u8; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x28] = 64 + names.len() as u8;
        file[0x3a] = 64;
        file[0x3c] = 3;
        file[0x3e] = 2;
        file.extend(names);
        for name in [0, 1, 4] {
            let mut header = [0u8; 64];
            header[0] = name;
            header[0x18] = 64;
            header[0x20] = names.len() as u8;
            file.extend(header);
        }
        file
    }

    #[test]
    fn names_are_listed() {
        assert_eq!(section_names(&sample()), Some(vec!["", ".a", ".names"]));
    }

    #[test]
    fn a_file_cut_anywhere_is_refused_without_a_panic() {
        let file = sample();
        for length in 0..file.len() {
            assert_eq!(section_names(&file[..length]), None, "{length} bytes");
        }
        for at in 0..file.len() {
            let mut file = file.clone();
            file[at] ^= 0xff;
            section_names(&file);
        }
    }
}
