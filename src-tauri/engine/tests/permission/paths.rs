//! Paths and what is decided about them.

use super::{Home, holds, read, write};
use coppice_engine::event::Mode;
use coppice_engine::permission::{Action, Allowance, Allowed, Scope, allowed, keys, resolve};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Links in the project, and where they lead.
fn linked() -> Home {
    let home = Home::new();
    let link = |to: &Path, from: &str| symlink(to, home.cwd.join(from)).unwrap();
    link(Path::new("/"), "root");
    link(&home.home.join("other"), "out");
    link(&home.home.join("other/c"), "out-file");
    link(Path::new("src"), "in");
    link(Path::new("a.rs"), "in-file");
    link(Path::new("../project/src/../a.rs"), "winding");
    link(&home.home.join("nothing"), "dangling");
    link(Path::new("loop"), "loop");
    link(&home.data, "data");
    link(Path::new(".git"), "repository");
    link(&home.home.join(".ssh"), "keys");
    symlink(home.home.join("secret/netrc"), home.home.join(".netrc")).unwrap();
    symlink(home.home.join("project"), home.home.join("same")).unwrap();
    home
}

/// Path, then what becomes of a read in `ask`, a write in `ask` and a write in `accept-edits`.
const TABLE: &[(&str, &str, &str, &str)] = &[
    ("a.rs", "free", "asked writes", "free"),
    ("./src/../a.rs", "free", "asked writes", "free"),
    ("src/b.rs", "free", "asked writes", "free"),
    ("src/", "free", "asked writes", "free"),
    (".", "free", "asked writes", "free"),
    ("new.rs", "free", "asked writes", "free"),
    ("new/deep/er.rs", "free", "asked writes", "free"),
    ("~/.ssh/id", "free", "asked writes", "free"),
    ("in/b.rs", "free", "asked writes", "free"),
    ("in-file", "free", "asked writes", "free"),
    ("winding", "free", "asked writes", "free"),
    ("HOME/project/a.rs", "free", "asked writes", "free"),
    ("HOME/same/a.rs", "free", "asked writes", "free"),
    ("out/../project/a.rs", "free", "asked writes", "free"),
    ("root/HOME/project/a.rs", "free", "asked writes", "free"),
    ("..", "asked outside", "asked outside", "asked outside"),
    ("../other/c", "asked outside", "asked outside", "asked outside"),
    ("../other/new", "asked outside", "asked outside", "asked outside"),
    ("../project-two/d", "asked outside", "asked outside", "asked outside"),
    ("HOME/project-two/d", "asked outside", "asked outside", "asked outside"),
    ("src/../../other/c", "asked outside", "asked outside", "asked outside"),
    ("out/c", "asked outside", "asked outside", "asked outside"),
    ("out/new/file", "asked outside", "asked outside", "asked outside"),
    ("out-file", "asked outside", "asked outside", "asked outside"),
    ("in/../../other/c", "asked outside", "asked outside", "asked outside"),
    ("root/etc/passwd", "asked outside", "asked outside", "asked outside"),
    ("/etc/passwd", "asked outside", "asked outside", "asked outside"),
    ("//etc//passwd", "asked outside", "asked outside", "asked outside"),
    ("/proc/self/root/etc/passwd", "asked outside", "asked outside", "asked outside"),
    ("/dev/null", "asked outside", "asked outside", "asked outside"),
    ("/tmp", "asked outside", "asked outside", "asked outside"),
    (".git/config", "free", "asked repository", "asked repository"),
    (".git/hooks/new", "free", "asked repository", "asked repository"),
    ("src/.GIT/hooks/new", "free", "asked repository", "asked repository"),
    ("repository/config", "free", "asked repository", "asked repository"),
    ("HOME/.ssh/id", "asked keys", "asked keys", "asked keys"),
    ("HOME/.ssh", "asked keys", "asked keys", "asked keys"),
    ("HOME/.ssh/new", "asked keys", "asked keys", "asked keys"),
    ("HOME/.aws/credentials", "asked keys", "asked keys", "asked keys"),
    ("HOME/.netrc", "asked keys", "asked keys", "asked keys"),
    ("HOME/secret/netrc", "asked keys", "asked keys", "asked keys"),
    ("keys/id", "asked keys", "asked keys", "asked keys"),
    ("/proc/self/root/HOME/.ssh/id", "asked keys", "asked keys", "asked keys"),
    ("HOME/.local/share/coppice", "refused own_data", "refused own_data", "refused own_data"),
    ("HOME/.local/share/coppice/coppice.db", "refused own_data", "refused own_data", "refused own_data"),
    ("HOME/.local/share/coppice/new/er", "refused own_data", "refused own_data", "refused own_data"),
    ("HOME/.local/share/../share/coppice/coppice.db", "refused own_data", "refused own_data", "refused own_data"),
    ("data/coppice.db", "refused own_data", "refused own_data", "refused own_data"),
    ("root/HOME/.local/share/coppice/coppice.db", "refused own_data", "refused own_data", "refused own_data"),
    ("/proc/self/environ", "refused processes", "refused processes", "refused processes"),
    ("/proc/1/environ", "refused processes", "refused processes", "refused processes"),
    ("/proc/self/mem", "refused processes", "refused processes", "refused processes"),
    ("/proc/self/task/../environ", "refused processes", "refused processes", "refused processes"),
    ("/proc/thread-self/environ", "refused processes", "refused processes", "refused processes"),
    ("root/proc/self/environ", "refused processes", "refused processes", "refused processes"),
    ("dangling", "refused unresolved", "refused unresolved", "refused unresolved"),
    ("loop", "refused unresolved", "refused unresolved", "refused unresolved"),
    ("loop/a", "refused unresolved", "refused unresolved", "refused unresolved"),
    ("a.rs/b", "refused unresolved", "refused unresolved", "refused unresolved"),
    ("missing/../a.rs", "refused unresolved", "refused unresolved", "refused unresolved"),
    ("missing/../../other/c", "refused unresolved", "refused unresolved", "refused unresolved"),
    ("", "refused unresolved", "refused unresolved", "refused unresolved"),
    ("a\0b", "refused unresolved", "refused unresolved", "refused unresolved"),
];

