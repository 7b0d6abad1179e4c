//! What machine code says about its functions: their stack frames, their registers, and whether they need constants.
//!
//! Compiled modules call each other to a depth that only the run decides, so the driver cannot know how much stack a thread
//! needs; and code that is loaded next to a kernel is called by one that was linked without it. The machine code says what each
//! function takes, in sections called `.nv.info`: records of a format byte, an attribute byte and a 16-bit length or value. The
//! attributes wanted hold a symbol's number, and bytes or registers.

use everwarp_engine::Frames;

/// The format whose length counts bytes that follow.
const SIZED: u8 = 4;
const FRAME_SIZE: u8 = 0x11;
const REGISTERS: u8 = 0x2f;
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
        // A section of variables without values has no bytes in the file.
        bytes: image.get(offset..offset.checked_add(size)?).unwrap_or(&[]),
    })
}

/// The records of an attribute in a section: the number of a function's symbol, and the value.
fn records(mut records: &[u8], wanted: u8) -> Option<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    while records.len() >= 4 {
        let (format, attribute) = (records[0], records[1]);
        let length = if format == SIZED {
            u16_at(records, 2)?
        } else {
            0
        };
        let body = records.get(4..4 + length)?;
        if format == SIZED && attribute == wanted {
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

/// A file of machine code.
pub(crate) struct Elf<'i> {
    sections: Vec<Section<'i>>,
    /// The names of sections.
    names: &'i [u8],
}

impl<'i> Elf<'i> {
    /// Reads the headers; `None` if it is no machine code.
    pub(crate) fn new(image: &'i [u8]) -> Option<Self> {
        if image.get(..5)? != b"\x7fELF\x02" {
            return None;
        }
        let (first, size) = (u64_at(image, 40)?, u16_at(image, 58)?);
        let (count, names) = (u16_at(image, 60)?, u16_at(image, 62)?);
        let at = |i: usize| section(image, first.checked_add(i.checked_mul(size)?)?);
        Some(Self {
            sections: (0..count).map(at).collect::<Option<_>>()?,
            names: at(names)?.bytes,
        })
    }

    fn named(&self, wanted: &str) -> Option<Section<'i>> {
        let mut all = self.sections.iter();
        all.rfind(|s| text(self.names, s.name) == Some(wanted))
            .copied()
    }

    /// The value of an attribute for each function that has it, or nothing if none has.
    fn attribute(&self, wanted: u8) -> Option<Frames> {
        let symbols = self.named(".symtab")?;
        let strings = self.strings(symbols.link)?;
        let name = |symbol: u32| {
            let at = u32_at(symbols.bytes, (symbol as usize).checked_mul(SYMBOL_BYTES)?)?;
            text(strings, at as usize)
        };
        let found = records(self.named(".nv.info")?.bytes, wanted)?;
        let found: Vec<_> = found
            .into_iter()
            .map(|(symbol, value)| Some((name(symbol)?.into(), value)))
            .collect::<Option<_>>()?;
        (!found.is_empty()).then(|| found.into_iter().collect())
    }

    fn strings(&self, number: usize) -> Option<&'i [u8]> {
        self.sections.get(number).map(|section| section.bytes)
    }

    /// The stack frames of the functions, or nothing if it does not say.
    pub(crate) fn frames(&self) -> Option<Frames> {
        self.attribute(FRAME_SIZE)
    }

    /// The most registers that a function has, or nothing if it does not say.
    pub(crate) fn registers(&self) -> Option<u32> {
        Some(self.attribute(REGISTERS)?.largest())
    }

    /// The registers of one function or kernel.
    pub(crate) fn registers_of(&self, name: &str) -> Option<u32> {
        let all = self.attribute(REGISTERS)?;
        all.iter().find(|(n, _)| *n == name).map(|(_, count)| count)
    }

    /// Whether functions need constants of their own. Kernels have one for their parameters.
    pub(crate) fn has_constants(&self) -> bool {
        let mut names = self.sections.iter();
        names.any(|section| {
            let name = text(self.names, section.name).and_then(|n| n.strip_prefix(".nv.constant"));
            name.is_some_and(|name| !name.starts_with("0."))
        })
    }
}

/// Whether functions of these files need constants of their own, which only a kernel has that they are linked to. `None` if one is no
/// machine code.
pub(crate) fn has_constants(objects: &[&Vec<u8>]) -> Option<bool> {
    let mut files = objects.iter().map(|object| Elf::new(object));
    files.try_fold(false, |found, elf| Some(found || elf?.has_constants()))
}

/// The stack frames of a cubin's functions, or nothing if it does not say.
pub(crate) fn frames(image: &[u8]) -> Option<Frames> {
    Elf::new(image)?.frames()
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
        assert_eq!(
            records(&all.concat(), FRAME_SIZE),
            Some(vec![(7, 16), (9, 288)])
        );
        assert_eq!(records(&all[2], FRAME_SIZE), Some(Vec::new()));
        assert_eq!(
            records(&all[3][..9], FRAME_SIZE),
            None,
            "a record is cut off"
        );
    }

    #[test]
    fn what_is_no_machine_code_says_nothing() {
        for bytes in [&b""[..], b"\x7fELF", b"//\n// Generated", &[0x7f; 100]] {
            assert_eq!(frames(bytes), None);
            assert_eq!(has_constants(&[&bytes.to_vec()]), None);
        }
        let mut elf = b"\x7fELF\x02".to_vec();
        elf.resize(64, 0xff);
        assert_eq!(frames(&elf), None);
    }
}
