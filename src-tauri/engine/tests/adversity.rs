//! The engine under adversity: a crash, a store that others hold, another clock, events that it does not know.

use crate::lab::{Lab, PATIENCE, call, delegate, gate, key, results, say, task, user_texts, within};
use coppice_engine::config::Config;
use coppice_engine::engine::{Engine, Opening};
use coppice_engine::env::{Clock, Env};
use coppice_engine::error::Code;
use coppice_engine::event::{Block, Event, Mode, Party, Recorded, Route, Stop, TaskStatus, TreeLimits};
use coppice_engine::id::SessionId;
use coppice_engine::llm::{Message, Model};
use coppice_engine::log::{Entry, Log};
use coppice_engine::view::{RowBody, SessionState};
use futures::future::join_all;
use rusqlite::Connection;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else if !entry.file_name().to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The data folder as a crash at this moment would leave it.
fn crashed(lab: &Lab) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&lab.data(), dir.path());
    dir
}

async fn open(data: &Path, lab: &Lab, env: Env) -> Engine {
    let models = BTreeMap::from([("scripted".to_owned(), lab.model.clone() as Arc<dyn Model>)]);
    let mut config = Config { default_model: "scripted".to_owned(), ..Config::default() };
    config.limits.stop_grace_ms = 300;
    Engine::open_with(data, config, env, models).await.unwrap()
}

fn store(lab: &Lab) -> Connection {
    Connection::open(lab.data().join(Log::FILE)).unwrap()
}

fn turn_ended(event: &Event) -> bool {
    matches!(event, Event::TurnEnded { .. })
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect(what);
}

