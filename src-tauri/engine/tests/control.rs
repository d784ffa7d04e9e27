//! Races and stops: a message is read once or said not to be delivered; what a receipt says is what happened.

use crate::lab::{Lab, call, delegate, gate, key, say, user_texts, within};
use coppice_engine::engine::{Engine, Target};
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Route, TaskStatus};
use coppice_engine::id::SessionId;
use serde_json::json;
use std::collections::HashSet;

/// The pids of living processes (no zombies) that carry this engine's marker for a session.
fn marked(engine: &Engine, session: &SessionId) -> HashSet<u32> {
    let _ = engine;
    let carries = |pid: u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let marked = environ.split(|byte| *byte == 0).any(|var| {
            let var = String::from_utf8_lossy(var);
            var.starts_with("COPPICE_TASK=") && var.contains(session.as_str())
        });
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        marked && !stat.rsplit(')').next().unwrap_or("").trim().starts_with('Z')
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_string_lossy().parse().ok())
        .filter(|pid| carries(*pid))
        .collect()
}

#[tokio::test]
async fn stopping_a_child_ends_its_command_with_all_descendants_and_the_receipt_names_them() {
    let lab = Lab::new().await;
    let command = "trap '' TERM; setsid sleep 300 & (sleep 300 &) ; echo up; touch up; sleep 300";
    lab.script("root", vec![vec![delegate("one", "work"), delegate("two", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![call("bash", json!({ "command": command }))]]);
    lab.script("two", vec![vec![gate("two"), say("fine")]]);
    let root = lab.prompted("go").await;
    lab.reached("two").await;
    let child = lab.child("one").await.id;
    within(async {
        while !(lab.cwd.join("up").exists() && marked(&lab.engine, &child).len() >= 4) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let alive = marked(&lab.engine, &child);
    let receipt = within(lab.engine.stop(Target::Branch(child.clone()), None, false, &key())).await.unwrap();
    assert_eq!(marked(&lab.engine, &child), HashSet::new(), "something lives on");
    // What lived was the command's shell with its three sleeps, and the guard, which is no part of what people are told.
    let told: HashSet<u32> =
        receipt.processes.iter().filter(|process| process.gone).map(|process| process.pid).collect();
    assert!(told.len() >= 3 && told.is_subset(&alive), "{told:?} of {alive:?}");
    assert_eq!((receipt.unconfirmed.len(), receipt.kept.len()), (0, 1));
    assert!(lab.events(&child).await.iter().any(|event| matches!(event.event, Event::Stopped { .. })));
    lab.open_gate("two");
    lab.rest(&root).await;
    let statuses: Vec<TaskStatus> = lab.tasks().await.into_iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Killed, TaskStatus::Completed]);
}

#[tokio::test]
async fn stopping_everything_previews_and_ends_the_same_set_down_to_grandchildren() {
    let lab = Lab::new().await;
    lab.script(
        "root",
        vec![
            vec![delegate("one", "work"), call("bash", json!({ "command": "sleep 300", "run_in_background": true }))],
            vec![say("waiting"), gate("root")],
        ],
    );
    lab.script("one", vec![vec![delegate("below", "deeper")], vec![gate("one")]]);
    lab.script("below", vec![vec![gate("below")]]);
    let root = lab.prompted("go").await;
    for name in ["root", "one", "below"] {
        lab.reached(name).await;
    }
    let preview = lab.engine.stop(Target::Everything, None, true, &key()).await.unwrap();
    let receipt = within(lab.engine.stop(Target::Everything, None, false, &key())).await.unwrap();
    assert_eq!(preview.ended, receipt.ended);
    let kinds: Vec<(&str, &str)> = receipt.ended.iter().map(|item| (item.kind.as_str(), item.label.as_str())).collect();
    assert_eq!(kinds, [("turn", "go"), ("child", "one"), ("child", "below"), ("task", "sleep 300")]);
    let (sessions, tasks) = lab.engine.tree(None).await.unwrap();
    assert!(sessions.iter().all(|session| session.live_below == 0));
    assert!(tasks.iter().all(|task| task.status == TaskStatus::Killed), "{tasks:?}");
    assert_eq!(marked(&lab.engine, &root), HashSet::new());
    let again = lab.engine.stop(Target::Everything, None, false, &key()).await.unwrap();
    assert_eq!(again.ended, []);
}

#[tokio::test]
async fn a_message_sent_around_the_end_of_a_turn_is_read_exactly_once_or_refused() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let (mut steered, mut started, mut refused) = (0, 0, 0);
    for round in 0..60 {
        let wake = lab.engine.send(&child, format!("wake {round}"), None, &key()).await.unwrap();
        for _ in 0..round * 3 {
            tokio::task::yield_now().await;
        }
        let text = format!("message <{round}>");
        let sent = lab.engine.send(&child, text.clone(), None, &key()).await;
        lab.rest(&root).await;
        let last = lab.requests(&child).pop().unwrap();
        let read = user_texts(&last).join("\n").matches(&text).count();
        match sent {
            Ok(sent) => {
                assert_eq!(read, 1, "round {round}: {sent:?} was not read once");
                match sent.route {
                    Route::Steered => {
                        steered += 1;
                        assert_eq!(sent.task, wake.task);
                    }
                    Route::Started => started += 1,
                }
            }
            Err(error) => {
                refused += 1;
                assert_eq!((error.code(), read), (Code::NotDelivered, 0), "round {round}");
            }
        }
    }
    let tasks = lab.tasks().await;
    assert!(tasks.iter().all(|task| task.status == TaskStatus::Completed));
    assert_eq!(tasks.len(), 1 + 60 + started, "steered {steered}, started {started}, refused {refused}");
}

#[tokio::test]
async fn messages_are_read_in_the_order_in_which_they_were_accepted() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("first"), say("first")]]);
    let root = lab.prompted("go").await;
    lab.reached("first").await;
    let child = lab.child("one").await.id;
    for n in 1..=5 {
        lab.engine.send(&child, format!("<{n}>"), None, &key()).await.unwrap();
    }
    lab.open_gate("first");
    lab.rest(&root).await;
    lab.engine.send(&child, "<6>".into(), None, &key()).await.unwrap();
    lab.rest(&root).await;
    let last = lab.requests(&child).pop().unwrap();
    let read = user_texts(&last).join(" ");
    let places: Vec<usize> = (1..=6).map(|n| read.find(&format!("<{n}>")).unwrap()).collect();
    assert!(places.is_sorted(), "{read}");
}

