//! Stops and ends while the store takes no writes: the disk is full, or another program holds it.

use crate::lab::{Lab, PATIENCE, call, delegate, gate, key, say, within};
use coppice_engine::engine::Target;
use coppice_engine::event::{Event, Receipt, TaskStatus};
use coppice_engine::id::SessionId;
use rusqlite::Connection;
use serde_json::json;
use std::time::{Duration, Instant};

const LOCKED: &str = "Another program keeps the store locked; what you do is kept as soon as it lets go.";

/// A root with a command and a child that has one, all at work.
async fn at_work() -> (Lab, SessionId) {
    let lab = Lab::new().await;
    let sleep =
        |label: &str| call("bash", json!({ "command": "sleep 300", "description": label, "run_in_background": true }));
    lab.script("root", vec![vec![sleep("sleeper"), delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![sleep("inner")], vec![gate("at work")]]);
    let root = lab.prompted("go").await;
    lab.reached("at work").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    lab.until_tasks(3).await;
    (lab, root)
}

fn store(lab: &Lab) -> Connection {
    Connection::open(lab.data().join("coppice.db")).unwrap()
}

async fn stopped(lab: &Lab, root: &SessionId) -> Receipt {
    let began = Instant::now();
    let receipt = within(lab.engine.stop(Target::Branch(root.clone()), None, false, &key())).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert!(!receipt.processes.is_empty() && receipt.processes.iter().all(|process| process.gone), "{receipt:?}");
    receipt
}

/// What could not be kept is kept as soon as it can be.
async fn kept(lab: &Lab, root: &SessionId, receipt: &Receipt) {
    let found = |event: &Event| matches!(event, Event::Stopped { receipt: kept } if kept == receipt);
    lab.until(root, found).await;
    for task in ["sleeper", "one", "inner"] {
        let id = lab.tasks().await.into_iter().find(|view| view.label == task).unwrap().id;
        let view = within(lab.engine.wait_task(&id, PATIENCE)).await.unwrap();
        assert_eq!(
            (view.status, view.detail.as_deref().filter(|_| task != "inner")),
            (TaskStatus::Killed, None),
            "{task}"
        );
    }
    lab.rest(root).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_while_another_program_holds_the_store_says_that_the_ends_are_not_saved_yet() {
    let (lab, root) = at_work().await;
    let other = store(&lab);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let receipt = stopped(&lab, &root).await;
    let mut unconfirmed = receipt.unconfirmed.clone();
    unconfirmed.sort();
    let told =
        |label: &str| format!("The end of {label} could not be saved yet: another program keeps the store locked.");
    assert_eq!(unconfirmed, [told("one"), told("sleeper")]);
    assert_eq!(lab.engine.trouble().as_deref(), Some(LOCKED));
    other.execute_batch("COMMIT").unwrap();
    kept(&lab, &root, &receipt).await;
    assert_eq!(lab.engine.trouble(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_on_a_full_disk_says_that_the_ends_are_not_saved_yet_and_is_kept_when_there_is_room() {
    let (lab, root) = at_work().await;
    let other = store(&lab);
    other
        .execute_batch("CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no room'); END")
        .unwrap();
    let receipt = stopped(&lab, &root).await;
    let saved = |line: &String| line.contains("could not be saved yet: the store ") && line.contains("no room");
    assert!(receipt.unconfirmed.len() == 2 && receipt.unconfirmed.iter().all(saved), "{:?}", receipt.unconfirmed);
    other.execute_batch("DROP TRIGGER full").unwrap();
    kept(&lab, &root, &receipt).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quit_while_another_program_holds_the_store_ends_within_its_deadline() {
    let (lab, _) = at_work().await;
    let other = store(&lab);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let receipt = within(lab.engine.shutdown(Duration::from_secs(10))).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?} {receipt:?}", began.elapsed());
    assert_eq!(
        receipt.unconfirmed,
        ["The end of what ran could not be saved yet: another program keeps the store locked."]
    );
    assert!(receipt.processes.iter().all(|process| process.gone));
    other.execute_batch("COMMIT").unwrap();
}
