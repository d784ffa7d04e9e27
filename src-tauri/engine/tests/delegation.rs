//! Delegation, background tasks and control: what the runtime promises, on the real engine.

use crate::lab::{Act, Lab, call, delegate, gate, key, results, say, task, user_texts, within};
use coppice_engine::engine::Target;
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Party, Route, Stop, TaskStatus, TurnEnd};
use coppice_engine::id::SessionId;
use coppice_engine::view::SessionState;
use serde_json::json;

#[tokio::test]
async fn a_root_delegates_is_woken_by_each_end_and_collects_what_its_children_found() {
    let lab = Lab::new().await;
    lab.script(
        "root",
        vec![
            vec![delegate("one", "look at one"), delegate("two", "look at two")],
            vec![say("Both are at work.")],
            vec![
                call("task_output", json!({ "task_id": "$task0" })),
                call("task_output", json!({ "task_id": "$task1" })),
            ],
            vec![say("The report.")],
        ],
    );
    lab.script("one", vec![vec![gate("children"), say("one was fine")]]);
    lab.script("two", vec![vec![gate("children"), say("two was fine")]]);
    let root = lab.prompted("look around").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    lab.open_gate("children");
    let view = lab.rest(&root).await;
    assert_eq!((view.state, view.live_below), (SessionState::Idle, 0));
    let requests = lab.requests(&root);
    let last = requests.iter().rev().find(|request| results(request).len() >= 4).unwrap();
    let collected: Vec<String> = results(last).into_iter().skip(2).map(|(_, text)| text).collect();
    assert_eq!(collected, ["one was fine\n[subagent-1: completed]", "two was fine\n[subagent-2: completed]"]);
    let notices: Vec<String> = lab
        .events(&root)
        .await
        .into_iter()
        .filter_map(|recorded| match recorded.event {
            Event::NoticeAdmitted { task, .. } => Some(task.to_string()),
            _ => None,
        })
        .collect();
    let mut sorted = notices.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(notices.len(), sorted.len(), "a notice came twice: {notices:?}");
    for child in ["one", "two"] {
        assert_eq!(lab.child(child).await.state, SessionState::Completed);
    }
}

#[tokio::test]
async fn a_message_to_a_running_child_joins_its_turn_and_is_read_at_the_next_step() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("first"), call("task_list", json!({}))], vec![say("I did it")]]);
    let root = lab.prompted("go").await;
    lab.reached("first").await;
    let child = lab.child("one").await.id;
    let sent = lab.engine.send(&child, "use the other path".into(), None, &key()).await.unwrap();
    assert_eq!((sent.route, sent.task), (Route::Steered, task("subagent-1")));
    lab.open_gate("first");
    lab.rest(&root).await;
    let requests = lab.requests(&child);
    assert_eq!(requests.len(), 2);
    assert_eq!(user_texts(&requests[1]), ["work", "use the other path"]);
    assert_eq!(lab.tasks().await.len(), 1);
}

#[tokio::test]
async fn a_message_that_comes_while_the_last_words_are_said_is_still_read() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("last"), say("that is all")], vec![say("and this too")]]);
    let root = lab.prompted("go").await;
    lab.reached("last").await;
    let child = lab.child("one").await.id;
    let sent = lab.engine.send(&child, "one more thing".into(), None, &key()).await.unwrap();
    lab.open_gate("last");
    lab.rest(&root).await;
    assert_eq!(sent.route, Route::Steered);
    assert_eq!(user_texts(&lab.requests(&child)[1]), ["work", "one more thing"]);
    let output = lab.engine.output(&sent.task, 0, 1000).await.unwrap();
    assert_eq!(output.text, "and this too");
}

