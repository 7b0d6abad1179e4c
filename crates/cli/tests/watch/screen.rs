//! `everwarp top` on a terminal: keys, a new size, and an end of a process.

use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

#[test]
fn tables_filters_details_and_kills_work_on_a_terminal() {
    let sandbox = Sandbox::new();
    let mut engine = sandbox.looping(3, &["--measure"]);
    let mut command = sandbox.command(&["top", "--every", "0.1"]);
    let mut terminal = Terminal::start(&mut command, 30, 110);
    terminal.expect("the summary", |s| {
        s.contains("2 processes running, 1 waiting")
    });
    terminal.press("6");
    let shown = terminal.expect("the processes", |s| s.contains("waiting for a place"));
    assert_eq!(shown.matches("loop.wasm").count(), 3, "{shown}");

    terminal.press("/2.1");
    terminal.expect("one row", |s| {
        s.matches("loop.wasm").count() == 1 && s.contains("rows with: 2.1_")
    });
    terminal.press("\r/zz\r");
    terminal.expect("no row", |s| s.contains("no processes contain `2.1zz`"));
    terminal.press("\u{1b}");
    terminal.expect("all rows", |s| s.matches("loop.wasm").count() == 3);

    terminal.press("\r");
    terminal.expect("details", |s| {
        s.contains("2 running, 1 waiting for a place") && s.contains("host calls: median")
    });
    terminal.press(" ");
    terminal.expect("no details", |s| !s.contains("host calls: median"));

    // Sorted by the fourth column, the other way round, the last process comes first.
    terminal.press("ssssr");
    let first_row = |s: &str| s.lines().nth(3).is_some_and(|line| line.contains("2.1"));
    terminal.expect("the order", |s| s.contains("PID^") && first_row(s));

    // The screen here cuts what it showed before by itself, so only the last line says that it was drawn again.
    let last_line = |s: &str, row: usize| s.lines().nth(row).is_some_and(|l| l.contains("q quit"));
    terminal.resize(12, 60);
    terminal.expect("the new size", |s| {
        last_line(s, 11) && s.lines().all(|line| line.chars().count() <= 60)
    });
    terminal.resize(30, 110);
    terminal.expect("the old size", |s| last_line(s, 29));

    terminal.press("x");
    terminal.expect("the question", |s| s.contains("end 2.1 of program"));
    terminal.press("n");
    terminal.expect("no end", |s| s.contains("nothing was ended"));
    terminal.press("xy");
    terminal.expect("the end", |s| {
        s.contains("2.1 of program") && s.contains("was asked to end")
    });
    terminal.expect("one fewer", |s| {
        s.contains("2 processes running, 0 waiting")
    });

    terminal.press("d");
    terminal.expect("what can be deactivated", |s| s.contains("only actors"));
    terminal.press("?");
    terminal.expect("the keys", |s| s.contains("deactivate an actor"));
    terminal.press("q");
    terminal.press("1");
    terminal.expect("the engines", |s| s.contains("there are no engines"));

    // The screen stays when the last engine has ended.
    engine.kill();
    terminal.expect("the end of the engine", |s| {
        s.contains("no engine runs any more")
    });
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn ctrl_c_ends_it_and_restores_the_terminal() {
    let sandbox = Sandbox::new();
    let _engine = sandbox.looping(2, &[]);
    let mut terminal = Terminal::start(&mut sandbox.command(&["top"]), 24, 80);
    terminal.expect("the summary", |s| s.contains("2 processes running"));
    terminal.press("\u{3}");
    assert!(terminal.end().success());
}
