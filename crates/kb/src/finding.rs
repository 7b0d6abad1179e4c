//! Findings and topics as they are written down.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of a finding. Numbers are never reused; those of users begin at [`FindingId::FIRST_OF_USERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FindingId(pub u32);

impl FindingId {
    /// The first number that a user's finding may have.
    pub const FIRST_OF_USERS: Self = Self(10_000);
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FindingId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// How sure the editors are of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The source was read and says so.
    Verified,
    /// The source is a good one, and was not read in full.
    High,
    /// The claim is an opinion or an outlook.
    #[default]
    Medium,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "verified",
            Self::High => "high",
            Self::Medium => "medium",
        })
    }
}

/// Which number of a benchmark row is compared with a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Seconds for each unit, by the median.
    Time,
    /// Units a second, by the median.
    Rate,
    /// Seconds for one whole repetition, by the median.
    Total,
    /// A raw limit that was measured with the row, by its name; in seconds if the name ends in `_s`.
    Raw(String),
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "time" => Ok(Self::Time),
            "rate" => Ok(Self::Rate),
            "total" => Ok(Self::Total),
            other => match other.strip_prefix("raw:") {
                Some(name) => Ok(Self::Raw(name.to_owned())),
                None => Err(serde::de::Error::custom(format!(
                    "`{other}` is no figure: use time, rate, total or raw:NAME"
                ))),
            },
        }
    }
}

impl Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Time => serializer.serialize_str("time"),
            Self::Rate => serializer.serialize_str("rate"),
            Self::Total => serializer.serialize_str("total"),
            Self::Raw(name) => serializer.serialize_str(&format!("raw:{name}")),
        }
    }
}

/// A row of our benchmarks that measures what a finding claims, or something to compare it with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The experiment, as `everwarp bench` calls it.
    pub bench: String,
    /// The part of it that makes the row.
    pub part: String,
    /// The row.
    pub row: String,
    /// The row's case; empty if it has none.
    #[serde(default)]
    pub case: String,
    /// Which number of the row.
    pub figure: Figure,
    /// What our row measures, in words.
    pub what: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Its number.
    pub id: FindingId,
    /// The topic that it belongs to.
    #[serde(default)]
    pub topic: String,
    /// What was found.
    pub claim: String,
    /// The figures of the claim; empty if it has none.
    #[serde(default)]
    pub number: String,
    /// The address of its source.
    pub source: String,
    /// How sure the editors are.
    #[serde(default)]
    pub confidence: Confidence,
    /// The hardware that the source used, where the finding says so.
    #[serde(default)]
    pub hardware: String,
    /// Reviewed search words: what the claim is about in the words of the field.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Rows of our benchmarks that test it.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
}

/// A topic and what older collections call it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topic {
    /// Its name in commands.
    pub name: String,
    /// Its title.
    pub title: String,
    /// One sentence.
    pub about: String,
    /// Other names by which it is found.
    pub aliases: Vec<String>,
}

/// A file of findings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicFile {
    pub(crate) title: String,
    pub(crate) about: String,
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    #[serde(default, rename = "finding")]
    pub(crate) findings: Vec<Finding>,
}
