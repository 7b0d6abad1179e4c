//! A user's own findings: one TOML file, to which findings are appended.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::KbError;
use crate::finding::{Confidence, Finding, FindingId};
use crate::knowledge::Knowledge;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    #[serde(default, rename = "finding")]
    findings: Vec<Finding>,
}

/// A finding that is to be added.
#[derive(Clone, Debug, Default)]
pub struct NewFinding {
    /// Its topic, by any of the topic's names.
    pub topic: String,
    /// What was found.
    pub claim: String,
    /// The figures of the claim.
    pub number: String,
    /// The address of the source, or what the source is.
    pub source: String,
    /// The hardware.
    pub hardware: String,
    /// Search words.
    pub tags: Vec<String>,
    /// How sure the user is.
    pub confidence: Confidence,
}

/// The file of a user's findings. Comments in it are kept: findings are only ever appended.
#[derive(Clone, Debug)]
pub struct UserFile(PathBuf);

impl UserFile {
    /// The file at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the findings; none if there is no file.
    ///
    /// # Errors
    /// [`KbError::UserFile`] with the line that is wrong, or [`KbError::File`].
    pub fn read(&self) -> Result<Vec<Finding>, KbError> {
        self.parse(&self.text()?)
    }

    fn text(&self) -> Result<String, KbError> {
        match std::fs::read_to_string(&self.0) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            other => other.map_err(|e| self.failed(e)),
        }
    }

    fn failed(&self, source: std::io::Error) -> KbError {
        KbError::File {
            path: self.0.clone(),
            source,
        }
    }

    fn wrong(&self, line: usize, message: String) -> KbError {
        KbError::UserFile {
            path: self.0.clone(),
            line,
            message,
        }
    }

    fn parse(&self, text: &str) -> Result<Vec<Finding>, KbError> {
        let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let contents: Contents = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |span| line_of(span.start));
            self.wrong(line, e.message().to_owned())
        })?;
        if contents.findings.is_empty() {
            return Ok(Vec::new());
        }
        let knowledge = Knowledge::built_in();
        let mut seen = std::collections::HashSet::new();
        let begins: Vec<usize> = text
            .match_indices("[[finding]]")
            .map(|(at, _)| line_of(at))
            .collect();
        let mut findings = Vec::new();
        for (number, finding) in contents.findings.into_iter().enumerate() {
            let line = begins.get(number).copied().unwrap_or(1);
            let wrong = |message: String| Err(self.wrong(line, message));
            if finding.id < FindingId::FIRST_OF_USERS {
                return wrong(format!(
                    "a finding of your own has a number from {} on, not {}",
                    FindingId::FIRST_OF_USERS,
                    finding.id
                ));
            }
            if !seen.insert(finding.id) {
                return wrong(format!("the number {} is there twice", finding.id));
            }
            if finding.claim.trim().is_empty() || finding.source.trim().is_empty() {
                return wrong("a finding needs a claim and a source".to_owned());
            }
            let topic = match knowledge.topic(&finding.topic) {
                Ok(topic) => topic.name.clone(),
                Err(e) => return wrong(e.to_string()),
            };
            findings.push(Finding { topic, ..finding });
        }
        Ok(findings)
    }

    /// Appends a finding and returns it with its number. The file appears whole or not at all.
    ///
    /// # Errors
    /// The finding is incomplete, its topic unknown, the file broken, or its folder cannot be written to. Nothing is
    /// lost then.
    pub fn add(&self, new: NewFinding) -> Result<Finding, KbError> {
        for (text, what) in [(&new.claim, "a claim"), (&new.source, "a source")] {
            if text.trim().is_empty() {
                return Err(KbError::Incomplete { what });
            }
        }
        let topic = Knowledge::built_in().topic(&new.topic)?.name.clone();
        let folder = self
            .0
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|source| KbError::File {
            path: folder.to_owned(),
            source,
        })?;
        // Two commands that add at the same time come one after the other.
        let lock = File::create(self.0.with_extension("lock")).map_err(|e| self.failed(e))?;
        lock.lock().map_err(|e| self.failed(e))?;
        let before = self.text()?;
        let last = self.parse(&before)?.iter().map(|f| f.id.0 + 1).max();
        let finding = Finding {
            id: FindingId(last.unwrap_or(FindingId::FIRST_OF_USERS.0)),
            topic,
            claim: new.claim,
            number: new.number,
            source: new.source,
            confidence: new.confidence,
            hardware: new.hardware,
            tags: new.tags,
            checks: Vec::new(),
        };
        let after = format!(
            "{before}{}{}",
            if before.is_empty() || before.ends_with('\n') {
                ""
            } else {
                "\n"
            },
            entry(&finding)
        );
        // What is written is what will be read.
        self.parse(&after)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|e| self.failed(e))?;
        file.write_all(after.as_bytes())
            .map_err(|e| self.failed(e))?;
        file.as_file().sync_all().map_err(|e| self.failed(e))?;
        file.persist(&self.0).map_err(|e| self.failed(e.error))?;
        Ok(finding)
    }
}

/// A finding as the file has it.
fn entry(finding: &Finding) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let tags: Vec<_> = finding.tags.iter().map(|tag| quoted(tag)).collect();
    format!(
        "\n[[finding]]\nid = {}\ntopic = {}\nclaim = {}\nnumber = {}\nsource = {}\nconfidence = \"{}\"\nhardware = {}\ntags = [{}]\n",
        finding.id,
        quoted(&finding.topic),
        quoted(&finding.claim),
        quoted(&finding.number),
        quoted(&finding.source),
        finding.confidence,
        quoted(&finding.hardware),
        tags.join(", ")
    )
}