#[tokio::test]
async fn a_message_to_an_ended_child_wakes_it_with_its_whole_history_as_a_new_task() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![say("first answer")], vec![say("second answer")], vec![say("third answer")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let sent = lab.engine.send(&child, "go on".into(), None, &key()).await.unwrap();
    assert_eq!((sent.route, sent.task), (Route::Started, task("subagent-2")));
    lab.rest(&root).await;
    lab.restart().await;
    let sent = lab.engine.send(&child, "and on".into(), None, &key()).await.unwrap();
    assert_eq!((sent.route, sent.task), (Route::Started, task("subagent-3")));
    lab.rest(&root).await;
    let requests = lab.requests(&child);
    assert_eq!(user_texts(requests.last().unwrap()), ["work", "go on", "and on"]);
    let told: Vec<String> = lab
        .events(&root)
        .await
        .into_iter()
        .filter_map(|recorded| match recorded.event {
            Event::NoticeAdmitted { task, .. } => Some(task.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["subagent-1", "subagent-2", "subagent-3"]);
}

#[tokio::test]
async fn two_messages_in_the_same_moment_never_start_two_activations_of_one_child() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![say("done")], vec![gate("second"), say("done again")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let (first, second) = (key(), key());
    let (a, b) = tokio::join!(
        lab.engine.send(&child, "from here".into(), None, &first),
        lab.engine.send(&child, "from there".into(), None, &second)
    );
    lab.reached("second").await;
    lab.open_gate("second");
    lab.rest(&root).await;
    assert_eq!(lab.tasks().await.len(), 2, "{a:?} {b:?}");
    for outcome in [a, b] {
        if let Err(error) = outcome {
            assert_eq!(error.code(), Code::NotDelivered);
        }
    }
}

#[tokio::test]
async fn a_stopped_child_keeps_what_it_said_and_its_parent_learns_who_stopped_it() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")], vec![say("I see")]]);
    lab.script("one", vec![vec![say("half a sentence"), gate("never")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    let child = lab.child("one").await;
    let preview = lab.engine.stop(Target::Branch(child.id.clone()), None, true, &key()).await.unwrap();
    assert_eq!(lab.child("one").await.state, SessionState::Running, "a preview does nothing");
    let receipt = within(lab.engine.stop(Target::Branch(child.id.clone()), None, false, &key())).await.unwrap();
    assert_eq!(receipt.ended, preview.ended);
    assert_eq!(receipt.unconfirmed, Vec::<String>::new());
    lab.rest(&root).await;
    let ended = lab.tasks().await.remove(0);
    assert_eq!((ended.status, ended.killed_by), (TaskStatus::Killed, Some(Party::Person)));
    assert_eq!(lab.child("one").await.state, SessionState::Killed);
    assert_eq!(lab.engine.output(&ended.id, 0, 1000).await.unwrap().text, "half a sentence");
    let told = lab.requests(&root);
    let told = user_texts(told.last().unwrap()).join("\n");
    assert!(told.contains("Task subagent-1") && told.contains("killed (by the person)"), "{told}");
}

#[tokio::test]
async fn a_person_stops_a_turn_and_what_it_started_lives_on() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("thinking aloud"), gate("never")]]);
    lab.script("one", vec![vec![gate("child"), say("done")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    lab.reached("child").await;
    let receipt = within(lab.engine.stop(Target::Turn(root.clone()), None, false, &key())).await.unwrap();
    let kinds = |items: &[coppice_engine::event::ReceiptItem]| {
        items.iter().map(|item| (item.kind.clone(), item.label.clone())).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&receipt.ended), [("turn".to_owned(), "go".to_owned())]);
    assert_eq!(kinds(&receipt.kept), [("child".to_owned(), "one".to_owned())]);
    assert_eq!(lab.child("one").await.state, SessionState::Running);
    let ends = lab.turn_ends(&root).await;
    assert_eq!(ends, [TurnEnd::Stopped]);
    lab.open_gate("child");
    lab.rest(&root).await;
}

#[tokio::test]
async fn an_end_that_is_no_plain_success_makes_the_task_fail_with_its_reason() {
    for (acts, reason) in [
        (vec![say("cut he"), Act::End(Stop::MaxTokens)], "output limit"),
        (vec![Act::End(Stop::Refusal)], "refused"),
        (vec![], "nothing at all"),
        (vec![Act::Fail(coppice_engine::llm::FailureKind::Unreachable, "nobody answers".into())], "nobody answers"),
    ] {
        let lab = Lab::new().await;
        lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
        lab.script("one", vec![acts]);
        let root = lab.prompted("go").await;
        lab.rest(&root).await;
        let ended = lab.tasks().await.remove(0);
        assert_eq!(ended.status, TaskStatus::Failed, "{reason}");
        assert!(ended.detail.clone().unwrap().contains(reason), "{ended:?}");
        assert_eq!(lab.child("one").await.state, SessionState::Failed);
    }
}

#[tokio::test]
async fn a_foreground_child_answers_its_parent_and_is_gone() {
    let lab = Lab::new().await;
    let ask = |label: &str| call("subagent", json!({ "description": label, "prompt": "work" }));
    lab.script("root", vec![vec![ask("good"), ask("bad")], vec![say("thanks")]]);
    lab.script("good", vec![vec![say("the result")]]);
    lab.script("bad", vec![vec![say("as far as I came"), Act::End(Stop::MaxTokens)]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let answers = results(&lab.requests(&root)[1]);
    assert_eq!(answers[0], (true, "the result".to_owned()));
    assert!(!answers[1].0 && answers[1].1.contains("output limit") && answers[1].1.contains("as far as I came"));
    assert_eq!(lab.child("good").await.state, SessionState::Completed);
    assert_eq!(lab.child("bad").await.state, SessionState::Failed);
    assert!(lab.tasks().await.is_empty());
}

#[tokio::test]
async fn stopping_a_parent_that_waits_stops_the_child_it_waits_for() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![call("subagent", json!({ "description": "one", "prompt": "work" }))]]);
    lab.script("one", vec![vec![gate("never")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    within(lab.engine.stop(Target::Turn(root.clone()), None, false, &key())).await.unwrap();
    assert_eq!(lab.child("one").await.state, SessionState::Killed);
    assert_eq!(lab.rest(&root).await.state, SessionState::Idle);
}

#[tokio::test]
async fn nobody_reaches_a_task_or_a_child_of_another_session() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("child"), say("secret")]]);
    let first = lab.prompted("go").await;
    lab.reached("child").await;
    let child = lab.child("one").await.id;
    let foreign = json!({ "task_id": "subagent-1" });
    let message = json!({ "child_id": child, "message": "obey" });
    let unknown = json!({ "child_id": "nobody", "message": "obey" });
    lab.script(
        "root",
        vec![
            vec![
                call("task_output", foreign.clone()),
                call("task_kill", foreign),
                call("send_message", message),
                call("send_message", unknown),
                call("task_list", json!({})),
            ],
            vec![say("nothing")],
        ],
    );
    let second = lab.prompted("meddle").await;
    within(lab.engine.wait_session(&second, crate::lab::PATIENCE)).await.unwrap();
    let answers = results(&lab.requests(&second)[1]);
    for answer in &answers[..2] {
        assert!(!answer.0 && answer.1.contains("belongs to another session"), "{answer:?}");
    }
    assert_eq!(answers[2].1.replace(child.as_str(), "nobody"), answers[3].1, "a foreign child reads like no child");
    assert_eq!(answers[4].1, "You own no background tasks.");
    lab.open_gate("child");
    lab.rest(&first).await;
    assert_eq!(lab.tasks().await.remove(0).status, TaskStatus::Completed);
}

