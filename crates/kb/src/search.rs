//! Ranked search over claims, figures, topics and tags.
//!
//! Scores are BM25's, of the `bm25` crate, summed over the words of the query. A word of the query also stands for
//! the words that it begins, for its synonyms, and, where the findings do not have it, for words that differ from it by
//! a typing error; each of them counts less than the word itself. Two neighbouring words of the query that are
//! neighbours in a finding count more. A phrase in quotes must be in the finding word by word.
//!
//! Why not SQLite's FTS5? There are less than a hundred findings: the index takes less than a millisecond to build,
//! and FTS5 has no typing errors, so that half of the work would be here in any case, in addition to a C library that
//! every first build would compile.

use std::collections::{BTreeMap, BTreeSet};

use bm25::{Embedder, EmbedderBuilder, Scorer};
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::knowledge::Knowledge;
use crate::words::{Stems, split};

/// How often a field's words count.
const TAG_WEIGHT: usize = 3;
const TOPIC_WEIGHT: usize = 2;
/// What another word than the one that was typed is worth.
const PREFIX: f32 = 0.6;
const SYNONYM: f32 = 0.7;
const TYPING_ERROR: f32 = 0.5;
/// What two neighbouring words that are neighbours in a finding add, as a share of their scores.
const NEIGHBOURS: f32 = 0.8;
/// A shorter word is not completed, and has no typing errors.
const LONG: usize = 4;

#[derive(Deserialize)]
struct Synonyms {
    groups: Vec<Vec<String>>,
}

/// A finding and how well it answers a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit<'k> {
    /// The finding.
    #[serde(flatten)]
    pub finding: &'k Finding,
    /// Greater is better; scores of different searches cannot be compared.
    pub score: f32,
}

/// Cuts a text that is stems already.
#[derive(Debug, Default)]
struct Spaces;

impl bm25::Tokenizer for Spaces {
    fn tokenize(&self, text: &str) -> Vec<String> {
        text.split(' ')
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

/// The stems of a finding's fields, each field for itself.
struct Fields(Vec<Vec<String>>);

impl Fields {
    /// Whether these stems follow each other in one field.
    fn has(&self, phrase: &[String]) -> bool {
        let within =
            |field: &Vec<String>| field.windows(phrase.len()).any(|window| window == phrase);
        phrase.is_empty() || self.0.iter().any(within)
    }
}

/// What is searched for.
struct Query {
    /// The words, as stems and as they were typed.
    words: Vec<(String, String)>,
    /// What must be there word by word.
    phrases: Vec<Vec<String>>,
}

/// An index of findings.
pub struct Index<'k> {
    stems: Stems,
    findings: &'k [Finding],
    fields: Vec<Fields>,
    embedder: Embedder<u32, Spaces>,
    scorer: Scorer<usize>,
    vocabulary: BTreeSet<String>,
    /// For a stem, the stems of its synonyms.
    synonyms: BTreeMap<String, BTreeSet<String>>,
}

impl std::fmt::Debug for Index<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} findings)", self.findings.len())
    }
}

impl<'k> Index<'k> {
    /// Makes an index of all findings.
    pub fn new(knowledge: &'k Knowledge) -> Self {
        let stems = Stems::new();
        let findings = knowledge.findings();
        let (mut fields, mut documents) = (Vec::new(), Vec::new());
        let mut vocabulary = BTreeSet::new();
        for finding in findings {
            let topic = knowledge.topics().iter().find(|t| t.name == finding.topic);
            let title = topic.map_or(finding.topic.as_str(), |t| t.title.as_str());
            let tags: Vec<_> = finding.tags.iter().map(|tag| stems.of_text(tag)).collect();
            let plain = [&finding.claim, &finding.number, &finding.hardware]
                .map(|text| stems.of_text(text));
            let title = stems.of_text(title);
            let mut document: Vec<&String> = plain.iter().flatten().collect();
            (0..TAG_WEIGHT).for_each(|_| document.extend(tags.iter().flatten()));
            (0..TOPIC_WEIGHT).for_each(|_| document.extend(&title));
            vocabulary.extend(document.iter().map(|s| (*s).clone()));
            documents.push(join(&document));
            fields.push(Fields(
                plain.into_iter().chain(tags).chain([title]).collect(),
            ));
        }
        let texts: Vec<&str> = documents.iter().map(String::as_str).collect();
        let embedder =
            EmbedderBuilder::<u32, Spaces>::with_tokenizer_and_fit_to_corpus(Spaces, &texts)
                .build();
        let mut scorer = Scorer::new();
        for (number, document) in documents.iter().enumerate() {
            scorer.upsert(&number, embedder.embed(document));
        }
        let synonyms = synonyms(&stems);
        Self {
            stems,
            findings,
            fields,
            embedder,
            scorer,
            vocabulary,
            synonyms,
        }
    }

