//! The store: what is answered is durable, what is refused leaves nothing, and what is there is never made worse.

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
    Event::TurnEnded { turn: 1, end, detail: detail.map(str::to_owned) }
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
    put(&log, "s", vec![stopping("bash-1")]).await.unwrap();

    let view = log.task(&task).await.unwrap();
    assert_eq!((view.status, view.killed_by), (TaskStatus::Killed, Some(Party::Person)));
    assert_eq!(log.task_output(&task).await.unwrap().as_deref(), Some("the result"));
    let owed = log.owed(&id("s")).await.unwrap();
    assert_eq!(owed.iter().map(|notice| (notice.settled, &notice.task)).collect::<Vec<_>>(), [(4, &view)]);
    // What stood beside a refused end was not written either.
    assert_eq!(log.events(&id("s"), 0, 100).await.unwrap().len(), 5);
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
async fn what_this_build_does_not_know_is_kept_and_passed_over() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s"), turn()]).await.unwrap();
    let plugin = Event::Unknown { kind: "plugin/x".to_owned(), version: 3, body: json!({"z": 1, "a": [null]}) };
    put(&log, "s", vec![plugin.clone()]).await.unwrap();
    let sql = Connection::open(log.path()).unwrap();
    let insert = "INSERT INTO event (session, n, at, kind, v, batch, body) VALUES ('s', ?1, 7, ?2, ?3, 0, ?4)";
    sql.execute(insert, (4, "turn_started", 99, "{\"turn\":1}")).unwrap();
    sql.execute(insert, (5, "turn_started", 1, "not json")).unwrap();
    sql.execute("UPDATE session SET last_n = 5", []).unwrap();
    drop(sql);
    put(&log, "s", vec![step(1)]).await.unwrap();
    let unknown = |version, body: Value| Event::Unknown { kind: "turn_started".to_owned(), version, body };
    let expected = vec![
        opened(None, "s"),
        turn(),
        plugin,
        unknown(99, json!({"turn": 1})),
        unknown(1, json!("not json")),
        step(1),
    ];
    let read = |events: Vec<Recorded>| events.into_iter().map(|event| event.event).collect::<Vec<_>>();
    assert_eq!(read(log.events(&id("s"), 0, 100).await.unwrap()), expected);
    log.rebuild().await.unwrap();
    let view = log.session(&id("s")).await.unwrap();
    assert_eq!((view.state, view.last_n, view.step), (SessionState::Running, 6, 1));
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_and_left_as_it_is() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let sql = Connection::open(log.path()).unwrap();
    sql.pragma_update(None, "user_version", 12).unwrap();
    // As another process would leave it that was killed: the version may still stand in the write-ahead log alone.
    let dir = crash(&dir);
    let before = kept_bytes(dir.path());
    assert!(before.values().all(|content| !content.is_empty()) && before.len() == 2, "{:?}", before.keys());
    let told = refusal(dir.path());
    let path = dir.path().join(Log::FILE);
    assert_eq!(
        (told.code(), told.message().to_owned()),
        (
            Code::Store,
            format!(
                "{} was made by a newer Coppice (store version 12, this one reads 1). Update Coppice, or choose another \
                 folder with --data.",
                path.display()
            )
        )
    );
    assert!(kept_bytes(dir.path()) == before);
}

