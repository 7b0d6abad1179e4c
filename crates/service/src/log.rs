//! The service's log: lines on standard error, from a level on.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What keeps the service from working.
    Error = 0,
    /// What a user may want to change.
    Warn = 1,
    /// Starts and ends of engines.
    Info = 2,
    /// Each client.
    Debug = 3,
}

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// The level with this name.
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::Error, Self::Warn, Self::Info, Self::Debug];
        all.into_iter().find(|level| level.name() == name)
    }
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Sets how much this program logs.
pub fn set_level(level: Level) {
    // The level orders nothing else.
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Logs a line.
pub fn log(level: Level, text: &str) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let (day, hour) = (now.as_secs() / 86_400, now.as_secs() / 3600 % 24);
    let (minute, second) = (now.as_secs() / 60 % 60, now.as_secs() % 60);
    let (year, month, day) = date(day);
    let name = level.name();
    // One write, so that lines of several programs do not mix. A log that cannot be written stops nothing.
    let line = format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z {name} everwarp[{}]: {}\n",
        now.subsec_millis(),
        std::process::id(),
        text.escape_debug()
    );
    drop(std::io::Write::write_all(
        &mut std::io::stderr(),
        line.as_bytes(),
    ));
}

/// The date of a day after 1970-01-01, by the algorithm `civil_from_days` of Howard Hinnant.
fn date(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(19_722), (2023, 12, 31));
        assert_eq!(date(20_779), (2026, 11, 22));
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(Level::of("debug"), Some(Level::Debug));
        assert_eq!(Level::of("loud"), None);
        assert!(Level::Error < Level::Debug);
    }
}
