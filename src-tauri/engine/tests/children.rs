//! Children that are spoken to: what they read, in which order, how often, and what they are told that they can do.

use crate::lab::{Act, Lab, PATIENCE, call, delegate, gate, key, results, say, task, user_texts, within};
use coppice_engine::config::Config;
use coppice_engine::engine::Target;
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Party, Recorded, Route, TaskStatus, ToolFilter};
use coppice_engine::id::SessionId;
use coppice_engine::llm::FailureKind;
use coppice_engine::view::SessionState;
use serde_json::json;
use std::collections::BTreeSet;

/// The notices that a session was told: the task, and the words.
fn told(events: &[Recorded]) -> Vec<(String, String)> {
    let notice = |recorded: &Recorded| match &recorded.event {
        Event::NoticeAdmitted { task, text, .. } => Some((task.to_string(), text.clone())),
        _ => None,
    };
    events.iter().filter_map(notice).collect()
}

/// A root with one child, both at rest.
async fn with_child(lab: &Lab) -> (SessionId, SessionId) {
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    (root, lab.child("one").await.id)
}

/// A step at a gate that then goes on to another step.
fn pass(name: &str) -> Vec<Act> {
    vec![gate(name), call("task_list", json!({}))]
}

#[tokio::test]
async fn every_activation_is_told_under_its_own_task_and_reads_all_that_was_ever_said_in_order() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "first words")], vec![say("started")]]);
    lab.script(
        "one",
        vec![
            pass("one"),
            vec![say("first answer")],
            vec![say("second answer")],
            pass("three"),
            vec![say("third answer")],
        ],
    );
    let root = lab.prompted("go").await;
    lab.reached("one").await;
    let child = lab.child("one").await.id;
    lab.engine.send(&child, "a steer".into(), None, &key()).await.unwrap();
    lab.open_gate("one");
    lab.rest(&root).await;
    lab.engine.send(&child, "second words".into(), None, &key()).await.unwrap();
    lab.rest(&root).await;
    lab.engine.send(&child, "third words".into(), None, &key()).await.unwrap();
    lab.reached("three").await;
    let steered = lab.engine.send(&child, "another steer".into(), None, &key()).await.unwrap();
    assert_eq!((steered.route, steered.task), (Route::Steered, task("subagent-3")));
    // While it runs again, what it did before is there to be collected.
    let tasks: Vec<TaskStatus> = lab.tasks().await.into_iter().map(|task| task.status).collect();
    assert_eq!(tasks, [TaskStatus::Completed, TaskStatus::Completed, TaskStatus::Running]);
    assert_eq!(lab.engine.output(&task("subagent-1"), 0, 100).await.unwrap().text, "first answer");
    lab.open_gate("three");
    lab.rest(&root).await;
    let read = lab.requests(&child).pop().unwrap();
    assert_eq!(user_texts(&read), ["first words", "a steer", "second words", "third words", "another steer"]);
    let tasks: Vec<String> = told(&lab.events(&root).await).into_iter().map(|(task, _)| task).collect();
    assert_eq!(tasks, ["subagent-1", "subagent-2", "subagent-3"]);
    for (n, answer) in [(1, "first answer"), (2, "second answer"), (3, "third answer")] {
        assert_eq!(lab.engine.output(&task(&format!("subagent-{n}")), 0, 100).await.unwrap().text, answer);
    }
}

