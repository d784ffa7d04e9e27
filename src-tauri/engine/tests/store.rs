//! The store: what is answered is durable, what is refused leaves nothing, and what is there is never made worse.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bounds;
mod folds;
mod opening;

use coppice_engine::env::Env;
use coppice_engine::error::{Code, Error};
use coppice_engine::event::{Block, Event, Mode, Party, Recorded, Route, Stop, TaskStatus, TurnEnd, Usage};
use coppice_engine::id::{CallId, SessionId, TaskId};
use coppice_engine::log::{Entry, Log, TaskDraft};
use coppice_engine::process::{Ledger, LedgerEntry};
use coppice_engine::view::rows::gives_rows;
use coppice_engine::view::{SessionState, Tokens};
use futures::future::join_all;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::{TempDir, tempdir};

/// A safety net for what must happen soon.
const SOON: Duration = Duration::from_secs(20);

fn open(dir: &TempDir) -> Log {
    Log::open(dir.path(), &Env::system()).unwrap()
}

fn refusal(dir: &Path) -> Error {
    match Log::open(dir, &Env::system()) {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

fn id(text: &str) -> SessionId {
    SessionId::from(text)
}

fn opened(parent: Option<&str>, root: &str) -> Event {
    Event::SessionOpened {
        parent: parent.map(id),
        root: id(root),
        depth: u32::from(parent.is_some()),
        title: "a title".to_owned(),
        label: parent.map(|_| "a label".to_owned()),
        provider: parent.map(|_| "spawn".to_owned()),
        model: "rehearsal".to_owned(),
        mode: Mode::Ask,
        cwd: "/tmp".to_owned(),
    }
}

fn message(text: &str) -> Event {
    Event::MessageAccepted { from: Party::Person, text: text.to_owned(), task: None }
}

fn turn() -> Event {
    Event::TurnStarted { turn: 1, task: None }
}

fn step(step: u32) -> Event {
    Event::StepStarted { turn: 1, step }
}

fn answered(step: u32, blocks: Vec<Block>) -> Event {
    let usage = Usage { input: 10, output: 2, cached: 4, estimated: false };
    Event::Answered { step, blocks, stop: Stop::Complete, usage }
}

fn call(call: &str, name: &str, args: &str) -> Block {
    Block::ToolCall { id: CallId::from(call), name: name.to_owned(), args: args.to_owned() }
}

fn finished(call: &str, answer: i64) -> Event {
    Event::ToolFinished {
        call: CallId::from(call),
        answer,
        ok: true,
        text: "done".to_owned(),
        detail: json!({"exit": 0}),
        ms: 5,
    }
}

fn ended(end: TurnEnd, detail: Option<&str>) -> Event {
    Event::TurnEnded {
        step: None,
        turn: 1,
        end,
        by: None,
        detail: detail.map(str::to_owned),
        last_sign_at: None,
        worked_ms: None,
    }
}

fn started(task: &str, child: Option<&str>) -> Event {
    Event::TaskStarted {
        task: TaskId::from(task),
        task_kind: if child.is_some() { "subagent" } else { "bash" }.to_owned(),
        label: "work".to_owned(),
        child: child.map(id),
        call: None,
    }
}

fn stopping(task: &str) -> Event {
    Event::TaskStopping { task: TaskId::from(task), by: Party::Person, reason: None }
}

fn settled(task: &str, status: TaskStatus, detail: Option<&str>) -> Event {
    Event::TaskSettled {
        task: TaskId::from(task),
        status,
        detail: detail.map(str::to_owned),
        killed_by: (status == TaskStatus::Killed).then_some(Party::Person),
        output: Some("the result".to_owned()),
        owes_notice: true,
        last_sign_at: None,
    }
}

fn draft(owner: &str, kind: &str, child: Option<&str>) -> TaskDraft {
    TaskDraft {
        owner: id(owner),
        kind: kind.to_owned(),
        label: "work".to_owned(),
        child: child.map(id),
        call: Some(CallId::from("1.0")),
    }
}

async fn put(log: &Log, session: &str, events: Vec<Event>) -> Result<Vec<Recorded>, Error> {
    log.append(&id(session), events).await
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.unwrap_err().code()
}

/// Every file of a folder with what it holds.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap_or_default())).collect()
}

/// The same without the shared-memory index, which holds nothing of its own.
fn kept_bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    bytes(dir).into_iter().filter(|(name, _)| !name.ends_with("-shm")).collect()
}

