//! Reading, writing and editing files: what is shown, what is refused, and that nobody's change is lost.

use coppice_engine::config::bounds::MAX_RESULT;
use coppice_engine::env::Env;
use coppice_engine::id::{AgentId, CallId, Owner, SessionId};
use coppice_engine::prompt::Given;
use coppice_engine::tool::edit::EditFile;
use coppice_engine::tool::files::{FileMemory, ReadFile, WriteFile};
use coppice_engine::tool::{Call, Leave, LiveOutput, Outcome, Tool};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

struct Silent;

impl LiveOutput for Silent {
    fn write(&self, _: &str) {}
}

/// A call of the session `session` in the folder `cwd`.
pub fn call(session: &str, cwd: &Path) -> Call {
    Call {
        id: CallId::from("1.0"),
        owner: Owner { session: SessionId::from(session), agent: AgentId(1) },
        cwd: cwd.to_owned(),
        leave: Leave::default(),
        judged: None,
        cancel: CancellationToken::new(),
        numbered: CancellationToken::new(),
        given: Given::default(),
        live: Arc::new(Silent),
        env: Env::system(),
    }
}

/// Runs a tool; a run that hangs is a failure.
pub async fn run(tool: &dyn Tool, call: &Call, args: Value) -> Outcome {
    let outcome = tokio::time::timeout(Duration::from_secs(20), tool.run(call, args)).await.unwrap();
    assert!(outcome.text.len() <= MAX_RESULT, "{} bytes", outcome.text.len());
    outcome
}

/// A folder, and the tools of two sessions at work in it.
struct Work {
    folder: TempDir,
    memory: FileMemory,
}

impl Work {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("closed")).unwrap();
        let memory = FileMemory::new(vec![folder.path().join("closed")]);
        Self { folder, memory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    async fn by(&self, session: &str, tool: &str, args: Value) -> Outcome {
        let tool: Box<dyn Tool> = match tool {
            "read" => Box::new(ReadFile::new(self.memory.clone())),
            "write" => Box::new(WriteFile::new(self.memory.clone())),
            _ => Box::new(EditFile::new(self.memory.clone())),
        };
        let mut outcome = run(&*tool, &call(session, self.folder.path()), args).await;
        let real = std::fs::canonicalize(self.folder.path()).unwrap();
        for folder in [real, self.folder.path().to_owned()] {
            outcome.text = outcome.text.replace(&folder.display().to_string(), "DIR");
        }
        if let Some(detail) = outcome.detail.as_object_mut() {
            // What the log has for the session's memory is no concern of those who look at the result.
            detail.remove("file");
        }
        outcome
    }

    async fn read(&self, args: Value) -> Outcome {
        self.by("one", "read", args).await
    }

    async fn write(&self, args: Value) -> Outcome {
        self.by("one", "write", args).await
    }

    /// Edits a file as it is now.
    async fn edit(&self, args: Value) -> Outcome {
        let path = args.get("path").cloned();
        self.by("one", "read", json!({ "path": path })).await;
        self.by("one", "edit", args).await
    }

    /// Everything in the folder but what a tool may leave there.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn refused(outcome: &Outcome, words: Expect) {
    assert!(!outcome.ok, "{outcome:?}");
    words.assert_eq(&outcome.text);
}

#[tokio::test]
async fn a_file_is_shown_with_line_numbers() {
    let work = Work::new();
    work.put("a.txt", "\u{feff}one\n\n  three");
    let outcome = work.read(json!({"path": "a.txt"})).await;
    assert_eq!(
        outcome,
        Outcome::ok("1\tone\n2\t\n3\t  three\n")
            .with(json!({"path": "a.txt", "lines": 3, "bytes": 15, "added": 0, "removed": 0}))
    );
    work.put("empty", "");
    assert_eq!(work.read(json!({"path": "empty"})).await.text, "(The file is empty.)\n");
    work.put("windows", "a\r\nb\r\n");
    assert_eq!(work.read(json!({"path": "windows"})).await.text, "1\ta\n2\tb\n(Lines end in CR LF.)\n");
    work.put("latin", b"caf\xe9\n");
    assert_eq!(work.read(json!({"path": "latin"})).await.text, "1\tcaf\u{fffd}\n");
}

