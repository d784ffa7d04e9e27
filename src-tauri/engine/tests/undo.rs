//! Two who write one file, what is kept of what stood in files, and what a person takes back.

use crate::lab::{Act, Lab, call, delegate, gate, key, say, user_texts};
use coppice_engine::engine::{Opening, Undo, UndoHow, Undoing};
use coppice_engine::env::Env;
use coppice_engine::error::{Code, Error};
use coppice_engine::event::{Block, CUT_OFF, Event, FileChange, Mode, Party, Recorded, Stop, TreeLimits, Usage};
use coppice_engine::files::before::Before;
use coppice_engine::id::{CallId, SessionId};
use coppice_engine::log::Log;
use coppice_engine::view::RowBody;
use expect_test::{Expect, expect};
use serde_json::json;

fn read(path: &str) -> Act {
    call("read_file", json!({ "path": path }))
}

fn write(path: &str, content: &str) -> Act {
    call("write_file", json!({ "path": path, "content": content }))
}

fn edit(path: &str, old: &str, new: &str) -> Act {
    call("edit_file", json!({ "path": path, "old": old, "new": new }))
}

impl Lab {
    /// A root that may do everything and was given a prompt.
    async fn free(&self) -> SessionId {
        let limits = TreeLimits::default();
        let opening = Opening { cwd: self.cwd.clone(), model: None, mode: Mode::Full, title: None, limits };
        let root = self.engine.open_session(opening, &key()).await.unwrap();
        self.engine.prompt(&root, "go".to_owned(), &key()).await.unwrap();
        root
    }

    fn put(&self, name: &str, content: &str) {
        std::fs::write(self.cwd.join(name), content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.cwd.join(name)).unwrap()
    }

    /// The results of a session's calls, as `(ok, text)`.
    async fn results(&self, session: &SessionId) -> Vec<(bool, String)> {
        let result = |recorded: Recorded| match recorded.event {
            Event::ToolFinished { ok, text, .. } => Some((ok, text)),
            _ => None,
        };
        self.events(session).await.into_iter().filter_map(result).collect()
    }

    async fn undo(&self, undo: &Undo) -> Result<Undoing, Error> {
        self.engine.undo(undo.clone(), false, &key()).await
    }

    async fn preview(&self, undo: &Undo) -> Vec<(String, UndoHow)> {
        let undoing = self.engine.undo(undo.clone(), true, &key()).await.unwrap();
        undoing.files.into_iter().map(|file| (file.shown, file.how)).collect()
    }

    /// The `n` of the rows of the changes that a session made, oldest first.
    async fn rows_of_changes(&self, session: &SessionId) -> Vec<i64> {
        let changed = |recorded: Recorded| match recorded.event {
            Event::ToolFinished { answer, ok: true, detail, .. } if detail["can_undo"] == true => Some(answer),
            _ => None,
        };
        self.events(session).await.into_iter().filter_map(changed).collect()
    }
}

fn all(session: &SessionId) -> Undo {
    Undo { session: session.clone(), branch: false, n: None, call: None }
}

fn branch(session: &SessionId) -> Undo {
    Undo { branch: true, ..all(session) }
}

fn row(session: &SessionId, n: i64) -> Undo {
    Undo { n: Some(n), ..all(session) }
}

fn hows(undoing: &Undoing) -> Vec<(&str, UndoHow)> {
    undoing.files.iter().map(|file| (file.shown.as_str(), file.how)).collect()
}

#[track_caller]
fn refused(undone: Result<Undoing, Error>, words: Expect) {
    let error = undone.unwrap_err();
    assert_eq!(error.code(), Code::Conflict);
    words.assert_eq(error.message());
}

