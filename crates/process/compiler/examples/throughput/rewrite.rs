//! Removes a part of the semantics from compiled code, to measure the cost of that part. The result is correct only
//! for programs that never need the part.

/// The parts that can be removed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Part {
    /// Checks that accesses are inside linear memory.
    Bounds,
    /// Support for unaligned accesses.
    Alignment,
    /// Loops that spend fuel and check the kill word.
    Fuel,
    /// Canonical NaNs.
    Nans,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Bounds, Self::Alignment, Self::Fuel, Self::Nans];
}

/// The PTX without these parts.
pub(crate) fn without(ptx: &str, parts: &[Part]) -> String {
    let lines: Vec<&str> = ptx.lines().collect();
    let (mut out, mut at) = (String::with_capacity(ptx.len()), 0);
    while at < lines.len() {
        let found = parts.iter().find_map(|p| take_out(*p, &lines[at..]));
        let (taken, instead) = found.unwrap_or_else(|| (1, lines[at].to_owned()));
        out.push_str(&instead);
        out.push('\n');
        at += taken;
    }
    out
}

/// If the next lines are this part: the number of lines, and the text that replaces them.
fn take_out(part: Part, lines: &[&str]) -> Option<(usize, String)> {
    let (first, second) = (lines[0], *lines.get(1)?);
    let words = |line: &str| -> Vec<String> {
        let parts = line.trim().trim_end_matches(';').split([' ', ',']);
        parts.filter(|w| !w.is_empty()).map(str::to_owned).collect()
    };
    let w = words(first);
    let is = |i: usize, text: &str| w.get(i).is_some_and(|w| w == text);
    match part {
        Part::Bounds if is(0, "sub.s32") && is(2, "%low") => {
            lines.get(2)?.contains(" bra ").then(|| (3, String::new()))
        }
        Part::Alignment if is(0, "and.b32") && second.contains("setp.ne.s32") => {
            let mask = ["1", "3", "7"].iter().any(|m| is(3, m));
            mask.then(|| (1, format!("  mov.b32 {}, 0;", w[1])))
        }
        Part::Alignment if is(0, "and.b64") => {
            let mask = ["-2", "-4", "-8"].iter().any(|m| is(3, m));
            mask.then(|| (1, format!("  mov.b64 {}, {};", w[1], w[2])))
        }
        // Of a loop's beginning only the label remains.
        Part::Fuel if is(0, "mov.b64") && second.ends_with("%fl, %lim;") => {
            let label = (*lines.get(3)?).to_owned();
            lines.get(5)?.contains("%fuel").then_some((6, label))
        }
        Part::Nans if is(0, "setp.nan.f64") || is(0, "setp.nan.f32") => {
            let select = words(second);
            let same = select[0].starts_with("selp.b") && select.get(4) == w.get(1);
            let size = &select[0][4..];
            same.then(|| (2, format!("  mov{size} {}, {};", select[1], select[3])))
        }
        _ => None,
    }
}
