//! Stack frames of an image's functions, read from its machine code.
//!
//! Compiled modules call each other to a depth that only the run decides, so the driver cannot know how
//! much stack a thread needs. The machine code says how large each function's frame is, in sections called
//! `.nv.info`: records of a format byte, an attribute byte and a 16-bit length or value. The attribute
//! wanted is the frame's size, a symbol's number and the bytes.

/// The format whose length counts bytes that follow.
const SIZED: u8 = 4;
const FRAME_SIZE: u8 = 0x11;

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

/// A section's name offset and bytes.
fn section(image: &[u8], at: usize) -> Option<(usize, &[u8])> {
    let name = u32_at(image, at)? as usize;
    let header = image.get(at..)?;
    let (offset, size) = (u64_at(header, 24)?, u64_at(header, 32)?);
    Some((name, image.get(offset..offset.checked_add(size)?)?))
}

/// The largest frame in a section of records.
fn largest_in(mut records: &[u8]) -> Option<u32> {
    let mut largest = None;
    while records.len() >= 4 {
        let (format, attribute) = (records[0], records[1]);
        let length = if format == SIZED {
            u16_at(records, 2)?
        } else {
            0
        };
        let body = records.get(4..4 + length)?;
        if format == SIZED && attribute == FRAME_SIZE {
            largest = largest.max(Some(u32_at(body, 4)?));
        }
        records = &records[4 + length..];
    }
    largest
}

/// Bytes of the largest stack frame in a cubin, or nothing if it does not say.
pub(crate) fn largest_frame(image: &[u8]) -> Option<u32> {
    if image.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (sections, size) = (u64_at(image, 40)?, u16_at(image, 58)?);
    let (count, names) = (u16_at(image, 60)?, u16_at(image, 62)?);
    let header = |i: usize| sections.checked_add(i * size);
    let (_, names) = section(image, header(names)?)?;
    let mut largest = None;
    for i in 0..count {
        let Some((name, bytes)) = header(i).and_then(|at| section(image, at)) else {
            continue;
        };
        if names
            .get(name..)
            .is_some_and(|n| n.starts_with(b".nv.info\0"))
        {
            largest = largest.max(largest_in(bytes));
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_the_frames_counts() {
        let record = |attribute: u8, frame: u32| {
            let mut bytes = vec![SIZED, attribute, 8, 0, 7, 0, 0, 0];
            bytes.extend(frame.to_le_bytes());
            bytes
        };
        // A record of another format carries its value in place of the length.
        let other = vec![3, 0x1b, 0xff, 0x00];
        let records = [
            record(FRAME_SIZE, 16),
            other,
            record(0x12, 4096),
            record(FRAME_SIZE, 288),
            record(FRAME_SIZE, 0),
        ];
        assert_eq!(largest_in(&records.concat()), Some(288));
        assert_eq!(largest_in(&records[2]), None);
        assert_eq!(largest_in(&records[3][..9]), None, "a record is cut off");
    }

    #[test]
    fn what_is_no_machine_code_says_nothing() {
        for bytes in [&b""[..], b"\x7fELF", b"//\n// Generated", &[0x7f; 100]] {
            assert_eq!(largest_frame(bytes), None);
        }
        let mut elf = b"\x7fELF\x02".to_vec();
        elf.resize(64, 0xff);
        assert_eq!(largest_frame(&elf), None);
    }
}