#[tokio::test]
async fn of_two_children_the_one_with_an_old_copy_of_a_file_is_told_who_changed_it_and_both_changes_are_kept() {
    let lab = Lab::new().await;
    lab.put("f", "first\nlast\n");
    std::os::unix::fs::symlink(&lab.cwd, lab.cwd.join("link")).unwrap();
    std::os::unix::fs::symlink("f", lab.cwd.join("alias")).unwrap();
    lab.script("root", vec![vec![delegate("one", "p"), delegate("two", "p")], vec![say("ok")]]);
    lab.script("one", vec![vec![read("f")], vec![gate("both read"), edit("f", "first", "A")], vec![say("done")]]);
    lab.script(
        "two",
        vec![
            // The same file by another spelling and by two links.
            vec![read("link/./alias")],
            vec![gate("one wrote"), write("link/../folder/f", "first\nB\n"), edit("alias", "last", "B")],
            vec![read("f")],
            vec![edit("alias", "last", "B")],
            vec![say("done")],
        ],
    );
    let root = lab.free().await;
    lab.reached("both read").await;
    lab.reached("one wrote").await;
    lab.open_gate("both read");
    let one = lab.child("one").await;
    let written = |event: &Event| matches!(event, Event::ToolFinished { detail, .. } if detail["can_undo"] == true);
    lab.until(&one.id, written).await;
    lab.open_gate("one wrote");
    lab.rest(&root).await;

    let two = lab.child("two").await;
    let results = lab.results(&two.id).await;
    let words = format!(
        "f has changed since you read it (\u{201c}one\u{201d} wrote it, session {}). Nothing was written: read it again, \
         then redo it.",
        one.id
    );
    assert_eq!(results[1..3], [(false, words.clone()), (false, words)]);
    assert!(results[3].0 && results[4].0, "{results:?}");
    assert_eq!(lab.text("f"), "A\nB\n");
    assert!(std::fs::symlink_metadata(lab.cwd.join("alias")).unwrap().is_symlink());

    let rows = lab.engine.page(&root, None, None, 100).await.unwrap().rows;
    let clashes: Vec<RowBody> =
        rows.into_iter().map(|row| row.body).filter(|body| matches!(body, RowBody::Clash { .. })).collect();
    let clash = RowBody::Clash {
        path: lab.cwd.canonicalize().unwrap().join("f").display().to_string(),
        first: one.id,
        first_label: "one".to_owned(),
        later: two.id,
        later_label: "two".to_owned(),
    };
    assert_eq!(clashes, [clash]);
}

#[tokio::test]
async fn what_a_session_has_read_outlasts_a_restart_and_what_changed_meanwhile_is_noticed() {
    let mut lab = Lab::new().await;
    lab.put("same", "a\n");
    lab.put("other", "a\n");
    lab.script(
        "root",
        vec![
            vec![read("same"), read("other")],
            vec![say("ok")],
            vec![edit("same", "a", "b"), edit("other", "a", "b"), edit("unread", "a", "b")],
            vec![say("ok")],
        ],
    );
    let root = lab.free().await;
    lab.rest(&root).await;
    lab.restart().await;
    lab.put("other", "a!\n");
    lab.put("unread", "a\n");
    lab.engine.prompt(&root, "go on".to_owned(), &key()).await.unwrap();
    lab.rest(&root).await;
    let mut results: Vec<_> = lab.results(&root).await[2..].to_vec();
    results.sort();
    assert_eq!(
        results,
        [
            (
                false,
                "other has changed since you read it. Nothing was written: read it again, then redo it.".to_owned()
            ),
            (false, "unread exists and you have not read it. Nothing was written. Read it first.".to_owned()),
            (true, "Edited same in one place: 1 lines added, 1 removed.".to_owned()),
        ]
    );
}