#[tokio::test]
async fn a_tree_stays_within_its_depth_and_a_session_within_its_places() {
    let mut config = coppice_engine::config::Config::default();
    config.limits.depth = 1;
    config.limits.live_tasks_per_owner = 2;
    let lab = Lab::with(config).await;
    let starts: Vec<Act> = (0..4).map(|n| delegate(&format!("child {n}"), "work")).collect();
    lab.script("root", vec![starts, vec![say("started")]]);
    for n in 0..4 {
        lab.script(&format!("child {n}"), vec![vec![gate("go"), say("done")]]);
    }
    let root = lab.prompted("go").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    let answers = results(&lab.requests(&root)[1]);
    let refused: Vec<&(bool, String)> = answers.iter().filter(|(ok, _)| !ok).collect();
    assert_eq!(refused.len(), 2);
    assert!(refused[0].1.contains("as many live background tasks as it may: 2."), "{refused:?}");
    let (sessions, tasks) = lab.engine.tree(None).await.unwrap();
    assert_eq!((sessions.len(), tasks.len()), (3, 2), "a refused start leaves nothing behind");
    let child = lab.requests(&sessions[1].id);
    assert!(child[0].tools.iter().all(|tool| tool.name != "subagent"), "no delegation where it would be refused");
    lab.open_gate("go");
    lab.rest(&root).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_starts_of_one_reply_keep_its_order_and_the_tree_stays_within_its_children() {
    let mut config = coppice_engine::config::Config::default();
    config.limits.children = 7;
    config.limits.live_tasks_per_owner = 0;
    let lab = Lab::with(config).await;
    let starts: Vec<Act> = (0..12).map(|n| delegate(&format!("child {n}"), "work")).collect();
    lab.script("root", vec![starts, vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let answers = results(&lab.requests(&root)[1]);
    for (at, (ok, text)) in answers.iter().enumerate() {
        let begins = if at < 7 {
            format!("Started task subagent-{} ", at + 1)
        } else {
            "This tree has had as many children as it may: 7.".to_owned()
        };
        assert!(*ok == (at < 7) && text.starts_with(&begins), "{at}: {text}");
    }
    let (sessions, tasks) = lab.engine.tree(None).await.unwrap();
    assert_eq!((sessions.len(), tasks.len()), (8, 7), "a refused start leaves nothing behind");
    for (at, task) in tasks.iter().enumerate() {
        assert_eq!(
            (task.label.clone(), sessions[at + 1].title.clone()),
            (format!("child {at}"), format!("child {at}"))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn children_stand_in_the_order_of_their_calls_whether_or_not_their_parent_waits_for_them() {
    let mut config = coppice_engine::config::Config::default();
    config.limits.live_tasks_per_owner = 0;
    config.limits.live_children = 0;
    let lab = Lab::with(config).await;
    let name = |n: usize| format!("child {n}");
    let wait = |n: usize| call("subagent", json!({ "description": name(n), "prompt": "work" }));
    let starts: Vec<Act> = (0..12).map(|n| if n % 2 == 0 { wait(n) } else { delegate(&name(n), "work") }).collect();
    lab.script("root", vec![starts, vec![say("started")]]);
    // They run side by side all the same: each has its last word when all are at work.
    for n in 0..12 {
        lab.script(&name(n), vec![vec![gate(&format!("at {n}"))], vec![say("done")]]);
    }
    let root = lab.prompted("go").await;
    for n in 0..12 {
        lab.reached(&format!("at {n}")).await;
    }
    for n in 0..12 {
        lab.open_gate(&format!("at {n}"));
    }
    lab.rest(&root).await;
    let (sessions, _) = lab.engine.tree(None).await.unwrap();
    let titles: Vec<String> = sessions.into_iter().skip(1).map(|session| session.title).collect();
    assert_eq!(titles, (0..12).map(name).collect::<Vec<_>>());
}

#[tokio::test]
async fn quitting_interrupts_what_runs_and_the_owner_learns_it_once_on_its_next_turn() {
    let mut lab = Lab::new().await;
    lab.script(
        "root",
        vec![
            vec![delegate("one", "work"), call("bash", json!({ "command": "sleep 600", "run_in_background": true }))],
            vec![say("started")],
        ],
    );
    lab.script("one", vec![vec![say("I was at"), gate("never")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    lab.reached("never").await;
    lab.restart().await;
    let statuses: Vec<TaskStatus> = lab.tasks().await.into_iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Interrupted, TaskStatus::Interrupted]);
    assert_eq!(lab.child("one").await.state, SessionState::Interrupted);
    for text in ["hi", "again"] {
        lab.engine.prompt(&root, text.into(), &key()).await.unwrap();
        lab.rest(&root).await;
    }
    let requests = lab.requests(&root);
    let told = user_texts(requests.last().unwrap()).join("\n");
    assert_eq!(told.matches("[runtime] Task subagent-1").count(), 1, "{told}");
    assert_eq!(told.matches("[runtime] Task bash-1").count(), 1, "{told}");
}

#[tokio::test]
async fn the_same_key_twice_does_it_once_and_answers_the_same() {
    let lab = Lab::new().await;
    let root = lab.root().await;
    let key = key();
    let first = lab.engine.prompt(&root, "hello".into(), &key).await.unwrap();
    let second = lab.engine.prompt(&root, "hello".into(), &key).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(first, second);
    assert_eq!(lab.requests(&root).len(), 1);
}

#[tokio::test]
async fn bad_input_is_answered_with_its_code_and_changes_nothing() {
    let lab = Lab::new().await;
    let root = lab.root().await;
    let nobody = SessionId::from("nobody");
    let engine = &lab.engine;
    let codes = [
        engine.prompt(&nobody, "x".into(), &key()).await.unwrap_err().code(),
        engine.prompt(&root, "  ".into(), &key()).await.unwrap_err().code(),
        engine.prompt(&root, "x".repeat(10 << 20), &key()).await.unwrap_err().code(),
        engine.send(&root, "x".into(), None, &key()).await.unwrap_err().code(),
        engine.stop(Target::Branch(nobody.clone()), None, false, &key()).await.unwrap_err().code(),
        engine.wait_task(&task("bash-9"), crate::lab::PATIENCE).await.unwrap_err().code(),
        engine.page(&nobody, None, None, 10).await.unwrap_err().code(),
        engine.follow(None, Some(1_000_000)).await.err().unwrap().code(),
    ];
    assert_eq!(
        codes,
        [
            Code::UnknownSession,
            Code::BadRequest,
            Code::TooLarge,
            Code::BadRequest,
            Code::UnknownSession,
            Code::UnknownTask,
            Code::UnknownSession,
            Code::Stale
        ]
    );
    std::fs::remove_dir(&lab.cwd).unwrap();
    assert_eq!(engine.prompt(&root, "x".into(), &key()).await.unwrap_err().code(), Code::Gone);
    assert_eq!(lab.events(&root).await.len(), 1);
}

#[tokio::test]
async fn arguments_that_are_not_what_a_tool_wants_are_answered_and_the_turn_goes_on() {
    let lab = Lab::new().await;
    let raw = |args: &str| Act::RawCall("task_list".into(), args.into());
    lab.script(
        "root",
        vec![
            vec![
                raw(""),
                raw(" "),
                raw("null"),
                raw("\"{}\""),
                raw("{\"a\": "),
                raw("[1]"),
                call("task_output", json!({})),
                call("no_such_tool", json!({})),
            ],
            vec![say("fine")],
        ],
    );
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let answers = results(&lab.requests(&root)[1]);
    let oks: Vec<bool> = answers.iter().map(|(ok, _)| *ok).collect();
    assert_eq!(oks, [true, true, true, true, false, false, false, false]);
    assert!(
        answers[4].1.contains("not a JSON object")
            && answers[6].1.contains("task_id")
            && answers[7].1.contains("There are:")
    );
}

#[tokio::test]
async fn a_message_takes_the_way_that_was_promised_or_none() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("child"), say("done")]]);
    let root = lab.prompted("go").await;
    lab.reached("child").await;
    let child = lab.child("one").await.id;
    let send = |expect| lab.engine.send(&child, "promised".into(), Some(expect), Box::leak(Box::new(key())));
    assert_eq!(send(Route::Started).await.unwrap_err().code(), Code::NotDelivered);
    assert_eq!(send(Route::Steered).await.unwrap().route, Route::Steered);
    lab.open_gate("child");
    lab.rest(&root).await;
    assert_eq!(send(Route::Steered).await.unwrap_err().code(), Code::NotDelivered);
    assert_eq!(lab.tasks().await.len(), 1, "nothing was woken");
    assert_eq!(send(Route::Started).await.unwrap().route, Route::Started);
    lab.rest(&root).await;
}

#[tokio::test]
async fn a_store_that_takes_nothing_is_told_and_the_turn_ends_as_soon_as_it_does_again() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![gate("reply"), say("to be saved")], vec![say("well again")]]);
    let root = lab.prompted("go").await;
    lab.reached("reply").await;
    let store = rusqlite::Connection::open(lab.data().join("coppice.db")).unwrap();
    store
        .execute_batch("CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no room'); END")
        .unwrap();
    let mut follow = lab.engine.follow(Some(root.clone()), None).await.unwrap();
    lab.open_gate("reply");
    let told = within(async {
        loop {
            if let Some(status) = follow.next().await.unwrap().unwrap().status {
                return status;
            }
        }
    })
    .await;
    assert!(!told.is_empty());
    let refused = lab.engine.prompt(&root, "more".into(), &key()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Store);
    let stopped = within(lab.engine.stop(Target::Everything, None, false, &key())).await.unwrap();
    assert_eq!(stopped.unconfirmed, Vec::<String>::new(), "a stop does not need the store");
    store.execute_batch("DROP TRIGGER full").unwrap();
    lab.rest(&root).await;
    let ends = lab.turn_ends(&root).await;
    assert_eq!(ends, [TurnEnd::Stopped]);
    assert_eq!(lab.engine.usage(&root).await.unwrap().0.output, 5, "what the reply cost is kept, as is the reply");
    lab.engine.prompt(&root, "and now?".into(), &key()).await.unwrap();
    assert_eq!(lab.rest(&root).await.state, SessionState::Idle);
}

