//! Quitting at any moment: what was accepted is owed, once, and what ran is told as interrupted.

use crate::lab::{Lab, PATIENCE, call, delegate, gate, key, say, user_texts, within};
use coppice_engine::config::Config;
use coppice_engine::engine::{Engine, Target};
use coppice_engine::env::{Clock, Env};
use coppice_engine::error::Code;
use coppice_engine::event::{Block, CUT_OFF, Event, Mode, Party, Recorded, Route, TaskStatus, TurnEnd};
use coppice_engine::id::SessionId;
use coppice_engine::log::{Entry, Log};
use coppice_engine::view::{MessageReceipt, Row, RowBody, SessionState};
use rusqlite::Connection;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

fn accepted(events: &[Recorded], words: &str) -> usize {
    let says = |event: &Event| matches!(event, Event::MessageAccepted { text, .. } if text == words);
    events.iter().filter(|recorded| says(&recorded.event)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_around_the_end_is_refused_or_read_exactly_once_and_its_turn_never_counts_as_failed() {
    let mut lab = Lab::new().await;
    let mut kept = 0;
    for round in 0..30 {
        let root = lab.root().await;
        let words = format!("<{round}>");
        let engine = lab.engine.clone();
        let quit = async {
            for _ in 0..round * 4 {
                tokio::task::yield_now().await;
            }
            engine.shutdown(PATIENCE).await.unwrap();
        };
        let once = key();
        let prompt = engine.prompt(&root, words.clone(), &once);
        let told = if round == 0 {
            // One that is certainly accepted, whose turn has just begun.
            let told = prompt.await;
            quit.await;
            told
        } else {
            tokio::join!(prompt, quit).0
        };
        lab.reopen().await;
        let events = lab.events(&root).await;
        let session = lab.engine.session(&root).await.unwrap();
        match &told {
            Ok(_) => {
                kept += 1;
                assert_eq!(accepted(&events, &words), 1, "round {round}");
            }
            Err(error) => {
                assert!(matches!(error.code(), Code::ShuttingDown | Code::NotDelivered), "round {round}: {error:?}")
            }
        }
        if accepted(&events, &words) == 0 {
            continue;
        }
        let ends: Vec<TurnEnd> = events
            .iter()
            .filter_map(|recorded| match recorded.event {
                Event::TurnEnded { end, .. } => Some(end),
                _ => None,
            })
            .collect();
        let expected = if ends == [TurnEnd::Completed] { SessionState::Idle } else { SessionState::Interrupted };
        assert!(ends == [TurnEnd::Completed] || ends == [TurnEnd::Interrupted], "round {round}: {ends:?}");
        assert_eq!(session.state, expected, "round {round}");
        lab.engine.prompt(&root, "and?".into(), &key()).await.unwrap();
        lab.rest(&root).await;
        let last = lab.requests(&root).pop().unwrap();
        assert_eq!(user_texts(&last).join("\n").matches(&words).count(), 1, "round {round}");
    }
    assert!(kept > 0, "the first prompt was accepted");
}

/// A clock that stops the writing of the store, which asks it for the time, from the moment at which a child has its
/// task and not yet a log.
#[derive(Default)]
struct Dawn {
    store: OnceLock<PathBuf>,
    met: watch::Sender<bool>,
    go_on: (Mutex<bool>, Condvar),
}

impl Clock for Dawn {
    fn now_ms(&self) -> i64 {
        let has_child = |store: &PathBuf| {
            let count = "SELECT count(*) FROM task WHERE child IS NOT NULL";
            Connection::open(store).unwrap().query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() > 0
        };
        // Others ask for the time, too; a test that stopped itself would only wait.
        let writes = std::thread::current().name() == Some("coppice-log");
        if writes && !*self.met.borrow() && self.store.get().is_some_and(has_child) {
            self.met.send_replace(true);
            let closed = self.go_on.0.lock().unwrap();
            drop(self.go_on.1.wait_timeout_while(closed, PATIENCE, |go_on| !*go_on).unwrap());
        }
        Env::system().now_ms()
    }
}

#[tokio::test]
async fn a_child_whose_first_turn_never_began_has_its_prompt_read_with_the_next_and_says_so() {
    let dawn = Arc::new(Dawn::default());
    let mut lab = Lab::in_world(Config::default(), Env::with_clock(dawn.clone())).await;
    dawn.store.set(lab.data().join("coppice.db")).unwrap();
    lab.script("root", vec![vec![delegate("one", "<words>")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    within(dawn.met.subscribe().wait_for(|met| *met)).await.unwrap();
    // What begins the child has come as far as it can: to the store.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    {
        let mut quit = std::pin::pin!(lab.engine.shutdown(PATIENCE));
        // From here on nothing begins.
        assert!(futures::poll!(&mut quit).is_pending());
        *dawn.go_on.0.lock().unwrap() = true;
        dawn.go_on.1.notify_all();
        within(quit).await.unwrap();
    }
    lab.reopen().await;
    let child = lab.child("one").await;
    assert_eq!((child.state, child.started_at), (SessionState::Interrupted, None), "its turn never began");
    let asked = async |lab: &Lab| -> Vec<MessageReceipt> {
        let rows = lab.engine.page(&child.id, None, None, 100).await.unwrap().rows;
        let receipt = |row: Row| match row.body {
            RowBody::AskText { receipt, .. } => Some(receipt),
            _ => None,
        };
        rows.into_iter().filter_map(receipt).collect()
    };
    let deferred = MessageReceipt::Deferred { reason: "Coppice ended before it was read".to_owned() };
    assert_eq!(asked(&lab).await, [deferred]);
    let events = lab.events(&child.id).await.len();
    lab.restart().await;
    assert_eq!(lab.events(&child.id).await.len(), events, "it is said once");
    lab.engine.send(&child.id, "go on".into(), Some(Route::Started), &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(asked(&lab).await, [admitted(1, Route::Started)]);
    let last = lab.requests(&child.id).pop().unwrap();
    assert_eq!(user_texts(&last).join("\n").matches("<words>").count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quit_at_any_moment_around_the_beginning_of_a_child_leaves_no_failure_and_no_prompt_read_twice() {
    let mut lab = Lab::new().await;
    for round in 0..40 {
        lab.script("root", vec![vec![delegate("one", &format!("<{round}>"))], vec![say("started")]]);
        let root = lab.prompted("go").await;
        let mut follow = lab.engine.follow(None, None).await.unwrap();
        let engine = lab.engine.clone();
        while lab.engine.tasks(Some(&root)).await.unwrap().is_empty() {
            follow.next().await.unwrap().unwrap();
        }
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        engine.shutdown(PATIENCE).await.unwrap();
        lab.reopen().await;
        let task = lab.engine.tasks(Some(&root)).await.unwrap().remove(0);
        assert!(
            matches!(task.status, TaskStatus::Interrupted | TaskStatus::Completed),
            "round {round}: {:?} {:?}",
            task.status,
            task.detail
        );
        let child = task.child.unwrap();
        let Ok(view) = lab.engine.session(&child).await else { continue };
        assert!(matches!(view.state, SessionState::Interrupted | SessionState::Completed), "round {round}: {view:?}");
        if view.state == SessionState::Completed {
            continue;
        }
        lab.engine.send(&child, "go on".into(), Some(Route::Started), &key()).await.unwrap();
        lab.rest(&root).await;
        let last = lab.requests(&child).pop().unwrap();
        assert_eq!(user_texts(&last).join("\n").matches(&format!("<{round}>")).count(), 1, "round {round}");
    }
}

/// What became of the messages of a session, in order.
async fn receipts(lab: &Lab, session: &SessionId) -> Vec<MessageReceipt> {
    let rows = lab.engine.page(session, None, None, 100).await.unwrap().rows;
    let receipt = |row: Row| match row.body {
        RowBody::Message { receipt, .. } => Some(receipt),
        _ => None,
    };
    rows.into_iter().filter_map(receipt).collect()
}

fn admitted(step: u32, route: Route) -> MessageReceipt {
    MessageReceipt::Admitted { step, route }
}

#[tokio::test]
async fn a_message_that_a_stopped_turn_did_not_read_says_that_it_goes_with_the_next_one() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![gate("never")], vec![gate("never either")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    lab.engine.prompt(&root, "<steer>".into(), &key()).await.unwrap();
    assert_eq!(receipts(&lab, &root).await, [admitted(1, Route::Started), MessageReceipt::Accepted]);
    lab.engine.stop(Target::Turn(root.clone()), None, false, &key()).await.unwrap();
    lab.rest(&root).await;
    let deferred = |reason: &str| MessageReceipt::Deferred { reason: reason.to_owned() };
    assert_eq!(receipts(&lab, &root).await[1], deferred("the turn was stopped"));
    lab.engine.prompt(&root, "and?".into(), &key()).await.unwrap();
    lab.reached("never either").await;
    let started = |step| admitted(step, Route::Started);
    assert_eq!(receipts(&lab, &root).await, [started(1), started(2), started(2)]);
    let last = lab.requests(&root).pop().unwrap();
    assert_eq!(user_texts(&last).join("\n").matches("<steer>").count(), 1);
    // A quit says the same.
    lab.engine.prompt(&root, "<late>".into(), &key()).await.unwrap();
    lab.restart().await;
    assert_eq!(receipts(&lab, &root).await[3], deferred("the turn was interrupted"));
    assert_eq!(lab.engine.session(&root).await.unwrap().state, SessionState::Interrupted);
}

#[tokio::test]
async fn a_message_to_a_child_is_dropped_by_a_stop_and_kept_by_a_quit() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work"), delegate("two", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("one")]]);
    lab.script("two", vec![vec![gate("two")]]);
    let root = lab.prompted("go").await;
    lab.reached("one").await;
    lab.reached("two").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    let (one, two) = (lab.child("one").await.id, lab.child("two").await.id);
    for child in [&one, &two] {
        lab.engine.send(child, "<steer>".into(), Some(Route::Steered), &key()).await.unwrap();
    }
    lab.engine.stop(Target::Branch(one.clone()), None, false, &key()).await.unwrap();
    lab.restart().await;
    let dropped = MessageReceipt::NotDelivered { reason: "the turn ended first".to_owned() };
    assert_eq!(receipts(&lab, &one).await, [dropped]);
    let deferred = MessageReceipt::Deferred { reason: "the turn was interrupted".to_owned() };
    assert_eq!(receipts(&lab, &two).await, [deferred]);
    lab.engine.send(&two, "go on".into(), Some(Route::Started), &key()).await.unwrap();
    lab.rest(&root).await;
    let last = lab.requests(&two).pop().unwrap();
    assert_eq!(user_texts(&last).join("\n").matches("<steer>").count(), 1);
}

#[tokio::test]
async fn the_end_of_a_turn_tells_the_step_that_it_was_at() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![call("bash", json!({ "command": "true" }))], vec![gate("never")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    lab.engine.stop(Target::Turn(root.clone()), None, false, &key()).await.unwrap();
    let rows = lab.engine.page(&root, None, None, 100).await.unwrap().rows;
    let steps: Vec<Option<u32>> =
        rows.iter().filter(|row| !matches!(row.body, RowBody::Decision { .. })).map(|row| row.step).collect();
    assert_eq!(steps, [None, Some(1), Some(2)], "no number is passed over in silence");
}

#[tokio::test]
async fn a_call_that_a_stop_cut_off_is_told_from_one_that_failed() {
    let lab = Lab::new().await;
    let calls = vec![
        call("read_file", json!({ "path": "absent" })),
        call("bash", json!({ "command": "echo at work; sleep 300" })),
        call("bash", json!({ "command": "exit 3" })),
    ];
    lab.script("root", vec![calls]);
    let root = lab.root().await;
    let mut follow = lab.engine.follow(Some(root.clone()), None).await.unwrap();
    lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
    let finished = |events: Vec<Recorded>| -> Vec<(String, bool, bool)> {
        let finished = events.into_iter().filter_map(|recorded| match recorded.event {
            Event::ToolFinished { call, ok, detail, .. } => {
                Some((call.as_str().rsplit('.').next().unwrap().to_owned(), ok, detail[CUT_OFF] == true))
            }
            _ => None,
        });
        let mut finished: Vec<_> = finished.collect();
        finished.sort();
        finished
    };
    within(async {
        let mut at_work = false;
        while !at_work || finished(lab.events(&root).await).len() < 2 {
            let live = follow.next().await.unwrap().unwrap().live;
            at_work |= live.is_some_and(|live| live.calls.iter().any(|call| call.tail.contains("at work")));
        }
    })
    .await;
    lab.engine.stop(Target::Turn(root.clone()), None, false, &key()).await.unwrap();
    let told = finished(lab.events(&root).await);
    assert_eq!(told, [("1".to_owned(), false, false), ("2".to_owned(), false, true), ("3".to_owned(), false, false)]);
}

struct Hand(AtomicI64);

impl Clock for Hand {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn what_a_crash_cut_off_ended_with_its_last_sign_and_not_with_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let hand = Arc::new(Hand(AtomicI64::new(0)));
    let env = Env::with_clock(hand.clone());
    let (root, child) = (SessionId::from("root"), SessionId::from("child"));
    let opened = |parent: Option<&SessionId>| Event::SessionOpened {
        parent: parent.cloned(),
        root: root.clone(),
        depth: parent.map_or(0, |_| 1),
        title: "t".to_owned(),
        label: None,
        provider: parent.map(|_| "spawn".to_owned()),
        model: "rehearsal".to_owned(),
        mode: Mode::Ask,
        cwd: "/".to_owned(),
    };
    let call = Block::ToolCall { id: "1.1".into(), name: "bash".to_owned(), args: "{}".to_owned() };
    let started = |task: &str, kind: &str, child: Option<&SessionId>| Event::TaskStarted {
        task: task.into(),
        task_kind: kind.to_owned(),
        label: "l".to_owned(),
        child: child.cloned(),
        call: None,
    };
    let log = Log::open(dir.path(), &env).unwrap();
    let write = async |at: i64, session: &SessionId, events: Vec<Event>| {
        hand.0.store(at, Ordering::Relaxed);
        log.write(vec![Entry::new(session, events)]).await.unwrap();
    };
    let message = |text: &str| Event::MessageAccepted { from: Party::Person, text: text.to_owned(), task: None };
    write(1_000, &root, vec![opened(None), message("go"), Event::TurnStarted { turn: 1, task: None }]).await;
    write(2_000, &root, vec![started("subagent-1", "subagent", Some(&child))]).await;
    write(2_500, &child, vec![opened(Some(&root)), Event::TurnStarted { turn: 1, task: Some("subagent-1".into()) }])
        .await;
    write(3_000, &root, vec![started("bash-1", "bash", None)]).await;
    let answered = Event::Answered {
        step: 1,
        blocks: vec![call],
        stop: coppice_engine::event::Stop::Complete,
        usage: coppice_engine::event::Usage::default(),
    };
    write(4_000, &child, vec![Event::StepStarted { turn: 1, step: 1 }, answered]).await;
    // Another was in the middle of a sentence: what was kept of it last is its last sign.
    let streams = SessionId::from("streams");
    let opened = Event::SessionOpened {
        parent: None,
        root: streams.clone(),
        depth: 0,
        title: "t".to_owned(),
        label: None,
        provider: None,
        model: "rehearsal".to_owned(),
        mode: Mode::Ask,
        cwd: "/".to_owned(),
    };
    let begun = [opened, message("go"), Event::TurnStarted { turn: 1, task: None }];
    write(5_000, &streams, begun.into_iter().chain([Event::StepStarted { turn: 1, step: 1 }]).collect()).await;
    hand.0.store(65_000, Ordering::Relaxed);
    log.checkpoint(&streams, 1, vec![Block::Text { text: "half a sen".to_owned() }]).await.unwrap();
    log.close().await.unwrap();
    drop(log);
    hand.0.store(900_000, Ordering::Relaxed);
    let engine = Engine::open_with(dir.path(), Config::default(), env, BTreeMap::new()).await.unwrap();
    let (sessions, tasks) = engine.tree(None).await.unwrap();
    let ends: Vec<_> = sessions.iter().map(|session| (session.state, session.ended_at)).collect();
    let ended = [3_000, 4_000, 65_000].map(|at| (SessionState::Interrupted, Some(at)));
    assert_eq!(ends, ended);
    let settled: Vec<_> = tasks.iter().map(|task| (task.status, task.settled_at)).collect();
    assert_eq!(settled, [(TaskStatus::Interrupted, Some(4_000)), (TaskStatus::Interrupted, Some(3_000))]);
    let rows = engine.page(&root, None, None, 100).await.unwrap().rows;
    let ran = |row: Row| match row.body {
        RowBody::Notice { task, ran_ms, .. } => Some((task.to_string(), ran_ms)),
        _ => None,
    };
    let mut ran: Vec<_> = rows.into_iter().filter_map(ran).collect();
    ran.sort();
    assert_eq!(ran, [("bash-1".to_owned(), 0), ("subagent-1".to_owned(), 2_000)]);
    engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn what_a_quit_cut_off_ended_with_the_quit_however_long_it_said_nothing_new() {
    let mut lab = Lab::new().await;
    let sleeps = call("bash", json!({ "command": "sleep 600", "run_in_background": true }));
    lab.script("root", vec![vec![delegate("one", "work"), sleeps], vec![say("half a sentence"), gate("root")]]);
    lab.script("one", vec![vec![say("half a report"), gate("one")]]);
    let root = lab.prompted("go").await;
    lab.reached("root").await;
    lab.reached("one").await;
    lab.pass(Duration::from_secs(60));
    let quit_at = lab.now_ms();
    lab.restart().await;
    let (sessions, tasks) = lab.engine.tree(None).await.unwrap();
    let ends: Vec<(SessionState, bool)> =
        sessions.iter().map(|session| (session.state, session.ended_at.unwrap() >= quit_at)).collect();
    assert_eq!(ends, [(SessionState::Interrupted, true); 2], "{sessions:?}");
    let settled: Vec<(TaskStatus, bool)> =
        tasks.iter().map(|task| (task.status, task.settled_at.unwrap() >= quit_at)).collect();
    assert_eq!(settled, [(TaskStatus::Interrupted, true); 2], "{tasks:?}");
    let rows = lab.engine.page(&root, None, None, 100).await.unwrap().rows;
    let ran = rows.into_iter().filter_map(|row| match row.body {
        RowBody::Notice { ran_ms, .. } => Some(ran_ms >= 50),
        _ => None,
    });
    assert_eq!(ran.collect::<Vec<_>>(), [true; 2]);
}
