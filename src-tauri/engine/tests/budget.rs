//! What a tree may spend, and what a turn may repeat. A request of the scripted model costs 15 tokens.

use crate::lab::{Lab, call, gate, key, results, say, user_texts, within};
use coppice_engine::config::Config;
use coppice_engine::engine::Target;
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Party, TaskStatus, TreeLimits, TurnEnd};
use coppice_engine::id::SessionId;
use coppice_engine::view::RowBody;
use serde_json::json;
use std::time::Duration;

async fn limited(change: impl FnOnce(&mut Config)) -> Lab {
    let mut config = Config::default();
    change(&mut config);
    Lab::with(config).await
}

/// How the turns of a session ended, and why.
async fn ends(lab: &Lab, session: &SessionId) -> Vec<(TurnEnd, Option<String>)> {
    let events = lab.events(session).await;
    let end = |event: Event| match event {
        Event::TurnEnded { end, detail, .. } => Some((end, detail)),
        _ => None,
    };
    events.into_iter().filter_map(|recorded| end(recorded.event)).collect()
}

fn over(detail: &str) -> (TurnEnd, Option<String>) {
    (TurnEnd::Limit, Some(format!("its budget is used up: {detail}")))
}

/// A call that does something else each time.
fn look(n: usize) -> crate::lab::Act {
    call("glob", json!({ "pattern": format!("*.{n}") }))
}

