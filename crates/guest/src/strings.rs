//! Arguments, environment and standard input as device code reads them.

use crate::SpawnError;
use crate::config::Strings;
use crate::layout::STRINGS_HEAD;

/// Bytes before the first string.
const HEAD: usize = STRINGS_HEAD as usize;

/// Adds what follows to the bytes: eight words (how many arguments, their bytes, how many variables, their bytes,
/// where standard input begins, its bytes, how many of them have been read, nothing), then the strings, each with a
/// zero behind it, then standard input.
pub(crate) fn encode(strings: &Strings, bytes: &mut Vec<u8>) -> Result<(), SpawnError> {
    let begin = bytes.len();
    bytes.extend_from_slice(&[0; HEAD]);
    let text = bytes.len();
    for arg in &strings.args {
        add(&[arg], bytes)?;
    }
    let variables = bytes.len();
    for (name, value) in &strings.env {
        add(&[name, "=", value], bytes)?;
    }
    let variables_end = bytes.len();
    bytes.resize(variables_end.next_multiple_of(16), 0);
    let input = bytes.len();
    bytes.extend_from_slice(strings.stdin.as_deref().unwrap_or_default());
    let end = bytes.len();
    if end - text >= 1 << 31 {
        let bytes = end - text;
        return Err(SpawnError::TooLong { bytes });
    }
    let (args, env) = (strings.args.len(), strings.env.len());
    let head = [
        args,
        variables - text,
        env,
        variables_end - variables,
        input - begin,
        end - input,
    ];
    for (at, number) in (begin..).step_by(4).zip(head) {
        bytes[at..at + 4].copy_from_slice(&(number as u32).to_le_bytes());
    }
    Ok(())
}

/// Adds a string of these parts.
fn add(parts: &[&str], bytes: &mut Vec<u8>) -> Result<(), SpawnError> {
    for part in parts {
        if part.contains('\0') {
            let what = parts.concat();
            return Err(SpawnError::ZeroByte { what });
        }
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes.push(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bytes_come_first() {
        let strings = Strings {
            args: vec!["a".into(), "".into()],
            env: vec![("K".into(), "v w".into())],
            stdin: Some("typed".into()),
        };
        let mut bytes = Vec::new();
        encode(&strings, &mut bytes).expect("there are no zeros");
        let words: Vec<_> = bytes[..HEAD].chunks(4).map(|w| w[0]).collect();
        assert_eq!(words, [2, 3, 1, 6, 48, 5, 0, 0]);
        assert_eq!(&bytes[HEAD..41], b"a\0\0K=v w\0");
        assert_eq!(&bytes[48..], b"typed");
    }

    #[test]
    fn a_zero_byte_is_named() {
        let args = vec!["fine".into(), "not\0fine".into()];
        let strings = Strings {
            args,
            ..Strings::default()
        };
        let error = encode(&strings, &mut Vec::new()).expect_err("a C string ends there");
        assert!(error.to_string().contains("not\\0fine"), "{error}");
    }
}
