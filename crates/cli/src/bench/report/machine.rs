//! The machine, the date and the command of a run.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Where and when a run took place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Machine {
    /// Date and time, UTC.
    pub(super) date: String,
    pub(super) command: String,
    pub(super) version: String,
    pub(super) processor: String,
    pub(super) cores: usize,
    pub(super) memory_gib: f64,
    pub(super) system: String,
    /// The NVIDIA driver's version line; empty without a driver.
    pub(super) driver: String,
}

/// The value of the first line in a `key : value` file that starts with this key.
fn field(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

impl Machine {
    pub(super) fn here() -> Self {
        let kib = field("/proc/meminfo", "MemTotal")
            .and_then(|m| m.split_whitespace().next()?.parse::<f64>().ok());
        let args = std::env::args().skip(1);
        let unknown = || "unknown processor".to_owned();
        Self {
            date: date(SystemTime::now()),
            command: ["everwarp".to_owned()]
                .into_iter()
                .chain(args)
                .collect::<Vec<_>>()
                .join(" "),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: kib.unwrap_or(0.0) / f64::from(1 << 20),
            system: format!(
                "{} {}",
                std::env::consts::OS,
                first_line("/proc/sys/kernel/osrelease")
            ),
            driver: field("/proc/driver/nvidia/version", "NVRM version").unwrap_or_default(),
        }
    }
}

/// Now, as `2026-11-21 08:30 UTC`.
pub(crate) fn today() -> String {
    date(SystemTime::now())
}

/// A time as `2026-11-21 08:30 UTC`.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let minutes = seconds / 60 % 1440;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        minutes / 60,
        minutes % 60
    )
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar: years are counted off,
/// then months.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }
}