#[tokio::test]
async fn a_long_file_is_shown_in_parts_that_lead_to_all_of_it() {
    let work = Work::new();
    let lines: Vec<String> = (1..=5000).map(|number| format!("line {number}")).collect();
    work.put("long", lines.join("\n"));
    let mut seen = Vec::new();
    let mut offset = 1;
    loop {
        let text = work.read(json!({"path": "long", "offset": offset})).await.text;
        let shown = text.lines().filter_map(|line| line.split_once('\t')).map(|(_, line)| line.to_owned());
        seen.extend(shown);
        let Some((_, next)) = text.split_once("Read on with offset ") else { break };
        offset = next.trim_end_matches(".)\n").parse().unwrap();
    }
    assert_eq!(seen, lines);

    let part = work.read(json!({"path": "long", "offset": 4999, "limit": 1})).await.text;
    assert_eq!(part, "4999\tline 4999\n(Lines 4999 to 4999 of 5000. Read on with offset 5000.)\n");
    let end = work.read(json!({"path": "long", "offset": 5000})).await.text;
    assert_eq!(end, "5000\tline 5000\n(Lines 5000 to 5000 of 5000.)\n");
    refused(
        &work.read(json!({"path": "long", "offset": 5001})).await,
        expect!["long has 5000 lines, so there is no line 5001. Nothing was shown."],
    );
}

#[tokio::test]
async fn a_line_is_cut_on_a_character_wherever_the_bound_falls() {
    let work = Work::new();
    for (lead, wide) in (0..4).flat_map(|lead| [(lead, "語"), (lead, "🌳")]) {
        let line = format!("{}{}", "a".repeat(1996 + lead), wide.repeat(9999));
        work.put("wide", format!("{line}\nnext\n"));
        let text = work.read(json!({"path": "wide"})).await.text;
        let first = text.lines().next().unwrap();
        let (shown, rest) = first.trim_start_matches("1\t").split_once(" ... (").unwrap();
        assert!(line.starts_with(shown) && shown.len() > 1995 && shown.len() <= 2000, "{shown}");
        assert_eq!(rest, format!("{} more bytes in this line)", line.len() - shown.len()));
        assert_eq!(text.lines().nth(1).unwrap(), "2\tnext");
    }
}