#[tokio::test]
async fn a_kill_around_the_natural_end_leaves_one_end_that_all_agree_on() {
    let lab = Lab::new().await;
    let root = lab.root().await;
    for round in 0..40 {
        lab.script(
            "root",
            vec![vec![call("bash", json!({ "command": "true", "run_in_background": true }))], vec![say("started")]],
        );
        lab.replay(&root);
        lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
        let task = lab.until_tasks(round + 1).await.pop().unwrap();
        for _ in 0..round * 10 {
            tokio::task::yield_now().await;
        }
        within(lab.engine.stop(Target::Task(task.id.clone()), None, false, &key())).await.unwrap();
        lab.rest(&root).await;
        let events = lab.events(&root).await;
        let ends: Vec<TaskStatus> = events
            .iter()
            .filter_map(|recorded| match &recorded.event {
                Event::TaskSettled { task: settled, status, .. } if *settled == task.id => Some(*status),
                _ => None,
            })
            .collect();
        let view = lab.engine.wait_task(&task.id, crate::lab::PATIENCE).await.unwrap();
        assert_eq!(ends, [view.status], "round {round}");
        let told = events
            .iter()
            .filter(|recorded| matches!(&recorded.event, Event::NoticeAdmitted { task: told, .. } if *told == task.id))
            .count();
        assert!(told <= 1, "round {round}");
    }
}

#[tokio::test]
async fn a_woken_owner_waits_for_the_person_after_its_budget_and_then_learns_the_rest() {
    let mut config = coppice_engine::config::Config::default();
    config.limits.wake_budget = 2;
    let lab = Lab::with(config).await;
    let names = ["a", "b", "c", "d"];
    lab.script("root", vec![names.iter().map(|name| delegate(name, "work")).collect(), vec![say("started")]]);
    for name in names {
        lab.script(name, vec![vec![gate(name), say("done")]]);
    }
    let root = lab.prompted("go").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    for (turn, name) in (2..).zip(names) {
        lab.reached(name).await;
        lab.open_gate(name);
        let child = lab.child(name).await;
        lab.engine.wait_task(&child.task.unwrap(), crate::lab::PATIENCE).await.unwrap();
        if turn <= 3 {
            lab.until(&root, |event| matches!(event, Event::TurnEnded { turn: ended, .. } if *ended == turn)).await;
        }
    }
    lab.rest(&root).await;
    assert_eq!(lab.requests(&root).len(), 2 + 2, "two wakes and no more");
    lab.engine.prompt(&root, "and?".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let last = lab.requests(&root).pop().unwrap();
    let told = user_texts(&last).join("\n");
    for task in 1..=4 {
        assert_eq!(told.matches(&format!("Task subagent-{task} ")).count(), 1, "{told}");
    }
}
