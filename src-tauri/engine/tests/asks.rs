//! Asks: what needs the person's leave, and what becomes of a call that waits for it.

use crate::lab::{Lab, call, delegate, gate, key, results, say, user_texts, within};
use coppice_engine::action::{Action, Rule};
use coppice_engine::engine::Target;
use coppice_engine::error::Code;
use coppice_engine::event::{Decision, Event, Mode};
use coppice_engine::id::SessionId;
use coppice_engine::log::Log;
use coppice_engine::view::{AskState, AskView, RowBody, SessionState};
use serde_json::json;
use std::time::Duration;

/// A call that changes something.
fn touch(name: &str) -> crate::lab::Act {
    call("bash", json!({ "command": format!("echo x > {name}"), "description": "writes" }))
}

async fn asking(lab: &Lab) -> SessionId {
    let root = lab.root_in(Mode::Ask).await;
    lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
    root
}

/// Waits until this many asks wait for the person.
async fn until_asked(lab: &Lab, count: usize) -> Vec<AskView> {
    within(async {
        loop {
            let asks = lab.engine.asks(false).await.unwrap();
            if asks.len() == count {
                return asks;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

async fn answer(lab: &Lab, ask: &AskView, decision: Decision) -> AskView {
    lab.engine.answer(&ask.id, decision, None, &key()).await.unwrap()
}

fn there(lab: &Lab, name: &str) -> bool {
    lab.cwd.join(name).exists()
}

#[tokio::test]
async fn a_call_that_needs_leave_waits_for_the_person_and_then_does_what_was_asked() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    let asks = until_asked(&lab, 1).await;
    let ask = &asks[0];
    assert_eq!(ask.action, Action::Command { text: "echo x > a".into(), background: false });
    assert_eq!((ask.session.clone(), ask.state, ask.waits), (root.clone(), AskState::Open, true));
    assert!(!there(&lab, "a"));
    let view = lab.engine.session(&root).await.unwrap();
    assert_eq!((view.state, view.detail.as_str(), view.needs_you), (SessionState::Waiting, "run a command", 1));
    let decided = answer(&lab, ask, Decision::Once).await;
    assert_eq!((decided.state, decided.owed), (AskState::Once, false));
    assert_eq!(lab.rest(&root).await.needs_you, 0);
    assert!(there(&lab, "a"));
}

#[tokio::test]
async fn a_denied_call_does_nothing_and_the_model_reads_the_persons_word() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    let note = Some("  use b instead ".to_owned());
    lab.engine.answer(&ask.id, Decision::Deny, note, &key()).await.unwrap();
    lab.rest(&root).await;
    let told = results(lab.requests(&root).last().unwrap());
    let (ok, text) = told.last().unwrap();
    assert!(!ok && text.contains("did not allow") && text.ends_with("The person said: use b instead"), "{text}");
    assert!(!there(&lab, "a"));
}

#[tokio::test]
async fn while_one_child_waits_its_siblings_go_on_and_those_above_say_who_needs_the_person() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "write"), delegate("two", "look")], vec![say("started")]]);
    lab.script("one", vec![vec![touch("a")], vec![say("written")]]);
    lab.script("two", vec![vec![call("glob", json!({ "pattern": "*" }))], vec![say("looked")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    let two = lab.child("two").await.id;
    within(lab.engine.wait_session(&two, crate::lab::PATIENCE)).await.unwrap();
    assert_eq!(lab.engine.session(&two).await.unwrap().state, SessionState::Completed);
    let titles: Vec<&str> = ask.lineage.iter().map(|above| above.title.as_str()).collect();
    assert_eq!(titles, ["go", "one"]);
    let view = lab.engine.session(&root).await.unwrap();
    assert_eq!((view.needs_you, view.live_below), (1, 1));
    answer(&lab, &ask, Decision::Once).await;
    lab.rest(&root).await;
    assert!(there(&lab, "a"));
}

#[tokio::test]
async fn an_answer_for_the_branch_holds_for_exactly_that_and_for_those_below() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "write")], vec![say("started")]]);
    lab.script("one", vec![vec![touch("a")], vec![touch("a")], vec![touch("b")], vec![say("written")]]);
    let root = asking(&lab).await;
    let first = until_asked(&lab, 1).await.remove(0);
    answer(&lab, &first, Decision::Branch).await;
    let next = loop {
        let ask = until_asked(&lab, 1).await.remove(0);
        if ask.id != first.id {
            break ask;
        }
    };
    assert_eq!(next.action.exact(), "echo x > b", "the second call of the same is not asked about");
    answer(&lab, &next, Decision::Deny).await;
    lab.rest(&root).await;
    let allowances = lab.engine.allowances().await.unwrap();
    assert_eq!(allowances.len(), 1);
    assert_eq!((allowances[0].session.clone(), allowances[0].used), (Some(first.session), 1));
    // Its parent and other trees are asked.
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let other = asking(&lab).await;
    assert_eq!(until_asked(&lab, 1).await[0].session, other);
}