#[tokio::test]
async fn after_a_crash_every_call_has_one_result_and_the_session_goes_on() {
    let lab = Lab::new().await;
    let calls = vec![
        call("bash", json!({ "command": "touch at-work; sleep 60" })),
        call("bash", json!({ "command": "sleep 60" })),
    ];
    lab.script("root", vec![calls, vec![say("well")]]);
    let root = lab.prompted("go").await;
    until("it is at work", || lab.cwd.join("at-work").exists()).await;
    let data = crashed(&lab);
    lab.engine.shutdown(PATIENCE).await.unwrap();

    for round in 1..=2 {
        let engine = open(data.path(), &lab, Env::system()).await;
        let state = engine.session(&root).await.unwrap().state;
        assert_eq!(state, if round == 1 { SessionState::Interrupted } else { SessionState::Idle });
        engine.prompt(&root, "hi".into(), &key()).await.unwrap();
        within(engine.wait_session(&root, PATIENCE)).await.unwrap();
        let request = lab.requests(&root).pop().unwrap();
        let roles: Vec<&str> = request
            .messages
            .iter()
            .map(|message| match message {
                Message::User(_) => "user",
                Message::Assistant(_) => "assistant",
                Message::Tool { .. } => "tool",
            })
            .collect();
        assert_eq!(roles[..5], ["user", "assistant", "tool", "tool", "user"], "{:?}", request.messages);
        let results = results(&request);
        assert_eq!(results.len(), 2);
        assert!(results.iter().all(|(ok, text)| !ok && text.starts_with("Interrupted: ")), "{results:?}");
        let finished = engine.events(&root, 0, 1000).await.unwrap();
        let facts = finished.iter().filter_map(|event| match &event.event {
            Event::ToolFinished { detail, .. } => Some(detail),
            _ => None,
        });
        let facts: Vec<_> = facts.collect();
        assert_eq!(facts, [&json!({ "cut_off": true }); 2], "each result is written once");
        engine.shutdown(PATIENCE).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_that_was_read_before_a_crash_is_not_read_again_when_it_is_sent_again() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![say("done")], vec![gate("at work")], vec![say("well")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let once = key();
    lab.engine.send(&child, "<words>".into(), None, &once).await.unwrap();
    lab.reached("at work").await;
    // The crash came before the answer was kept.
    store(&lab).execute("DELETE FROM command WHERE key = ?1", [&once]).unwrap();
    let data = crashed(&lab);
    lab.engine.shutdown(PATIENCE).await.unwrap();

    let engine = open(data.path(), &lab, Env::system()).await;
    let again = engine.send(&child, "<words>".into(), None, &once).await.unwrap();
    assert_eq!((again.route, again.task), (Route::Started, task("subagent-2")));
    for (child, words) in [(&child, "other words"), (&root, "<words>")] {
        let refused = engine.send(child, words.into(), None, &once).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadRequest);
    }
    within(engine.wait_session(&root, PATIENCE)).await.unwrap();
    let tasks: Vec<TaskStatus> = engine.tasks(None).await.unwrap().into_iter().map(|task| task.status).collect();
    assert_eq!(tasks, [TaskStatus::Completed, TaskStatus::Interrupted]);
    engine.send(&child, "and now?".into(), None, &key()).await.unwrap();
    within(engine.wait_session(&root, PATIENCE)).await.unwrap();
    let read = user_texts(&lab.requests(&child).pop().unwrap()).join("\n");
    assert_eq!(read.matches("<words>").count(), 1, "{read}");
    engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_held_for_seconds_while_eight_children_stream_costs_no_turn() {
    let mut config = Config::default();
    config.limits.wake_budget = 0;
    let lab = Lab::with(config).await;
    let names: Vec<String> = (0..8).map(|n| format!("child {n}")).collect();
    lab.script("root", vec![names.iter().map(|name| delegate(name, "work")).collect(), vec![say("started")]]);
    for name in &names {
        let look = call("task_list", json!({}));
        lab.script(name, vec![vec![say("begun"), gate(name), look], vec![say(&format!("{name} has found it"))]]);
    }
    let root = lab.prompted("go").await;
    for name in &names {
        lab.reached(name).await;
    }
    lab.until(&root, turn_ended).await;
    let other = store(&lab);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for name in &names {
        lab.open_gate(name);
    }
    // Longer than SQLite itself waits for a lock, twice over.
    let early = tokio::time::timeout(
        Duration::from_millis(2500),
        lab.until(&root, |event| matches!(event, Event::TaskSettled { .. })),
    );
    assert!(early.await.is_err(), "an end was written past the lock");
    other.execute_batch("COMMIT").unwrap();
    lab.rest(&root).await;
    for task in lab.tasks().await {
        assert_eq!((task.status, task.detail.as_deref()), (TaskStatus::Completed, None), "{}", task.label);
        let said = lab.engine.output(&task.id, 0, 100).await.unwrap().text;
        assert_eq!(said, format!("{} has found it", task.label));
        let events = lab.events(&task.child.unwrap()).await;
        let places: Vec<i64> = events.iter().map(|event| event.n).collect();
        assert_eq!(places, (1..=events.len() as i64).collect::<Vec<_>>());
        let kinds: Vec<&str> = events.iter().map(|event| event.event.kind()).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "answered").count(), 2, "{kinds:?}");
        assert_eq!(kinds.last(), Some(&"turn_ended"));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_sessions_at_work_hold_few_handles_on_the_store() {
    let lab = Lab::new().await;
    let store = lab.data().canonicalize().unwrap();
    let handles = || {
        let links =
            fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link.starts_with(&store)).count()
    };
    let roots = join_all((0..100).map(|_| lab.prompted("go"))).await;
    for root in &roots {
        lab.rest(root).await;
        lab.engine.page(root, None, None, 100).await.unwrap();
    }
    // The lock, and the three files of the store for the writer and at most four readers.
    assert!(handles() <= 1 + 3 * 5, "{}", handles());
}

#[tokio::test]
async fn an_event_of_an_unknown_kind_in_the_middle_is_shown_and_skipped_and_the_session_goes_on() {
    let mut lab = Lab::new().await;
    let root = lab.prompted("first words").await;
    lab.rest(&root).await;
    let n = lab.engine.session(&root).await.unwrap().last_n + 1;
    let sql = store(&lab);
    sql.execute(
        "INSERT INTO event (session, n, at, kind, v, batch, body) VALUES (?1, ?2, 7, 'plugin/x', 3, 0, ?3)",
        rusqlite::params![root.as_str(), n, json!({ "text": "PLUGIN" }).to_string()],
    )
    .unwrap();
    sql.execute("UPDATE session SET last_n = ?1 WHERE id = ?2", rusqlite::params![n, root.as_str()]).unwrap();
    drop(sql);
    lab.restart().await;
    lab.engine.prompt(&root, "second words".into(), &key()).await.unwrap();
    assert_eq!(lab.rest(&root).await.state, SessionState::Idle);
    let request = lab.requests(&root).pop().unwrap();
    assert_eq!(user_texts(&request), ["first words", "second words"]);
    assert!(!format!("{:?}", request.messages).contains("PLUGIN"));
    let page = lab.engine.page(&root, None, None, 100).await.unwrap();
    let kinds: Vec<String> = page
        .rows
        .iter()
        .map(|row| match &row.body {
            RowBody::Unknown { event } => event.clone(),
            body => serde_json::to_value(body).unwrap()["kind"].as_str().unwrap().to_owned(),
        })
        .collect();
    assert_eq!(kinds, ["message", "answer", "plugin/x", "message", "answer"]);
}

struct Ahead(Duration);

impl Clock for Ahead {
    #[expect(clippy::disallowed_methods, reason = "a clock of its own")]
    fn now_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from((now + self.0).as_millis()).unwrap()
    }
}

