//! Words of a text as the search compares them.

use rust_stemmers::{Algorithm, Stemmer};

/// Words that say nothing about a topic.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "by", "can", "do", "does", "for", "from", "how", "i",
    "in", "into", "is", "it", "its", "my", "of", "on", "or", "should", "that", "the", "their",
    "them", "to", "what", "when", "which", "why", "with",
];

/// Makes one form of a name: lower case, with hyphens in the place of everything that is neither letter nor digit.
pub(crate) fn slug(name: &str) -> String {
    split(name).collect::<Vec<_>>().join("-")
}

/// The words of a text in lower case. A word is letters and digits; everything else separates words.
pub(crate) fn split(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Cuts words down to their stems.
pub(crate) struct Stems(Stemmer);

impl std::fmt::Debug for Stems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stems")
    }
}

impl Stems {
    pub(crate) fn new() -> Self {
        Self(Stemmer::create(Algorithm::English))
    }

    /// The stem of one word. The algorithm takes `gpus` for a Latin noun, so the plurals of processors are listed.
    pub(crate) fn of(&self, word: &str) -> String {
        match word {
            "gpus" | "cpus" | "npus" | "tpus" => word[..3].to_owned(),
            _ => self.0.stem(word).into_owned(),
        }
    }

    /// The stems of a text, in order, without stop words.
    pub(crate) fn of_text(&self, text: &str) -> Vec<String> {
        split(text)
            .filter(|word| !STOP_WORDS.contains(&word.as_str()))
            .map(|word| self.of(&word))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_ignore_case_and_separators() {
        assert_eq!(slug("GPU-centric  OS"), "gpu-centric-os");
        assert_eq!(slug("--"), "");
    }

    #[test]
    fn inflected_words_have_one_stem() {
        let stems = Stems::new();
        assert_eq!(stems.of("kernels"), stems.of("kernel"));
        assert_eq!(
            stems.of_text("The scheduling of GPUs"),
            stems.of_text("schedules gpu")
        );
    }
}
