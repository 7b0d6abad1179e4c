//! The findings themselves: complete, unique and searchable.

use std::collections::HashSet;

use everwarp_kb::{FindingId, Index, KbError, Knowledge};

#[test]
fn every_finding_is_complete() {
    let knowledge = Knowledge::built_in();
    assert_eq!(knowledge.findings().len(), 71);
    assert!((10..=14).contains(&knowledge.topics().len()));
    let mut ids = HashSet::new();
    for finding in knowledge.findings() {
        assert!(ids.insert(finding.id), "{} is there twice", finding.id);
        assert!(finding.id < FindingId::FIRST_OF_USERS);
        assert!(
            finding.claim.len() > 30,
            "{}: {}",
            finding.id,
            finding.claim
        );
        assert!(
            finding.source.starts_with("https://"),
            "{}: {}",
            finding.id,
            finding.source
        );
        assert!(!finding.tags.is_empty(), "{} has no tags", finding.id);
        assert!(knowledge.topic(&finding.topic).is_ok());
    }
    let names = knowledge
        .topics()
        .iter()
        .flat_map(|t| t.aliases.iter().chain([&t.name]));
    let mut seen = HashSet::new();
    for name in names {
        assert!(seen.insert(name.clone()), "two topics are called {name}");
    }
    let size: usize = knowledge
        .findings()
        .iter()
        .map(|f| f.claim.len() + f.source.len())
        .sum();
    assert!(size < 1 << 20);
}

#[test]
fn old_names_of_topics_lead_to_new_ones() {
    let knowledge = Knowledge::built_in();
    for (old, new) in [
        ("Persistent kernel architecture", "persistent-kernels"),
        ("GPU-centric OS", "gpu-os"),
        ("gpu-filesystem", "io"),
        ("GPU font rendering", "rendering"),
        ("Real-world architectures", "inference"),
        ("NPU-PIM unified memory architecture", "placement"),
        (
            "GPU+NPU cooperative LLM inference on mobile SoC",
            "placement",
        ),
    ] {
        assert_eq!(
            knowledge.topic(old).expect("it is an alias").name,
            new,
            "{old}"
        );
    }
}

#[test]
fn unknown_names_and_numbers_get_the_nearest() {
    let knowledge = Knowledge::built_in();
    match knowledge.topic("shedulling") {
        Err(KbError::UnknownTopic { nearest, .. }) => assert_eq!(nearest, "scheduling"),
        other => panic!("{other:?}"),
    }
    match knowledge.finding(FindingId(458_000)) {
        Err(KbError::UnknownId { nearest, .. }) => assert_eq!(nearest, FindingId(550)),
        other => panic!("{other:?}"),
    }
}

/// For each search, the findings that may come first; the first two must be among them, if there are two.
const PINNED: &[(&str, &[u32])] = &[
    ("persistent kernel", &[291, 438, 439, 440, 473]),
    ("megakernel", &[447, 448, 449, 450]),
    ("GPU scheduling", &[298, 443, 444, 445, 446, 461, 510, 360]),
    ("LithOS", &[459, 460, 510]),
    ("GPU database", &[311, 470]),
    ("GPU filesystem", &[339]),
    ("work graphs", &[294, 296, 352, 452]),
    ("llama.cpp Metal", &[370, 376, 462, 463, 464]),
    ("work queue", &[291, 439, 449]),
    ("kernel fusion", &[447, 376, 449, 454, 466]),
    ("dispatch overhead", &[451]),
    ("GPU sort", &[321]),
    ("JSON parsing", &[330, 472]),
    ("direct SSD", &[343]),
    ("DPDK", &[473]),
    ("indirect command buffer", &[301, 440, 453]),
    ("MPSGraph", &[356, 454]),
    ("arithmetic intensity", &[476, 478]),
    ("STREAM benchmark", &[477]),
];

#[test]
fn searches_find_what_their_words_say_first() {
    let knowledge = Knowledge::built_in();
    let index = Index::new(&knowledge);
    for (words, expected) in PINNED {
        let hits = index.search(words, 5);
        let ids: Vec<u32> = hits.iter().map(|hit| hit.finding.id.0).collect();
        assert!(
            ids.first().is_some_and(|id| expected.contains(id)),
            "{words}: {ids:?}"
        );
        let near = expected.len().min(2);
        assert!(
            ids.iter().take(near).all(|id| expected.contains(id)),
            "{words}: {ids:?}"
        );
    }
}

#[test]
fn stems_prefixes_and_typing_errors_are_found() {
    let knowledge = Knowledge::built_in();
    let index = Index::new(&knowledge);
    let first = |words: &str| index.search(words, 1).first().map(|hit| hit.finding.id.0);
    assert_eq!(first("DPKD"), Some(473));
    assert_eq!(first("lithso"), first("lithos"));
    assert!([447, 448, 449, 450].contains(&first("megakern").expect("a prefix")));
    assert!([447, 448, 449, 450].contains(&first("megakernels").expect("a plural")));
    assert_eq!(first("file system for GPU code"), Some(339));
    assert_eq!(first("\"radix sort\""), Some(321));
    assert_eq!(first("\"sort radix\""), None);
}

#[test]
fn no_search_fails_because_of_what_was_typed() {
    let knowledge = Knowledge::built_in();
    let index = Index::new(&knowledge);
    for text in [
        "",
        " ",
        "\"",
        "\"\"",
        "'; DROP TABLE findings; --",
        "NEAR(",
        "*",
        "a AND",
        "🦀",
        "\u{0}",
        "ß…—",
        "((((",
    ] {
        index.search(text, 10);
    }
    assert!(index.search("xyzzyplugh", 10).is_empty());
    assert_eq!(index.search("gpu", 3).len(), 3);
}
