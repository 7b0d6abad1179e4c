//! Compiled code changed in ways that the compiler does not offer, to see what they would bring: with a part
//! of its semantics taken out, which is only right for programs that never need what is missing; or with the
//! memories of a warp's instances interleaved.

/// What can be taken out.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Part {
    /// That an access lies in linear memory.
    Bounds,
    /// That an access may be unaligned.
    Alignment,
    /// That loops use up fuel and look at the kill word.
    Fuel,
    /// That every NaN is the same one.
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

/// How many of the next lines a part is, and what takes their place.
fn take_out(part: Part, lines: &[&str]) -> Option<(usize, String)> {
    let (first, second) = (lines[0], *lines.get(1)?);
    let words = |line: &str| -> Vec<String> {
        let parts = line.trim().trim_end_matches(';').split([' ', ',']);
        parts.filter(|w| !w.is_empty()).map(str::to_owned).collect()
    };
    let w = words(first);
    let is = |i: usize, text: &str| w.get(i).is_some_and(|w| w == text);
    match part {
        Part::Bounds if is(0, "setp.gt.u64") && is(3, "%len") => {
            second.contains(" bra ").then(|| (2, String::new()))
        }
        Part::Alignment if is(0, "and.b32") && second.contains("setp.ne.s32") => {
            let mask = ["1", "3", "7"].iter().any(|m| is(3, m));
            mask.then(|| (1, format!("  mov.b32 {}, 0;", w[1])))
        }
        Part::Alignment if is(0, "and.b64") => {
            let mask = ["-2", "-4", "-8"].iter().any(|m| is(3, m));
            mask.then(|| (1, format!("  mov.b64 {}, {};", w[1], w[2])))
        }
        // A loop's beginning: what is left is its label.
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

/// Bytes that lie together where the memories of 32 instances are interleaved. No aligned access needs more.
pub(crate) const GRANULE: u64 = 8;

/// The PTX for instances whose memory is at `base + 8 * lane` and goes on 256 bytes further after every 8.
///
/// # Errors
/// It copies within memory, by a helper that is not rewritten.
pub(crate) fn interleaved(ptx: &str) -> Result<String, &'static str> {
    let (mut out, mut base) = (String::with_capacity(2 * ptx.len()), None);
    for line in ptx.lines() {
        if line.contains(" call ") && line.contains("memory_copy") {
            return Err("it copies within memory");
        }
        if line.starts_with(".func") || line.starts_with(".visible") {
            let is = |name: &str| line.contains(&format!(" {name}"));
            base = match () {
                () if is("memory_fill (") || is("memory_fill(") => Some("%d0"),
                () if is("memory_") || is("table_") || is("enter") || is("run") => None,
                () => Some("%mem"),
            };
        }
        match base.and_then(|base| access(line, base)) {
            Some(access) => out.push_str(&access),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    Ok(out)
}

/// An access to linear memory, at its place among the others'.
fn access(line: &str, base: &str) -> Option<String> {
    let (before, rest) = line.split_once("[%d")?;
    if !before.contains("ld.global.") && !before.contains("st.global.") {
        return None;
    }
    let (address, after) = rest.split_once(']')?;
    let (register, offset) = address.split_once('+').unwrap_or((address, "0"));
    Some(format!(
        "  {{
  .reg .b64 %q<2>;
  sub.s64 %q0, %d{register}, {base};
  add.s64 %q0, %q0, {offset};
  and.b64 %q1, %q0, 7;
  sub.s64 %q0, %q0, %q1;
  shl.b64 %q0, %q0, 5;
  add.s64 %q0, %q0, %q1;
  add.s64 %q0, %q0, {base};
{before}[%q0]{after}
  }}"
    ))
}