#[tokio::test]
async fn a_damaged_store_is_named_and_left_as_it_is() {
    let source = tempdir().unwrap();
    let log = open(&source);
    eventful(&log).await;
    let large = vec![message(&"x".repeat(3000)); 100];
    put(&log, "root", large).await.unwrap();
    log.close().await.unwrap();
    let whole = bytes(source.path());
    assert_eq!(whole.keys().collect::<Vec<_>>(), [Log::FILE]);
    let whole = &whole[Log::FILE];

    let check = |what: &str, file: Option<Vec<u8>>, wal: Option<&[u8]>| {
        let dir = tempfile::Builder::new().prefix("ä 100% #?&").tempdir().unwrap();
        let path = dir.path().join(Log::FILE);
        file.iter().for_each(|content| fs::write(&path, content).unwrap());
        wal.iter().for_each(|content| fs::write(dir.path().join(format!("{}-wal", Log::FILE)), content).unwrap());
        let before = bytes(dir.path());
        let told = refusal(dir.path());
        assert_eq!(told.code(), Code::Store, "{what}");
        let named = format!("{} is damaged", path.display());
        assert!(told.message().starts_with(&named), "{what}: {}", told.message());
        assert!(bytes(dir.path()) == before, "{what}: {:?}", bytes(dir.path()).keys());
    };
    let with = |at: usize, bytes: &[u8]| {
        let mut content = whole.clone();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        Some(content)
    };
    let middle = whole.len() / 2 / 4096 * 4096;
    check("a page in the middle is overwritten", with(middle, &[0xa5; 4096]), None);
    check("the schema is overwritten", with(100, &[0xff; 2000]), None);
    check("it is another file", Some(b"these are not the bytes of a database, only words ".repeat(100)), None);
    check("it is cut off", Some(whole[..middle].to_vec()), None);
    check("it is empty and the rest is there", Some(Vec::new()), Some(&[1; 5000]));
    check("it is missing and the rest is there", None, Some(&[1; 5000]));
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    let dir = tempdir().unwrap();
    let path = dir.path().join(Log::FILE);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    let before = bytes(dir.path());
    let told = refusal(dir.path());
    assert!(told.message().contains("is a database of another program"), "{told}");
    assert!(bytes(dir.path()) == before);
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    fs::create_dir_all(dir.path().join("taken").join(Log::FILE)).unwrap();
    let check = |folder: &Path, named: &Path| {
        let told = refusal(folder);
        assert_eq!(told.code(), Code::Store);
        assert!(told.message().starts_with(&format!("{} cannot be written (", named.display())), "{told}");
        assert!(told.message().ends_with("or choose another folder with --data."), "{told}");
    };
    check(&dir.path().join("file").join("data"), &dir.path().join("file").join("data"));
    check(&dir.path().join("taken"), &dir.path().join("taken").join(Log::FILE));
    if cfg!(target_os = "linux") {
        check(Path::new("/proc/self"), &Path::new("/proc/self").join(Log::FILE));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_store_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    let data = dir.path().join("a").join("data");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let log = Log::open(&data, &Env::system()).unwrap();
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let modes: Vec<_> = bytes(&data).into_keys().map(|name| mode(&data.join(name))).collect();
    assert_eq!((mode(&data), modes), (0o700, vec![0o600; 3]));
    log.close().await.unwrap();
    fs::set_permissions(log.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let log = Log::open(&data, &Env::system()).unwrap();
    assert_eq!(mode(log.path()), 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_wait_for_another_process_and_keep_their_order() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let other = Connection::open(log.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = Instant::now();
    let writes = join_all((0..20).map(|n| {
        let log = log.clone();
        async move { put(&log, "s", vec![message(&n.to_string())]).await }
    }));
    tokio::pin!(writes);
    // Longer than SQLite itself waits.
    assert!(tokio::time::timeout(Duration::from_millis(2500), &mut writes).await.is_err());
    assert_eq!((log.since(0, 100).await.unwrap().len(), *log.watch().borrow()), (1, 1));
    other.execute_batch("COMMIT").unwrap();
    let told = tokio::time::timeout(SOON, writes).await.unwrap();
    assert!(held.elapsed() >= Duration::from_millis(2500));
    let told: Vec<_> = told.into_iter().map(|told| told.unwrap().remove(0)).collect();
    let expected: Vec<_> = (0..20).map(|n| (n + 2, message(&n.to_string()))).collect();
    assert_eq!(told.iter().map(|event| (event.n, event.event.clone())).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_write_in_turns_never_meet_a_lock() {
    let dir = tempdir().unwrap();
    let logs = [open(&dir), open(&dir)];
    let write = async |log: &Log, session: &str| {
        put(&log, session, vec![opened(None, session)]).await.unwrap();
        for n in 0..200 {
            put(&log, session, vec![message(&n.to_string())]).await.unwrap();
        }
    };
    tokio::join!(write(&logs[0], "a"), write(&logs[1], "b"));
    let all = logs[0].since(0, 1000).await.unwrap();
    assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=402).collect::<Vec<_>>());
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
async fn a_page_of_rows_brings_what_completes_them() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let all = log.events(&id("root"), 0, 1000).await.unwrap();
    let expected = |after: i64, before: i64, limit: usize, newest: bool| {
        let rows: Vec<_> =
            all.iter().filter(|e| e.n > after && e.n < before && gives_rows(e.event.kind())).cloned().collect();
        let skipped = if newest { rows.len().saturating_sub(limit) } else { 0 };
        let about = |n| all.iter().filter(|e| e.event.about() == Some(n)).cloned().collect::<Vec<_>>();
        rows.into_iter().skip(skipped).take(limit).map(|e| (e.clone(), about(e.n))).collect::<Vec<_>>()
    };
    for (after, before) in [(0, i64::MAX), (2, 12), (5, 7), (6, 6), (100, i64::MAX), (i64::MIN, i64::MAX)] {
        for limit in [0, 1, 3, 1000] {
            for newest in [false, true] {
                let page = log.row_events(&id("root"), after, before, limit, newest).await.unwrap();
                assert_eq!(page, expected(after, before, limit, newest), "{after} {before} {limit} {newest}");
            }
        }
    }
    let calls = log.row_events(&id("root"), 5, 7, 1, true).await.unwrap();
    assert_eq!(
        calls[0].1,
        [finished("1.0", 6), finished("1.1", 6)].map(|event| all.iter().find(|e| e.event == event).unwrap().clone())
    );
}

#[tokio::test]
async fn a_page_of_a_long_session_is_read_at_once() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let mut n = 1;
    for _ in 0..40 {
        let mut events = Vec::new();
        for _ in 0..500 {
            events.extend([
                step(1),
                answered(1, vec![call("1.0", "bash", r#"{"command":"true"}"#)]),
                finished("1.0", n + 2),
                Event::MessageAdmitted { message: 1, step: 1, route: Route::Steered },
                step(2),
            ]);
            n += 5;
        }
        put(&log, "s", events).await.unwrap();
    }
    for (after, before, newest) in [(0, i64::MAX, true), (50_000, i64::MAX, false), (0, 50_000, true)] {
        let since = Instant::now();
        let page = log.row_events(&id("s"), after, before, 200, newest).await.unwrap();
        let took = since.elapsed();
        assert_eq!(page.len(), 200);
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
    let since = Instant::now();
    drop(log);
    let log = open(&dir);
    assert_eq!(log.session(&id("s")).await.unwrap().last_n, 100_001);
    println!("opened a store of {} bytes in {:?}", fs::metadata(log.path()).unwrap().len(), since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_write_ahead_log_stays_bounded_under_readers_and_shrinks_when_idle() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let wal = dir.path().join(format!("{}-wal", Log::FILE));
    let size = || fs::metadata(&wal).map_or(0, |metadata| metadata.len());
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (log, stopped) = (log.clone(), stopped.clone());
            async move {
                while !*stopped.borrow() {
                    log.since(0, 400).await.unwrap();
                }
            }
        })
        .collect();
    let writing = async {
        let text = "x".repeat(64 * 1024);
        let mut most = 0;
        for _ in 0..150 {
            put(&log, "s", vec![message(&text); 8]).await.unwrap();
            most = most.max(size());
        }
        stop.send_replace(true);
        most
    };
    let (most, _) = tokio::join!(writing, join_all(readers));
    assert!(most < 40 * 1024 * 1024, "{most}");
    let idle = async {
        while size() > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, idle).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn many_questions_at_once_open_few_files() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let handles = || {
        let links =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| link == log.path()).count()
    };
    let root = id("root");
    for _ in 0..20 {
        for told in join_all((0..50).map(|_| log.events(&root, 0, 100))).await {
            told.unwrap();
        }
    }
    assert!(handles() <= 5, "{}", handles());
}

#[tokio::test]
async fn a_closed_store_has_everything_in_one_file_and_takes_no_writes() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let (sent, closed) = tokio::join!(put(&log, "root", vec![message("last")]), log.close());
    closed.unwrap();
    assert_eq!(sent.unwrap()[0].seq, 26);
    assert_eq!(bytes(dir.path()).into_keys().collect::<Vec<_>>(), [Log::FILE]);
    assert_eq!(code(put(&log, "root", vec![message("late")]).await), Code::ShuttingDown);
    log.close().await.unwrap();
    assert_eq!(log.since(0, 100).await.unwrap().len(), 26);
}

#[tokio::test]
async fn a_partial_reply_is_kept_until_the_reply_is_there() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let s = id("s");
    let text = |text: &str| vec![Block::Text { text: text.to_owned() }];
    let unfinished = async |log: &Log| -> Vec<_> {
        log.unfinished().await.unwrap().into_iter().map(|left| (left.session.0, left.partial)).collect()
    };
    log.append(&s, vec![opened(None, "s"), message("hi")]).await.unwrap();
    assert_eq!(unfinished(&log).await, []);
    log.append(&s, vec![turn(), step(1)]).await.unwrap();
    assert_eq!(unfinished(&log).await, [("s".to_owned(), None)]);
    log.checkpoint(&s, 1, text("Hel")).await.unwrap();
    log.checkpoint(&s, 1, text("Hello")).await.unwrap();
    assert_eq!(unfinished(&open(&crash(&dir))).await, [("s".to_owned(), Some((1, text("Hello"))))]);
    log.rebuild().await.unwrap();
    assert_eq!(unfinished(&log).await, [("s".to_owned(), Some((1, text("Hello"))))]);

    log.append(&s, vec![answered(1, vec![call("1.0", "bash", "{}")])]).await.unwrap();
    log.checkpoint(&s, 1, text("too late")).await.unwrap();
    log.append(&s, vec![ended(TurnEnd::Stopped, None)]).await.unwrap();
    // No turn and no partial any more, but a call without its result.
    assert_eq!(unfinished(&log).await, [("s".to_owned(), None)]);
    log.append(&s, vec![finished("1.0", 5)]).await.unwrap();
    assert_eq!(unfinished(&log).await, []);

    let (task, _) = log.start_task(draft("s", "bash", None)).await.unwrap();
    assert_eq!(unfinished(&log).await, [("s".to_owned(), None)]);
    log.append(&s, vec![settled(task.as_str(), TaskStatus::Interrupted, None)]).await.unwrap();
    assert_eq!(unfinished(&log).await, []);
}

#[tokio::test]
async fn tokens_are_summed_over_the_branch() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let absurd = Usage { input: i64::MAX, output: 1, cached: 0, estimated: true };
    let reply = Event::Answered { step: 1, blocks: vec![], stop: Stop::Complete, usage: absurd };
    put(&log, "a", vec![opened(None, "a"), answered(1, vec![]), answered(2, vec![])]).await.unwrap();
    put(&log, "b", vec![opened(Some("a"), "a"), answered(1, vec![])]).await.unwrap();
    put(&log, "c", vec![opened(Some("b"), "a"), reply]).await.unwrap();
    put(&log, "else", vec![opened(None, "else"), answered(1, vec![])]).await.unwrap();
    let tokens = |input, output, cached, estimated, requests| Tokens { input, output, cached, estimated, requests };
    let a = (tokens(20, 4, 8, false, 2), tokens(i64::MAX, 7, 12, true, 4));
    assert_eq!(log.usage(&id("a")).await.unwrap(), a);
    let c = tokens(i64::MAX, 1, 0, true, 1);
    assert_eq!(log.usage(&id("c")).await.unwrap(), (c, c));
    assert_eq!(log.session(&id("a")).await.unwrap().tokens, a.0);
    let tree: Vec<_> = log.sessions(Some(&id("a"))).await.unwrap().into_iter().map(|view| view.id.0).collect();
    assert_eq!(tree, ["a", "b", "c"]);
}

#[tokio::test]
async fn the_state_of_a_session_follows_its_events() {
    use SessionState::*;
    let check = async |what: &str,
                       root: Vec<Event>,
                       child: Option<Vec<Event>>,
                       end: Vec<Event>,
                       expected: (SessionState, &str)| {
        let dir = tempdir().unwrap();
        let log = open(&dir);
        let mut shown = id("root");
        log.append(&shown, [vec![opened(None, "root")], root].concat()).await.unwrap();
        if let Some(events) = child {
            shown = id("child");
            log.append(&shown, [vec![opened(Some("root"), "root")], events].concat()).await.unwrap();
        }
        put(&log, "root", end).await.unwrap();
        let view = log.session(&shown).await.unwrap();
        assert_eq!((view.state, view.detail.as_str()), expected, "{what}");
    };
    let begun = || vec![turn(), step(1)];
    let asks = || answered(1, vec![call("1.0", "bash", r#"{"command":"cargo test"}"#)]);
    check("new root", vec![], None, vec![], (Idle, "")).await;
    check("turn", vec![turn()], None, vec![], (Running, "")).await;
    check("step", begun(), None, vec![], (Running, "thinking")).await;
    check("call", [begun(), vec![asks()]].concat(), None, vec![], (Running, "bash: cargo test")).await;
    check("result", [begun(), vec![asks(), finished("1.0", 4)]].concat(), None, vec![], (Running, "bash: cargo test"))
        .await;
    let check_end = async |end, detail, expected| {
        check("turn end", [begun(), vec![asks(), ended(end, detail)]].concat(), None, vec![], expected).await;
    };
    check_end(TurnEnd::Completed, None, (Idle, "")).await;
    check_end(TurnEnd::Stopped, None, (Idle, "stopped by you")).await;
    check_end(TurnEnd::Stopped, Some("stopped by its limit"), (Idle, "stopped by its limit")).await;
    check_end(TurnEnd::Failed, Some("no answer"), (Failed, "no answer")).await;
    check_end(TurnEnd::MaxTokens, Some("too long"), (Failed, "too long")).await;
    check_end(TurnEnd::Refusal, Some("refused"), (Failed, "refused")).await;
    check_end(TurnEnd::Limit, None, (Failed, "")).await;
    check_end(TurnEnd::Interrupted, None, (Interrupted, "can resume")).await;
    check("next turn", vec![turn(), ended(TurnEnd::Failed, Some("x")), turn()], None, vec![], (Running, "")).await;

    let task = || vec![started("subagent-1", Some("child"))];
    let over = |status, detail| vec![settled("subagent-1", status, detail)];
    check("new child", vec![], Some(vec![]), vec![], (Starting, "")).await;
    check("activated before it opens", task(), Some(vec![]), vec![], (Starting, "")).await;
    check("activated after", vec![], Some(vec![]), task(), (Starting, "")).await;
    check("at work", task(), Some(begun()), vec![], (Running, "thinking")).await;
    check("stopping", task(), Some(begun()), vec![stopping("subagent-1")], (Stopping, "thinking")).await;
    check("turn over", task(), Some([begun(), vec![ended(TurnEnd::Completed, None)]].concat()), vec![], (Running, ""))
        .await;
    let child = [begun(), vec![ended(TurnEnd::Interrupted, None)]].concat();
    check("interrupted", task(), Some(child), vec![], (Interrupted, "can resume")).await;
    check("completed", task(), Some(begun()), over(TaskStatus::Completed, None), (Completed, "")).await;
    check("failed", task(), Some(begun()), over(TaskStatus::Failed, Some("error")), (Failed, "error")).await;
    check("killed", task(), Some(begun()), over(TaskStatus::Killed, Some("by you")), (Killed, "by you")).await;
    check("lost", task(), Some(begun()), over(TaskStatus::Interrupted, None), (Interrupted, "can resume")).await;
    let resumed = [over(TaskStatus::Completed, None), vec![started("subagent-2", Some("child"))]].concat();
    check("resumed", task(), Some(begun()), resumed.clone(), (Starting, "")).await;
    check(
        "a late stop of the old one",
        task(),
        Some(begun()),
        [resumed, vec![stopping("subagent-1")]].concat(),
        (Starting, ""),
    )
    .await;

    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    put(&log, "root", vec![Event::Renamed { title: "new".to_owned() }]).await.unwrap();
    let root = log.session(&id("root")).await.unwrap();
    let events = log.events(&id("root"), 0, 100).await.unwrap();
    let at = |n: i64| events.iter().find(|event| event.n == n).unwrap().at;
    assert_eq!((root.title.as_str(), root.last_n, root.last_sign_at), ("new", 20, at(20)));
    assert_eq!((root.created_at, root.started_at, root.ended_at, root.step), (at(1), Some(at(3)), Some(at(16)), 2));
    let child = log.session(&id("child")).await.unwrap();
    assert_eq!((child.state, child.task), (Killed, Some(TaskId::from("subagent-1"))));
}

/// Everything that is folded from the log, table by table, as text.
fn projections(path: &Path) -> Vec<String> {
    let sql = Connection::open(path).unwrap();
    let mut dump = Vec::new();
    for table in ["session", "call", "task", "notice"] {
        let mut statement = sql.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<_> = (0..columns).map(|column| format!("{:?}", row.get_ref(column).unwrap())).collect();
            dump.push(format!("{table}: {}", values.join(", ")));
        }
    }
    dump
}

#[tokio::test]
async fn every_prefix_of_a_log_folds_to_what_stood_there_then() {
    let source = tempdir().unwrap();
    let log = open(&source);
    eventful(&log).await;
    let all = log.since(0, 1000).await.unwrap();

    let dir = tempdir().unwrap();
    let log = open(&dir);
    let mut stood = vec![projections(log.path())];
    for event in all {
        log.append(&event.session, vec![event.event]).await.unwrap();
        stood.push(projections(log.path()));
    }
    assert!(stood.windows(2).all(|pair| pair[0] != pair[1]), "each event shows");
    while let Some(expected) = stood.pop() {
        log.rebuild().await.unwrap();
        assert_eq!(projections(log.path()), expected, "after {} events", stood.len());
        let sql = Connection::open(log.path()).unwrap();
        sql.execute("DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)", []).unwrap();
    }
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
