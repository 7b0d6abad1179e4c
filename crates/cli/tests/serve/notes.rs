//! The example site of `guests/notes`: a form, a JSON API and an upload.

use std::path::Path;

use crate::server::{Server, body, field, guest, statuses};

fn server(notes: &Path) -> Server {
    let route = format!("/notes={}", guest("built/notes.wasm").display());
    let directory = format!("{}::/notes", notes.display());
    let args = ["--route", &route, "--dir", &directory];
    Server::with_files(&guest("notes/site"), &args)
}

/// Sends a request of HTTP/1.0, whose answer has no chunks.
fn ask(server: &Server, method: &str, path: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    let request =
        format!("{method} {path} HTTP/1.0\r\n{fields}Content-Length: {length}\r\n\r\n{content}");
    server.exchange(request.as_bytes())
}

fn get(server: &Server, path: &str) -> String {
    ask(server, "GET", path, "", "")
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn notes_are_kept_by_a_form_and_by_an_upload_and_listed_in_json() {
    let notes = tempfile::tempdir().expect("a temporary folder");
    let server = server(notes.path());
    let page = get(&server, "/");
    assert!(body(&page).contains("<form action=\"/notes\""), "{page}");
    assert_eq!(statuses(&get(&server, "/notes.js")), [200]);
    assert_eq!(body(&get(&server, "/notes")), "[]\n");
    let posted = ask(
        &server,
        "POST",
        "/notes",
        FORM,
        "name=first&text=a+b%26c%0A%C3%A9",
    );
    assert_eq!(
        (statuses(&posted), field(&posted, "location")),
        (vec![303], Some("/"))
    );
    let large = "x".repeat(1 << 20);
    let put = ask(&server, "PUT", "/notes/large.txt", "", &large);
    assert_eq!(statuses(&put), [201]);
    assert_eq!(body(&put), "{\"name\":\"large.txt\",\"bytes\":1048576}\n");
    let listed = get(&server, "/notes");
    assert_eq!(field(&listed, "content-type"), Some("application/json"));
    let expected =
        "[{\"name\":\"first\",\"bytes\":8},{\"name\":\"large.txt\",\"bytes\":1048576}]\n";
    assert_eq!(body(&listed), expected);
    assert_eq!(body(&get(&server, "/notes/first")), "a b&c\né");
    assert!(body(&get(&server, "/notes/large.txt")) == large);
    assert_eq!(
        statuses(&ask(&server, "DELETE", "/notes/first", "", "")),
        [200]
    );
    assert_eq!(statuses(&get(&server, "/notes/first")), [404]);
    // Nothing is left of the names under which notes are written.
    let files = std::fs::read_dir(notes.path()).expect("the folder is there");
    assert_eq!(files.count(), 1);
    server.end();
}

#[test]
fn no_request_reaches_beyond_the_notes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("secret"), "s").expect("it is writable");
    let notes = folder.path().join("notes");
    std::fs::create_dir(&notes).expect("a folder");
    let server = server(&notes);
    for (method, path, status) in [
        ("GET", "/notes/../secret", 404),
        ("GET", "/notes/%2e%2e/secret", 404),
        ("PUT", "/notes/../secret", 404),
        ("PUT", "/notes/.hidden", 404),
        ("PUT", "/notes/a/b", 404),
        ("DELETE", "/notes", 405),
        ("PATCH", "/notes/a", 405),
        ("POST", "/notes", 415),
        ("GET", "/notes/none", 404),
    ] {
        let answer = ask(&server, method, path, "", "x");
        assert_eq!(statuses(&answer), [status], "{method} {path}");
        assert!(body(&answer).starts_with("{\"error\":\""), "{answer}");
    }
    for form in [
        "",
        "name=a",
        "text=b",
        "name=..&text=b",
        "name=%zz&text=b",
        "name=%ff&text=b",
    ] {
        let answer = ask(&server, "POST", "/notes", FORM, form);
        assert_eq!(statuses(&answer), [400], "{form}");
    }
    let files = std::fs::read_dir(&notes).expect("the folder is there");
    assert_eq!(files.count(), 0);
    let secret = std::fs::read_to_string(folder.path().join("secret"));
    assert_eq!(secret.expect("it is there"), "s");
    server.end();
}
