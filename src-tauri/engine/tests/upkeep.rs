//! What a person does with sessions themselves: they are put out of the way and brought back, and what is deleted stays so.

use crate::lab::{Act, Lab, PATIENCE, call, delegate, gate, key, say, task, within};
use coppice_engine::config::Config;
use coppice_engine::engine::{Deletion, Engine, Target};
use coppice_engine::error::{Code, Error};
use coppice_engine::event::{Event, Receipt};
use coppice_engine::id::{SessionId, TaskId};
use coppice_engine::log::Log;
use coppice_engine::view::SessionState;
use rusqlite::Connection;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn code<T: std::fmt::Debug>(told: Result<T, Error>) -> Code {
    told.unwrap_err().code()
}

fn command(line: &str, background: bool) -> Act {
    call("bash", json!({ "command": line, "run_in_background": background }))
}

async fn archived(lab: &Lab, session: &SessionId) -> bool {
    lab.engine.session(session).await.unwrap().archived
}

async fn ids(engine: &Engine) -> Vec<SessionId> {
    engine.tree(None).await.unwrap().0.into_iter().map(|session| session.id).collect()
}

fn names(receipt: &Receipt) -> Vec<(&str, &str)> {
    receipt.ended.iter().map(|item| (item.kind.as_str(), item.label.as_str())).collect()
}

/// Waits for something that only a look can tell.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "waited in vain: {what}");
}