    /// The findings that answer a search, best first, at most `limit`. Any text may be searched for.
    pub fn search(&self, text: &str, limit: usize) -> Vec<Hit<'k>> {
        let query = self.query(text);
        let alternatives: Vec<_> = query
            .words
            .iter()
            .map(|(stem, typed)| self.alternatives(stem, typed))
            .collect();
        let mut hits: Vec<_> = (0..self.findings.len())
            .filter(|&number| {
                query
                    .phrases
                    .iter()
                    .all(|phrase| self.fields[number].has(phrase))
            })
            .map(|number| Hit {
                finding: &self.findings[number],
                score: self.score(number, &query, &alternatives),
            })
            .filter(|hit| hit.score > 0.0)
            .collect();
        hits.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(a.finding.id.cmp(&b.finding.id))
        });
        hits.truncate(limit);
        hits
    }

    fn query(&self, text: &str) -> Query {
        let quoted = text.split('"').skip(1).step_by(2);
        // A quote that is not closed is a character like any other.
        let pairs = text.matches('"').count() / 2;
        let phrases = quoted.take(pairs).map(|phrase| self.stems.of_text(phrase));
        let typed: Vec<String> = split(text).collect();
        let mut words: Vec<_> = typed
            .iter()
            .filter_map(|word| Some((self.stems.of_text(word).pop()?, word.clone())))
            .collect();
        // `file system` also finds `filesystem`.
        let joined = typed.windows(2).map(|pair| pair.concat());
        words.extend(
            joined
                .map(|word| (self.stems.of(&word), word))
                .filter(|(stem, _)| self.vocabulary.contains(stem)),
        );
        Query {
            words,
            phrases: phrases.filter(|p| !p.is_empty()).collect(),
        }
    }

    /// The words of the findings that a typed word stands for, and what each is worth.
    fn alternatives(&self, stem: &str, typed: &str) -> BTreeMap<String, f32> {
        let mut found = BTreeMap::new();
        if self.vocabulary.contains(stem) {
            found.insert(stem.to_owned(), 1.0);
        }
        for synonym in self.synonyms.get(stem).into_iter().flatten() {
            found.entry(synonym.clone()).or_insert(SYNONYM);
        }
        if typed.len() < LONG {
            return found;
        }
        for word in &self.vocabulary {
            if word.starts_with(typed) || word.starts_with(stem) {
                found.entry(word.clone()).or_insert(PREFIX);
            }
        }
        if found.is_empty() {
            let allowed = if typed.len() < 2 * LONG { 1 } else { 2 };
            let near = |word: &String, typed| strsim::osa_distance(word, typed) <= allowed;
            let words = self.vocabulary.iter();
            let words = words.filter(|word| near(word, stem) || near(word, typed));
            found.extend(words.map(|word| (word.clone(), TYPING_ERROR)));
        }
        found
    }

    fn score(&self, number: usize, query: &Query, alternatives: &[BTreeMap<String, f32>]) -> f32 {
        let of_word = |word: &str| {
            let embedding = self.embedder.embed(word);
            self.scorer.score(&number, &embedding).unwrap_or(0.0)
        };
        let best = |words: &BTreeMap<String, f32>| {
            let worths = words.iter().map(|(word, worth)| worth * of_word(word));
            worths.fold(0.0, f32::max)
        };
        let scores: Vec<f32> = alternatives.iter().map(best).collect();
        let pairs = query.words.windows(2).zip(scores.windows(2));
        let neighbours = pairs
            .filter(|(words, _)| self.fields[number].has(&[words[0].0.clone(), words[1].0.clone()]))
            .map(|(_, scores)| NEIGHBOURS * (scores[0] + scores[1]));
        scores.iter().sum::<f32>() + neighbours.sum::<f32>()
    }
}

fn join(words: &[&String]) -> String {
    words
        .iter()
        .map(|w| w.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// For each stem the stems of its synonyms. A synonym of several words stands for all of them.
fn synonyms(stems: &Stems) -> BTreeMap<String, BTreeSet<String>> {
    let file: Synonyms =
        toml::from_str(include_str!("../data/synonyms.toml")).expect("a test reads the synonyms");
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for group in file.groups {
        let words: Vec<_> = group.iter().map(|word| stems.of_text(word)).collect();
        for word in words.iter().filter(|word| word.len() == 1) {
            let others = words
                .iter()
                .filter(|other| *other != word)
                .flatten()
                .cloned();
            found.entry(word[0].clone()).or_default().extend(others);
        }
    }
    found
}