fn rows_of(data: &Path) -> Vec<String> {
    let sql = Connection::open(data.join(Log::FILE)).unwrap();
    let mut dump = Vec::new();
    for table in ["event", "session", "task", "notice", "command", "counter"] {
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
async fn nothing_is_ever_deleted_because_it_is_old() {
    let lab = Lab::new().await;
    let speaks = call("bash", json!({ "command": "echo long ago", "run_in_background": true }));
    lab.script("root", vec![vec![delegate("one", "work"), speaks], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    lab.engine.shutdown(PATIENCE).await.unwrap();
    let days_400 = 400 * 24 * 60 * 60 * 1000_i64;
    let sql = store(&lab);
    sql.execute("UPDATE event SET at = at - ?1", [days_400]).unwrap();
    for column in ["created_at", "last_sign_at", "started_at", "ended_at"] {
        sql.execute(&format!("UPDATE session SET {column} = {column} - ?1"), [days_400]).unwrap();
    }
    drop(sql);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let output = lab.data().join("output").join("bash-1");
    for entry in fs::read_dir(&output).unwrap() {
        fs::File::options().write(true).open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
    }
    let before = rows_of(&lab.data());
    let two_years = Duration::from_secs(2 * 365 * 24 * 60 * 60);
    for _ in 0..3 {
        let engine = open(&lab.data(), &lab, Env::with_clock(Arc::new(Ahead(two_years)))).await;
        let (sessions, tasks) = engine.tree(None).await.unwrap();
        assert_eq!((sessions.len(), tasks.len()), (2, 2));
        assert_eq!(engine.output(&task("bash-1"), 0, 100).await.unwrap().text, "long ago\n");
        engine.shutdown(PATIENCE).await.unwrap();
        assert_eq!(rows_of(&lab.data()), before);
    }
}

#[tokio::test]
async fn a_quit_with_five_streaming_children_keeps_their_last_words_and_calls_none_of_them_failed() {
    let mut lab = Lab::new().await;
    let names: Vec<String> = (0..5).map(|n| format!("child {n}")).collect();
    lab.script("root", vec![names.iter().map(|name| delegate(name, "work")).collect(), vec![say("started")]]);
    for name in &names {
        lab.script(name, vec![vec![say(&format!("{name} was saying 語")), gate(name)]]);
    }
    let root = lab.prompted("go").await;
    for name in &names {
        lab.reached(name).await;
    }
    lab.until(&root, turn_ended).await;
    lab.restart().await;
    let tasks = lab.tasks().await;
    assert_eq!(tasks.len(), 5);
    for task in tasks {
        assert_eq!(task.status, TaskStatus::Interrupted, "{task:?}");
        let child = lab.engine.session(task.child.as_ref().unwrap()).await.unwrap();
        assert_eq!(child.state, SessionState::Interrupted, "{child:?}");
        let said: Vec<(Vec<Block>, Stop)> = lab
            .events(&child.id)
            .await
            .into_iter()
            .filter_map(|recorded| match recorded.event {
                Event::Answered { blocks, stop, .. } => Some((blocks, stop)),
                _ => None,
            })
            .collect();
        let text = format!("{} was saying 語", child.title);
        assert_eq!(said, [(vec![Block::Text { text }], Stop::CutOff)]);
    }
}

#[tokio::test]
async fn a_second_engine_on_the_folder_is_refused_and_changes_nothing_of_what_runs() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("one"), say("done")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    lab.reached("one").await;
    let before = rows_of(&lab.data());
    for _ in 0..3 {
        let refused = Engine::open(&lab.data(), Config::default()).await.err().unwrap();
        assert_eq!(refused.code(), Code::HeldElsewhere);
    }
    assert_eq!(rows_of(&lab.data()), before);
    lab.open_gate("one");
    lab.rest(&root).await;
    assert_eq!(lab.tasks().await[0].status, TaskStatus::Completed);
}

fn opened(session: &SessionId) -> Event {
    Event::SessionOpened {
        parent: None,
        root: session.clone(),
        depth: 0,
        title: String::new(),
        label: None,
        provider: None,
        model: "m".to_owned(),
        mode: Mode::Ask,
        cwd: "/".to_owned(),
    }
}

fn message(text: String) -> Event {
    Event::MessageAccepted { from: Party::Person, text, task: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_forced_onto_one_session_never_give_a_place_twice_and_fold_back_without_damage() {
    let version: Vec<u32> = rusqlite::version().split('.').map(|part| part.parse().unwrap()).collect();
    assert!(version > vec![3, 51, 2], "SQLite {version:?} can damage a store that two processes write and fold back");
    let dir = tempfile::tempdir().unwrap();
    let logs = [(); 2].map(|()| Log::open(dir.path(), &Env::system()).unwrap());
    let session = SessionId::from("s");
    logs[0].append(&session, vec![opened(&session)]).await.unwrap();
    let writing = AtomicBool::new(true);
    let path = dir.path().join(Log::FILE);
    let folds = std::thread::scope(|scope| {
        let folding = scope.spawn(|| {
            let sql = Connection::open(&path).unwrap();
            sql.busy_timeout(Duration::from_secs(5)).unwrap();
            let mut folds = 0;
            loop {
                // Once more when both are done, so that at least that one is not in their way.
                let last = !writing.load(Ordering::Relaxed);
                let busy: bool = sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
                folds += u32::from(!busy);
                if last {
                    return folds;
                }
            }
        });
        let write = async |log: &Log, who: usize| {
            for n in 0..150 {
                log.append(&session, vec![message(format!("{who}.{n}"))]).await.unwrap();
            }
        };
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async { tokio::join!(write(&logs[0], 0), write(&logs[1], 1)) })
        });
        writing.store(false, Ordering::Relaxed);
        folding.join().unwrap()
    });
    assert!(folds > 0, "nothing was folded back");
    let events = logs[1].events(&session, 0, 1000).await.unwrap();
    assert_eq!(events.iter().map(|event| event.n).collect::<Vec<_>>(), (1..=301).collect::<Vec<_>>());
    for who in 0..2 {
        let own = |recorded: &Recorded| match &recorded.event {
            Event::MessageAccepted { text, .. } => text.strip_prefix(&format!("{who}.")).map(str::to_owned),
            _ => None,
        };
        let own: Vec<String> = events.iter().filter_map(own).collect();
        assert_eq!(own, (0..150).map(|n| n.to_string()).collect::<Vec<_>>());
    }
    for log in &logs {
        log.close().await.unwrap();
    }
    let sound: String =
        Connection::open(&path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[tokio::test]
async fn what_two_stores_write_to_one_task_ends_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let logs = [(); 2].map(|()| Log::open(dir.path(), &Env::system()).unwrap());
    let session = SessionId::from("s");
    logs[0].append(&session, vec![opened(&session)]).await.unwrap();
    for n in 1..=20 {
        let name = format!("bash-{n}");
        let started = Event::TaskStarted {
            task: task(&name),
            task_kind: "bash".to_owned(),
            label: "work".to_owned(),
            child: None,
            call: None,
        };
        logs[0].append(&session, vec![started]).await.unwrap();
        let end = |log: &Log, status| {
            let settled = Event::TaskSettled {
                task: task(&name),
                status,
                detail: None,
                killed_by: None,
                output: None,
                owes_notice: true,
                last_sign_at: None,
            };
            let entries = vec![Entry::new(&session, vec![settled])];
            let log = log.clone();
            async move { log.write(entries).await }
        };
        let (a, b) = tokio::join!(end(&logs[0], TaskStatus::Completed), end(&logs[1], TaskStatus::Killed));
        let (first, late) = if a.is_ok() { (TaskStatus::Completed, b) } else { (TaskStatus::Killed, a) };
        assert_eq!(late.unwrap_err().code(), Code::Conflict);
        assert_eq!(logs[1].task(&task(&name)).await.unwrap().status, first);
    }
}

#[tokio::test]
async fn two_windows_on_one_session_see_the_same_and_one_click_opens_one_session() {
    let lab = Lab::new().await;
    let once = key();
    let opening =
        || Opening { cwd: lab.cwd.clone(), model: None, mode: Mode::Full, title: None, limits: TreeLimits::default() };
    let (first, second) =
        tokio::join!(lab.engine.open_session(opening(), &once), lab.engine.open_session(opening(), &once));
    let root = first.unwrap();
    assert_eq!(second.unwrap(), root);
    assert_eq!(lab.engine.tree(None).await.unwrap().0.len(), 1);

    let mut windows = [
        lab.engine.follow(Some(root.clone()), Some(0)).await.unwrap(),
        lab.engine.follow(Some(root.clone()), Some(0)).await.unwrap(),
    ];
    let (a, b) = (key(), key());
    let (first, second) = tokio::join!(
        lab.engine.prompt(&root, "from the first".into(), &a),
        lab.engine.prompt(&root, "from the second".into(), &b)
    );
    assert_ne!(first.unwrap(), second.unwrap());
    lab.rest(&root).await;
    let page = lab.engine.page(&root, None, None, 100).await.unwrap();
    for window in &mut windows {
        let mut seen = BTreeMap::new();
        within(async {
            while window.cursor() < page.last {
                for row in window.next().await.unwrap().unwrap().rows {
                    seen.insert(row.n, row);
                }
            }
        })
        .await;
        assert_eq!(seen.into_values().collect::<Vec<_>>(), page.rows);
    }
    let read = user_texts(&lab.requests(&root).pop().unwrap()).join("\n");
    for words in ["from the first", "from the second"] {
        assert_eq!(read.matches(words).count(), 1, "{read}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_stay_open_do_not_let_the_write_ahead_log_grow() {
    let lab = Lab::new().await;
    let wal = lab.data().join(format!("{}-wal", Log::FILE));
    let size = || fs::metadata(&wal).map_or(0, |metadata| metadata.len());
    let text = "x".repeat(1_000_000);
    let mut windows = Vec::new();
    let mut most = 0;
    for _ in 0..36 {
        let root = lab.prompted(&text).await;
        // They are opened, read once, and left.
        let mut window = lab.engine.follow(Some(root.clone()), Some(0)).await.unwrap();
        window.next().await.unwrap().unwrap();
        windows.push(window);
        lab.rest(&root).await;
        most = most.max(size());
    }
    assert!(most < 24 * 1024 * 1024, "{most} bytes");
    until("it shrinks when nothing is written", || size() == 0).await;
    drop(windows);
}

#[tokio::test]
async fn a_write_ahead_log_that_cannot_be_read_is_kept_aside_and_said_and_never_written_over_in_silence() {
    let lab = Lab::new().await;
    let root = lab.prompted("first words").await;
    lab.rest(&root).await;
    // What came first stands in the store, what came last in the write-ahead log alone.
    let folded: bool = store(&lab).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert!(!folded, "a reader was in the way");
    lab.engine.prompt(&root, "last words".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let data = crashed(&lab);
    let wal = data.path().join(format!("{}-wal", Log::FILE));
    let mut bytes = fs::read(&wal).unwrap();
    assert!(bytes.windows(10).any(|window| window == b"last words"));
    bytes[..32].fill(0x5a);
    fs::write(&wal, &bytes).unwrap();

    let engine = open(data.path(), &lab, Env::system()).await;
    let told = engine.leftovers().unwrap();
    let copy = data.path().canonicalize().unwrap().join(format!("{}-wal.unreadable", Log::FILE));
    assert!(told.contains(copy.to_str().unwrap()), "{told}");
    assert!(fs::read(&copy).unwrap() == bytes);
    let read = engine.events(&root, 0, 1000).await.unwrap();
    let said: Vec<&str> = read
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::MessageAccepted { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["first words"]);
    engine.prompt(&root, "new words".into(), &key()).await.unwrap();
    within(engine.wait_session(&root, PATIENCE)).await.unwrap();
    engine.shutdown(PATIENCE).await.unwrap();
    let engine = open(data.path(), &lab, Env::system()).await;
    assert_eq!(engine.leftovers(), None, "it is said once");
    engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_all_in_a_write_ahead_log_that_cannot_be_read_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), &Env::system()).unwrap();
    let session = SessionId::from("s");
    log.append(&session, vec![opened(&session)]).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    copy(dir.path(), data.path());
    let wal = data.path().join(format!("{}-wal", Log::FILE));
    let mut bytes = fs::read(&wal).unwrap();
    bytes[8] ^= 1;
    fs::write(&wal, &bytes).unwrap();
    let main = fs::read(data.path().join(Log::FILE)).unwrap();
    let told = Log::open(data.path(), &Env::system()).err().unwrap();
    assert_eq!(told.code(), Code::Store);
    assert!(told.message().contains("is damaged (what was written to it last cannot be read)"), "{told}");
    assert!(fs::read(&wal).unwrap() == bytes && fs::read(data.path().join(Log::FILE)).unwrap() == main);
}
