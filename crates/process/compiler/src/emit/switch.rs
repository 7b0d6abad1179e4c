//! Branches to one of several places by a number, without a list of their addresses.

use std::fmt::Display;

use crate::text::line;

/// Branches to the label with the number in a register; beyond the end, to the last.
///
/// The assembler keeps lists of targets in constants of the kernel that it assembles or links, where code that is loaded next to a
/// kernel has none. It makes a list of comparisons with one number after another, too, but not of these.
pub(crate) fn by_halves<L: Display + PartialEq>(
    out: &mut String,
    index: &dyn Display,
    pred: &dyn Display,
    labels: &[L],
    mut fresh: impl FnMut() -> L,
) {
    let mut ranges = vec![(0, labels.len(), None)];
    while let Some((begin, end, at)) = ranges.pop() {
        if let Some(at) = at {
            line!(out, "{at}:");
        }
        let same = labels[begin..end].iter().all(|l| *l == labels[begin]);
        if same {
            line!(out, "  bra {};", labels[begin]);
            continue;
        }
        let middle = begin.midpoint(end);
        let upper = fresh();
        line!(out, "  setp.ge.u32 {pred}, {index}, {middle};");
        line!(out, "  @{pred} bra {upper};");
        ranges.push((middle, end, Some(upper)));
        ranges.push((begin, middle, None));
    }
}

/// The same in a function that has no other such branch: to the labels `$F0`, `$F1` and so on, or to others.
pub(crate) fn alone(out: &mut String, index: &str, labels: &[String]) {
    let mut numbers = 0..;
    by_halves(out, &index, &"%p", labels, || {
        format!("$H{}", numbers.next().expect("they do not end"))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the branches of a text with this number.
    fn taken(text: &str, number: usize) -> String {
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        let (mut at, mut above) = (0, false);
        loop {
            let words: Vec<_> = lines[at].trim_end_matches([';', ':']).split(' ').collect();
            at += 1;
            let target = match words[..] {
                ["setp.ge.u32", .., middle] => {
                    above = number >= middle.parse().expect("it is a number");
                    continue;
                }
                ["@%p", "bra", target] if above => target,
                ["bra", target] => target,
                _ => continue,
            };
            match lines.iter().position(|line| *line == format!("{target}:")) {
                Some(label) => at = label,
                None => return target.to_owned(),
            }
        }
    }

    #[test]
    fn each_number_leads_to_its_label_and_those_beyond_the_end_to_the_last() {
        for count in 1..40 {
            let labels: Vec<_> = (0..count).map(|n| format!("$F{n}")).collect();
            let mut text = String::new();
            alone(&mut text, "%r0", &labels);
            for number in 0..count + 3 {
                assert_eq!(taken(&text, number), labels[number.min(count - 1)]);
            }
        }
        let labels = ["$fail", "$F0", "$F1", "$F1", "$fail"].map(str::to_owned);
        let mut text = String::new();
        alone(&mut text, "%r0", &labels);
        let found = [0, 1, 2, 3, 4, 9].map(|number| taken(&text, number));
        assert_eq!(found, ["$fail", "$F0", "$F1", "$F1", "$fail", "$fail"]);
    }
}