/// The folder as a crash at this moment would leave it.
fn crash(dir: &TempDir) -> TempDir {
    let copy = tempdir().unwrap();
    for (name, content) in kept_bytes(dir.path()) {
        fs::write(copy.path().join(name), content).unwrap();
    }
    copy
}

/// A session with a bit of everything.
async fn eventful(log: &Log) {
    let events = vec![
        opened(None, "root"),
        message("go"),
        turn(),
        Event::MessageAdmitted { message: 2, step: 1, route: Route::Started },
        step(1),
        answered(1, vec![call("1.0", "bash", r#"{"command":"cargo test"}"#), call("1.1", "subagent", "{}")]),
        started("bash-1", None),
        started("subagent-1", Some("child")),
        finished("1.0", 6),
        finished("1.1", 6),
        Event::ModelRetried { step: 2, reason: "no answer".to_owned(), waited_ms: 100 },
        settled("bash-1", TaskStatus::Failed, Some("exit 101")),
        step(2),
        Event::NoticeAdmitted { task: TaskId::from("bash-1"), settled: 12, step: 2, text: "ended".to_owned() },
        answered(2, vec![Block::Text { text: "fine".to_owned() }]),
        ended(TurnEnd::Completed, None),
    ];
    let child = vec![
        opened(Some("root"), "root"),
        Event::TurnStarted { turn: 1, task: Some(TaskId::from("subagent-1")) },
        step(1),
        answered(1, vec![call("1.0", "read", r#"{"path":"a.rs"}"#)]),
    ];
    for event in events {
        put(log, "root", vec![event]).await.unwrap();
    }
    for event in child {
        put(log, "child", vec![event]).await.unwrap();
    }
    put(log, "root", vec![stopping("subagent-1")]).await.unwrap();
    put(log, "child", vec![finished("1.0", 4), ended(TurnEnd::Stopped, None)]).await.unwrap();
    put(log, "root", vec![settled("subagent-1", TaskStatus::Killed, Some("stopped by you"))]).await.unwrap();
    put(log, "root", vec![Event::TaskLearned { task: TaskId::from("subagent-1") }]).await.unwrap();
}

#[tokio::test]
async fn what_was_answered_survives_a_crash_and_a_restart() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let told = log.since(0, 1000).await.unwrap();
    assert_eq!(told.len(), 25);
    assert_eq!(told.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=25).collect::<Vec<_>>());

    let crashed = crash(&dir);
    let after_crash = open(&crashed);
    assert_eq!(after_crash.since(0, 1000).await.unwrap(), told);
    assert_eq!(after_crash.sessions(None).await.unwrap(), log.sessions(None).await.unwrap());
    assert_eq!(*after_crash.watch().borrow(), 25);

    let store = log.id().to_owned();
    drop(log);
    let log = open(&dir);
    assert_eq!(log.since(0, 1000).await.unwrap(), told);
    assert_eq!(log.id(), store);
    assert_ne!(after_crash.path(), log.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_keep_the_order_of_each_session_and_leave_no_gap() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let writers = (0..8).map(|writer| {
        let log = log.clone();
        async move {
            let session = id(&format!("s{writer}"));
            log.append(&session, vec![opened(None, session.as_str())]).await.unwrap();
            let sent = (0..50).map(|n| log.append(&session, vec![message(&format!("{n}"))]));
            join_all(sent).await.into_iter().flat_map(|told| told.unwrap()).collect::<Vec<_>>()
        }
    });
    for told in join_all(writers).await {
        assert_eq!(told.iter().map(|event| event.n).collect::<Vec<_>>(), (2..=51).collect::<Vec<_>>());
        let expected: Vec<_> = (0..50).map(|n| message(&n.to_string())).collect();
        assert_eq!(told.iter().map(|event| event.event.clone()).collect::<Vec<_>>(), expected);
        assert_eq!(log.events(&told[0].session, 1, 100).await.unwrap(), told);
    }
    let all = log.since(0, 1000).await.unwrap();
    assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=408).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_is_never_ahead_of_what_can_be_read() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let reader = async {
        let (mut watch, mut at) = (log.watch(), 0);
        while at < 301 {
            let announced = *watch.borrow_and_update();
            let seen = log.since(at, 1000).await.unwrap();
            let last = seen.last().map_or(at, |event| event.seq);
            assert!(last >= announced, "announced {announced}, read {last}");
            assert_eq!(seen.iter().map(|event| event.seq).collect::<Vec<_>>(), (at + 1..=last).collect::<Vec<_>>());
            at = last;
            if at < 301 {
                watch.changed().await.unwrap();
            }
        }
    };
    let writer = async {
        for n in 0..300 {
            put(&log, "s", vec![message(&n.to_string())]).await.unwrap();
        }
    };
    let both = async { tokio::join!(reader, writer) };
    tokio::time::timeout(SOON, both).await.unwrap();
}

#[tokio::test]
async fn a_second_write_with_the_same_key_changes_nothing_and_answers_what_the_first_did() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let write = |text: &str| {
        let first =
            Entry { session: id("a"), key: Some("k1".to_owned()), events: vec![opened(None, "a"), message(text)] };
        let second = Entry::new(&id("b"), vec![opened(Some("a"), "a")]);
        log.write(vec![first, second])
    };
    let (first, again) = tokio::join!(write("first"), write("second"));
    let first = first.unwrap();
    assert_eq!(first.len(), 3);
    assert_eq!(again.unwrap(), first);
    put(&log, "a", vec![message("later")]).await.unwrap();
    assert_eq!(write("third").await.unwrap(), first);
    assert_eq!(*log.watch().borrow(), 4);

    let twice = Entry { session: id("a"), key: Some("k2".to_owned()), events: vec![message("x")] };
    assert_eq!(code(log.write(vec![twice.clone(), twice]).await), Code::Conflict);
    assert_eq!(log.since(0, 100).await.unwrap().len(), 4);

    assert_eq!(log.answer("k3").await.unwrap(), None);
    log.keep_answer("k3", json!({"n": 1})).await.unwrap();
    log.keep_answer("k3", json!({"n": 2})).await.unwrap();
    drop(log);
    assert_eq!(open(&dir).answer("k3").await.unwrap(), Some(json!({"n": 1})));
}

#[tokio::test]
async fn only_the_first_end_of_a_task_stands() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    put(&log, "other", vec![opened(None, "other")]).await.unwrap();
    let (task, _) = log.start_task(draft("s", "bash", None)).await.unwrap();
    let end = |session: &'static str, status| {
        put(&log, session, vec![message("with it"), settled("bash-1", status, Some("how"))])
    };
    assert_eq!(code(end("other", TaskStatus::Killed).await), Code::NotYours);
    assert_eq!(code(end("s", TaskStatus::Stopping).await), Code::BadRequest);
    let ends = tokio::join!(end("s", TaskStatus::Killed), end("s", TaskStatus::Completed));
    assert!(ends.0.is_ok());
    assert_eq!(code(ends.1), Code::Conflict);
    assert_eq!(code(put(&log, "s", vec![stopping("bash-1")]).await), Code::Conflict);

    let view = log.task(&task).await.unwrap();
    assert_eq!((view.status, view.killed_by), (TaskStatus::Killed, Some(Party::Person)));
    assert_eq!(log.task_output(&task).await.unwrap().as_deref(), Some("the result"));
    let owed = log.owed(&id("s")).await.unwrap();
    assert_eq!(owed.iter().map(|notice| (notice.settled, &notice.task)).collect::<Vec<_>>(), [(4, &view)]);
    // What stood beside a refused end was not written either.
    assert_eq!(log.events(&id("s"), 0, 100).await.unwrap().len(), 4);
    assert_eq!(code(put(&log, "s", vec![settled("bash-9", TaskStatus::Failed, None)]).await), Code::UnknownTask);
    assert_eq!(code(put(&log, "s", vec![started("bash-1", None)]).await), Code::Conflict);

    let told = Event::NoticeAdmitted { task: task.clone(), settled: 4, step: 1, text: "ended".to_owned() };
    put(&log, "s", vec![told]).await.unwrap();
    assert_eq!(log.owed(&id("s")).await.unwrap(), []);
}

#[tokio::test]
async fn tasks_are_counted_for_each_kind_over_the_life_of_the_store() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let start = async |log: &Log, kind: &str| log.start_task(draft("s", kind, None)).await.map(|(task, _)| task.0);
    assert_eq!(start(&log, "bash").await.unwrap(), "bash-1");
    assert_eq!(start(&log, "subagent").await.unwrap(), "subagent-1");
    assert_eq!(code(log.start_task(draft("nobody", "bash", None)).await), Code::UnknownSession);
    put(&log, "s", vec![started("bash-7", None)]).await.unwrap();
    assert_eq!(start(&log, "bash").await.unwrap(), "bash-8");
    log.delete(vec![id("s")]).await.unwrap();
    drop(log);
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    assert_eq!(start(&log, "bash").await.unwrap(), "bash-9");
    assert_eq!(log.tasks(Some(&id("s"))).await.unwrap(), log.tasks(None).await.unwrap());
    assert_eq!(log.task_output(&TaskId::from("bash-9")).await.unwrap(), None);
    assert_eq!(code(log.task(&TaskId::from("bash-1")).await), Code::UnknownTask);
    assert_eq!(code(log.task_output(&TaskId::from("bash-1")).await), Code::UnknownTask);
}

