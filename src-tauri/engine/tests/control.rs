//! Races and stops: a message is read once or said not to be delivered; what a receipt says is what happened.

use crate::lab::{Lab, PATIENCE, call, delegate, gate, key, say, user_texts, within};
use crate::process::{nap, running};
use coppice_engine::engine::Target;
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Receipt, Route, TaskStatus};
use coppice_engine::id::SessionId;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;

/// The pids of living processes (no zombies) that carry this engine's marker for a session.
fn marked(session: &SessionId) -> HashSet<u32> {
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
        while !(lab.cwd.join("up").exists() && marked(&child).len() >= 4) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let alive = marked(&child);
    let receipt = within(lab.engine.stop(Target::Branch(child.clone()), None, false, &key())).await.unwrap();
    assert_eq!(marked(&child), HashSet::new(), "something lives on");
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
    assert_eq!(marked(&root), HashSet::new());
    let again = lab.engine.stop(Target::Everything, None, false, &key()).await.unwrap();
    assert_eq!(again.ended, []);
}

/// A root whose child has finished and left a process behind; and its pid.
async fn left_by_a_child(lab: &Lab, nap: &str) -> (SessionId, u32) {
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let command = format!("env -i setsid -f sleep {nap} >/dev/null");
    lab.script("one", vec![vec![call("bash", json!({ "command": command }))], vec![say("done")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let left = running(&format!("sleep {nap}"));
    assert_eq!(left.len(), 1, "what a finished command left lives on");
    (root, left[0])
}

#[tokio::test]
async fn quitting_ends_what_finished_children_have_left_and_its_receipt_says_so() {
    let lab = Lab::new().await;
    let nap = nap(10);
    let (_, pid) = left_by_a_child(&lab, &nap).await;
    let receipt = within(lab.engine.shutdown(Duration::from_secs(20))).await.unwrap();
    let processes: Vec<(u32, bool)> = receipt.processes.iter().map(|process| (process.pid, process.gone)).collect();
    assert_eq!((processes, receipt.unconfirmed), (vec![(pid, true)], vec![]));
    assert_eq!(running(&format!("sleep {nap}")), Vec::<u32>::new());
}

#[tokio::test]
async fn stopping_what_is_at_rest_ends_what_its_commands_have_left_as_the_preview_said() {
    for by in ["root", "child", "everything"] {
        let lab = Lab::new().await;
        let nap = nap(13);
        let (root, pid) = left_by_a_child(&lab, &nap).await;
        let target = match by {
            "root" => Target::Branch(root.clone()),
            "child" => Target::Branch(lab.child("one").await.id),
            _ => Target::Everything,
        };
        let turn = Target::Turn(root.clone());
        let receipt = within(lab.engine.stop(turn, None, false, &key())).await.unwrap();
        assert_eq!((receipt.ended, receipt.processes), (vec![], vec![]), "only a turn was to end: {by}");
        let preview = lab.engine.stop(target.clone(), None, true, &key()).await.unwrap();
        let receipt = within(lab.engine.stop(target.clone(), None, false, &key())).await.unwrap();
        let told = |receipt: &Receipt| -> Vec<(u32, bool)> {
            receipt.processes.iter().map(|process| (process.pid, process.gone)).collect()
        };
        assert_eq!((told(&preview), preview.ended), (vec![(pid, false)], vec![]), "{by}");
        assert_eq!(
            (told(&receipt), &receipt.ended, &receipt.unconfirmed),
            (vec![(pid, true)], &vec![], &vec![]),
            "{by}"
        );
        assert_eq!(running(&format!("sleep {nap}")), Vec::<u32>::new(), "{by}");
        let keeper = if by == "child" { lab.child("one").await.id } else { root };
        let kept = Event::Stopped { receipt };
        assert_eq!(lab.events(&keeper).await.pop().unwrap().event, kept, "{by}");
        let again = lab.engine.stop(target, None, false, &key()).await.unwrap();
        assert_eq!((again.ended, again.processes), (vec![], vec![]), "{by}");
    }
}

#[tokio::test]
async fn stopping_a_child_by_any_name_ends_what_its_commands_have_left() {
    for by in ["branch", "turn", "task"] {
        let lab = Lab::new().await;
        let nap = nap(12);
        lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
        let command = format!("setsid -f sleep {nap} >/dev/null");
        lab.script("one", vec![vec![call("bash", json!({ "command": command }))], vec![gate("one")]]);
        lab.prompted("go").await;
        lab.reached("one").await;
        let left = running(&format!("sleep {nap}"));
        let child = lab.child("one").await;
        let target = match by {
            "branch" => Target::Branch(child.id),
            "turn" => Target::Turn(child.id),
            _ => Target::Task(child.task.unwrap()),
        };
        let receipt = within(lab.engine.stop(target, None, false, &key())).await.unwrap();
        let processes: Vec<(u32, bool)> = receipt.processes.iter().map(|process| (process.pid, process.gone)).collect();
        assert_eq!((processes, receipt.unconfirmed), (vec![(left[0], true)], vec![]), "{by}");
        assert_eq!(running(&format!("sleep {nap}")), Vec::<u32>::new(), "{by}");
    }
}

#[tokio::test]
async fn deleting_a_branch_ends_what_its_commands_have_left() {
    let lab = Lab::new().await;
    let nap = nap(11);
    let (root, _) = left_by_a_child(&lab, &nap).await;
    within(lab.engine.delete(&root, false, &key())).await.unwrap();
    assert_eq!(running(&format!("sleep {nap}")), Vec::<u32>::new());
}

#[tokio::test]
async fn a_message_sent_around_the_end_of_a_turn_is_read_exactly_once_or_refused() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    // The turn that the first round wakes goes on until its message is in.
    lab.script("one", vec![vec![say("done")], vec![gate("steer"), say("done")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let (mut steered, mut started, mut refused) = (0, 0, 0);
    for round in 0..60 {
        let wake = lab.engine.send(&child, format!("wake {round}"), None, &key()).await.unwrap();
        if round == 0 {
            lab.reached("steer").await;
        }
        for _ in 0..round * 3 {
            tokio::task::yield_now().await;
        }
        let text = format!("message <{round}>");
        let sent = lab.engine.send(&child, text.clone(), None, &key()).await;
        lab.open_gate("steer");
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
    assert!(steered > 0, "the first message met a running turn: {started} started, {refused} refused");
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
    for round in 0..20 {
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
        // The person's stop and the natural end are both told, once.
        assert_eq!(told, 1, "round {round}");
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

#[tokio::test]
async fn what_everything_stopped_is_told_to_its_owner_only_when_the_person_speaks_again() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("waiting"), gate("root")], vec![say("I see.")]]);
    lab.script("one", vec![vec![gate("one")]]);
    let busy = lab.prompted("go").await;
    let idle = lab.root().await;
    lab.reached("root").await;
    lab.reached("one").await;
    let receipt = within(lab.engine.stop(Target::Everything, None, false, &key())).await.unwrap();
    assert_eq!((receipt.ended.len(), receipt.unconfirmed.len()), (2, 0), "{receipt:?}");
    lab.rest(&busy).await;
    assert_eq!(lab.requests(&busy).len(), 2, "the stop started nothing");
    let kept = |events: Vec<coppice_engine::event::Recorded>| {
        events.iter().filter(|recorded| matches!(recorded.event, Event::Stopped { .. })).count()
    };
    assert_eq!((kept(lab.events(&busy).await), kept(lab.events(&idle).await)), (1, 0));
    lab.engine.prompt(&busy, "what now?".into(), &key()).await.unwrap();
    lab.rest(&busy).await;
    let told = user_texts(&lab.requests(&busy)[2]).join("\n");
    assert!(told.contains("Task subagent-1") && told.contains("by the person"), "{told}");
}

#[tokio::test]
async fn stopping_one_command_says_nothing_of_its_neighbour() {
    let lab = Lab::new().await;
    let sleep = |n: u32| call("bash", json!({ "command": format!("sleep 30{n}"), "run_in_background": true }));
    lab.script("root", vec![vec![sleep(1), sleep(2)], vec![say("two sleep")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    within(async {
        while marked(&root).len() < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let first = crate::lab::task("bash-1");
    let receipt = within(lab.engine.stop(Target::Task(first), None, false, &key())).await.unwrap();
    assert_eq!(receipt.unconfirmed, Vec::<String>::new());
    assert!(!receipt.processes.is_empty() && receipt.processes.iter().all(|process| process.gone), "{receipt:?}");
    assert_eq!(lab.engine.session(&root).await.unwrap().live_below, 1);
    within(lab.engine.stop(Target::Everything, None, false, &key())).await.unwrap();
}

#[tokio::test]
async fn stopping_the_turn_of_a_child_names_all_that_ends_with_it() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![delegate("below", "deeper")], vec![gate("one")]]);
    lab.script("below", vec![vec![gate("below")]]);
    let root = lab.prompted("go").await;
    lab.reached("one").await;
    lab.reached("below").await;
    let child = lab.child("one").await.id;
    let preview = lab.engine.stop(Target::Turn(child.clone()), None, true, &key()).await.unwrap();
    let receipt = within(lab.engine.stop(Target::Turn(child), None, false, &key())).await.unwrap();
    let labels: Vec<&str> = receipt.ended.iter().map(|item| item.label.as_str()).collect();
    assert_eq!((labels, receipt.ended.clone()), (vec!["one", "below"], preview.ended));
    lab.rest(&root).await;
    let task = lab.engine.wait_task(&crate::lab::task("subagent-1"), crate::lab::PATIENCE).await.unwrap();
    assert_eq!(task.killed_by, Some(coppice_engine::event::Party::Person));
}

#[tokio::test]
async fn a_person_talks_to_a_grandchild_whose_parent_has_ended_and_to_that_parent_afterwards() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let wait = call("task_output", json!({ "task_id": "$task0", "wait": true }));
    lab.script("one", vec![vec![delegate("below", "deeper")], vec![wait], vec![say("one is done")]]);
    lab.script("below", vec![vec![say("below is done")], vec![gate("again"), say("again")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let (one, below) = (lab.child("one").await.id, lab.child("below").await.id);
    let asked = lab.requests(&one).len();
    lab.engine.send(&below, "once more".into(), None, &key()).await.unwrap();
    lab.reached("again").await;
    let refused = lab.engine.send(&one, "and you?".into(), None, &key()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Busy);
    lab.open_gate("again");
    lab.rest(&root).await;
    assert_eq!(lab.requests(&one).len(), asked, "a parent that only lends its name takes no turn");
    lab.engine.send(&one, "and you?".into(), None, &key()).await.unwrap();
    lab.rest(&root).await;
    let told = user_texts(lab.requests(&one).last().unwrap()).join("\n");
    assert!(told.contains("and you?") && told.contains("[runtime] Task subagent-3"), "{told}");
}

#[tokio::test]
async fn a_message_that_was_said_not_to_be_sent_is_never_read() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let accepted = |events: &[coppice_engine::event::Recorded]| {
        events.iter().filter(|recorded| matches!(recorded.event, Event::MessageAccepted { .. })).count()
    };
    let before = accepted(&lab.events(&child).await);
    lab.restart_without_model().await;
    let refused = lab.engine.send(&child, "go on".into(), None, &key()).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotResumable, "{refused}");
    assert_eq!(accepted(&lab.events(&child).await), before);
}

#[tokio::test]
async fn a_child_that_the_person_stopped_is_woken_by_the_person_only() {
    let lab = Lab::new().await;
    let wake = call("send_message", json!({ "child_id": "$child0", "message": "go on" }));
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")], vec![wake], vec![say("well")]]);
    lab.script("one", vec![vec![gate("never")], vec![say("woken")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    let child = lab.child("one").await.id;
    within(lab.engine.stop(Target::Branch(child.clone()), None, false, &key())).await.unwrap();
    lab.rest(&root).await;
    let answers = crate::lab::results(lab.requests(&root).last().unwrap());
    assert!(answers.iter().any(|(ok, text)| !ok && text.contains("only the person wakes it")), "{answers:?}");
    let sent = lab.engine.send(&child, "go on".into(), None, &key()).await.unwrap();
    assert_eq!(sent.route, Route::Started);
    lab.rest(&root).await;
}

#[tokio::test]
async fn a_child_that_was_waited_for_and_that_the_person_stopped_is_woken_by_the_person_only_and_listed_so() {
    let lab = Lab::new().await;
    let work = |label: &str| call("subagent", json!({ "description": label, "prompt": "work" }));
    let wake = |child: &str| call("send_message", json!({ "child_id": child, "message": "go on" }));
    lab.script(
        "root",
        vec![vec![work("one")], vec![work("two")], vec![call("list_agents", json!({}))], vec![say("well")]],
    );
    lab.script("one", vec![vec![gate("never")], vec![say("woken")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    let child = lab.child("one").await.id;
    within(lab.engine.stop(Target::Turn(child.clone()), None, false, &key())).await.unwrap();
    lab.rest(&root).await;
    let two = lab.child("two").await.id;
    let told =
        |text: &str| crate::lab::results(lab.requests(&root).last().unwrap()).iter().any(|(_, told)| told == text);
    let stopped = format!("{child}  stopped by the person  \"one\"");
    assert!(told(&format!("{stopped}\n{two}  ready  \"two\"")));
    lab.script("root", vec![vec![wake(child.as_str())], vec![wake(two.as_str())], vec![say("well")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "wake them".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    assert!(told("The person stopped this child, so only the person wakes it. Nothing was sent."));
    assert_eq!((lab.requests(&child).len(), lab.requests(&two).len()), (1, 2));
    let sent = lab.engine.send(&child, "go on".into(), None, &key()).await.unwrap();
    assert_eq!(sent.route, Route::Started);
    lab.rest(&root).await;
}

#[tokio::test]
async fn long_output_is_collected_whole_piece_by_piece() {
    let lab = Lab::new().await;
    let command = "python3 -c \"print(''.join('%06d\\n' % n for n in range(12000)), end='')\"";
    let more = || vec![call("task_output", json!({ "task_id": "bash-1", "wait": true }))];
    let mut steps = vec![vec![call("bash", json!({ "command": command, "run_in_background": true }))]];
    steps.extend((0..12).map(|_| more()));
    steps.push(vec![say("all read")]);
    lab.script("root", steps);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let read: String = crate::lab::results(lab.requests(&root).last().unwrap())
        .into_iter()
        .skip(1)
        .map(|(_, text)| {
            text.lines().filter(|line| !line.starts_with('[')).map(|line| format!("{line}\n")).collect::<String>()
        })
        .collect();
    let whole: String = (0..12000).map(|n| format!("{n:06}\n")).collect();
    // A cut between two pieces falls inside a line.
    assert_eq!(read.replace('\n', ""), whole.replace('\n', ""));
}

#[test]
fn a_child_is_never_given_a_tool_that_its_parent_is_not() {
    use coppice_engine::event::ToolFilter;
    let filter = |allow: &[&str], deny: &[&str]| {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ToolFilter { allow: list(allow), deny: list(deny) }
    };
    let filters =
        [filter(&[], &[]), filter(&[], &["bash"]), filter(&["grep", "bash"], &[]), filter(&["glob"], &["glob"])];
    for parent in &filters {
        for child in &filters {
            for tool in ["bash", "grep", "glob", "read_file"] {
                let given = child.within(parent).admits(tool);
                assert_eq!(given, child.admits(tool) && parent.admits(tool), "{child:?} in {parent:?}: {tool}");
            }
        }
    }
}

#[tokio::test]
async fn a_stop_waits_for_the_turn_that_it_stops_and_not_for_one_that_a_prompt_begins_then() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![gate("never")], vec![gate("never")], vec![gate("never")]]);
    for _ in 0..20 {
        let root = lab.prompted("go").await;
        let stop = lab.engine.stop(Target::Turn(root.clone()), None, false, Box::leak(Box::new(key())));
        let prompt = lab.engine.prompt(&root, "go on".into(), Box::leak(Box::new(key())));
        let (receipt, prompted) = within(async { tokio::join!(stop, prompt) }).await;
        prompted.unwrap();
        assert_eq!(receipt.unwrap().unconfirmed, Vec::<String>::new());
    }
    lab.engine.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_message_that_was_refused_by_a_race_stays_refused_under_its_key_and_goes_out_under_another() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let once = key();
    let refused = lab.engine.send(&child, "more".into(), Some(Route::Steered), &once).await.unwrap_err();
    let again = lab.engine.send(&child, "more".into(), None, &once).await.unwrap_err();
    assert_eq!((refused.code(), again.code()), (Code::NotDelivered, Code::NotDelivered));
    assert_eq!(refused.message(), again.message());
    let sent = lab.engine.send(&child, "more".into(), None, &key()).await.unwrap();
    assert_eq!(sent.route, Route::Started);
    lab.rest(&root).await;
}
