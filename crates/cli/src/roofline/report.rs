//! The roofs as a table, in words, and as a plot.

use std::fmt::Write;

use super::measure::Roofs;

/// Operations for each byte, from a sum over memory to a product of small matrices.
const INTENSITIES: [f64; 2] = [1.0 / 64.0, 64.0];

fn giga(rate: f64) -> String {
    format!("{:.1}", rate / 1e9)
}

/// How many operations for each byte of memory keep the cores busy.
fn ridge(roofs: &Roofs) -> f64 {
    roofs.flops / roofs.memory.last().map_or(1.0, |memory| memory.read)
}

/// The table, and what it says in words.
pub(super) fn text(roofs: &Roofs) -> String {
    let mut text = format!("{}, {} threads\n", roofs.device, roofs.threads);
    let (set, read, write, copy) = ("working set", "read GB/s", "write GB/s", "copy GB/s");
    let _ = writeln!(text, "{set:>12} {read:>10} {write:>10} {copy:>10}");
    for memory in &roofs.memory {
        let (read, write, copy) = (giga(memory.read), giga(memory.write), giga(memory.copy));
        let _ = writeln!(
            text,
            "{:>12} {read:>10} {write:>10} {copy:>10}",
            memory.name
        );
    }
    let _ = writeln!(text, "64-bit operations: {} G/s", giga(roofs.flops));
    let _ = writeln!(
        text,
        "atomic additions: {} G/s on words of their own, {:.3} G/s on one word",
        giga(roofs.atomics_own),
        roofs.atomics_shared / 1e9
    );
    let _ = writeln!(
        text,
        "A program whose data does not fit the caches is bound by memory below {:.1} operations for each byte that it \
         reads, and by arithmetic above. A word that all threads change bounds them to {:.0} times fewer changes than \
         words of their own.",
        ridge(roofs),
        (roofs.atomics_own / roofs.atomics_shared).max(1.0)
    );
    text
}

/// A plot of operations a second over operations for each byte, on logarithmic axes: one slope for each working set.
pub(super) fn svg(roofs: &Roofs) -> String {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 420.0;
    const LEFT: f64 = 70.0;
    const BOTTOM: f64 = 50.0;
    let [least, most] = INTENSITIES;
    let slowest = roofs.memory.iter().map(|m| m.read).fold(f64::MAX, f64::min);
    let (low, high) = ((slowest * least).log10(), (roofs.flops * 2.0).log10());
    let x = |intensity: f64| {
        LEFT + (intensity / least).log10() / (most / least).log10() * (WIDTH - LEFT - 20.0)
    };
    let y = |rate: f64| {
        HEIGHT - BOTTOM - (rate.log10() - low) / (high - low) * (HEIGHT - BOTTOM - 30.0)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"18\">Roofs of {}, \
         {} threads</text>\n",
        roofs.device, roofs.threads
    );
    for (number, memory) in roofs.memory.iter().enumerate() {
        let knee = (roofs.flops / memory.read).clamp(least, most);
        let colour = ["#c0392b", "#e67e22", "#8e44ad", "#1f77b4"][number % 4];
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
            x(least),
            y(memory.read * least),
            x(knee),
            y((memory.read * knee).min(roofs.flops)),
            x(most),
            y((memory.read * most).min(roofs.flops)),
        );
        let at = HEIGHT - BOTTOM - 16.0 * (roofs.memory.len() - number) as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{at}\" fill=\"{colour}\">{}: {} GB/s</text>",
            WIDTH - 190.0,
            memory.name,
            giga(memory.read)
        );
    }
    for power in -6..=6 {
        let intensity = 2_f64.powi(power);
        let label = match power < 0 {
            true => format!("1/{}", 2_u32.pow(power.unsigned_abs())),
            false => format!("{intensity}"),
        };
        let (at, under) = (x(intensity), HEIGHT - BOTTOM + 16.0);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{under}\" text-anchor=\"middle\">{label}</text>"
        );
    }
    for power in low.ceil() as i32..=high.floor() as i32 {
        let at = y(10_f64.powi(power));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">1e{power}</text>",
            WIDTH - 20.0,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">operations for each byte read</text>\n</svg>",
        (LEFT + WIDTH) / 2.0,
        HEIGHT - 12.0
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::super::measure::Memory;
    use super::*;

    fn roofs() -> Roofs {
        let memory = |name, read| Memory {
            bytes: 1,
            name,
            read,
            write: read / 2.0,
            copy: read,
        };
        Roofs {
            device: "a machine".to_owned(),
            threads: 2,
            memory: vec![memory("16 KiB", 200e9), memory("64 MiB", 20e9)],
            flops: 40e9,
            atomics_own: 1e9,
            atomics_shared: 0.05e9,
        }
    }

    #[test]
    fn the_words_name_what_bounds() {
        let text = text(&roofs());
        for part in [
            "a machine, 2 threads\n",
            "      16 KiB      200.0      100.0      200.0\n",
            "64-bit operations: 40.0 G/s",
            "1.0 G/s on words of their own, 0.050 G/s on one word",
            "below 2.0 operations for each byte",
            "20 times fewer changes",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }

    #[test]
    fn the_plot_has_a_roof_for_each_working_set_within_its_frame() {
        let svg = svg(&roofs());
        assert_eq!(svg.matches("<polyline").count(), 2);
        for points in svg.split("points=\"").skip(1) {
            let points = &points[..points.find('"').expect("the attribute ends")];
            for point in points.split(' ') {
                let (x, y) = point.split_once(',').expect("two numbers");
                let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
                assert!(
                    (69.0..=721.0).contains(&x) && (0.0..=420.0).contains(&y),
                    "{point}"
                );
            }
        }
    }
}