#[tokio::test]
async fn the_model_and_the_person_together_wake_a_child_once_and_each_is_told_what_became_of_its_words() {
    for round in 0..12 {
        let lab = Lab::new().await;
        let (root, child) = with_child(&lab).await;
        let model = |n: u32| call("send_message", json!({ "child_id": child, "message": format!("<model {n}>") }));
        lab.script("root", vec![vec![model(1), model(2)], vec![say("sent")]]);
        lab.replay(&root);
        lab.engine.prompt(&root, "tell it".into(), &key()).await.unwrap();
        for _ in 0..round * 8 {
            tokio::task::yield_now().await;
        }
        let person = lab.engine.send(&child, "<person>".into(), None, &key()).await;
        lab.rest(&root).await;
        let answers = results(&lab.requests(&root).pop().unwrap());
        let mut accepted = vec![("<person>".to_owned(), person.as_ref().ok().map(|sent| sent.route))];
        for (n, (ok, text)) in (1..).zip(&answers[answers.len() - 2..]) {
            let route = if text.starts_with("steered") { Route::Steered } else { Route::Started };
            assert!(*ok || text.starts_with("Not sent: "), "round {round}: {text}");
            accepted.push((format!("<model {n}>"), ok.then_some(route)));
        }
        let started = accepted.iter().filter(|(_, route)| *route == Some(Route::Started)).count();
        assert_eq!(lab.tasks().await.len(), 1 + started, "round {round}: {accepted:?}");
        let read = user_texts(&lab.requests(&child).pop().unwrap()).join("\n");
        for (words, route) in &accepted {
            assert_eq!(
                read.matches(words.as_str()).count(),
                usize::from(route.is_some()),
                "round {round}: {accepted:?}"
            );
        }
        let events = lab.events(&child).await;
        let mut open = 0;
        for recorded in &events {
            match recorded.event {
                Event::TurnStarted { .. } => open += 1,
                Event::TurnEnded { .. } => open -= 1,
                _ => {}
            }
            assert!((0..=1).contains(&open), "two turns at once: {events:?}");
        }
    }
}

#[tokio::test]
async fn what_was_said_in_a_turn_is_read_before_what_was_said_after_it() {
    let lab = Lab::new().await;
    let (root, child) = with_child(&lab).await;
    for round in 0..40 {
        let at = format!("at {round}");
        lab.script("one", vec![vec![gate(&at), say("well")]]);
        lab.replay(&child);
        lab.engine.send(&child, format!("wake {round}"), None, &key()).await.unwrap();
        lab.reached(&at).await;
        let (first, second) = (format!("<{round} first>"), format!("<{round} second>"));
        let steered = lab.engine.send(&child, first.clone(), None, &key()).await.unwrap();
        assert_eq!(steered.route, Route::Steered);
        lab.open_gate(&at);
        for _ in 0..round * 2 {
            tokio::task::yield_now().await;
        }
        let after = lab.engine.send(&child, second.clone(), None, &key()).await;
        lab.rest(&root).await;
        let read = user_texts(&lab.requests(&child).pop().unwrap()).join("\n");
        let (first, second) = (read.find(&first), read.find(&second));
        assert!(first.is_some(), "round {round}: an accepted message was lost");
        match after {
            Ok(_) => assert!(first < second, "round {round}"),
            Err(error) => assert_eq!((error.code(), second), (Code::NotDelivered, None), "round {round}"),
        }
    }
}

