//! How many events a second become durable, beside SQLite with the same settings and nothing around it.

use crate::measure::{Line, Sample, ms};
use coppice_engine::env::Env;
use coppice_engine::event::{Event, Mode, Party};
use coppice_engine::id::SessionId;
use coppice_engine::log::Log;
use futures::future::join_all;
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::Instant;

/// How many events one round appends one after the other, and how many rounds there are.
const EVENTS: usize = 400;
const ROUNDS: usize = 5;
/// How many append at once where several do.
const TOGETHER: usize = 16;

pub fn run() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let log = Log::open(dir.path(), &Env::system()).unwrap();
    let sessions: Vec<SessionId> = (0..TOGETHER).map(|n| SessionId(format!("session {n}"))).collect();
    runtime.block_on(async {
        for session in &sessions {
            log.append(session, vec![opened(session)]).await.unwrap();
        }
    });
    let bare = bare_store(dir.path());
    let mut last = 0;
    let (mut alone, mut together, mut reference) = (Vec::new(), Vec::new(), Vec::new());
    // In turn, so that a busy moment of the machine meets all of them.
    for _ in 0..ROUNDS {
        reference.push(rate(EVENTS, || append_bare(&bare, &mut last)));
        alone.push(rate(EVENTS, || runtime.block_on(append(&log, &sessions[0]))));
        together.push(rate(EVENTS * TOGETHER, || {
            runtime.block_on(async { join_all(sessions.iter().map(|session| append(&log, session))).await });
        }));
    }
    runtime.block_on(log.close()).unwrap();
    let there = Sample::from_iter(reference).median();
    for (what, sample) in [("append, one at a time", alone), ("append, sixteen at a time", together)] {
        let here = Sample::from_iter(sample).median();
        let reference = "bare SQLite, same folder and settings, a transaction an event";
        Line { what, unit: "/s", here, there, reference, rounds: ROUNDS }.print();
    }
}

/// The median time of one durable commit of bare SQLite in this folder, in ms: the least that anything durable costs.
pub fn commit(folder: &Path) -> Sample {
    let bare = bare_store(folder);
    let mut last = 0;
    Sample::of(100, |_| {
        let began = Instant::now();
        append_one(&bare, &mut last);
        ms(began)
    })
}

fn rate(events: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    events as f64 / began.elapsed().as_secs_f64()
}

async fn append(log: &Log, session: &SessionId) {
    for _ in 0..EVENTS {
        log.append(session, vec![message()]).await.unwrap();
    }
}

fn opened(session: &SessionId) -> Event {
    Event::SessionOpened {
        parent: None,
        root: session.clone(),
        depth: 0,
        title: "append".to_owned(),
        label: None,
        provider: None,
        model: "none".to_owned(),
        mode: Mode::Ask,
        cwd: "/".to_owned(),
    }
}

/// An event of 300 bytes.
fn message() -> Event {
    let event = |text: String| Event::MessageAccepted { from: Party::Parent, text, task: None };
    let around = event(String::new()).body().to_string().len();
    event("x".repeat(300 - around))
}

fn bare_store(folder: &Path) -> Connection {
    let sql = Connection::open(folder.join("bare.db")).unwrap();
    sql.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    sql.pragma_update(None, "synchronous", "FULL").unwrap();
    sql.pragma_update(None, "foreign_keys", true).unwrap();
    sql.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).unwrap();
    sql.execute_batch(
        "CREATE TABLE event (seq INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, n INTEGER NOT NULL,
         at INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (session, n)) STRICT",
    )
    .unwrap();
    sql
}

fn append_bare(sql: &Connection, last: &mut i64) {
    for _ in 0..EVENTS {
        append_one(sql, last);
    }
}

fn append_one(sql: &Connection, last: &mut i64) {
    *last += 1;
    let body = message().body().to_string();
    sql.prepare_cached("INSERT INTO event (session, n, at, kind, body) VALUES ('session', ?1, 0, 'message', ?2)")
        .unwrap()
        .execute(params![*last, body])
        .unwrap();
}
