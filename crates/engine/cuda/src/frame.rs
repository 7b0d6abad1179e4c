//! Stack frames of an image's functions, read from its machine code.
//!
//! Compiled modules call each other to a depth that only the run decides, so the driver cannot know how
//! much stack a thread needs. The machine code says how large each function's frame is, in sections called
//! `.nv.info`: records of a format byte, an attribute byte and a 16-bit length or value. The attribute
//! wanted is the frame's size, a symbol's number and the bytes.

use everwarp_engine::Frames;

/// The format whose length counts bytes that follow.
const SIZED: u8 = 4;
const FRAME_SIZE: u8 = 0x11;
/// Bytes of an entry of the table of symbols.
const SYMBOL_BYTES: usize = 24;

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(usize::from(u16::from_le_bytes(field)))
}
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(field))
}
fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
    Some(u64::from_le_bytes(field) as usize)
}

/// A section's header.
#[derive(Clone, Copy)]
struct Section<'i> {
    name: usize,
    /// The number of the section that this one refers to.
    link: usize,
    bytes: &'i [u8],
}

fn section(image: &[u8], at: usize) -> Option<Section<'_>> {
    let name = u32_at(image, at)? as usize;
    let header = image.get(at..)?;
    let (offset, size) = (u64_at(header, 24)?, u64_at(header, 32)?);
    Some(Section {
        name,
        link: u32_at(header, 40)? as usize,
        bytes: image.get(offset..offset.checked_add(size)?)?,
    })
}

/// The frames in a section of records: the number of the function's symbol, and the bytes.
fn records(mut records: &[u8]) -> Option<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    while records.len() >= 4 {
        let (format, attribute) = (records[0], records[1]);
        let length = if format == SIZED {
            u16_at(records, 2)?
        } else {
            0
        };
        let body = records.get(4..4 + length)?;
        if format == SIZED && attribute == FRAME_SIZE {
            found.push((u32_at(body, 0)?, u32_at(body, 4)?));
        }
        records = &records[4 + length..];
    }
    Some(found)
}

/// The text at an offset of a section of strings.
fn text(strings: &[u8], at: usize) -> Option<&str> {
    let bytes = strings.get(at..)?;
    let end = bytes.iter().position(|&b| b == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

/// The stack frames of a cubin's functions, or nothing if it does not say.
pub(crate) fn frames(image: &[u8]) -> Option<Frames> {
    if image.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (first, size) = (u64_at(image, 40)?, u16_at(image, 58)?);
    let (count, names) = (u16_at(image, 60)?, u16_at(image, 62)?);
    let at = |i: usize| section(image, first.checked_add(i.checked_mul(size)?)?);
    let names = at(names)?.bytes;
    let named = |wanted: &str| {
        let mut all = (0..count).filter_map(at);
        all.rfind(|s| text(names, s.name) == Some(wanted))
    };
    let symbols = named(".symtab")?;
    let strings = at(symbols.link)?.bytes;
    let name = |symbol: u32| {
        let at = u32_at(symbols.bytes, (symbol as usize).checked_mul(SYMBOL_BYTES)?)?;
        text(strings, at as usize)
    };
    let found = records(named(".nv.info")?.bytes)?;
    let found: Vec<_> = found
        .into_iter()
        .map(|(symbol, bytes)| Some((name(symbol)?.into(), bytes)))
        .collect::<Option<_>>()?;
    (!found.is_empty()).then(|| found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_of_a_frame_names_its_function() {
        let record = |attribute: u8, symbol: u32, frame: u32| {
            let mut bytes = vec![SIZED, attribute, 8, 0];
            bytes.extend(symbol.to_le_bytes());
            bytes.extend(frame.to_le_bytes());
            bytes
        };
        // A record of another format carries its value in place of the length.
        let other = vec![3, 0x1b, 0xff, 0x00];
        let all = [
            record(FRAME_SIZE, 7, 16),
            other,
            record(0x12, 7, 4096),
            record(FRAME_SIZE, 9, 288),
        ];
        assert_eq!(records(&all.concat()), Some(vec![(7, 16), (9, 288)]));
        assert_eq!(records(&all[2]), Some(Vec::new()));
        assert_eq!(records(&all[3][..9]), None, "a record is cut off");
    }

    #[test]
    fn what_is_no_machine_code_says_nothing() {
        for bytes in [&b""[..], b"\x7fELF", b"//\n// Generated", &[0x7f; 100]] {
            assert_eq!(frames(bytes), None);
        }
        let mut elf = b"\x7fELF\x02".to_vec();
        elf.resize(64, 0xff);
        assert_eq!(frames(&elf), None);
    }
}