#[tokio::test]
async fn nothing_in_a_tree_asks_a_model_when_its_tokens_are_used_up() {
    let lab = limited(|config| config.limits.tokens = 45).await;
    let delegate = call("subagent", json!({ "description": "one", "prompt": "look" }));
    lab.script("root", vec![vec![delegate], vec![say("never said")]]);
    lab.script("one", vec![vec![look(1)], vec![look(2)], vec![say("never said")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    assert_eq!((lab.requests(&root).len(), lab.requests(&child).len()), (1, 2));
    assert_eq!(ends(&lab, &child).await, [over("45 of 45 tokens (limits.tokens)")]);
    assert_eq!(ends(&lab, &root).await, [over("45 of 45 tokens (limits.tokens)")]);
    let (_, branch) = lab.engine.usage(&root).await.unwrap();
    assert_eq!((branch.input, branch.output, branch.requests), (30, 15, 3));
}

#[tokio::test]
async fn a_used_up_budget_holds_after_a_restart_and_goes_on_when_it_is_raised() {
    let mut lab = limited(|config| config.limits.tokens = 15).await;
    lab.script("root", vec![vec![look(1)], vec![say("done after all")]]);
    let root = lab.prompted("first").await;
    lab.rest(&root).await;
    lab.restart().await;
    lab.engine.prompt(&root, "second".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(lab.requests(&root).len(), 1);
    let used_up = over("15 of 15 tokens (limits.tokens)");
    assert_eq!(ends(&lab, &root).await, [used_up.clone(), used_up.clone()]);
    let more = TreeLimits { tokens: Some(200), ..TreeLimits::default() };
    lab.engine.set_limits(&root, more, &key()).await.unwrap();
    lab.restart().await;
    lab.engine.prompt(&root, "third".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(ends(&lab, &root).await, [used_up.clone(), used_up, (TurnEnd::Completed, None)]);
    let read = lab.requests(&root).pop().unwrap();
    let read = user_texts(&read).join("\n");
    assert!(read.contains("second") && read.contains("third"), "{read}");
}

#[tokio::test]
async fn a_session_can_be_opened_with_limits_of_its_own() {
    let lab = Lab::new().await;
    let root = lab.root_with(TreeLimits { children: Some(1), tokens: Some(1_000), ..TreeLimits::default() }).await;
    let delegate = |label: &str| call("subagent", json!({ "description": label, "prompt": "look" }));
    lab.script("root", vec![vec![delegate("one")], vec![delegate("two")], vec![say("done")]]);
    lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let told = results(&lab.requests(&root)[2]);
    assert!(told[0].0 && !told[1].0 && told[1].1.contains("has had as many children as it may: 1."), "{told:?}");
    let (limits, spent) = lab.engine.tree_limits(&root).await.unwrap();
    assert_eq!((limits.children, limits.tokens, spent[0].used), (1, 1_000, 60));
    assert_eq!(lab.engine.limits().children, 200);
}

#[tokio::test]
async fn each_session_is_told_once_to_wrap_up_when_little_is_left() {
    let lab = limited(|config| config.limits.tokens = 100).await;
    let steps = (0..6).map(|n| vec![look(n)]).chain([vec![say("done")]]).collect();
    lab.script("root", steps);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let requests = lab.requests(&root);
    // 90 of 100 are used before the seventh, 75 before the sixth.
    let told: Vec<usize> =
        requests.iter().map(|request| user_texts(request).join("\n").matches("Wrap up now").count()).collect();
    assert_eq!(told, [0, 0, 0, 0, 0, 0, 1]);
    let rows = lab.engine.page(&root, None, None, 100).await.unwrap().rows;
    let warnings: Vec<String> = rows
        .into_iter()
        .filter_map(|row| match row.body {
            RowBody::Warning { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(warnings, ["90 % of its budget used, told to finish up: 90 of 100 tokens"]);
}

#[tokio::test]
async fn time_at_work_counts_and_the_sleep_of_the_machine_does_not() {
    let mut lab = limited(|config| config.limits.wall_clock_s = 60).await;
    lab.script(
        "root",
        vec![
            vec![gate("asleep"), look(1)],
            vec![say("slept")],
            vec![gate("at work"), look(2)],
            vec![say("never said")],
        ],
    );
    let root = lab.prompted("go").await;
    lab.reached("asleep").await;
    lab.sleep(Duration::from_secs(8 * 3600));
    lab.pass(Duration::from_secs(40));
    lab.open_gate("asleep");
    lab.rest(&root).await;
    // Between two turns nothing is at work.
    lab.pass(Duration::from_secs(3600));
    lab.restart().await;
    lab.engine.prompt(&root, "again".into(), &key()).await.unwrap();
    lab.reached("at work").await;
    lab.pass(Duration::from_secs(21));
    lab.open_gate("at work");
    lab.rest(&root).await;
    assert_eq!(lab.requests(&root).len(), 3);
    let ends = ends(&lab, &root).await;
    assert_eq!(ends[0], (TurnEnd::Completed, None));
    assert_eq!(ends[1].0, TurnEnd::Limit);
    let why = ends[1].1.as_deref().unwrap();
    assert!(
        why.starts_with("its budget is used up: 6") && why.ends_with("of 60 s at work (limits.wall_clock_s)"),
        "{why}"
    );
}

#[tokio::test]
async fn a_child_is_not_woken_when_nothing_is_left_to_spend() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![crate::lab::delegate("one", "look")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let used = TreeLimits { tokens: Some(1), ..TreeLimits::default() };
    lab.engine.set_limits(&root, used, &key()).await.unwrap();
    let refused = lab.engine.send(&child, "more".into(), None, &key()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Limit);
    assert!(refused.message().ends_with("Nothing was sent."), "{refused}");
    assert_eq!(lab.tasks().await.len(), 1);
}

#[tokio::test]
async fn a_turn_that_goes_in_a_circle_is_warned_and_then_ended() {
    let lab = limited(|config| config.limits.same_calls = 8).await;
    lab.script("root", vec![vec![look(1)]; 20]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let requests = lab.requests(&root);
    assert_eq!(requests.len(), 8);
    let warned = |request| user_texts(request).join("\n").contains("the same calls 4 times in a row");
    assert!(!warned(&requests[3]) && warned(&requests[4]));
    let why = "it went in a circle: the same calls with the same results, 8 times in a row (limits.same_calls)";
    assert_eq!(ends(&lab, &root).await, [(TurnEnd::Limit, Some(why.to_owned()))]);
}

#[tokio::test]
async fn a_turn_in_which_every_call_fails_is_warned_and_then_ended() {
    let lab = limited(|config| config.limits.failed_steps = 4).await;
    let read = |n: usize| call("read_file", json!({ "path": format!("absent-{n}") }));
    lab.script("root", (0..20).map(|n| vec![read(n)]).collect());
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let requests = lab.requests(&root);
    assert_eq!(requests.len(), 4);
    assert!(user_texts(&requests[2]).join("\n").contains("Every call of your last 2 steps failed"));
    let why = "it got nowhere: every call failed, 4 steps in a row (limits.failed_steps)";
    assert_eq!(ends(&lab, &root).await, [(TurnEnd::Limit, Some(why.to_owned()))]);
}

#[tokio::test]
async fn a_message_gives_a_turn_something_new_to_go_by() {
    let lab = limited(|config| config.limits.same_calls = 8).await;
    let step = |n: usize| if n == 6 { vec![gate("steer"), look(1)] } else { vec![look(1)] };
    lab.script("root", (0..12).map(step).chain([vec![say("done")]]).collect());
    let root = lab.prompted("go").await;
    lab.reached("steer").await;
    lab.engine.prompt(&root, "go on".into(), &key()).await.unwrap();
    lab.open_gate("steer");
    lab.rest(&root).await;
    assert_eq!(ends(&lab, &root).await, [(TurnEnd::Completed, None)]);
}

#[tokio::test]
async fn a_child_that_its_budget_ends_is_no_success_and_says_why() {
    let lab = limited(|config| config.limits.tokens = 30).await;
    lab.script("root", vec![vec![crate::lab::delegate("one", "look")], vec![gate("child is done"), say("started")]]);
    let found = vec![gate("the root asked"), say("found a thing"), look(1)];
    lab.script("one", vec![found, vec![say("never said")]]);
    let root = lab.prompted("go").await;
    let task = lab.until_tasks(1).await.pop().unwrap();
    lab.reached("child is done").await;
    lab.open_gate("the root asked");
    let task = lab.engine.wait_task(&task.id, crate::lab::PATIENCE).await.unwrap();
    lab.open_gate("child is done");
    lab.rest(&root).await;
    assert_eq!(task.status, TaskStatus::Failed);
    let detail = task.detail.unwrap();
    assert!(detail.starts_with("its budget is used up: "), "{detail}");
}

fn background(command: &str, timeout_ms: u64) -> crate::lab::Act {
    call("bash", json!({ "command": command, "run_in_background": true, "timeout_ms": timeout_ms }))
}

#[tokio::test]
async fn a_task_ends_at_its_time_limit_and_its_owner_is_told() {
    let lab = Lab::new().await;
    let start = vec![background("sleep 600", 100), background("true", 60_000), background("true", 86_400_001)];
    lab.script("root", vec![start, vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.until_tasks(2).await;
    lab.rest(&root).await;
    let ends: Vec<_> =
        lab.tasks().await.into_iter().map(|task| (task.status, task.killed_by, task.detail.unwrap())).collect();
    assert_eq!(
        ends,
        [
            (TaskStatus::Killed, Some(Party::Limit), "its time limit of 0.1 s is over".to_owned()),
            (TaskStatus::Completed, None, "exit 0".to_owned()),
        ]
    );
    let last = lab.requests(&root).pop().unwrap();
    assert!(results(&last)[2].1.starts_with("timeout_ms has to lie between 1 and 86400000."));
    let told = user_texts(&last).join("\n");
    let line = "Task bash-1 (bash, \"sleep 600\"): killed (by a limit, its time limit of 0.1 s is over)";
    assert!(told.contains(line), "{told}");
}

#[tokio::test]
async fn an_explicit_kill_outranks_the_time_limit_that_is_ending_a_task() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![background("trap '' TERM; while :; do sleep 1; done", 50)], vec![say("started")]]);
    let root = lab.prompted("go").await;
    let task = lab.until_tasks(1).await.pop().unwrap().id;
    lab.until(&root, |event| matches!(event, Event::TaskStopping { by: Party::Limit, .. })).await;
    within(lab.engine.stop(Target::Task(task.clone()), None, false, &key())).await.unwrap();
    lab.rest(&root).await;
    let view = lab.tasks().await.remove(0);
    assert_eq!((view.status, view.killed_by), (TaskStatus::Killed, Some(Party::Person)));
}
