//! Finding files and lines: what is found, what is left out, and that every search ends.

use crate::files::{call, run};
use coppice_engine::config::bounds::MAX_RESULT;
use coppice_engine::tool::files::FileMemory;
use coppice_engine::tool::search::{Glob, Grep};
use coppice_engine::tool::{Outcome, Tool};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        (".gitignore", "target/\n*.log\n"),
        (".git/config", "needle\n"),
        (".github/ci.yml", "needle: yes\n"),
        ("README.md", "A Needle in a haystack.\nneedle\n"),
        ("src/lib.rs", "mod a;\n\nfn needle() {}\n\nfn other() {}\n"),
        ("windows.txt", "a line\r\nthe needle\r\n"),
        ("src/a/b.rs", "one\ntwo\nneedle three\nfour\nneedle five\n"),
        ("target/debug/out.rs", "needle\n"),
        ("run.log", "needle\n"),
        ("closed/key.rs", "needle\n"),
    ];
    for (name, content) in files {
        put(folder.path(), name, content);
    }
    put(folder.path(), "src/image.bin", b"needle\n\0\0needle\n");
    folder
}

fn tools(folder: &TempDir) -> (Glob, Grep) {
    let memory = FileMemory::new(vec![folder.path().join("closed")]);
    (Glob::new(memory.clone()), Grep::new(memory))
}

async fn ask(folder: &TempDir, tool: &dyn Tool, args: Value) -> Outcome {
    run(tool, &call("one", folder.path()), args).await
}

/// What each of these questions is answered.
async fn check(folder: &TempDir, tool: &dyn Tool, questions: &[Value], answers: Expect) {
    let mut told = String::new();
    for question in questions {
        let answer = ask(folder, tool, question.clone()).await;
        told.push_str(&format!("> {question}\n{}\n", answer.text.trim_end()));
    }
    answers.assert_eq(&told);
}