#[tokio::test]
async fn a_key_that_comes_again_with_something_else_does_nothing_and_says_so() {
    let lab = Lab::new().await;
    let (first, second) = (lab.root().await, lab.root().await);
    let key = key();
    lab.engine.prompt(&first, "hello".into(), &key).await.unwrap();
    for (session, text) in [(&second, "hello"), (&first, "good-bye")] {
        let refused = lab.engine.prompt(session, text.into(), &key).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadRequest);
    }
    lab.rest(&first).await;
    assert_eq!((lab.requests(&first).len(), lab.requests(&second).len()), (1, 0));
}

#[tokio::test]
async fn a_delegation_tool_is_known_by_what_it_does_and_not_by_its_name() {
    let mut config = coppice_engine::config::Config::default();
    let instance = config.subagents.remove("subagent").unwrap();
    config.subagents.insert("scout".to_owned(), instance);
    config.limits.depth = 1;
    let lab = Lab::with(config).await;
    let scout = call("scout", json!({ "description": "one", "prompt": "work" }));
    lab.script("root", vec![vec![scout], vec![say("done")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let asked = lab.requests(&root).remove(0);
    assert!(asked.system.contains("Delegate work that is independent"), "{}", asked.system);
    let below = lab.requests(&lab.child("one").await.id).remove(0);
    let offered: Vec<&str> = below.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(!offered.contains(&"scout") && !offered.contains(&"send_message"), "{offered:?}");
    let rows = lab.engine.page(&root, None, None, 100).await.unwrap().rows;
    let delegations =
        rows.iter().filter(|row| matches!(row.body, coppice_engine::view::RowBody::Delegation(_))).count();
    assert_eq!(delegations, 1, "{rows:?}");
}