#[tokio::test]
async fn a_refused_write_leaves_nothing_and_spoils_no_other() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let good = |text| put(&log, "s", vec![message(text)]);
    let bad = log.write(vec![Entry::new(&id("s"), vec![message("bad")]), Entry::new(&id("none"), vec![message("x")])]);
    let orphan = put(&log, "orphan", vec![opened(Some("gone"), "gone")]);
    let again = put(&log, "s", vec![opened(None, "s")]);
    let (a, bad, b, orphan, again, c) = tokio::join!(good("a"), bad, good("b"), orphan, again, good("c"));
    assert_eq!([code(bad), code(orphan), code(again)], [Code::UnknownSession, Code::UnknownSession, Code::Conflict]);
    let kept = [a, b, c].map(|told| told.unwrap().remove(0));
    assert_eq!(log.events(&id("s"), 1, 100).await.unwrap(), kept);
    assert_eq!(kept.map(|event| (event.seq, event.n)), [(2, 2), (3, 3), (4, 4)]);
}

#[tokio::test]
async fn what_is_deleted_is_gone_and_takes_no_late_write() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    put(&log, "kept", vec![opened(None, "kept")]).await.unwrap();
    put(&log, "root", vec![turn(), step(3), started("bash-2", None)]).await.unwrap();
    log.checkpoint(&id("root"), 3, vec![Block::Text { text: "a secret word".to_owned() }]).await.unwrap();
    put(&log, "root", vec![settled("bash-2", TaskStatus::Completed, None)]).await.unwrap();
    let mut watch = log.watch();
    let seq = *watch.borrow_and_update();

    log.delete(vec![id("child"), id("root"), id("never there")]).await.unwrap();
    assert!(watch.has_changed().unwrap(), "subscribers are woken");
    assert_eq!(*watch.borrow_and_update(), seq);
    let left: Vec<_> = log.sessions(None).await.unwrap().into_iter().map(|view| view.id).collect();
    assert_eq!(left, [id("kept")]);
    assert_eq!(log.tasks(None).await.unwrap(), []);
    assert_eq!(log.owed(&id("root")).await.unwrap(), []);
    assert_eq!(log.unfinished().await.unwrap().len(), 0);
    assert_eq!(log.since(0, 100).await.unwrap().len(), 1);
    assert_eq!(code(put(&log, "root", vec![message("late")]).await), Code::UnknownSession);
    assert_eq!(code(log.checkpoint(&id("root"), 3, vec![]).await), Code::UnknownSession);
    assert_eq!(code(put(&log, "late", vec![opened(Some("root"), "root")]).await), Code::UnknownSession);
    assert_eq!(code(log.session(&id("root")).await), Code::UnknownSession);
    assert_eq!(code(log.events(&id("root"), 0, 1).await), Code::UnknownSession);
    assert_eq!(code(log.row_events(&id("root"), 0, 9, 1, true).await), Code::UnknownSession);
    assert_eq!(code(log.usage(&id("root")).await), Code::UnknownSession);

    // Positions are never given again, so no cursor skips an event, and the words are gone from the disk.
    log.delete(vec![id("kept")]).await.unwrap();
    assert_eq!(put(&log, "new", vec![opened(None, "new")]).await.unwrap()[0].seq, seq + 1);
    log.close().await.unwrap();
    let found = |content: &Vec<u8>| content.windows(13).any(|window| window == b"a secret word");
    assert!(!bytes(dir.path()).values().any(found));
}