#[tokio::test]
async fn an_answer_for_good_outlives_its_session_and_can_be_taken_back() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    answer(&lab, &ask, Decision::Always).await;
    lab.rest(&root).await;
    lab.engine.delete(&root, false, &key()).await.unwrap();
    lab.restart().await;
    let second = asking(&lab).await;
    lab.rest(&second).await;
    assert_eq!(lab.engine.asks(false).await.unwrap(), []);
    let used: Vec<u32> = lab.engine.allowances().await.unwrap().iter().map(|allowance| allowance.used).collect();
    assert_eq!(used, [1]);
    lab.engine.disallow(&ask.id, &key()).await.unwrap();
    let _third = asking(&lab).await;
    until_asked(&lab, 1).await;
}

#[tokio::test]
async fn a_stopped_turn_takes_its_ask_back() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    lab.engine.stop(Target::Branch(root.clone()), None, false, &key()).await.unwrap();
    until_asked(&lab, 0).await;
    let late = lab.engine.answer(&ask.id, Decision::Once, None, &key()).await.unwrap_err();
    assert_eq!(late.code(), Code::Conflict);
    assert!(!there(&lab, "a"));
    let all = lab.engine.asks(true).await.unwrap();
    assert_eq!((all[0].state, all[0].note.as_deref()), (AskState::Withdrawn, Some("its call was stopped")));
}

#[tokio::test]
async fn an_ask_that_was_put_off_still_waits() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    assert_eq!(answer(&lab, &ask, Decision::Later).await.state, AskState::Later);
    assert_eq!(lab.engine.session(&root).await.unwrap().state, SessionState::Waiting);
    answer(&lab, &ask, Decision::Once).await;
    lab.rest(&root).await;
    assert!(there(&lab, "a"));
}

#[tokio::test]
async fn an_ask_outlives_a_quit_and_a_crash_and_its_answer_wakes_who_asked() {
    for crash in [false, true] {
        let mut lab = Lab::new().await;
        lab.script("root", vec![vec![touch("a")], vec![touch("a")], vec![say("done")]]);
        let root = asking(&lab).await;
        until_asked(&lab, 1).await;
        if crash {
            lab.crash().await;
        } else {
            lab.restart().await;
        }
        let ask = until_asked(&lab, 1).await.remove(0);
        let view = lab.engine.session(&root).await.unwrap();
        assert_eq!((view.state, view.needs_you, ask.waits), (SessionState::Interrupted, 1, false));
        assert!(answer(&lab, &ask, Decision::Once).await.owed);
        lab.until(&root, |event| matches!(event, Event::LeaveTaken { .. })).await;
        lab.rest(&root).await;
        assert!(there(&lab, "a"), "crash: {crash}");
        let asked = lab.requests(&root);
        let told = user_texts(asked.last().unwrap()).join("\n");
        assert!(told.contains("[runtime] The person now allows") && told.contains("\"echo x > a\""), "{told}");
        let used = lab.engine.asks(true).await.unwrap().remove(0);
        assert_eq!((used.state, used.owed), (AskState::Once, false));
    }
}

