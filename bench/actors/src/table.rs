//! Puts the results of all systems into one table.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// The systems, with the files that `bench/actors/run` writes.
const SYSTEMS: [&str; 4] = ["everwarp", "kameo", "ractor", "actix"];

/// Prints a table of a folder.
pub fn print(folder: &Path) -> Result<(), String> {
    // By row and case, in the order of the first system: the rows of each system.
    let mut order: Vec<(String, String)> = Vec::new();
    let mut all: BTreeMap<(String, String, usize), Value> = BTreeMap::new();
    for (number, system) in SYSTEMS.into_iter().enumerate() {
        for row in rows(folder, system)? {
            let text = |key: &str| row[key].as_str().unwrap_or("").to_owned();
            let key = (text("row"), text("case"));
            if row["verified"] != Value::Bool(true) {
                return Err(format!("{system}: {} {} is not verified", key.0, key.1));
            }
            if !order.contains(&key) {
                order.push(key.clone());
            }
            all.insert((key.0, key.1, number), row);
        }
    }
    println!("| row | size | unit | everwarp | kameo | ractor | actix | best peer |");
    println!("|---|---:|---|---:|---:|---:|---:|---:|");
    for (row, case) in order {
        let of = |number| all.get(&(row.clone(), case.clone(), number));
        let rate = |number| of(number).and_then(|row| row["per_second"].as_f64());
        let shown = |number| match (rate(number), of(number)) {
            (Some(_), Some(found)) if row == "ask_from_host" => {
                let us = |key: &str| found[key].as_f64().unwrap_or(0.0) * 1e6;
                format!("{:.1} us (p99 {:.1})", us("median_s"), us("p99_s"))
            }
            (Some(rate), _) => format!("{:.2} M/s", rate / 1e6),
            _ => "-".to_owned(),
        };
        let peers = (1..SYSTEMS.len()).filter_map(rate).fold(0.0, f64::max);
        let ratio = match rate(0) {
            Some(own) if peers > 0.0 => format!("{:.2} x", own / peers),
            _ => "-".to_owned(),
        };
        let unit = (0..SYSTEMS.len())
            .find_map(|n| of(n)?["unit"].as_str())
            .unwrap_or("");
        println!(
            "| {row} | {case} | {unit} | {} | {} | {} | {} | {ratio} |",
            shown(0),
            shown(1),
            shown(2),
            shown(3)
        );
    }
    Ok(())
}

/// The rows of a system: an object with `rows`, or a line for each.
fn rows(folder: &Path, system: &str) -> Result<Vec<Value>, String> {
    let json =
        |text: &str| serde_json::from_str::<Value>(text).map_err(|e| format!("{system}: {e}"));
    let read = |name: String| std::fs::read_to_string(folder.join(name));
    if let Ok(text) = read(format!("{system}.json")) {
        return Ok(json(&text)?["rows"].as_array().cloned().unwrap_or_default());
    }
    let text = read(format!("{system}.jsonl")).map_err(|e| format!("{system}: {e}"))?;
    text.lines().map(json).collect()
}
