//! All findings, by topic and by number.

use crate::error::KbError;
use crate::finding::{Finding, FindingId, Topic, TopicFile};
use crate::words::slug;

/// Lists the files of `data` by their topics' names.
macro_rules! topics {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../data/", $name, ".toml")))),*]
    };
}

/// The topics, in the order in which they are shown.
const TOPICS: &[(&str, &str)] = topics! {
    "persistent-kernels"
    "scheduling"
    "megakernels"
    "task-graphs"
    "gpu-os"
    "placement"
    "data-processing"
    "io"
    "networking"
    "rendering"
    "allocators"
    "roofline"
    "inference"
};

/// Topics and findings.
#[derive(Clone, Debug)]
pub struct Knowledge {
    topics: Vec<Topic>,
    findings: Vec<Finding>,
}

impl Knowledge {
    /// The findings that everwarp comes with.
    pub fn built_in() -> Self {
        let (mut topics, mut findings) = (Vec::new(), Vec::new());
        for &(name, text) in TOPICS {
            let file: TopicFile = toml::from_str(text).expect("a test reads every file of `data`");
            findings.extend(file.findings.into_iter().map(|finding| Finding {
                topic: name.to_owned(),
                ..finding
            }));
            topics.push(Topic {
                name: name.to_owned(),
                title: file.title,
                about: file.about,
                aliases: file.aliases,
            });
        }
        Self { topics, findings }
    }

    /// Adds the findings of a user.
    #[must_use]
    pub fn with(mut self, findings: impl IntoIterator<Item = Finding>) -> Self {
        self.findings.extend(findings);
        self
    }

    /// The topics.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// All findings, by topic.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The findings of a topic.
    pub fn of_topic<'k>(&'k self, topic: &Topic) -> impl Iterator<Item = &'k Finding> + use<'k> {
        let name = topic.name.clone();
        self.findings.iter().filter(move |f| f.topic == name)
    }

    /// The topic with this name, title or alias; case, spaces and hyphens do not matter.
    ///
    /// # Errors
    /// [`KbError::UnknownTopic`], with the nearest.
    pub fn topic(&self, name: &str) -> Result<&Topic, KbError> {
        let wanted = slug(name);
        let is = |topic: &&Topic| names(topic).any(|known| slug(known) == wanted);
        self.topics
            .iter()
            .find(is)
            .ok_or_else(|| KbError::UnknownTopic {
                name: name.to_owned(),
                nearest: self.nearest_topics(name)[0].name.clone(),
            })
    }

    /// All topics, the one whose names are most alike first.
    pub fn nearest_topics(&self, name: &str) -> Vec<&Topic> {
        let wanted = slug(name);
        let alike = |topic: &Topic| {
            let each = names(topic).map(|known| likeness(&slug(known), &wanted));
            each.fold(0.0, f64::max)
        };
        let mut ranked: Vec<_> = self.topics.iter().map(|t| (alike(t), t)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked.into_iter().map(|(_, topic)| topic).collect()
    }

    /// The finding with this number.
    ///
    /// # Errors
    /// [`KbError::UnknownId`], with the nearest.
    pub fn finding(&self, id: FindingId) -> Result<&Finding, KbError> {
        let found = self.findings.iter().find(|f| f.id == id);
        found.ok_or_else(|| KbError::UnknownId {
            id,
            nearest: self
                .findings
                .iter()
                .map(|f| f.id)
                .min_by_key(|known| known.0.abs_diff(id.0))
                .expect("there are findings"),
        })
    }
}

/// All names of a topic.
fn names(topic: &Topic) -> impl Iterator<Item = &str> {
    let aliases = topic.aliases.iter().map(String::as_str);
    [topic.name.as_str(), topic.title.as_str()]
        .into_iter()
        .chain(aliases)
}

/// How alike two names are, from 0 to 1: as a whole, or by the two words that are most alike.
fn likeness(known: &str, wanted: &str) -> f64 {
    let long = |word: &&str| word.len() > 2;
    let pairs = known
        .split('-')
        .filter(long)
        .flat_map(|a| wanted.split('-').filter(long).map(move |b| (a, b)));
    let words = pairs.map(|(a, b)| 0.95 * strsim::jaro_winkler(a, b));
    words.fold(strsim::jaro_winkler(known, wanted), f64::max)
}