#[tokio::test]
async fn after_a_restart_it_is_still_known_who_wrote_a_file() {
    let mut lab = Lab::new().await;
    lab.put("f", "a\n");
    lab.script("root", vec![vec![read("f")], vec![delegate("one", "p")], vec![say("ok")], vec![say("ok")]]);
    lab.script("one", vec![vec![read("f")], vec![edit("f", "a", "b")], vec![say("done")]]);
    let root = lab.free().await;
    lab.rest(&root).await;
    lab.restart().await;
    lab.script("root", vec![vec![edit("f", "b", "c")], vec![say("ok")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "go on".to_owned(), &key()).await.unwrap();
    lab.rest(&root).await;
    let (ok, text) = lab.results(&root).await.pop().unwrap();
    assert!(!ok && text.contains("(\u{201c}one\u{201d} wrote it, session "), "{text}");
}

/// A root that made a file, edited another three times, and is at rest.
async fn worked() -> (Lab, SessionId) {
    let lab = Lab::new().await;
    lab.put("f", "1\n2\n3\n4\n5\n");
    lab.script(
        "root",
        vec![
            vec![read("f")],
            vec![edit("f", "1", "one")],
            vec![write("new/g", "g\n")],
            vec![edit("f", "3", "three")],
            vec![edit("f", "5", "five")],
            vec![say("ok")],
        ],
    );
    let root = lab.free().await;
    lab.rest(&root).await;
    assert_eq!(lab.text("f"), "one\n2\nthree\n4\nfive\n");
    (lab, root)
}

#[tokio::test]
async fn one_change_is_taken_back_and_put_back_again_and_the_agent_is_told() {
    let (mut lab, root) = worked().await;
    let rows = lab.rows_of_changes(&root).await;
    // The last one, as it was; then one in the middle, beside later changes.
    assert_eq!(lab.preview(&row(&root, rows[3])).await, [("f".to_owned(), UndoHow::Restored)]);
    assert_eq!(lab.text("f"), "one\n2\nthree\n4\nfive\n", "a preview does nothing");
    let last = lab.undo(&row(&root, rows[3])).await.unwrap();
    assert_eq!((hows(&last), lab.text("f")), (vec![("f", UndoHow::Restored)], "one\n2\nthree\n4\n5\n".to_owned()));
    let first = lab.undo(&row(&root, rows[0])).await.unwrap();
    assert_eq!((hows(&first), lab.text("f")), (vec![("f", UndoHow::Merged)], "1\n2\nthree\n4\n5\n".to_owned()));
    refused(lab.undo(&row(&root, rows[0])).await, expect!["That was taken back already. Nothing was done."]);

    lab.restart().await;
    let again = lab.undo(&row(&root, last.n.unwrap())).await.unwrap();
    assert_eq!((hows(&again), lab.text("f")), (vec![("f", UndoHow::Merged)], "1\n2\nthree\n4\nfive\n".to_owned()));
    refused(lab.undo(&row(&root, last.n.unwrap())).await, expect!["That was taken back already. Nothing was done."]);

    // Told once, at the next step, and what it knew of the file is not so any more.
    lab.script("root", vec![vec![edit("f", "2", "two")], vec![say("ok")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "go on".to_owned(), &key()).await.unwrap();
    lab.rest(&root).await;
    let requests = lab.requests(&root);
    let told = |text: &str| user_texts(requests.last().unwrap()).join("\n").matches(text).count();
    assert_eq!(
        told("[runtime] The person took changes of yours back, in f. Read a file again before you change it."),
        2
    );
    assert_eq!(told("[runtime] The person put changes of yours back that had been taken back, in f. "), 1);
    let (ok, text) = lab.results(&root).await.pop().unwrap();
    assert!(!ok && text.starts_with("f has changed since you read it"), "{text}");
    let rows = lab.engine.page(&root, None, None, 100).await.unwrap().rows;
    let told: Vec<_> = rows
        .iter()
        .filter_map(|row| match &row.body {
            RowBody::Note { told_at_step, .. } => Some(*told_at_step),
            _ => None,
        })
        .collect();
    assert_eq!(told, [Some(7), Some(7), Some(7)]);
}

#[tokio::test]
async fn all_changes_of_a_session_are_taken_back_and_what_it_made_is_removed() {
    let (lab, root) = worked().await;
    let preview = lab.engine.undo(all(&root), true, &key()).await.unwrap();
    expect![[r#"
        f 3 Restored +3 -3
        @@ -1,5 +1,5 @@
        -one
        +1
         2
        -three
        +3
         4
        -five
        +5

        new/g 1 Removed +0 -1
        @@ -1 +0,0 @@
        -g
    "#]]
    .assert_eq(
        &preview
            .files
            .iter()
            .map(|file| {
                format!("{} {} {:?} +{} -{}\n{}", file.shown, file.edits, file.how, file.added, file.removed, file.diff)
            })
            .collect::<Vec<_>>()
            .join("\n"),
    );
    let done = lab.undo(&all(&root)).await.unwrap();
    assert_eq!(hows(&done), [("f", UndoHow::Restored), ("new/g", UndoHow::Removed)]);
    assert_eq!(lab.text("f"), "1\n2\n3\n4\n5\n");
    assert!(!lab.cwd.join("new/g").exists());
    refused(lab.undo(&all(&root)).await, expect!["That was taken back already. Nothing was done."]);

    lab.undo(&row(&root, done.n.unwrap())).await.unwrap();
    assert_eq!((lab.text("f").as_str(), lab.text("new/g").as_str()), ("one\n2\nthree\n4\nfive\n", "g\n"));
    // And once more.
    lab.undo(&all(&root)).await.unwrap();
    assert_eq!(lab.text("f"), "1\n2\n3\n4\n5\n");
}

#[tokio::test]
async fn a_file_that_changed_on_the_same_lines_is_left_alone_and_it_is_said_who_changed_it() {
    let lab = Lab::new().await;
    lab.put("f", "1\n2\n3\n");
    lab.put("g", "1\n2\n3\n");
    lab.script("root", vec![vec![delegate("one", "p")], vec![delegate("two", "p")], vec![say("ok")]]);
    lab.script(
        "one",
        vec![vec![read("f"), read("g")], vec![edit("f", "2", "one"), edit("g", "2", "G")], vec![say("d")]],
    );
    lab.script("two", vec![vec![gate("two"), read("f")], vec![edit("f", "one", "two")], vec![say("d")]]);
    let root = lab.free().await;
    lab.reached("two").await;
    let (one, two) = (lab.child("one").await.id, lab.child("two").await.id);
    let end = |event: &Event| matches!(event, Event::TurnEnded { .. });
    lab.until(&one, end).await;
    lab.open_gate("two");
    lab.rest(&root).await;

    // What can be taken back is; the rest is named.
    let done = lab.undo(&all(&one)).await.unwrap();
    let mut files: Vec<_> =
        done.files.iter().map(|file| (file.shown.as_str(), file.how, file.why.as_deref())).collect();
    files.sort_by_key(|file| file.0);
    assert_eq!(
        files,
        [
            (
                "f",
                UndoHow::Refused,
                Some("f is left alone: \u{201c}two\u{201d} changed the same lines, or lines beside them, later.")
            ),
            ("g", UndoHow::Restored, None)
        ]
    );
    assert_eq!((lab.text("f").as_str(), lab.text("g").as_str()), ("1\ntwo\n3\n", "1\n2\n3\n"));
    refused(
        lab.undo(&all(&one)).await,
        expect!["Nothing was taken back. f is left alone: “two” changed the same lines, or lines beside them, later."],
    );

    // The whole branch, the latest first, goes back through both.
    let done = lab.undo(&branch(&root)).await.unwrap();
    assert_eq!((hows(&done), lab.text("f")), (vec![("f", UndoHow::Restored)], "1\n2\n3\n".to_owned()));
    for child in [&one, &two] {
        let noted = |event: &Event| matches!(event, Event::Noted { .. });
        assert!(lab.events(child).await.iter().any(|recorded| noted(&recorded.event)));
    }
    // Back again is one command, too.
    lab.undo(&row(&root, done.n.unwrap())).await.unwrap();
    assert_eq!(lab.text("f"), "1\ntwo\n3\n");
}

#[tokio::test]
async fn what_somebody_else_did_to_a_file_is_never_lost_by_taking_changes_back() {
    let (lab, root) = worked().await;
    // Beside the changes: kept.
    lab.put("f", "one\n2\nthree\n4\nfive\n6\n7\n");
    lab.put("new/g", "g and more\n");
    let rows = lab.rows_of_changes(&root).await;
    refused(
        lab.undo(&row(&root, rows[1])).await,
        expect![
            "Nothing was taken back. new/g is left alone: something else, a command or a program, changed it since it was made."
        ],
    );
    let done = lab.undo(&row(&root, rows[0])).await.unwrap();
    assert_eq!((hows(&done), lab.text("f")), (vec![("f", UndoHow::Merged)], "1\n2\nthree\n4\nfive\n6\n7\n".to_owned()));
    std::fs::remove_file(lab.cwd.join("f")).unwrap();
    refused(
        lab.undo(&row(&root, rows[2])).await,
        expect!["Nothing was taken back. f is left alone: it is not there any more."],
    );
    // What is not kept any more cannot come back.
    lab.put("f", "one\n2\nthree\n4\nfive\n");
    std::fs::remove_dir_all(lab.data().join("before")).unwrap();
    refused(
        lab.undo(&row(&root, rows[3])).await,
        expect!["Nothing was taken back. f is left alone: what stood in it is not kept any more."],
    );
    // A link in the place of the file is not followed.
    lab.put("elsewhere", "one\n2\nthree\n4\nfive\n");
    std::fs::remove_file(lab.cwd.join("f")).unwrap();
    std::os::unix::fs::symlink("elsewhere", lab.cwd.join("f")).unwrap();
    let error = lab.undo(&row(&root, rows[3])).await.unwrap_err();
    assert!(error.message().contains("became a link"), "{error}");
    let nothing = lab.undo(&row(&root, 1)).await.unwrap_err();
    assert_eq!(nothing.code(), Code::BadRequest);
}

#[tokio::test]
async fn the_same_key_takes_back_once() {
    let (lab, root) = worked().await;
    let rows = lab.rows_of_changes(&root).await;
    let first = lab.engine.undo(row(&root, rows[3]), false, "k").await.unwrap();
    assert_eq!(lab.engine.undo(row(&root, rows[3]), false, "k").await.unwrap(), first);
    let undone = |recorded: &&Recorded| matches!(recorded.event, Event::Undone { .. });
    assert_eq!(lab.events(&root).await.iter().filter(undone).count(), 1);
}

#[tokio::test]
async fn what_was_kept_for_a_session_goes_with_it_and_what_nothing_owns_goes_at_the_start() {
    let (mut lab, root) = worked().await;
    let before = Before::new(lab.data().join("before"));
    assert_eq!(before.found().unwrap(), std::slice::from_ref(&root));
    let stranger = Env::system().new_session();
    before.keep(&stranger, b"old", lab.now_ms()).unwrap();
    lab.restart().await;
    lab.engine.shutdown(crate::lab::PATIENCE).await.unwrap();
    assert_eq!(before.found().unwrap(), std::slice::from_ref(&root));
    lab.reopen().await;
    lab.engine.delete(&root, false, &key()).await.unwrap();
    assert_eq!(before.found().unwrap(), []);
}

/// A store as a crash leaves it in the middle of an edit of `f`: its old content is kept, and `after` is what the edit
/// was to make of it.
async fn cut_off(lab: &mut Lab, root: &SessionId, old: &str, after: &str) -> CallId {
    lab.engine.shutdown(crate::lab::PATIENCE).await.unwrap();
    let env = Env::system();
    let before = Before::new(lab.data().join("before"));
    let keep = |text: &str| Some(before.keep(root, text.as_bytes(), env.now_ms()).unwrap());
    let call = CallId::from("9.1");
    let block = Block::ToolCall { id: call.clone(), name: "edit_file".to_owned(), args: "{}".to_owned() };
    let change = FileChange {
        path: lab.cwd.canonicalize().unwrap().join("f").display().to_string(),
        shown: "f".to_owned(),
        before: keep(old),
        after: keep(after),
    };
    let log = Log::open(&lab.data(), &env).unwrap();
    let events = vec![
        Event::TurnStarted { turn: 2, task: None },
        Event::StepStarted { turn: 2, step: 7 },
        Event::Answered { step: 7, blocks: vec![block], stop: Stop::Complete, usage: Usage::default() },
        Event::FileChanging { call: call.clone(), change },
    ];
    log.append(root, events).await.unwrap();
    log.close().await.unwrap();
    lab.reopen().await;
    call
}

#[tokio::test]
async fn an_edit_that_a_crash_cut_off_is_taken_back_whether_it_was_made_or_not() {
    let old = "one\n2\nthree\n4\nfive\n";
    for (there, how) in [(old, UndoHow::Same), ("changed\n", UndoHow::Restored)] {
        let (mut lab, root) = worked().await;
        let call = cut_off(&mut lab, &root, old, "changed\n").await;
        lab.put("f", there);
        let events = lab.events(&root).await;
        let told = events.iter().find_map(|recorded| match &recorded.event {
            Event::ToolFinished { call: ended, ok: false, detail, .. } if *ended == call => {
                Some(detail[CUT_OFF].clone())
            }
            _ => None,
        });
        assert_eq!(told, Some(json!(true)));
        let one = Undo { call: Some(call), ..all(&root) };
        let done = lab.undo(&one).await.unwrap();
        assert_eq!((hows(&done), lab.text("f").as_str()), (vec![("f", how)], old));
    }
}

#[tokio::test]
async fn a_person_who_takes_back_is_no_sign_of_life_of_the_session() {
    let (lab, root) = worked().await;
    let before = lab.engine.session(&root).await.unwrap();
    lab.undo(&all(&root)).await.unwrap();
    let after = lab.engine.session(&root).await.unwrap();
    assert_eq!((before.last_sign_at, before.state), (after.last_sign_at, after.state));
    let accepted = |event: &Event| matches!(event, Event::MessageAccepted { from: Party::Runtime, .. });
    assert!(!lab.events(&root).await.iter().any(|recorded| accepted(&recorded.event)));
}