fn at(home: &Home, path: &str) -> PathBuf {
    PathBuf::from(path.replace("/HOME", "HOME").replace("HOME", &home.home.to_string_lossy()))
}

#[test]
fn a_path_is_judged_by_where_it_leads() {
    let home = linked();
    let rows = TABLE.iter().flat_map(|(path, reads, asks, accepts)| {
        let path = at(&home, path);
        [
            (*reads, "read in ask", home.judge(Mode::Ask, true, &[], &read(&path))),
            (*asks, "write in ask", home.judge(Mode::Ask, true, &[], &write(&path))),
            (*accepts, "write in accept-edits", home.judge(Mode::AcceptEdits, true, &[], &write(&path))),
        ]
        .map(|(expected, how, verdict)| (expected.to_owned(), format!("{how} {}", path.display()), verdict))
    });
    holds(rows.collect::<Vec<_>>());
}

#[test]
fn a_session_that_may_only_look_writes_nothing_and_reads_nothing_elsewhere() {
    let home = linked();
    let expected = |ask: &str| match ask.split_once(' ') {
        Some(("asked", _)) => "refused read_only".to_owned(),
        _ => ask.to_owned(),
    };
    let rows = TABLE.iter().flat_map(|(path, reads, asks, _)| {
        let path = at(&home, path);
        let judged = |action: &Action| home.judge(Mode::ReadOnly, true, &[], action);
        [(expected(reads), "read", judged(&read(&path))), (expected(asks), "write", judged(&write(&path)))]
            .map(|(expected, how, verdict)| (expected, format!("{how} {}", path.display()), verdict))
    });
    holds(rows.collect::<Vec<_>>());
}

