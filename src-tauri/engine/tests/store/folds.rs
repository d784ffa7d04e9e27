//! What is folded from the log, and read from it.

use super::*;
use coppice_engine::env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

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
async fn a_partial_reply_is_kept_until_the_reply_is_there() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let s = id("s");
    let text = |text: &str| vec![Block::Text { text: text.to_owned() }];
    let unfinished = async |log: &Log| -> Vec<_> {
        log.unfinished().await.unwrap().into_iter().map(|left| (left.session.0, left.partial)).collect()
    };
    log.append(&s, vec![opened(None, "s")]).await.unwrap();
    assert_eq!(unfinished(&log).await, []);
    log.append(&s, vec![message("hi")]).await.unwrap();
    // No turn, but a message of which nobody knows what becomes of it.
    assert_eq!(unfinished(&log).await, [("s".to_owned(), None)]);
    let admitted = Event::MessageAdmitted { message: 2, step: 1, route: Route::Started };
    log.append(&s, vec![turn(), step(1), admitted]).await.unwrap();
    assert_eq!(unfinished(&log).await, [("s".to_owned(), None)]);
    log.checkpoint(&s, 1, text("Hel")).await.unwrap();
    log.checkpoint(&s, 1, text("Hello")).await.unwrap();
    assert_eq!(unfinished(&open(&crash(&dir))).await, [("s".to_owned(), Some((1, text("Hello"))))]);
    log.rebuild().await.unwrap();
    assert_eq!(unfinished(&log).await, [("s".to_owned(), Some((1, text("Hello"))))]);

    log.append(&s, vec![answered(1, vec![call("1.0", "bash", "{}")])]).await.unwrap();
    log.checkpoint(&s, 1, text("too late")).await.unwrap();
    assert_eq!(unfinished(&log).await, [("s".to_owned(), None)]);
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
    check("a child without a run", vec![], Some(vec![]), vec![], (Idle, "")).await;
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
    check("resumed", task(), Some(begun()), resumed, (Starting, "")).await;

    let dir = tempdir().unwrap();
    let log = open(&dir);
    put(&log, "root", vec![opened(None, "root"), started("subagent-1", Some("child"))]).await.unwrap();
    put(&log, "child", vec![opened(Some("root"), "root")]).await.unwrap();
    put(&log, "root", vec![started("subagent-2", Some("child"))]).await.unwrap();
    put(&log, "child", begun()).await.unwrap();
    put(&log, "root", over(TaskStatus::Completed, None)).await.unwrap();
    let child = log.session(&id("child")).await.unwrap();
    assert_eq!((child.state, child.task), (Running, Some(TaskId::from("subagent-2"))), "an older activation's end");

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

/// A clock that goes on whenever it is looked at.
#[derive(Default)]
struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[tokio::test]
async fn what_a_branch_was_asked_counts_from_the_message_that_found_it_at_rest() {
    let dir = tempdir().unwrap();
    let log = Log::open(dir.path(), &Env::with_clock(Arc::new(Ticks::default()))).unwrap();
    let stands = async || {
        let [root, child] = [log.session(&id("s")).await.unwrap(), log.session(&id("c")).await.unwrap()];
        (root.asked_at, child.asked_at)
    };
    let asked = async |session: &'static str| put(&log, session, vec![message("do it")]).await.unwrap()[0].at;
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let first = asked("s").await;
    put(&log, "s", vec![turn()]).await.unwrap();
    put(&log, "s", vec![started("subagent-1", Some("c"))]).await.unwrap();
    put(&log, "c", vec![opened(Some("s"), "s")]).await.unwrap();
    let child = asked("c").await;
    put(&log, "c", vec![turn()]).await.unwrap();
    assert_eq!(stands().await, (Some(first), Some(child)), "a child is asked within what its parent was asked");

    put(&log, "s", vec![ended(TurnEnd::Completed, None)]).await.unwrap();
    asked("s").await;
    put(&log, "s", vec![turn(), ended(TurnEnd::Completed, None)]).await.unwrap();
    assert_eq!(stands().await.0, Some(first), "something of the branch is at work still");

    put(&log, "c", vec![ended(TurnEnd::Completed, None)]).await.unwrap();
    put(&log, "s", vec![settled("subagent-1", TaskStatus::Completed, None)]).await.unwrap();
    put(&log, "s", vec![turn(), ended(TurnEnd::Completed, None)]).await.unwrap();
    assert_eq!(stands().await, (Some(first), Some(child)), "being told of an end is no other job");

    put(&log, "s", vec![started("subagent-2", Some("c"))]).await.unwrap();
    let again = asked("c").await;
    assert_eq!(stands().await, (Some(again), Some(again)), "whoever asks a child sets a resting parent to work again");
}

#[tokio::test]
async fn a_session_at_work_counts_what_its_turns_took_until_it_is_asked_anew() {
    let dir = tempdir().unwrap();
    let log = Log::open(dir.path(), &Env::with_clock(Arc::new(Ticks::default()))).unwrap();
    let worked = async || log.session(&id("s")).await.unwrap().worked_ms;
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let mut took = 0;
    put(&log, "s", vec![message("do it")]).await.unwrap();
    for _ in 0..2 {
        let began = put(&log, "s", vec![turn()]).await.unwrap()[0].at;
        took += put(&log, "s", vec![ended(TurnEnd::Completed, None)]).await.unwrap()[0].at - began;
        assert_eq!(worked().await, took);
    }
    assert!(took > 0);
    put(&log, "s", vec![message("again")]).await.unwrap();
    assert_eq!(worked().await, 0);
}

#[tokio::test]
async fn who_stopped_a_session_is_known_until_it_works_again() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    let stopped_by = async |session: &'static str| log.session(&id(session)).await.unwrap().stopped_by;
    let by = |by| match ended(TurnEnd::Stopped, Some("why")) {
        Event::TurnEnded { turn, end, detail, step, last_sign_at, worked_ms, .. } => {
            Event::TurnEnded { turn, end, by: Some(by), detail, step, last_sign_at, worked_ms }
        }
        other => other,
    };
    put(&log, "s", vec![opened(None, "s"), turn(), by(Party::Limit)]).await.unwrap();
    assert_eq!(stopped_by("s").await, Some(Party::Limit));
    put(&log, "s", vec![turn(), started("subagent-1", Some("c"))]).await.unwrap();
    assert_eq!(stopped_by("s").await, None);
    put(&log, "c", vec![opened(Some("s"), "s"), turn(), by(Party::Parent)]).await.unwrap();
    put(&log, "s", vec![settled("subagent-1", TaskStatus::Killed, None)]).await.unwrap();
    assert_eq!(stopped_by("c").await, Some(Party::Person), "its task tells");
}