#[tokio::test]
async fn a_send_whose_answer_was_lost_is_sent_again_under_its_key_and_read_once() {
    for given_up_after in [0, 1, 2, 4, 8, 16, 32, 64, 128] {
        let lab = Lab::new().await;
        let (root, child) = with_child(&lab).await;
        lab.script("one", vec![vec![gate("again"), say("well")]]);
        lab.replay(&child);
        let once = key();
        let polls = async {
            for _ in 0..given_up_after {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = lab.engine.send(&child, "<words>".into(), None, &once) => {}
            () = polls => {}
        }
        let sent = within(async {
            loop {
                match lab.engine.send(&child, "<words>".into(), None, &once).await {
                    Ok(sent) => return sent,
                    Err(error) => assert_eq!(error.code(), Code::NotDelivered, "{error}"),
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        lab.open_gate("again");
        lab.rest(&root).await;
        let read = user_texts(&lab.requests(&child).pop().unwrap()).join("\n");
        assert_eq!(read.matches("<words>").count(), 1, "{given_up_after}: {sent:?}");
        let tasks = lab.tasks().await;
        assert_eq!(tasks.len(), 2, "{given_up_after}: {tasks:?}");
        assert!(tasks.iter().all(|task| task.status == TaskStatus::Completed), "{tasks:?}");
    }
}

#[tokio::test]
async fn a_child_that_lost_its_model_says_who_it_is_and_goes_on_from_there() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let look = || vec![call("glob", json!({ "pattern": "*" }))];
    let lost = Act::Fail(FailureKind::Unreachable, "the connection was closed".into());
    lab.script("one", vec![look(), look(), vec![say("half a sentence"), lost], vec![say("all of it")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let [(failed, words)] = &told(&lab.events(&root).await)[..] else { panic!("one notice") };
    assert_eq!(failed, "subagent-1");
    assert!(words.contains("failed") && words.contains("the connection was closed"), "{words}");
    assert!(words.contains(child.as_str()) && words.contains("subagent-1"), "{words}");
    lab.script(
        "root",
        vec![vec![call("send_message", json!({ "child_id": child, "message": "go on" }))], vec![say("ok")]],
    );
    lab.replay(&root);
    lab.engine.prompt(&root, "and?".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let last = lab.requests(&child).pop().unwrap();
    assert_eq!(results(&last).len(), 2, "what it did before the fault is not done again");
    let read = user_texts(&last).join("\n");
    assert!(read.starts_with("work") && read.ends_with("go on"), "{read}");
    assert_eq!(lab.child("one").await.state, SessionState::Completed);
    assert_eq!(lab.engine.output(&task("subagent-2"), 0, 100).await.unwrap().text, "all of it");
}

#[tokio::test]
async fn a_child_reads_its_prompt_byte_for_byte() {
    let lab = Lab::new().await;
    let prompt =
        "  \"quoted\" 'single' `code` $HOME\r\n\n\t語🌳e\u{301}\u{202e}\\n {\"json\": null}\n[runtime] Task x\n ";
    let wait = call("subagent", json!({ "description": "two", "prompt": prompt }));
    lab.script("root", vec![vec![delegate("one", prompt), wait], vec![say("started")]]);
    let root = lab.prompted(prompt).await;
    lab.rest(&root).await;
    for label in ["one", "two"] {
        let child = lab.child(label).await.id;
        assert_eq!(user_texts(&lab.requests(&child)[0]), [prompt], "{label}");
    }
    assert_eq!(user_texts(&lab.requests(&root)[0]), [prompt]);
}

#[tokio::test]
async fn twenty_children_have_ids_of_their_own_under_a_parent_that_opens_after_a_restart() {
    let mut config = Config::default();
    config.limits.live_tasks_per_owner = 0;
    config.limits.live_children = 0;
    let mut lab = Lab::with(config).await;
    let names: Vec<String> = (0..20).map(|n| format!("child {n}")).collect();
    lab.script("root", vec![names.iter().map(|name| delegate(name, "work")).collect(), vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    lab.restart().await;
    let (sessions, tasks) = lab.engine.tree(Some(&root)).await.unwrap();
    let ids: BTreeSet<&SessionId> = sessions.iter().map(|session| &session.id).collect();
    assert_eq!((ids.len(), tasks.len()), (21, 20));
    for session in sessions.iter().filter(|session| session.id != root) {
        assert_eq!((session.parent.as_ref(), &session.root, session.depth), (Some(&root), &root, 1));
    }
    let turns = lab.requests(&root).len();
    lab.engine.prompt(&root, "still there?".into(), &key()).await.unwrap();
    assert_eq!(lab.rest(&root).await.state, SessionState::Idle);
    assert_eq!(lab.requests(&root).len(), turns + 1);
}

#[tokio::test]
async fn what_the_person_stopped_or_deleted_stays_so_after_a_restart_whatever_its_parent_sends() {
    let mut lab = Lab::new().await;
    let names = ["a", "b", "c", "d"];
    lab.script("root", vec![names.iter().map(|name| delegate(name, "work")).collect(), vec![say("started")]]);
    for name in names {
        lab.script(name, vec![vec![gate(name), say("done")]]);
    }
    let root = lab.prompted("go").await;
    for name in names {
        lab.reached(name).await;
    }
    let mut ids = Vec::new();
    for name in names {
        ids.push(lab.child(name).await.id);
    }
    for stopped in &ids[..2] {
        within(lab.engine.stop(Target::Branch(stopped.clone()), None, false, &key())).await.unwrap();
    }
    for name in &names[2..] {
        lab.open_gate(name);
    }
    lab.rest(&root).await;
    lab.engine.delete(&ids[3], false, &key()).await.unwrap();
    lab.restart().await;
    let send = |child: &SessionId| call("send_message", json!({ "child_id": child, "message": "go on" }));
    lab.script("root", vec![ids.iter().map(send).collect(), vec![say("sent")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "wake them".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let answers = results(&lab.requests(&root).pop().unwrap());
    let answers = &answers[answers.len() - 4..];
    for (ok, text) in &answers[..2] {
        assert!(!ok && text.contains("only the person wakes it"), "{text}");
    }
    assert!(answers[2].0 && answers[2].1.starts_with("started"), "{answers:?}");
    assert!(!answers[3].0 && answers[3].1.starts_with("You have no child"), "{answers:?}");
    let (sessions, tasks) = lab.engine.tree(None).await.unwrap();
    let left: Vec<&str> = sessions.iter().filter(|session| session.depth > 0).map(|s| s.title.as_str()).collect();
    assert_eq!(left, ["a", "b", "c"]);
    let stopped = |id: &SessionId| tasks.iter().filter(|task| task.child.as_ref() == Some(id)).collect::<Vec<_>>();
    for id in &ids[..2] {
        let [only] = stopped(id)[..] else { panic!("{tasks:?}") };
        assert_eq!((only.status, only.killed_by), (TaskStatus::Killed, Some(Party::Person)));
    }
}

#[tokio::test]
async fn a_stop_around_the_natural_end_of_a_child_leaves_one_end_that_list_detail_and_notice_agree_on() {
    let lab = Lab::new().await;
    let (root, child) = with_child(&lab).await;
    let mut ends = BTreeSet::new();
    for round in 0..42 {
        if round == 41 {
            lab.script("one", vec![vec![gate("never")]]);
            lab.replay(&child);
        }
        let sent = lab.engine.send(&child, format!("wake {round}"), None, &key()).await.unwrap();
        // Around the end, and at last certainly after it and certainly before it.
        match round {
            40 => drop(within(lab.engine.wait_task(&sent.task, PATIENCE)).await.unwrap()),
            41 => lab.reached("never").await,
            _ => {
                for _ in 0..round * 3 {
                    tokio::task::yield_now().await;
                }
            }
        }
        within(lab.engine.stop(Target::Task(sent.task.clone()), None, false, &key())).await.unwrap();
        lab.engine.prompt(&root, "so?".into(), &key()).await.unwrap();
        lab.rest(&root).await;
        let events = lab.events(&root).await;
        let settled: Vec<TaskStatus> = events
            .iter()
            .filter_map(|recorded| match &recorded.event {
                Event::TaskSettled { task, status, .. } if *task == sent.task => Some(*status),
                _ => None,
            })
            .collect();
        let view = lab.tasks().await.into_iter().find(|view| view.id == sent.task).unwrap();
        assert_eq!(settled, [view.status], "round {round}");
        let notices: Vec<(String, String)> =
            told(&events).into_iter().filter(|(task, _)| *task == sent.task.to_string()).collect();
        let [(_, words)] = &notices[..] else { panic!("round {round}: {notices:?}") };
        assert!(words.contains(&format!("): {}", view.status.word())), "round {round}: {words}");
        let state = lab.engine.session(&child).await.unwrap().state;
        let expected = if view.status == TaskStatus::Killed { SessionState::Killed } else { SessionState::Completed };
        assert_eq!(state, expected, "round {round}");
        ends.insert(view.status.word());
    }
    assert_eq!(ends, BTreeSet::from(["completed", "killed"]), "both ends were met");
}

/// Every tool that a text speaks of.
fn named<'a>(text: &str, all: &'a [String]) -> Vec<&'a str> {
    let words: BTreeSet<&str> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    // Words that are also plain English say nothing of a tool.
    let telling = all.iter().map(String::as_str).filter(|name| name.contains('_'));
    telling.filter(|name| words.contains(name)).collect()
}

#[tokio::test]
async fn no_model_is_told_of_a_tool_or_an_argument_that_it_does_not_have() {
    for background in [true, false] {
        let mut config = Config::default();
        config.limits.depth = 2;
        config.subagents.get_mut("subagent").unwrap().run_in_background = background;
        let lab = Lab::with(config).await;
        let start = |label: &str| {
            let mut args = json!({ "description": label, "prompt": "work" });
            if background {
                args["run_in_background"] = json!(true);
            }
            call("subagent", args)
        };
        let bash = call("bash", json!({ "command": "true", "run_in_background": true }));
        lab.script("root", vec![vec![start("one"), bash.clone()], vec![gate("end"), say("started")]]);
        lab.script("one", vec![vec![start("below"), bash.clone()], vec![say("done")]]);
        lab.script("below", vec![vec![bash], vec![say("done")]]);
        let root = lab.prompted("go").await;
        lab.open_gate("end");
        lab.rest(&root).await;
        let (sessions, _) = lab.engine.tree(None).await.unwrap();
        assert_eq!(sessions.len(), 3);
        let all: Vec<String> = lab.requests(&root)[0].tools.iter().map(|tool| tool.name.clone()).collect();
        assert!(all.contains(&"send_message".to_owned()) && all.contains(&"task_output".to_owned()), "{all:?}");
        for session in &sessions {
            for request in lab.requests(&session.id) {
                let given: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
                let described: String =
                    request.tools.iter().map(|tool| format!("{} {}\n", tool.description, tool.parameters)).collect();
                let answered: String = results(&request).into_iter().map(|(_, text)| text + "\n").collect();
                for name in named(&format!("{}\n{described}\n{answered}", request.system), &all) {
                    assert!(given.contains(&name), "{} is told of {name} and has {given:?}", session.title);
                }
                let delegates = request.tools.iter().find(|tool| tool.name == "subagent");
                assert_eq!(delegates.is_some(), session.depth < 2);
                if let Some(tool) = delegates {
                    assert_eq!(tool.parameters["properties"].get("run_in_background").is_some(), background);
                    assert_eq!(tool.description.contains("background"), background, "{}", tool.description);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_child_with_few_tools_is_told_of_no_other() {
    for allow in [&["read_file", "glob"][..], &["bash"], &["task_list"]] {
        let mut config = Config::default();
        let instance = config.subagents.get_mut("subagent").unwrap();
        instance.tools = ToolFilter { allow: allow.iter().map(|name| (*name).to_owned()).collect(), deny: vec![] };
        let lab = Lab::with(config).await;
        let root = lab.root().await;
        lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
        lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
        lab.rest(&root).await;
        let all: Vec<String> = lab.requests(&root)[0].tools.iter().map(|tool| tool.name.clone()).collect();
        let request = lab.requests(&lab.child("one").await.id).remove(0);
        let given: BTreeSet<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(given, allow.iter().copied().collect());
        let described: String =
            request.tools.iter().map(|tool| format!("{} {}\n", tool.description, tool.parameters)).collect();
        for name in named(&format!("{}\n{described}", request.system), &all) {
            assert!(given.contains(name), "a child with {allow:?} is told of {name}");
        }
    }
}
