//! The little of Markdown that the checks need.

/// A fenced block of code.
pub(crate) struct Block<'t> {
    /// The line before the fence that is not empty.
    pub(crate) before: &'t str,
    /// The word after the opening fence.
    pub(crate) language: &'t str,
    /// The lines between the fences, each with its end.
    pub(crate) code: &'t str,
    /// Where the code is in the document, in bytes.
    start: usize,
}

/// The fenced blocks of a document.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut list = Vec::new();
    let mut before = "";
    let mut open: Option<(&str, &str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        match (trimmed.strip_prefix("```"), open) {
            (Some(_), Some((before, language, start))) => {
                list.push(Block {
                    before,
                    language,
                    code: &text[start..at],
                    start,
                });
                open = None;
            }
            (Some(language), None) => open = Some((before, language, at + line.len())),
            (None, Some(_)) => {}
            (None, None) if !trimmed.is_empty() => before = trimmed,
            (None, None) => {}
        }
        at += line.len();
    }
    assert!(open.is_none(), "a fenced block is not closed");
    list
}

/// The document with the code of some blocks replaced.
pub(crate) fn with_code(text: &str, mut code: impl FnMut(&Block<'_>) -> Option<String>) -> String {
    let mut out = String::new();
    let mut at = 0;
    for block in blocks(text) {
        if let Some(code) = code(&block) {
            out += &text[at..block.start];
            out += &code;
            at = block.start + block.code.len();
        }
    }
    out + &text[at..]
}

/// The document without its fenced and indented blocks.
pub(crate) fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// The code spans of a document's prose, each with the text that follows it up to the next one.
pub(crate) fn spans(prose: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = prose.split('`').collect();
    let spans = parts.iter().skip(1).step_by(2);
    let after = parts.iter().skip(2).step_by(2);
    spans.copied().zip(after.copied()).collect()
}

/// The name that a link uses for a heading, as GitHub and mdBook make it.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}
