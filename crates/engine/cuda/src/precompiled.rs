//! Machine code that was made ahead of its use, by `everwarp compile`, and that the user vouches for.

use everwarp_engine::Linked;

/// The code for an architecture that was made from what this key is the hash of. If there is code, but none that fits,
/// the error says why.
pub(crate) fn find<'l>(
    linked: &'l Linked,
    arch: u32,
    key: &str,
) -> Result<Option<&'l [u8]>, String> {
    let all = &linked.precompiled;
    if all.is_empty() {
        return Ok(None);
    }
    let mut of_arch = all.iter().filter(|code| code.arch == arch).peekable();
    if of_arch.peek().is_none() {
        let mut others: Vec<_> = all.iter().map(|code| code.arch).collect();
        others.sort_unstable();
        others.dedup();
        let others: Vec<_> = others.iter().map(|arch| format!("sm_{arch}")).collect();
        return Err(format!(
            "the file has machine code for {}, and this GPU is an sm_{arch}",
            others.join(", ")
        ));
    }
    match of_arch.find(|code| *code.key == *key) {
        Some(code) => Ok(Some(&code.code)),
        None => Err(format!(
            "the file's machine code for sm_{arch} is of another version of everwarp, or was made with other options"
        )),
    }
}

/// Says on standard error why code is not used.
pub(crate) fn warn(reason: &str) {
    eprintln!(
        "everwarp: warning: {reason}, so the module in the file is compiled; `everwarp compile` makes the file again"
    );
}

#[cfg(test)]
mod tests {
    use everwarp_engine::Precompiled;

    use super::*;

    fn linked(codes: &[(u32, &str, &str)]) -> Linked {
        let code = |&(arch, key, code): &(u32, &str, &str)| Precompiled {
            arch,
            key: key.into(),
            code: code.as_bytes().into(),
        };
        Linked {
            precompiled: codes.iter().map(code).collect(),
            ..Linked::default()
        }
    }

    #[test]
    fn only_code_with_the_same_key_for_the_same_architecture_is_used() {
        let linked = linked(&[
            (80, "k", "old"),
            (90, "other", "not this"),
            (90, "k", "code"),
        ]);
        assert_eq!(find(&linked, 90, "k"), Ok(Some(&b"code"[..])));
        assert_eq!(find(&linked, 80, "k"), Ok(Some(&b"old"[..])));
        let version = find(&linked, 90, "key").expect_err("the key is another one");
        assert!(version.contains("another version"), "{version}");
        let arch = find(&linked, 100, "k").expect_err("there is none");
        assert!(
            arch.contains("sm_80, sm_90,") && arch.contains("sm_100"),
            "{arch}"
        );
    }

    #[test]
    fn where_no_code_is_given_nothing_is_said() {
        assert_eq!(find(&linked(&[]), 90, "k"), Ok(None));
    }
}