#[tokio::test]
async fn of_a_huge_file_only_the_part_that_is_asked_for_is_read() {
    let work = Work::new();
    // A sparse file: a terabyte that no reader could ever go through.
    work.put("huge", "one\ntwo\nthree\n".to_owned() + &"x".repeat(10_000) + "\n");
    let file = std::fs::OpenOptions::new().write(true).open(work.path("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let outcome = work.read(json!({"path": "huge", "offset": 2, "limit": 2})).await;
    assert_eq!(
        outcome.text,
        "2\ttwo\n3\tthree\n(Lines 2 to 3 of a file of 1099511627776 bytes. Read on with offset 4.)\n"
    );
    let outcome = work.read(json!({"path": "huge", "offset": 4})).await;
    assert!(
        outcome.text.ends_with("(Lines are cut after 2000 bytes. See the rest with a command, for example cut -b.)\n")
    );
    assert!(outcome.text.contains("Line 5 is longer than 16777216 bytes."), "{}", outcome.text);
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_and_never_waited_for() {
    let work = Work::new();
    work.put("binary", b"\x7fELF\0\0");
    refused(
        &work.read(json!({"path": "binary"})).await,
        expect!["binary is not shown: it is binary, or text in an encoding with NUL bytes (6 bytes)."],
    );
    refused(&work.read(json!({"path": "."})).await, expect![[r#"This path is a folder. List it by the pattern "*"."#]]);
    refused(
        &work.read(json!({"path": "closed/../none"})).await,
        expect!["There is no file none. Look for it by a pattern."],
    );
    refused(
        &work.read(json!({"path": "~/notes"})).await,
        expect!["There is no file ~/notes. `~` is not expanded: give the absolute path. Look for it by a pattern."],
    );
    refused(
        &work.read(json!({"path": ""})).await,
        expect!["The path is empty or holds a NUL character. Give the path of a file."],
    );
    refused(
        &work.read(json!({"path": "binary/x"})).await,
        expect![
            "binary/x cannot be used: Not a directory (os error 20). A part of the path is a file, so nothing can be in it."
        ],
    );
    refused(
        &work.read(json!({"file": "x"})).await,
        expect!["The arguments do not fit: missing field `path`. Correct them and call again."],
    );
}

/// Lets go of who waits for the other end of a pipe, so that the failure of a test is not a hang.
#[cfg(unix)]
struct Release(PathBuf);

#[cfg(unix)]
impl Drop for Release {
    fn drop(&mut self) {
        let _ = std::fs::OpenOptions::new().read(true).write(true).open(&self.0);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn pipes_devices_and_sockets_are_left_alone() {
    let work = Work::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, work.path("fifo"), mode).unwrap();
    let _release = Release(work.path("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(work.path("socket")).unwrap();
    for path in ["fifo", "socket", "/dev/zero", "/dev/tty"] {
        let read = work.read(json!({"path": path})).await;
        let write = work.write(json!({"path": path, "content": "x"})).await;
        let edit = work.edit(json!({"path": path, "old": "a", "new": "b"})).await;
        for outcome in [read, write, edit] {
            assert!(!outcome.ok && !outcome.text.contains("Created"), "{path}: {outcome:?}");
        }
    }
    refused(
        &work.read(json!({"path": "fifo"})).await,
        expect!["fifo is a pipe, a socket or a device, not a file. It was left alone."],
    );
}

#[cfg(unix)]
#[tokio::test]
async fn paths_are_judged_by_where_they_really_lead() {
    let work = Work::new();
    work.put("closed/key", "secret");
    std::os::unix::fs::symlink(work.path("closed"), work.path("link")).unwrap();
    std::os::unix::fs::symlink(work.path("nothing"), work.path("dangling")).unwrap();
    for path in ["closed/key", "link/key", "./closed/../link/key", "link/new"] {
        let read = work.read(json!({"path": path})).await;
        assert_eq!(read.text, format!("{path} is out of reach of every tool. Nothing was done."));
        let write = work.write(json!({"path": path, "content": ""})).await;
        assert_eq!(write.text, format!("{path} is out of reach of every tool. Nothing was done."));
    }
    let outcome = work.write(json!({"path": "dangling", "content": "x"})).await;
    refused(&outcome, expect!["DIR/dangling is a link to something that is not there. Nothing was done."]);
    assert!(!work.path("nothing").exists());
    let outcome = work.read(json!({"path": "/proc/self/environ"})).await;
    refused(&outcome, expect!["/proc/self/environ is out of reach of every tool. Nothing was done."]);
}

#[tokio::test]
async fn a_missing_folder_is_said_so() {
    let work = Work::new();
    let gone = work.path("gone");
    let memory = FileMemory::new(Vec::new());
    let tools: [(&dyn Tool, Value); 3] = [
        (&ReadFile::new(memory.clone()), json!({"path": "a"})),
        (&WriteFile::new(memory.clone()), json!({"path": "a", "content": ""})),
        (&EditFile::new(memory), json!({"path": "a", "old": "a", "new": "b"})),
    ];
    for (tool, args) in tools {
        let outcome = run(tool, &call("one", &gone), args).await;
        assert!(!outcome.ok && outcome.text.contains("of this session is gone"), "{outcome:?}");
    }
    assert!(!gone.exists());
}

#[tokio::test]
async fn writing_makes_the_file_and_the_folders_it_needs_and_leaves_nothing_else() {
    let work = Work::new();
    let outcome = work.write(json!({"path": "new/deep/a.txt", "content": "one\ntwo\n"})).await;
    assert_eq!(
        outcome,
        Outcome::ok("Created new/deep/a.txt: 2 lines, 8 bytes.").with(json!({
            "path": "new/deep/a.txt", "lines": 2, "bytes": 8, "created": true, "added": 2, "removed": 0,
            "diff": "@@ -0,0 +1,2 @@\n+one\n+two\n", "can_undo": true,
        }))
    );
    let outcome = work.write(json!({"path": "new/deep/a.txt", "content": "one\nthree"})).await;
    assert_eq!(
        outcome,
        Outcome::ok("Overwrote new/deep/a.txt: 2 lines, 9 bytes.").with(json!({
            "path": "new/deep/a.txt", "lines": 2, "bytes": 9, "created": false, "added": 1, "removed": 1,
            "diff": "@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n", "can_undo": true,
        }))
    );
    assert_eq!(work.text("new/deep/a.txt"), "one\nthree");
    assert_eq!(std::fs::read_dir(work.path("new/deep")).unwrap().count(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_write_keeps_permissions_and_links() {
    use std::os::unix::fs::PermissionsExt;
    let work = Work::new();
    work.put("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(work.path("run.sh"), PermissionsExt::from_mode(0o750)).unwrap();
    std::os::unix::fs::symlink("run.sh", work.path("link")).unwrap();
    assert!(work.edit(json!({"path": "link", "old": "/bin/sh", "new": "/bin/bash"})).await.ok);
    assert_eq!(work.text("run.sh"), "#!/bin/bash\n");
    assert_eq!(std::fs::metadata(work.path("run.sh")).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(std::fs::symlink_metadata(work.path("link")).unwrap().is_symlink());

    std::fs::set_permissions(work.path("run.sh"), PermissionsExt::from_mode(0o444)).unwrap();
    let outcome = work.edit(json!({"path": "run.sh", "old": "bash", "new": "sh"})).await;
    refused(&outcome, expect!["run.sh is write-protected. Nothing was written."]);
    assert_eq!(work.names(), ["closed", "link", "run.sh"]);
}

#[tokio::test]
async fn an_existing_file_is_changed_only_by_who_has_read_it() {
    let work = Work::new();
    work.put("a", "mine");
    for (tool, args) in
        [("write", json!({"path": "a", "content": "x"})), ("edit", json!({"path": "a", "old": "mine", "new": "ours"}))]
    {
        let outcome = work.by("one", tool, args).await;
        refused(&outcome, expect!["a exists and you have not read it. Nothing was written. Read it first."]);
    }
    assert_eq!(work.text("a"), "mine");

    assert!(work.read(json!({"path": "a"})).await.ok);
    assert!(!work.by("two", "write", json!({"path": "a", "content": "x"})).await.ok, "another session has not read it");
    assert!(work.write(json!({"path": "a", "content": "x"})).await.ok);

    work.memory.forget(&SessionId::from("one"));
    assert!(!work.write(json!({"path": "a", "content": "y"})).await.ok);
}

#[tokio::test]
async fn a_change_that_was_not_seen_is_never_written_over() {
    let work = Work::new();
    work.put("f", "A\nB\n");
    // The same file under another spelling is the same file.
    assert!(work.by("one", "read", json!({"path": "f"})).await.ok);
    assert!(work.by("two", "read", json!({"path": "closed/.././f"})).await.ok);
    assert!(work.by("one", "edit", json!({"path": "f", "old": "A", "new": "AA"})).await.ok);

    let words =
        "f has changed since you read it (session one wrote it). Nothing was written: read it again, then redo it.";
    for (tool, args) in
        [("write", json!({"path": "f", "content": "A\nBB\n"})), ("edit", json!({"path": "f", "old": "B", "new": "BB"}))]
    {
        assert_eq!(work.by("two", tool, args).await, Outcome::fail(words));
    }
    assert!(work.by("two", "read", json!({"path": "f"})).await.ok);
    assert!(work.by("two", "edit", json!({"path": "f", "old": "B", "new": "BB"})).await.ok);
    assert_eq!(work.text("f"), "AA\nBB\n");

    // A change by something else, of the same length and as fast as the clock may not tell.
    assert!(work.by("two", "read", json!({"path": "f"})).await.ok);
    work.put("f", "aa\nBB\n");
    let outcome = work.by("two", "edit", json!({"path": "f", "old": "BB", "new": "B"})).await;
    refused(&outcome, expect!["f has changed since you read it. Nothing was written: read it again, then redo it."]);
    // Back as it was, it is what was read.
    work.put("f", "AA\nBB\n");
    assert!(work.by("two", "edit", json!({"path": "f", "old": "BB", "new": "B"})).await.ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_at_the_same_time_are_all_kept() {
    let work = Work::new();
    let lines: String = (0..32).map(|number| format!("<{number}>\n")).collect();
    work.put("f", &lines);
    assert!(work.read(json!({"path": "f"})).await.ok);
    let edits = (0..32).map(|number| {
        let args = json!({"path": "f", "old": format!("<{number}>"), "new": format!("[{number}]")});
        work.by("one", "edit", args)
    });
    for outcome in futures::future::join_all(edits).await {
        assert!(outcome.ok, "{outcome:?}");
    }
    assert_eq!(work.text("f"), lines.replace('<', "[").replace('>', "]"));
    assert_eq!(work.names(), ["closed", "f"]);
}

#[tokio::test]
async fn an_edit_replaces_exactly_what_it_names() {
    let work = Work::new();
    work.put("a.rs", "fn one() {\n    two();\n    three();\n}\n");
    let outcome = work.edit(json!({"path": "a.rs", "old": "two();", "new": "2();\n    2.5();"})).await;
    assert_eq!(
        outcome,
        Outcome::ok("Edited a.rs in one place: 2 lines added, 1 removed.").with(json!({
            "path": "a.rs", "added": 2, "removed": 1, "can_undo": true,
            "diff": "@@ -1,4 +1,5 @@\n fn one() {\n-    two();\n+    2();\n+    2.5();\n     three();\n }\n",
        }))
    );
    work.put("many", "a a\na\n");
    refused(
        &work.edit(json!({"path": "many", "old": "a", "new": "b"})).await,
        expect![
            "`old` stands in many 3 times, at the lines 1, 1, 2. Nothing was written. Add lines around it to make it unique, or set `all`."
        ],
    );
    assert!(work.edit(json!({"path": "many", "old": "a", "new": "b", "all": true})).await.ok);
    assert_eq!(work.text("many"), "b b\nb\n");
    work.put("overlap", "aaa");
    assert!(!work.edit(json!({"path": "overlap", "old": "aa", "new": "b"})).await.ok, "it could be meant twice");
}

#[tokio::test]
async fn an_edit_that_does_not_fit_says_what_is_nearest() {
    let work = Work::new();
    work.put("a.rs", "fn first(count: u32) {\n\tlet total = count;\n}\n");
    let edit = |old: &str, new: &str| json!({"path": "a.rs", "old": old, "new": new});
    refused(
        &work.edit(edit("    let total = count;", "x")).await,
        expect![
            "`old` does not stand in a.rs. Nothing was written. Its first line stands at line 2, but with other white space or other lines after it. Read that part again and copy it exactly."
        ],
    );
    refused(
        &work.edit(edit("fn first(count: u64) {", "x")).await,
        expect!["`old` does not stand in a.rs. Nothing was written. The nearest is line 1: fn first(count: u32) {"],
    );
    refused(
        &work.edit(edit("struct Nothing;", "x")).await,
        expect!["`old` does not stand in a.rs. Nothing was written. Nothing in it is like it: read the file again."],
    );
    refused(
        &work.edit(edit("", "x")).await,
        expect!["`old` is empty. Give the text to replace: this tool makes no new files."],
    );
    refused(&work.edit(edit("x", "x")).await, expect!["`old` and `new` are the same, so there is nothing to change."]);
    work.put("latin", b"caf\xe9 x");
    refused(
        &work.edit(json!({"path": "latin", "old": "x", "new": "y"})).await,
        expect!["latin is not UTF-8 text. Change it with a command."],
    );
    assert_eq!(std::fs::read(work.path("latin")).unwrap(), b"caf\xe9 x");
}

#[tokio::test]
async fn windows_line_ends_are_matched_and_kept() {
    let work = Work::new();
    work.put("w", "one\r\ntwo\r\nthree\r\n");
    assert!(work.edit(json!({"path": "w", "old": "one\ntwo\n", "new": "1\n2\n"})).await.ok);
    assert_eq!(work.text("w"), "1\r\n2\r\nthree\r\n");
}

#[tokio::test]
async fn a_long_diff_is_cut_on_a_line() {
    let work = Work::new();
    work.put("a", "語語語語語\n".repeat(2000));
    let outcome = work.edit(json!({"path": "a", "old": "語\n", "new": "語!\n", "all": true})).await;
    let diff = outcome.detail["diff"].as_str().unwrap();
    assert!(diff.len() <= 4096 && diff.ends_with("語\n... (the diff goes on)\n"), "{}", diff.len());
    assert_eq!((&outcome.detail["added"], &outcome.detail["removed"]), (&json!(2000), &json!(2000)));
}

#[tokio::test]
async fn a_stopped_call_writes_nothing() {
    let work = Work::new();
    work.put("a", "a");
    assert!(work.read(json!({"path": "a"})).await.ok);
    let call = call("one", work.folder.path());
    call.cancel.cancel();
    let write = run(&WriteFile::new(work.memory.clone()), &call, json!({"path": "b/c", "content": "x"})).await;
    let edit = run(&EditFile::new(work.memory.clone()), &call, json!({"path": "a", "old": "a", "new": "b"})).await;
    let read = run(&ReadFile::new(work.memory.clone()), &call, json!({"path": "a"})).await;
    for outcome in [write, edit, read] {
        refused(&outcome, expect!["Stopped before anything was done."]);
    }
    assert_eq!(work.names(), ["a", "closed"]);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_put_in_the_way_between_check_and_use_leads_nowhere() {
    use rustix::fs::{CWD, RenameFlags};
    use std::sync::atomic::{AtomicBool, Ordering};
    /// Lets the thread end also when the test fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let work = Work::new();
    std::fs::create_dir(work.path("sub")).unwrap();
    work.put("sub/old", "old\n");
    work.put("closed/old", "secret\n");
    let over = AtomicBool::new(false);
    let (sub, away, closed) = (work.path("sub"), work.path("away"), work.path("closed"));
    std::os::unix::fs::symlink(&closed, &away).unwrap();
    let written = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                rustix::fs::renameat_with(CWD, &sub, CWD, &away, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let writes = async {
            let mut written = 0;
            for number in 0..500 {
                let path = format!("sub/{number}/{number}");
                written += u32::from(work.write(json!({"path": path, "content": "mine"})).await.ok);
                let read = work.read(json!({"path": "sub/old"})).await;
                assert!(!read.text.contains("secret"), "{read:?}");
                let over = work.write(json!({"path": "sub/old", "content": format!("{number}\n")})).await;
                assert!(!over.text.contains("secret"), "{over:?}");
            }
            written
        };
        let _over = Over(&over);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(writes))
    });
    assert!(written > 0, "nothing was written at all, so nothing was shown");
    let there: Vec<_> = std::fs::read_dir(&closed).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((there, work.text("closed/old")), (vec!["old".into()], "secret\n".to_owned()));
}

#[cfg(unix)]
#[tokio::test]
async fn a_hard_link_is_the_same_file_and_another_file_of_the_same_name_is_not() {
    let work = Work::new();
    work.put("a", "one\n");
    std::fs::hard_link(work.path("a"), work.path("b")).unwrap();
    assert!(work.read(json!({"path": "a"})).await.ok);
    let edit = work.by("one", "edit", json!({"path": "b", "old": "one", "new": "two"})).await;
    assert!(edit.ok, "{edit:?}");
    work.put("c", "one\n");
    assert!(!work.by("one", "edit", json!({"path": "c", "old": "one", "new": "two"})).await.ok);
}

#[tokio::test]
async fn a_file_that_comes_to_be_under_a_write_is_not_written_over() {
    use coppice_engine::files::handle::{Missed, Spot};
    let work = Work::new();
    let real = work.folder.path().canonicalize().unwrap().join("f");
    let spot = Spot::at(&real).unwrap();
    work.put("f", "theirs");
    assert!(matches!(spot.put(b"mine", None), Err(Missed::Changed)));
    let metadata = std::fs::metadata(&real).unwrap();
    std::fs::remove_file(&real).unwrap();
    work.put("f", "others");
    assert!(matches!(spot.put(b"mine", Some(&metadata)), Err(Missed::Changed)));
    assert!(matches!(spot.remove(&metadata), Err(Missed::Changed)));
    assert_eq!((work.text("f").as_str(), work.names()), ("others", vec!["closed".to_owned(), "f".to_owned()]));
}

#[cfg(unix)]
#[tokio::test]
async fn a_tool_opens_only_what_was_judged() {
    let work = Work::new();
    let real = work.folder.path().canonicalize().unwrap();
    work.put("a", "a\n");
    work.put("b", "b\n");
    std::os::unix::fs::symlink("a", work.path("link")).unwrap();
    let call = Call { judged: Some(Arc::from([real.join("a")])), ..call("one", work.folder.path()) };
    let read = ReadFile::new(work.memory.clone());
    assert!(run(&read, &call, json!({"path": "link"})).await.ok);
    std::fs::remove_file(work.path("link")).unwrap();
    std::os::unix::fs::symlink("b", work.path("link")).unwrap();
    let words = expect!["link leads elsewhere now than when it was judged. Nothing was done: try again."];
    refused(&run(&read, &call, json!({"path": "link"})).await, words);
    let write = WriteFile::new(work.memory.clone());
    assert!(!run(&write, &call, json!({"path": "link", "content": "x"})).await.ok);
    assert_eq!(work.text("b"), "b\n");
}