#[tokio::test]
async fn a_child_that_asked_before_a_crash_is_woken_by_a_denial_with_its_word() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "write")], vec![say("started")]]);
    lab.script("one", vec![vec![touch("a")], vec![say("went on without it")]]);
    let root = asking(&lab).await;
    until_asked(&lab, 1).await;
    lab.crash().await;
    let ask = until_asked(&lab, 1).await.remove(0);
    lab.engine.answer(&ask.id, Decision::Deny, Some("leave it".into()), &key()).await.unwrap();
    let child = lab.child("one").await.id;
    lab.until(&child, |event| matches!(event, Event::Answered { .. })).await;
    lab.rest(&root).await;
    let told = user_texts(lab.requests(&child).last().unwrap()).join("\n");
    assert!(told.contains("did not allow") && told.contains("The person said: leave it"), "{told}");
    assert!(!there(&lab, "a"));
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_call_is_refused_with_the_reason_and_the_way() {
    let lab = Lab::new().await;
    lab.engine.unattended("Nobody is here to ask: use --mode.".into());
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    lab.rest(&root).await;
    let told = results(lab.requests(&root).last().unwrap());
    assert!(told[0].1.contains("Nobody is here to ask: use --mode."), "{told:?}");
    assert!(!there(&lab, "a"));
    assert_eq!(lab.engine.asks(true).await.unwrap(), []);
}

#[tokio::test]
async fn a_child_may_do_no_more_than_its_parent_also_when_the_parent_is_tightened_later() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "write")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("begun"), touch("a")], vec![say("written")]]);
    let root = lab.prompted("go").await;
    lab.reached("begun").await;
    let child = lab.child("one").await;
    assert_eq!(child.mode, Mode::Full);
    lab.engine.set_mode(&root, Mode::ReadOnly, &key()).await.unwrap();
    let wider = lab.engine.set_mode(&child.id, Mode::Ask, &key()).await.unwrap_err();
    assert_eq!(wider.code(), Code::Refused);
    lab.open_gate("begun");
    lab.rest(&root).await;
    assert!(!there(&lab, "a"));
    let told = results(lab.requests(&child.id).last().unwrap());
    assert!(told[0].1.contains("read-only"), "{told:?}");
    let rows = lab.engine.page(&root, None, None, 100).await.unwrap().rows;
    assert!(rows.iter().any(|row| row.body == RowBody::Mode { mode: Mode::ReadOnly }));
}

#[tokio::test]
async fn the_time_of_the_person_is_not_time_at_work() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    lab.pass(Duration::from_secs(3600));
    answer(&lab, &ask, Decision::Once).await;
    lab.rest(&root).await;
    let ended = lab.events(&root).await.into_iter().find_map(|recorded| match recorded.event {
        Event::TurnEnded { worked_ms, .. } => worked_ms,
        _ => None,
    });
    assert!(ended.is_some_and(|worked| worked < 1_800_000), "{ended:?}");
}

#[tokio::test]
async fn what_is_folded_of_asks_can_be_dropped_and_made_anew() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a"), touch("b"), touch("c"), touch("d")], vec![say("done")]]);
    asking(&lab).await;
    let asks = until_asked(&lab, 4).await;
    for (ask, decision) in asks.iter().zip([Decision::Branch, Decision::Deny, Decision::Always]) {
        answer(&lab, ask, decision).await;
    }
    let dropped = lab.engine.allowances().await.unwrap().remove(1).ask;
    lab.engine.disallow(&dropped, &key()).await.unwrap();
    lab.engine.shutdown(crate::lab::PATIENCE).await.unwrap();
    let log = Log::open(&lab.data(), &coppice_engine::env::Env::system()).unwrap();
    let folded =
        (log.asks(true).await.unwrap(), log.all_allowances().await.unwrap(), log.sessions(None).await.unwrap());
    assert_eq!((folded.0.len(), folded.1.len(), folded.2[0].needs_you), (4, 1, 1));
    log.rebuild().await.unwrap();
    let again = (log.asks(true).await.unwrap(), log.all_allowances().await.unwrap(), log.sessions(None).await.unwrap());
    assert_eq!(again, folded);
}