#[tokio::test]
async fn names_are_found_by_their_pattern_sorted_by_path() {
    let folder = project();
    check(
        &folder,
        &tools(&folder).0,
        &[
            json!({"pattern": "**/*.rs"}),
            json!({"pattern": "*"}),
            json!({"pattern": "*.rs", "path": "src"}),
            json!({"pattern": "./src/a/*.{rs,ts}"}),
            json!({"pattern": "src/lib.rs"}),
            json!({"pattern": "*.rs"}),
            json!({"pattern": "target/debug/*"}),
            json!({"pattern": "src/[a"}),
            json!({"pattern": ""}),
            json!({"pattern": "*", "path": "none"}),
            json!({"pattern": "*", "path": "closed"}),
            json!({"pattern": "*", "path": "README.md"}),
        ],
        expect![[r#"
            > {"pattern":"**/*.rs"}
            src/a/b.rs
            src/lib.rs
            > {"pattern":"*"}
            .github/
            .gitignore
            README.md
            src/
            windows.txt
            > {"pattern":"*.rs","path":"src"}
            src/lib.rs
            > {"pattern":"./src/a/*.{rs,ts}"}
            src/a/b.rs
            > {"pattern":"src/lib.rs"}
            src/lib.rs
            > {"pattern":"*.rs"}
            Nothing in this folder matches *.rs
            (To look in all folders below, put **/ before it.)
            > {"pattern":"target/debug/*"}
            target/debug/out.rs
            > {"pattern":"src/[a"}
            The glob pattern cannot be read: unclosed character class; missing ']'. Put [ and { in brackets to mean them.
            > {"pattern":""}
            The pattern is empty. Use * to list a folder, **/*.rs to find all files of a kind.
            > {"pattern":"*","path":"none"}
            There is nothing called none to search in.
            > {"pattern":"*","path":"closed"}
            closed is out of reach of every tool. Nothing was done.
            > {"pattern":"*","path":"README.md"}
            README.md is a file, not a folder. Read it.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn lines_are_found_by_their_content() {
    let folder = project();
    check(
        &folder,
        &tools(&folder).1,
        &[
            json!({"pattern": "needle"}),
            json!({"pattern": "NEEDLE", "ignore_case": true, "glob": "*.md"}),
            json!({"pattern": "needle", "glob": "src/**/*.rs", "context": 1}),
            json!({"pattern": "needle$", "glob": "*.{md,txt}"}),
            json!({"pattern": "needle", "path": "src", "limit": 2}),
            json!({"pattern": "absent"}),
            json!({"pattern": "fn needle("}),
            json!({"pattern": "a\nb"}),
            json!({"pattern": "a\\nb"}),
            json!({"pattern": "needle", "path": "closed/key.rs"}),
            json!({"pattern": "needle", "context": -1}),
        ],
        expect![[r#"
            > {"pattern":"needle"}
            .github/ci.yml:1:needle: yes
            README.md:2:needle
            src/a/b.rs:3:needle three
            src/a/b.rs:5:needle five
            src/lib.rs:3:fn needle() {}
            windows.txt:2:the needle
            > {"pattern":"NEEDLE","ignore_case":true,"glob":"*.md"}
            README.md:1:A Needle in a haystack.
            README.md:2:needle
            > {"pattern":"needle","glob":"src/**/*.rs","context":1}
            src/a/b.rs-2-two
            src/a/b.rs:3:needle three
            src/a/b.rs-4-four
            src/a/b.rs:5:needle five
            src/lib.rs-2-
            src/lib.rs:3:fn needle() {}
            src/lib.rs-4-
            > {"pattern":"needle$","glob":"*.{md,txt}"}
            README.md:2:needle
            windows.txt:2:the needle
            > {"pattern":"needle","path":"src","limit":2}
            src/a/b.rs:3:needle three
            src/a/b.rs:5:needle five
            (Stopped after 2 hits: there may be more. Narrow the pattern, path or glob.)
            > {"pattern":"absent"}
            No line in this folder matches absent
            > {"pattern":"fn needle("}
            The pattern is no regular expression that can be searched for: regex parse error:
                (?:fn needle()
                ^
            error: unclosed group
            To find ( ) [ ] { } . * + ? ^ $ | \ as they stand, put \ before them. Look-around and back references do not exist, and a match cannot go over the end of a line.
            > {"pattern":"a\nb"}
            The pattern is empty or goes over the end of a line. Give one that fits one line.
            > {"pattern":"a\\nb"}
            The pattern is no regular expression that can be searched for: the literal "\n" is not allowed in a regex
            To find ( ) [ ] { } . * + ? ^ $ | \ as they stand, put \ before them. Look-around and back references do not exist, and a match cannot go over the end of a line.
            > {"pattern":"needle","path":"closed/key.rs"}
            closed/key.rs is out of reach of every tool. Nothing was done.
            > {"pattern":"needle","context":-1}
            The arguments do not fit: invalid value: integer `-1`, expected usize. Correct them and call again.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn the_window_is_told_how_much_was_found() {
    let folder = project();
    let (glob, grep) = tools(&folder);
    let found = ask(&folder, &glob, json!({"pattern": "src/*"})).await;
    assert_eq!(found.detail, json!({"hits": 3, "files": 2, "pattern": "src/*"}));
    let found = ask(&folder, &grep, json!({"pattern": "needle", "path": "src"})).await;
    assert_eq!(found.detail, json!({"hits": 3, "files": 2, "pattern": "needle"}));
    let exact = ask(&folder, &grep, json!({"pattern": "needle", "path": "src", "limit": 3})).await;
    assert_eq!(exact, found, "a limit that was just reached left nothing out");
}

#[tokio::test]
async fn much_is_cut_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..1200 {
        put(folder.path(), &format!("file-{number:04}"), "needle in the hay\n".repeat(3));
    }
    let (glob, grep) = tools(&folder);
    let names = ask(&folder, &glob, json!({"pattern": "*"})).await;
    assert_eq!(names.detail["hits"], 1200);
    assert!(names.text.ends_with("file-0999\n(The first 1000 of 1200. Narrow the pattern to see the others.)\n"));
    let lines = ask(&folder, &grep, json!({"pattern": "needle", "limit": 2000})).await;
    assert!(lines.text.len() > MAX_RESULT / 2);
    assert!(lines.text.contains("hits: there may be more."), "{}", &lines.text[lines.text.len() - 200..]);
}

#[tokio::test]
async fn a_long_line_is_cut_on_characters_around_its_match() {
    let folder = tempfile::tempdir().unwrap();
    for lead in 0..4 {
        let line = format!("{}{}needle{}", "a".repeat(lead), "語".repeat(5000), "語".repeat(5000));
        put(folder.path(), "wide", &line);
        let found = ask(&folder, &tools(&folder).1, json!({"pattern": "needle"})).await;
        let shown = found.text.strip_prefix("wide:1:... ").unwrap();
        let shown = shown.strip_suffix(&format!(" ... ({} bytes in this line)\n", line.len())).unwrap();
        assert!(line.contains(shown) && shown.contains("needle") && shown.len() <= 400, "{shown}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn links_and_pipes_are_not_followed() {
    let folder = project();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("src/fifo"), mode).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("src/loop")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.path().join("src/out")).unwrap();
    let found = ask(&folder, &tools(&folder).1, json!({"pattern": "needle|root", "path": "src"})).await;
    assert_eq!(found.detail, json!({"hits": 3, "files": 2, "pattern": "needle|root"}));
}

#[tokio::test]
async fn a_stopped_search_finds_nothing() {
    let folder = project();
    let (glob, grep) = tools(&folder);
    let call = call("one", folder.path());
    call.cancel.cancel();
    let stopped = Outcome::fail("Stopped before anything was done.");
    assert_eq!(run(&grep, &call, json!({"pattern": "needle"})).await, stopped);
    assert_eq!(run(&glob, &call, json!({"pattern": "*"})).await, stopped);
}

#[tokio::test]
async fn what_is_asked_is_repeated_in_part_only() {
    let folder = project();
    let (glob, grep) = tools(&folder);
    let long = "x".repeat(1024 * 1024);
    for tool in [&glob as &dyn Tool, &grep] {
        let found = ask(&folder, tool, json!({"pattern": long})).await;
        assert!(found.text.len() < 2000 && found.detail.to_string().len() < 2000);
        assert!(!ask(&folder, tool, json!({"pattern": "x", "path": long})).await.ok);
    }
}