#[tokio::test]
async fn a_closed_store_has_everything_in_one_file_and_answers_nobody() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let (sent, closed) = tokio::join!(put(&log, "root", vec![message("last")]), log.close());
    closed.unwrap();
    assert_eq!(sent.unwrap()[0].seq, 26);
    assert_eq!(bytes(dir.path()).into_keys().collect::<Vec<_>>(), [Log::FILE]);
    assert_eq!(code(put(&log, "root", vec![message("late")]).await), Code::ShuttingDown);
    log.close().await.unwrap();
    assert_eq!(log.since(0, 100).await.unwrap_err().code(), Code::ShuttingDown);
    drop(log);
    assert_eq!(open(&dir).since(0, 100).await.unwrap().len(), 26);
}

#[tokio::test]
async fn the_ledger_keeps_processes_until_they_are_struck_out() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let entry = |marker: &str, pid, started| LedgerEntry {
        marker: marker.to_owned(),
        label: "sleep 600".to_owned(),
        pid,
        started,
        boot: "b".to_owned(),
    };
    let entries = [entry("m/1", 10, 5), entry("m/1", 11, u64::MAX), entry("m/2", u32::MAX, 7)];
    for entry in &entries {
        log.note(entry.clone()).await.unwrap();
    }
    drop(log);
    let log = open(&dir);
    assert_eq!(log.open_entries().await.unwrap(), entries);
    log.strike("m/1").await.unwrap();
    log.strike("never noted").await.unwrap();
    assert_eq!(log.open_entries().await.unwrap(), entries[2..]);
}

#[tokio::test]
async fn the_answers_of_the_last_commands_are_kept_and_no_more() {
    use coppice_engine::config::bounds::KEPT_ANSWERS;
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let keys: Vec<String> = (0..=KEPT_ANSWERS).map(|n| n.to_string()).collect();
    for told in join_all(keys.iter().map(|key| log.keep_answer(key, Value::from(key.as_str())))).await {
        told.unwrap();
    }
    let kept: i64 =
        Connection::open(log.path()).unwrap().query_row("SELECT count(*) FROM command", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, KEPT_ANSWERS);
    let last = KEPT_ANSWERS.to_string();
    let (first, newest) = (log.answer("0").await.unwrap(), log.answer(&last).await.unwrap());
    assert_eq!((first, newest), (None, Some(Value::from(last))));
}