/// Lets others run for a while that is not measured by a clock.
async fn yields(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// A root that runs, with a child that runs and a command of each.
async fn at_work(lab: &Lab) -> (SessionId, SessionId) {
    let sleeps = || command("echo I sleep; exec sleep 1000", true);
    lab.script("root", vec![vec![delegate("one", "work"), sleeps()], vec![say("half a word"), gate("root")]]);
    lab.script("one", vec![vec![sleeps()], vec![say("half a child"), gate("one")]]);
    let root = lab.prompted("go").await;
    lab.reached("root").await;
    lab.reached("one").await;
    for command in ["bash-1", "bash-2"] {
        puts_out(lab, command).await;
    }
    (root, lab.child("one").await.id)
}

/// Waits until a command has put something out.
async fn puts_out(lab: &Lab, command: &str) {
    let written = lab.data().join("output").join(command);
    until("it puts something out", || {
        fs::read_dir(&written).is_ok_and(|mut parts| parts.any(|part| part.unwrap().metadata().unwrap().len() > 0))
    })
    .await;
}

/// That nothing anywhere knows these sessions and tasks any more.
async fn unknown_everywhere(engine: &Engine, sessions: &[SessionId], tasks: &[TaskId], when: &str) {
    let left = ids(engine).await;
    for id in sessions {
        assert!(!left.contains(id), "{when}: {id} is in the tree");
        let refused = [
            code(engine.prompt(id, "late".into(), &key()).await),
            code(engine.send(id, "late".into(), None, &key()).await),
            code(engine.wait_session(id, PATIENCE).await),
            code(engine.follow(Some(id.clone()), None).await.map(|_| ())),
            code(engine.session(id).await),
            code(engine.events(id, 0, 1).await),
            code(engine.page(id, None, None, 1).await),
            code(engine.usage(id).await),
            code(engine.tasks(Some(id)).await),
            code(engine.tree_limits(id).await),
            code(engine.rename(id, "late".into(), &key()).await),
            code(engine.archive(id, true, true, &key()).await),
            code(engine.archive(id, false, false, &key()).await),
            code(engine.deletion(id).await),
            code(engine.delete(id, true, &key()).await),
            code(engine.stop(Target::Branch(id.clone()), None, false, &key()).await),
        ];
        assert_eq!(refused, [Code::UnknownSession; 16], "{when}: {id}");
    }
    for id in tasks {
        let refused = [
            code(engine.output(id, 0, 1).await),
            code(engine.wait_task(id, PATIENCE).await),
            code(engine.stop(Target::Task(id.clone()), None, false, &key()).await),
        ];
        assert_eq!(refused, [Code::UnknownTask; 3], "{when}: {id}");
    }
    assert_eq!(engine.tasks(None).await.unwrap(), [], "{when}");
    assert_eq!(engine.since(0, 1_000).await.unwrap(), [], "{when}: events are left");
}

fn outputs(data: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(data.join("output"))
        .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

#[tokio::test]
async fn what_is_archived_is_read_as_before_and_comes_back_as_it_was() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let before = lab.engine.session(&root).await.unwrap();
    let page = lab.engine.page(&root, None, None, 100).await.unwrap();
    let once = key();
    for _ in 0..2 {
        let receipt = lab.engine.archive(&root, true, false, &once).await.unwrap();
        assert_eq!(names(&receipt), []);
    }
    lab.engine.archive(&root, true, false, &key()).await.unwrap();
    assert_eq!((archived(&lab, &root).await, archived(&lab, &child).await), (true, false));
    let events = lab.events(&root).await;
    let put_away = events.iter().filter(|recorded| matches!(recorded.event, Event::Archived { .. })).count();
    assert_eq!(put_away, 1, "what is in the archive is not put into it again");
    lab.restart().await;
    assert!(archived(&lab, &root).await);
    let now = lab.engine.page(&root, None, None, 100).await.unwrap();
    assert_eq!((now.rows, now.last), (page.rows, page.last + 1), "it shows in no transcript");
    lab.engine.archive(&root, false, false, &key()).await.unwrap();
    let mut after = lab.engine.session(&root).await.unwrap();
    assert_eq!(after.last_n, before.last_n + 2);
    after.last_n = before.last_n;
    assert_eq!(after, before, "it shows no sign of life by it");
    lab.engine.shutdown(PATIENCE).await.unwrap();
    let log = Log::open(&lab.data(), &coppice_engine::env::Env::system()).unwrap();
    let folded = log.sessions(None).await.unwrap();
    log.rebuild().await.unwrap();
    assert_eq!(log.sessions(None).await.unwrap(), folded);
}

#[tokio::test]
async fn a_message_to_what_is_archived_brings_it_back_with_all_above_it() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work"), delegate("two", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![delegate("deep", "work")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let [one, two, deep] = [lab.child("one").await.id, lab.child("two").await.id, lab.child("deep").await.id];
    let all = [&root, &one, &two, &deep];
    let put_away = async |sessions: &[&SessionId]| {
        for session in sessions {
            lab.engine.archive(session, true, false, &key()).await.unwrap();
        }
    };
    let state = async || {
        let mut state = Vec::new();
        for session in all {
            state.push(archived(&lab, session).await);
        }
        state
    };
    put_away(&all).await;
    lab.engine.send(&deep, "wake up".into(), None, &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(state().await, [false, false, true, false], "what stands beside it stays where it is");
    put_away(&[&root]).await;
    lab.engine.prompt(&root, "wake up".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(state().await, [false, false, true, false]);
    // The parent's own word does the same.
    lab.script("root", vec![vec![call("send_message", json!({ "child_id": two, "message": "and you" }))]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "tell it".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(state().await, [false; 4]);
}

#[tokio::test]
async fn what_runs_is_named_and_in_the_way_of_an_archive_until_it_is_stopped_with_a_receipt() {
    let lab = Lab::new().await;
    let (root, child) = at_work(&lab).await;
    for branch in [&root, &child] {
        let refused = lab.engine.archive(branch, true, false, &key()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Busy);
        assert!(refused.message().contains("one") && refused.message().ends_with("Nothing was archived."), "{refused}");
    }
    assert!(!archived(&lab, &root).await);
    let expected = lab.engine.stop(Target::Branch(child.clone()), None, true, &key()).await.unwrap();
    let once = key();
    let receipt = within(lab.engine.archive(&child, true, true, &once)).await.unwrap();
    assert_eq!((&receipt.ended, &receipt.unconfirmed), (&expected.ended, &vec![]));
    assert!(!receipt.processes.is_empty() && receipt.processes.iter().all(|process| process.gone), "{receipt:?}");
    assert_eq!(within(lab.engine.archive(&child, true, true, &once)).await.unwrap(), receipt);
    assert_eq!((archived(&lab, &root).await, archived(&lab, &child).await), (false, true));
    assert_eq!(lab.child("one").await.state, SessionState::Killed);
    let receipt = within(lab.engine.archive(&root, true, true, &key())).await.unwrap();
    assert_eq!(receipt.ended.len(), 2, "its turn and its command: {receipt:?}");
    assert!(archived(&lab, &root).await);
    lab.open_gate("root");
    lab.rest(&root).await;
    assert!(archived(&lab, &root).await, "what is told of the stop does not wake it");
}

#[tokio::test]
async fn what_runs_is_never_out_of_sight() {
    let lab = Lab::new().await;
    let root = lab.root().await;
    let (mut put_away, mut refused) = (0, 0);
    for round in 0..40 {
        let once = key();
        let (prompted, told) = tokio::join!(lab.engine.prompt(&root, format!("<{round}>"), &once), async {
            yields(round * 3).await;
            lab.engine.archive(&root, true, false, &key()).await
        });
        prompted.unwrap();
        match told {
            Ok(_) => put_away += 1,
            Err(error) => {
                refused += 1;
                assert_eq!(error.code(), Code::Busy);
            }
        }
        lab.rest(&root).await;
    }
    let mut open = false;
    for recorded in lab.events(&root).await {
        match recorded.event {
            Event::TurnStarted { .. } => open = true,
            Event::TurnEnded { .. } => open = false,
            Event::Archived { archived } => assert!(!(open && archived), "archived at work"),
            _ => {}
        }
    }
    assert_eq!(put_away + refused, 40);
}

#[tokio::test]
async fn what_runs_is_named_and_in_the_way_of_a_deletion_until_it_is_stopped_with_a_receipt() {
    let mut lab = Lab::new().await;
    let (root, child) = at_work(&lab).await;
    let tasks: Vec<TaskId> = lab.tasks().await.into_iter().map(|task| task.id).collect();
    let seq = lab.engine.since(0, 1_000).await.unwrap().last().unwrap().seq;
    let refused = lab.engine.delete(&root, false, &key()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Busy);
    assert!(
        refused.message().contains("4 run in this branch") && refused.message().contains("and 1 more"),
        "{refused}"
    );
    assert_eq!(lab.engine.since(seq, 1).await.unwrap(), [], "a refused deletion does nothing");
    lab.engine.prompt(&root, "it still listens".into(), &key()).await.unwrap();
    let preview = lab.engine.deletion(&root).await.unwrap();
    assert_eq!((preview.sessions, preview.messages), (2, 5), "{preview:?}");
    let once = key();
    let done = within(lab.engine.delete(&root, true, &once)).await.unwrap();
    let Deletion { receipt, sessions, .. } = &done;
    assert_eq!((&receipt.ended, *sessions, &receipt.unconfirmed), (&preview.receipt.ended, 2, &vec![]));
    assert_eq!(receipt.processes.len(), 2, "{receipt:?}");
    assert!(receipt.processes.iter().all(|process| process.gone), "{receipt:?}");
    assert_eq!(within(lab.engine.delete(&root, true, &once)).await.unwrap(), done, "the same key does it once");
    assert_eq!(outputs(&lab.data()), Vec::<String>::new(), "what its commands put out goes with it");
    let sessions = [root, child];
    unknown_everywhere(&lab.engine, &sessions, &tasks, "at once").await;
    lab.restart().await;
    unknown_everywhere(&lab.engine, &sessions, &tasks, "after a restart").await;
}

#[tokio::test]
async fn a_deleted_child_leaves_its_parent_and_siblings_as_they_are() {
    let lab = Lab::new().await;
    lab.script(
        "root",
        vec![vec![delegate("one", "work"), delegate("two", "work")], vec![say("started"), gate("root")]],
    );
    lab.script("one", vec![vec![say("half"), gate("one")]]);
    lab.script("two", vec![vec![say("half"), gate("two")]]);
    let root = lab.prompted("go").await;
    for name in ["root", "one", "two"] {
        lab.reached(name).await;
    }
    let (one, two) = (lab.child("one").await.id, lab.child("two").await.id);
    let done = within(lab.engine.delete(&one, true, &key())).await.unwrap();
    assert_eq!((names(&done.receipt), done.sessions), (vec![("turn", "one")], 1));
    assert_eq!(ids(&lab.engine).await, [root.clone(), two.clone()]);
    assert_eq!(lab.child("two").await.state, SessionState::Running);
    lab.script("root", vec![vec![call("send_message", json!({ "child_id": one, "message": "still there?" }))]]);
    lab.replay(&root);
    for name in ["root", "two"] {
        lab.open_gate(name);
    }
    lab.rest(&root).await;
    lab.engine.prompt(&root, "ask it".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(ids(&lab.engine).await, [root, two], "a word of its parent does not bring it back");
}

/// The moments at which a deletion meets work, each with the number of sessions that are there by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    ModelStreams,
    ToolRuns,
    ChildStarts,
    TaskSettles,
    ChildEnds,
    PromptComes,
    MessageComes,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_still_works_when_it_is_deleted_never_brings_it_back() {
    for moment in [
        Moment::ModelStreams,
        Moment::ToolRuns,
        Moment::ChildStarts,
        Moment::TaskSettles,
        Moment::ChildEnds,
        Moment::PromptComes,
        Moment::MessageComes,
    ] {
        let mut lab = Lab::new().await;
        let rounds = 6;
        let mut gone = Vec::new();
        for round in 0..rounds {
            let at = format!("{moment:?} {round}");
            let file = lab.cwd.join(format!("{round}"));
            let waits = format!("until [ -e {} ]; do sleep 0.01; done; echo late", file.display());
            match moment {
                Moment::ModelStreams => lab.script("root", vec![vec![say("a word"), gate(&at), say("a late one")]]),
                Moment::ToolRuns => lab.script("root", vec![vec![say(""), gate(&at), command(&waits, false)]]),
                Moment::ChildStarts => {
                    lab.script("root", vec![vec![gate(&at), delegate("one", "work"), delegate("two", "work")]]);
                }
                Moment::TaskSettles => {
                    lab.script("root", vec![vec![command(&waits, true)], vec![gate(&at), say("started")]]);
                }
                Moment::ChildEnds | Moment::MessageComes => {
                    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
                    lab.script("one", vec![vec![delegate("deep", "work")], vec![gate(&at), say("a late word")]]);
                }
                Moment::PromptComes => lab.script("root", vec![vec![gate(&at), say("an answer")]]),
            }
            let root = lab.prompted("go").await;
            lab.reached(&at).await;
            let late = async {
                fs::write(&file, "").unwrap();
                lab.open_gate(&at);
                match moment {
                    Moment::PromptComes => drop(lab.engine.prompt(&root, "late".into(), &key()).await),
                    Moment::MessageComes => {
                        let child = lab.child("one").await.id;
                        drop(lab.engine.send(&child, "late".into(), None, &key()).await);
                    }
                    _ => {}
                }
            };
            let delete = async {
                yields(round * round * 4).await;
                within(lab.engine.delete(&root, true, &key())).await
            };
            let (_, told) = tokio::join!(late, delete);
            told.unwrap_or_else(|error| panic!("{at}: {error}"));
            gone.push(root);
            assert_eq!(ids(&lab.engine).await, [], "{at}");
        }
        unknown_everywhere(&lab.engine, &gone, &[], &format!("{moment:?}")).await;
        lab.restart().await;
        unknown_everywhere(&lab.engine, &gone, &[], &format!("{moment:?}, after a restart")).await;
        assert_eq!(outputs(&lab.data()), Vec::<String>::new(), "{moment:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_whose_start_waits_for_the_store_goes_with_its_parent() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![gate("root"), delegate("one", "work")]]);
    let root = lab.prompted("go").await;
    lab.reached("root").await;
    let store = Connection::open(lab.data().join(Log::FILE)).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    lab.open_gate("root");
    let engine = lab.engine.clone();
    let (done, ()) = tokio::join!(within(engine.delete(&root, true, "delete")), async {
        // Both are on their way by now, or come after: either must do.
        yields(500).await;
        store.execute_batch("ROLLBACK").unwrap();
    });
    assert!(done.unwrap().sessions >= 1);
    unknown_everywhere(&lab.engine, std::slice::from_ref(&root), &[], "at once").await;
    lab.restart().await;
    unknown_everywhere(&lab.engine, &[root], &[], "after a restart").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_is_being_deleted_nobody_wakes_it() {
    let lab = Lab::new().await;
    // It takes its time to end.
    lab.script("root", vec![vec![command("trap '' TERM; echo ready; while :; do sleep 0.05; done", true)]]);
    let root = lab.prompted("go").await;
    puts_out(&lab, "bash-1").await;
    lab.until(&root, |event| matches!(event, Event::TurnEnded { .. })).await;
    let requests = lab.requests(&root).len();
    let delete = lab.engine.delete(&root, true, "delete");
    let others = async {
        lab.until(&root, |event| matches!(event, Event::TaskStopping { .. })).await;
        let prompt = lab.engine.prompt(&root, "wait".into(), &key()).await;
        let again = lab.engine.delete(&root, true, "again").await;
        (code(prompt), code(again))
    };
    let (done, refused) = within(async { tokio::join!(delete, others) }).await;
    assert_eq!((done.unwrap().sessions, refused), (1, (Code::Busy, Code::Busy)));
    assert_eq!(lab.requests(&root).len(), requests);
    unknown_everywhere(&lab.engine, &[root], &[task("bash-1")], "at once").await;
}

#[tokio::test]
async fn whoever_waits_for_or_follows_what_is_deleted_is_told() {
    let lab = Lab::new().await;
    let (root, child) = at_work(&lab).await;
    let mut follow = lab.engine.follow(Some(child.clone()), None).await.unwrap();
    let command = lab.tasks().await.into_iter().find(|task| task.kind == "bash").unwrap().id;
    let (wait, wait_task, done) = within(async {
        tokio::join!(
            lab.engine.wait_session(&root, PATIENCE),
            lab.engine.wait_task(&command, PATIENCE),
            lab.engine.delete(&root, true, "delete")
        )
    })
    .await;
    done.unwrap();
    let settled = wait_task.map(|task| task.status.is_terminal());
    assert!(matches!(settled, Ok(true)) || settled.is_err_and(|error| error.code() == Code::UnknownTask));
    let rested = wait.map(|session| session.state.is_live());
    assert!(matches!(rested, Ok(false)) || rested.is_err_and(|error| error.code() == Code::UnknownSession));
    let mut removed = Vec::new();
    while removed.len() < 2 {
        let frame = within(follow.next()).await.unwrap().unwrap();
        for session in &frame.sessions {
            assert!(!removed.contains(&session.id) && !frame.removed.contains(&session.id), "{frame:?}");
        }
        removed.extend(frame.removed);
    }
    removed.sort();
    let mut gone = [root, child];
    gone.sort();
    assert_eq!(removed, gone);
}

#[tokio::test]
async fn only_outputs_that_no_task_in_the_store_has_go_at_the_next_start() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![command("echo kept", true)], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    lab.engine.shutdown(PATIENCE).await.unwrap();
    let folder = lab.data().join("output");
    let elsewhere = lab.cwd.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("precious"), "x").unwrap();
    for orphan in ["bash-2", "bash-77", "my-tool-3"] {
        fs::create_dir(folder.join(orphan)).unwrap();
        fs::write(folder.join(orphan).join("00000000000000000000"), "of nobody").unwrap();
    }
    fs::create_dir(folder.join("notes")).unwrap();
    fs::write(folder.join("bash-9"), "a file").unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.join("bash-8")).unwrap();
    lab.reopen().await;
    let kept = ["bash-1", "bash-8", "bash-9", "notes"];
    until("the orphans are gone", || outputs(&lab.data()) == kept).await;
    assert!(elsewhere.join("precious").exists());
    assert_eq!(lab.engine.output(&task("bash-1"), 0, 100).await.unwrap().text, "kept\n");
}

#[tokio::test]
async fn the_words_of_what_was_deleted_are_gone_from_the_disk() {
    let lab = Lab::with(Config::default()).await;
    lab.script("one", vec![vec![say("the marmot word")]]);
    lab.script("root", vec![vec![delegate("one", "the marmot word"), command("echo the marmot word", true)], vec![]]);
    let root = lab.prompted("the marmot word").await;
    lab.rest(&root).await;
    lab.script("root", vec![vec![command("sleep 1000 # the marmot word", true)], vec![gate("root")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "the marmot word".into(), &key()).await.unwrap();
    lab.reached("root").await;
    lab.engine.stop(Target::Everything, None, false, "stop").await.unwrap();
    lab.engine.prompt(&root, "the marmot word".into(), &key()).await.unwrap();
    let done = lab.engine.delete(&root, true, "delete").await.unwrap();
    assert_eq!(done.receipt.label, "the marmot word");
    assert_eq!(lab.engine.delete(&root, true, "delete").await.unwrap(), done);
    let stopped = lab.engine.stop(Target::Everything, None, false, "stop").await.unwrap();
    assert_eq!(stopped.ended.len(), 2, "its answer is still there, without names: {stopped:?}");
    lab.engine.shutdown(PATIENCE).await.unwrap();
    fn find(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                find(&path, found);
            } else if fs::read(&path).unwrap().windows(11).any(|bytes| bytes == b"marmot word") {
                found.push(path.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    find(&lab.data(), &mut found);
    assert_eq!(found, Vec::<String>::new());
}