#[tokio::test]
async fn who_writes_a_file_that_a_sibling_wrote_lately_is_asked_also_where_edits_are_free() {
    let lab = Lab::new().await;
    std::fs::write(lab.cwd.join("f"), "one\n").unwrap();
    let read = || call("read_file", json!({ "path": "f" }));
    let edit = |new: &str| call("edit_file", json!({ "path": "./f", "old": "one", "new": new }));
    lab.script("root", vec![vec![delegate("a", "edit"), delegate("b", "edit")], vec![say("started")]]);
    lab.script("a", vec![vec![read()], vec![edit("one a")], vec![edit("one again")], vec![say("done")]]);
    lab.script("b", vec![vec![gate("after a"), read()], vec![edit("one b")], vec![say("done")]]);
    let root = lab.root_in(Mode::AcceptEdits).await;
    lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
    lab.reached("after a").await;
    let a = lab.child("a").await.id;
    within(lab.engine.wait_session(&a, crate::lab::PATIENCE)).await.unwrap();
    lab.open_gate("after a");
    let ask = until_asked(&lab, 1).await.remove(0);
    assert_eq!(ask.lineage.last().unwrap().title, "b");
    assert_eq!(ask.reason.rule, Rule::Shared);
    assert!(ask.reason.text.contains("which a wrote just now"), "{}", ask.reason.text);
    answer(&lab, &ask, Decision::Once).await;
    lab.rest(&root).await;
    assert_eq!(std::fs::read_to_string(lab.cwd.join("f")).unwrap(), "one b again a\n");
}

#[tokio::test]
async fn a_link_that_is_turned_after_the_person_allowed_its_file_leads_nowhere() {
    let lab = Lab::new().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("f"), "theirs\n").unwrap();
    std::fs::write(lab.cwd.join("own"), "own\n").unwrap();
    let link = lab.cwd.join("link");
    std::os::unix::fs::symlink("own", &link).unwrap();
    let edit = call("edit_file", json!({ "path": "link", "old": "own", "new": "changed" }));
    lab.script("root", vec![vec![call("read_file", json!({ "path": "link" }))], vec![edit], vec![say("done")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(outside.path().join("f"), &link).unwrap();
    answer(&lab, &ask, Decision::Once).await;
    lab.rest(&root).await;
    let told = results(lab.requests(&root).last().unwrap());
    assert!(told.last().unwrap().1.contains("leads elsewhere now than when it was judged"), "{told:?}");
    assert_eq!(std::fs::read_to_string(outside.path().join("f")).unwrap(), "theirs\n");
}

#[tokio::test]
async fn a_command_that_only_reads_runs_without_a_question() {
    let lab = Lab::new().await;
    std::fs::write(lab.cwd.join("seen"), "here\n").unwrap();
    let read = |command: &str| call("bash", json!({ "command": command }));
    lab.script("root", vec![vec![read("cat seen"), read("cat seen | wc -l && ls")], vec![say("done")]]);
    for mode in [Mode::Ask, Mode::ReadOnly] {
        let root = lab.root_in(mode).await;
        lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
        lab.rest(&root).await;
        let told = results(lab.requests(&root).last().unwrap());
        assert!(told[0].0 && told[0].1.starts_with("here") && told[1].0, "{mode:?} {told:?}");
    }
    assert_eq!(lab.engine.asks(true).await.unwrap(), []);
}

#[tokio::test]
async fn a_command_with_a_key_in_it_is_asked_without_it_and_runs_with_it_and_cannot_be_allowed_for_good() {
    let lab = Lab::new().await;
    let secret = "ghp_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d";
    let login = || call("bash", json!({ "command": format!("echo {secret} > login; wc -c < login") }));
    lab.script("root", vec![vec![login()], vec![say("done")]]);
    let root = asking(&lab).await;
    let ask = until_asked(&lab, 1).await.remove(0);
    let text = "echo [masked secret] > login; wc -c < login".to_owned();
    assert_eq!((ask.action.clone(), ask.allows.clone()), (Action::Command { text, background: false }, None));
    answer(&lab, &ask, Decision::Once).await;
    lab.rest(&root).await;
    assert_eq!(std::fs::read_to_string(lab.cwd.join("login")).unwrap().trim(), secret);
    let (ok, said) = results(lab.requests(&root).last().unwrap()).pop().unwrap();
    assert!(ok && said.starts_with("41\n"), "{said}");
    let events = lab.engine.events(&root, 0, 100).await.unwrap();
    assert!(!format!("{events:?}").contains(secret));
}

#[tokio::test]
async fn a_stop_takes_back_what_was_asked_before_a_restart() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![touch("a")], vec![say("done")]]);
    let root = asking(&lab).await;
    until_asked(&lab, 1).await;
    lab.restart().await;
    until_asked(&lab, 1).await;
    lab.engine.stop(Target::Branch(root.clone()), None, false, &key()).await.unwrap();
    assert_eq!(lab.engine.asks(false).await.unwrap(), []);
    assert_eq!(lab.engine.session(&root).await.unwrap().needs_you, 0);
}