#[test]
fn a_session_that_may_do_everything_may_not_touch_what_is_out_of_reach() {
    let home = linked();
    let expected = |ask: &str| if ask.starts_with("refused") { ask.to_owned() } else { "free".to_owned() };
    let rows = TABLE.iter().map(|(path, _, asks, _)| {
        let path = at(&home, path);
        (expected(asks), path.display().to_string(), home.judge(Mode::Full, true, &[], &write(&path)))
    });
    holds(rows.collect::<Vec<_>>());
}

#[test]
fn an_allowance_for_a_file_is_for_where_it_really_is_and_for_reading_or_writing() {
    let home = linked();
    let allow = |action: &Action| Allowance {
        what: allowed(&home.cwd, action).unwrap(),
        cwd: home.cwd.clone(),
        scope: Scope::Branch,
    };
    let reading = [allow(&read("out-file"))];
    assert_eq!(reading[0].what, Allowed::Read { path: home.home.join("other/c") });
    let writing = [allow(&write("../other/c"))];
    let own = [Allowance { what: Allowed::Write { path: home.data.join("coppice.db") }, ..writing[0].clone() }];
    let elsewhere = [Allowance { cwd: home.home.clone(), ..reading[0].clone() }];
    let rows = [
        ("free", &reading, read("../other/c")),
        ("free", &reading, read("out/c")),
        ("asked outside", &reading, write("../other/c")),
        ("asked outside", &reading, read("../other")),
        ("asked outside", &reading, read("../other/new")),
        ("free", &writing, write("out-file")),
        ("asked outside", &writing, read("out-file")),
        ("asked outside", &elsewhere, read("../other/c")),
        ("refused own_data", &own, write("data/coppice.db")),
    ];
    holds(rows.map(|(expected, allowances, action)| {
        (expected.to_owned(), format!("{action:?}"), home.judge(Mode::Ask, true, allowances, &action))
    }));
    // A link that is turned round afterwards leads past the allowance.
    std::fs::remove_file(home.cwd.join("out-file")).unwrap();
    symlink(home.home.join("project-two/d"), home.cwd.join("out-file")).unwrap();
    let verdict = home.judge(Mode::Ask, true, &reading, &read("out-file"));
    holds([("asked outside".to_owned(), "turned".to_owned(), verdict)]);
}

#[test]
fn without_its_folder_a_session_touches_nothing_by_a_relative_path() {
    let home = Home::new();
    std::fs::remove_dir_all(&home.cwd).unwrap();
    assert!(resolve(&home.cwd, Path::new("a.rs")).is_err_and(|why| why.contains("is gone or cannot be entered")));
    let rows = [
        ("refused unresolved", home.judge(Mode::Full, true, &[], &read("a.rs"))),
        ("asked outside", home.judge(Mode::Ask, true, &[], &read(home.cwd.join("a.rs")))),
    ];
    holds(rows.map(|(expected, verdict)| (expected.to_owned(), String::new(), verdict)));
}

#[test]
fn a_session_in_the_persons_own_folder_still_asks_for_keys() {
    let mut home = linked();
    home.cwd = home.home.clone();
    let rows = [
        ("free", "other/c"),
        ("asked keys", ".ssh/id"),
        ("asked keys", "project/keys/id"),
        ("refused own_data", ".local/share/coppice/coppice.db"),
    ];
    holds(
        rows.map(|(expected, path)| {
            (expected.to_owned(), path.to_owned(), home.judge(Mode::Ask, true, &[], &read(path)))
        }),
    );
}

#[test]
fn keys_are_looked_for_below_the_persons_own_folder() {
    let all = keys(Path::new("/home/p"));
    assert!(all.contains(&PathBuf::from("/home/p/.ssh")), "{all:?}");
    assert!(all.iter().all(|place| place.starts_with("/home/p") && place != Path::new("/home/p")), "{all:?}");
}
