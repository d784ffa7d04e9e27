//! A store that refuses what a turn wants to write, for a while: nothing is lost and nothing is asked twice.

use crate::lab::{Lab, PATIENCE, call, delegate, gate, key, say, within};
use coppice_engine::config::Config;
use coppice_engine::error::Code;
use coppice_engine::event::{Event, TaskStatus, TurnEnd};
use coppice_engine::id::SessionId;
use coppice_engine::log::Log;
use coppice_engine::view::SessionState;
use rusqlite::Connection;
use serde_json::json;

fn store(lab: &Lab) -> Connection {
    Connection::open(lab.data().join(Log::FILE)).unwrap()
}

/// Lets the store refuse every event of a kind.
fn refuse(store: &Connection, kind: &str) {
    let refusal = "BEGIN SELECT RAISE(ABORT, 'no room'); END";
    store
        .execute_batch(&format!("CREATE TRIGGER full BEFORE INSERT ON event WHEN new.kind = '{kind}' {refusal}"))
        .unwrap();
}

fn allow(store: &Connection) {
    store.execute_batch("DROP TRIGGER full").unwrap();
}

/// Waits until it is told that the store takes nothing.
async fn told(lab: &Lab) {
    let mut follow = lab.engine.follow(None, None).await.unwrap();
    within(async { while follow.next().await.unwrap().unwrap().status.is_none_or(|told| told.is_empty()) {} }).await;
}

/// A root whose child works: what each of them wrote, and what all of it cost.
async fn work(refused: Option<&str>) -> (Vec<Vec<String>>, (i64, i64, i64)) {
    let lab = Lab::new().await;
    let ask = call("subagent", json!({ "description": "one", "prompt": "look" }));
    lab.script("root", vec![vec![gate("begin"), ask], vec![say("It found nothing.")]]);
    lab.script("one", vec![vec![call("glob", json!({ "pattern": "*" }))], vec![say("nothing")]]);
    let root = lab.prompted("go").await;
    lab.reached("begin").await;
    let store = store(&lab);
    if let Some(kind) = refused {
        refuse(&store, kind);
    }
    lab.open_gate("begin");
    if refused.is_some() {
        told(&lab).await;
        let more = lab.engine.prompt(&root, "more".into(), &key()).await;
        // While a child works, its root can be told more: only who cannot be written to takes nothing.
        assert!(more.is_ok() || more.is_err_and(|error| error.code() == Code::Store));
        allow(&store);
    }
    let view = lab.rest(&root).await;
    assert_eq!((view.state, view.detail.as_str()), (SessionState::Idle, ""), "{refused:?}");
    let mut logs = Vec::new();
    for session in [root.clone(), lab.child("one").await.id] {
        let events = lab.events(&session).await;
        let message = |event: &Event| matches!(event, Event::MessageAccepted { .. } | Event::MessageAdmitted { .. });
        let kept = events.iter().filter(|recorded| !message(&recorded.event));
        logs.push(kept.map(|recorded| recorded.event.kind().to_owned()).collect());
    }
    let (_, spent) = lab.engine.usage(&root).await.unwrap();
    (logs, (spent.input, spent.output, spent.requests))
}

#[tokio::test]
async fn whatever_a_store_refuses_for_a_while_is_written_once_and_the_turn_goes_on() {
    let undisturbed = work(None).await;
    assert_eq!(undisturbed.1, (40, 20, 4));
    for kind in ["turn_started", "step_started", "answered", "tool_finished", "turn_ended"] {
        assert_eq!(work(Some(kind)).await, undisturbed, "{kind} was refused");
    }
}

async fn ends(lab: &Lab, session: &SessionId) -> Vec<TurnEnd> {
    let end = |event: &Event| match event {
        Event::TurnEnded { end, .. } => Some(*end),
        _ => None,
    };
    lab.events(session).await.iter().filter_map(|recorded| end(&recorded.event)).collect()
}

#[tokio::test]
async fn a_quit_does_not_wait_for_a_store_that_refuses_and_the_next_start_mends_what_it_left() {
    let mut lab = Lab::with(Config::default()).await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![gate("root"), say("never kept")]]);
    lab.script("one", vec![vec![gate("one"), say("never kept")]]);
    let root = lab.prompted("go").await;
    lab.reached("root").await;
    lab.reached("one").await;
    let store = store(&lab);
    refuse(&store, "answered");
    lab.open_gate("root");
    lab.open_gate("one");
    told(&lab).await;
    within(lab.engine.shutdown(PATIENCE)).await.unwrap();
    allow(&store);
    lab.reopen().await;
    let child = lab.child("one").await.id;
    assert_eq!(
        (ends(&lab, &root).await, ends(&lab, &child).await),
        (vec![TurnEnd::Interrupted], vec![TurnEnd::Interrupted])
    );
    assert_eq!(lab.tasks().await.remove(0).status, TaskStatus::Interrupted);
}
