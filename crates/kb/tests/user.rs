//! A user's own findings: appended, read back, and never lost.

use everwarp_kb::{FindingId, Index, KbError, Knowledge, NewFinding, UserFile};

fn new(claim: &str) -> NewFinding {
    NewFinding {
        topic: "GPU scheduling".to_owned(),
        claim: claim.to_owned(),
        source: "measured here".to_owned(),
        tags: vec!["our \"cluster\"".to_owned()],
        ..NewFinding::default()
    }
}

#[test]
fn added_findings_are_numbered_found_and_keep_comments() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new/findings.toml");
    let file = UserFile::new(&path);
    assert!(file.read().expect("no file is no error").is_empty());
    let first = file
        .add(new("Quokka schedules with \"quotes\"\nand a second line."))
        .expect("it is complete");
    assert_eq!(
        (first.id, first.topic.as_str()),
        (FindingId::FIRST_OF_USERS, "scheduling")
    );
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::write(&path, format!("# mine\n{text}")).expect("it can be edited");
    let second = file.add(new("A second claim.")).expect("it is complete");
    assert_eq!(second.id, FindingId(10_001));
    assert!(
        std::fs::read_to_string(&path)
            .expect("it is there")
            .starts_with("# mine\n")
    );
    let read = file.read().expect("what was written can be read");
    assert_eq!(read, [first, second]);
    let knowledge = Knowledge::built_in().with(read);
    let hits = Index::new(&knowledge).search("quokka", 1);
    assert_eq!(hits[0].finding.id, FindingId::FIRST_OF_USERS);
}

#[test]
fn broken_file_is_named_with_its_line_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("findings.toml");
    let file = UserFile::new(&path);
    for (text, at, what) in [
        ("[[finding]]\nid = 10000\nclaim = \"x\n", 3, ""),
        (
            "# a\n\n[[finding]]\nid = 7\ntopic = \"io\"\nclaim = \"x\"\nsource = \"y\"\n",
            3,
            "from 10000 on",
        ),
        (
            "[[finding]]\nid = 10000\ntopic = \"oi\"\nclaim = \"x\"\nsource = \"y\"\n",
            1,
            "no topic `oi`",
        ),
        (
            "[[finding]]\nid = 10000\ntopic = \"io\"\nclaim = \"x\"\nsource = \"y\"\ncolour = 1\n",
            6,
            "colour",
        ),
    ] {
        std::fs::write(&path, text).expect("it can be written");
        for result in [file.read().map(drop), file.add(new("x")).map(drop)] {
            match result {
                Err(KbError::UserFile { line, message, .. }) => {
                    assert_eq!(line, at, "{text}: {message}");
                    assert!(message.contains(what), "{message}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
    }
}

#[test]
fn incomplete_findings_and_files_that_cannot_be_written_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = UserFile::new(folder.path().join("findings.toml"));
    assert!(matches!(
        file.add(new(" ")),
        Err(KbError::Incomplete { what: "a claim" })
    ));
    let topic = NewFinding {
        topic: "nothing".to_owned(),
        ..new("x")
    };
    assert!(matches!(file.add(topic), Err(KbError::UnknownTopic { .. })));
    // A file in the place of the folder: root may write to folders that are read-only.
    let blocked = folder.path().join("blocked");
    std::fs::write(&blocked, "").expect("it can be written");
    let file = UserFile::new(blocked.join("findings.toml"));
    assert!(matches!(file.add(new("x")), Err(KbError::File { .. })));
    assert_eq!(std::fs::read(&blocked).expect("it is there"), b"");
}
