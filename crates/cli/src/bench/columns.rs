//! The columns of a row, declared once: the file for programs, the page and the table on the terminal are all made
//! from [`COLUMNS`], so a new column appears in each of them.

use super::stats::{Role, Row};
use super::table::{rate, raw, time, verdict};

/// How the table on the terminal shows a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InTable {
    /// It does not.
    No,
    /// Left-aligned, with this width.
    Left(usize),
    /// Right-aligned, with this width.
    Right(usize),
    /// Joined with other notes at the end of the line, if there is any text.
    Note,
}

/// How the page shows a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPage {
    /// It does not.
    No,
    Number,
    Text,
    /// Text that may take several lines.
    Wide,
}

/// One column of a row.
pub(crate) struct Column {
    /// Its name in the file for programs. Empty if the file does not have it, because other columns give it.
    pub(crate) name: &'static str,
    /// Its heading for people.
    pub(crate) title: &'static str,
    pub(crate) table: InTable,
    pub(crate) page: InPage,
    /// The exact value, for programs.
    pub(crate) value: fn(&Row) -> String,
    /// The rounded value with its unit, for people.
    pub(crate) text: fn(&Row) -> String,
    /// The CSS class of the text.
    pub(crate) class: fn(&Row) -> &'static str,
}

/// A column that neither the terminal nor the page shows.
const fn column(name: &'static str, value: fn(&Row) -> String) -> Column {
    Column {
        name,
        title: name,
        table: InTable::No,
        page: InPage::No,
        value,
        text: value,
        class: |_| "",
    }
}

/// A column of times in seconds.
const fn seconds(
    name: &'static str,
    title: &'static str,
    value: fn(&Row) -> String,
    text: fn(&Row) -> String,
) -> Column {
    Column {
        title,
        table: InTable::Right(12),
        page: InPage::Number,
        text,
        ..column(name, value)
    }
}

/// Every column, in the order of the file for programs. The others leave some out.
pub(crate) const COLUMNS: [Column; 23] = [
    column("bench", |r| r.bench.clone()),
    Column {
        table: InTable::Left(18),
        page: InPage::Text,
        ..column("row", |r| r.row.clone())
    },
    Column {
        table: InTable::Right(24),
        page: InPage::Text,
        ..column("case", |r| r.case.clone())
    },
    column("size", |r| {
        r.size.map_or_else(String::new, |s| s.to_string())
    }),
    column("role", |r| role(r.role).to_owned()),
    Column {
        page: InPage::Text,
        ..column("engine", |r| r.engine.clone())
    },
    Column {
        page: InPage::Text,
        ..column("device", |r| r.device.clone())
    },
    Column {
        page: InPage::Wide,
        ..column("what", |r| r.what.clone())
    },
    Column {
        table: InTable::Right(7),
        page: InPage::Number,
        ..column("n", |r| r.n.to_string())
    },
    seconds("min_s", "min", |r| exact(r.min_s), |r| time(r.min_s)),
    seconds(
        "median_s",
        "median",
        |r| exact(r.median_s),
        |r| time(r.median_s),
    ),
    seconds("mean_s", "mean", |r| exact(r.mean_s), |r| time(r.mean_s)),
    seconds("p99_s", "p99", |r| exact(r.p99_s), |r| time(r.p99_s)),
    seconds(
        "spread_s",
        "spread",
        |r| exact(r.spread_s),
        |r| time(r.spread_s),
    ),
    column("units", |r| exact(r.units)),
    column("unit", |r| r.unit.clone()),
    Column {
        title: "rate",
        table: InTable::Right(18),
        page: InPage::Number,
        text: |r| format!("{}{}/s", rate(r.per_second), r.unit),
        ..column("per_second", |r| exact(r.per_second))
    },
    // The time of one unit: the median divided by the units.
    seconds(
        "",
        "each",
        |r| exact(r.median_s / r.units),
        |r| time(r.median_s / r.units),
    ),
    Column {
        title: "result",
        table: InTable::Note,
        page: InPage::Text,
        text: |r| if r.verified { "right" } else { "WRONG" }.to_owned(),
        class: |r| if r.verified { "" } else { "bad" },
        ..column("verified", |r| r.verified.to_string())
    },
    Column {
        title: "against the fastest rival",
        table: InTable::Note,
        page: InPage::Wide,
        text: |r| verdict(r).unwrap_or_default(),
        class: |r| match r.advantage() {
            Some(a) if a < 1.0 => "loss",
            Some(_) => "win",
            None => "",
        },
        ..column("rival", |r| {
            r.rivals.first().map_or_else(String::new, |v| v.row.clone())
        })
    },
    column("rival_median_s", |r| {
        r.rivals
            .first()
            .map_or_else(String::new, |v| exact(v.median_s))
    }),
    Column {
        title: "against the others",
        page: InPage::Wide,
        text: others,
        class: |_| "note",
        ..column("advantage", |r| {
            r.advantage().map_or_else(String::new, exact)
        })
    },
    Column {
        title: "raw limits",
        table: InTable::Note,
        page: InPage::Text,
        text: |r| {
            let texts: Vec<String> = raw(r).iter().map(|t| t.trim().to_owned()).collect();
            texts.join("; ")
        },
        ..column("raw", |r| {
            let pairs: Vec<String> = r.raw.iter().map(|(n, v)| format!("{n}={v:e}")).collect();
            pairs.join(";")
        })
    },
];

/// The columns of the file for programs, without its last one, the note about a row that was not measured.
pub(crate) fn for_programs() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|c| !c.name.is_empty())
}

/// The columns of the page.
pub(crate) fn for_page() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|c| c.page != InPage::No)
}

/// A number with all of its digits.
fn exact(value: f64) -> String {
    format!("{value:e}")
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Ours => "ours",
        Role::Rival => "rival",
        Role::Limit => "limit",
    }
}

/// The advantage over every rival but the fastest.
fn others(row: &Row) -> String {
    let others = row.rivals.iter().skip(1);
    let texts: Vec<String> = others
        .map(|r| format!("{:.2} x {}", row.over(r), r.row))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shown_column_has_a_heading_and_no_name_occurs_twice() {
        let mut names: Vec<&str> = for_programs().map(|c| c.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for column in &COLUMNS {
            let shown = column.table != InTable::No || column.page != InPage::No;
            assert!(
                shown || !column.name.is_empty(),
                "a column that nothing shows"
            );
            assert!(!column.title.is_empty());
        }
    }
}