#[tokio::test]
async fn leave_that_was_given_after_a_restart_holds_only_where_the_path_led_when_it_was_asked() {
    let mut lab = Lab::new().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(lab.cwd.join("out")).unwrap();
    let write = || call("write_file", json!({ "path": "out/x", "content": "x" }));
    lab.script("root", vec![vec![write()], vec![write()], vec![say("done")]]);
    let root = asking(&lab).await;
    until_asked(&lab, 1).await;
    lab.restart().await;
    std::fs::remove_dir(lab.cwd.join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path(), lab.cwd.join("out")).unwrap();
    let ask = until_asked(&lab, 1).await.remove(0);
    answer(&lab, &ask, Decision::Once).await;
    let again = until_asked(&lab, 1).await.remove(0);
    assert_eq!(again.reason.rule, Rule::Outside);
    assert!(!outside.path().join("x").exists());
    lab.engine.stop(Target::Branch(root), None, false, &key()).await.unwrap();
}

#[tokio::test]
async fn a_decision_that_cannot_wake_its_session_is_told_when_it_is_next_at_work() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "write")], vec![say("started")], vec![say("so")]]);
    lab.script("one", vec![vec![touch("a")], vec![say("went on")]]);
    let root = asking(&lab).await;
    until_asked(&lab, 1).await;
    lab.restart().await;
    let ask = until_asked(&lab, 1).await.remove(0);
    // Its folder is away for the moment.
    let away = lab.cwd.with_extension("away");
    std::fs::rename(&lab.cwd, &away).unwrap();
    lab.engine.answer(&ask.id, Decision::Deny, Some("leave it".into()), &key()).await.unwrap();
    std::fs::rename(&away, &lab.cwd).unwrap();
    let child = lab.child("one").await.id;
    lab.engine.send(&child, "go on".into(), None, &key()).await.unwrap();
    lab.rest(&root).await;
    let told = user_texts(lab.requests(&child).last().unwrap()).join("\n");
    assert!(told.contains("did not allow") && told.contains("leave it"), "{told}");
}

#[tokio::test]
async fn a_search_starts_in_the_folders_that_its_pattern_names_and_passes_by_what_is_kept_of_others() {
    let lab = Lab::new().await;
    std::fs::create_dir(lab.cwd.join("src")).unwrap();
    std::fs::write(lab.cwd.join("src/lib.rs"), "fn here() {}\n").unwrap();
    let look = vec![call("glob", json!({ "pattern": "src/**/*.rs" })), call("grep", json!({ "pattern": "here" }))];
    lab.script("root", vec![look, vec![say("done")]]);
    for mode in [Mode::ReadOnly, Mode::Full] {
        let root = lab.root_in(mode).await;
        lab.engine.prompt(&root, "go".into(), &key()).await.unwrap();
        lab.rest(&root).await;
        let told = results(lab.requests(&root).last().unwrap());
        assert!(told.iter().all(|(ok, text)| *ok && text.contains("src/lib.rs")), "{mode:?} {told:?}");
    }
}

#[tokio::test]
async fn the_person_is_shown_the_whole_change_where_it_stands_in_the_file() {
    let lab = Lab::new().await;
    let lines: Vec<String> = (1..=900).map(|n| format!("line {n}\n")).collect();
    std::fs::write(lab.cwd.join("f"), lines.concat()).unwrap();
    let edit = call("edit_file", json!({ "path": "f", "old": "line 500\n", "new": "x\n" }));
    let long = call("write_file", json!({ "path": "g", "content": "y\n".repeat(20_000) }));
    lab.script("root", vec![vec![call("read_file", json!({ "path": "f" })), edit, long], vec![say("done")]]);
    let root = asking(&lab).await;
    let asks = until_asked(&lab, 2).await;
    let diffs: Vec<&str> = asks
        .iter()
        .map(|ask| match &ask.action {
            Action::Write { diff, .. } => diff.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    let of = |name: &str| diffs.iter().find(|diff| diff.contains(name)).copied().unwrap();
    assert!(of("-line 500").starts_with("@@ -497,"), "{}", of("-line 500"));
    assert_eq!(of("+y").matches("+y").count(), 20_000);
    lab.engine.stop(Target::Branch(root), None, false, &key()).await.unwrap();
}
