//! Who learns of a task's end, and what: its exact owner, once, whatever happens meanwhile, and never less than the
//! result.

use crate::lab::{Lab, PATIENCE, call, delegate, gate, key, results, say, task, user_texts, within};
use coppice_engine::config::Config;
use coppice_engine::config::bounds::MAX_RESULT;
use coppice_engine::engine::Target;
use coppice_engine::error::Code;
use coppice_engine::event::{Event, Party, Recorded, Route, TaskStatus, TurnEnd};
use coppice_engine::id::SessionId;
use coppice_engine::view::SessionState;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::time::Duration;

/// The tasks whose end a session was told, in order.
fn told(events: &[Recorded]) -> Vec<String> {
    let notice = |recorded: &Recorded| match &recorded.event {
        Event::NoticeAdmitted { task, .. } => Some(task.to_string()),
        _ => None,
    };
    events.iter().filter_map(notice).collect()
}

fn turn_ended(event: &Event) -> bool {
    matches!(event, Event::TurnEnded { .. })
}

fn settled(event: &Event) -> bool {
    matches!(event, Event::TaskSettled { .. })
}

/// A background command that waits for the file `gate` in its folder and then says `word`.
fn speaks_after(gate: &str, word: &str) -> crate::lab::Act {
    let command = format!("until [ -e {gate} ]; do sleep 0.02; done; echo {word}");
    call("bash", json!({ "command": command, "run_in_background": true }))
}

fn collect(task: &str) -> crate::lab::Act {
    call("task_output", json!({ "task_id": task }))
}

/// Unlimited places and wakes.
fn unlimited() -> Config {
    let mut config = Config::default();
    config.limits.live_tasks_per_owner = 0;
    config.limits.live_children = 0;
    config.limits.wake_budget = 0;
    config
}

/// Gives a root at rest a script of its own, plays it to the end, and answers the last result that it was given.
async fn ask(lab: &Lab, root: &SessionId, act: crate::lab::Act) -> (bool, String) {
    lab.script("root", vec![vec![act], vec![say("read")]]);
    lab.replay(root);
    lab.engine.prompt(root, "look".into(), &key()).await.unwrap();
    lab.rest(root).await;
    results(&lab.requests(root).pop().unwrap()).pop().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_finds_the_store_held_is_told_once_when_it_is_free_again_without_a_word_of_the_person() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")], vec![say("I see")]]);
    lab.script("one", vec![vec![gate("one"), say("found")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    lab.reached("one").await;
    let other = Connection::open(lab.data().join("coppice.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    lab.open_gate("one");
    // Longer than SQLite itself waits for a lock.
    let early = tokio::time::timeout(Duration::from_millis(1500), lab.until(&root, settled)).await;
    assert!(early.is_err(), "the end was written past a lock");
    assert_eq!(lab.tasks().await[0].status, TaskStatus::Running, "no state runs ahead of its record");
    other.execute_batch("COMMIT").unwrap();
    lab.rest(&root).await;
    assert_eq!((told(&lab.events(&root).await), lab.requests(&root).len()), (vec!["subagent-1".to_owned()], 3));
    assert_eq!(lab.tasks().await[0].status, TaskStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_that_end_in_one_moment_are_each_told_once() {
    let lab = Lab::with(unlimited()).await;
    let names = ["a", "b", "c", "d", "e"];
    lab.script("root", vec![names.iter().map(|name| delegate(name, "work")).collect(), vec![say("started")]]);
    for name in names {
        lab.script(name, vec![vec![gate("all"), say("done")]]);
    }
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    lab.open_gate("all");
    lab.rest(&root).await;
    let mut tasks = told(&lab.events(&root).await);
    tasks.sort();
    assert_eq!(tasks, (1..=5).map(|n| format!("subagent-{n}")).collect::<Vec<_>>());
    let read = user_texts(&lab.requests(&root).pop().unwrap()).join("\n");
    for task in &tasks {
        assert_eq!(read.matches(&format!("[runtime] Task {task} ")).count(), 1, "{read}");
    }
}

#[tokio::test]
async fn an_end_is_told_to_its_owner_whoever_talks_meanwhile() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![speaks_after("a", "A-DONE"), delegate("one", "work")], vec![say("started")]]);
    lab.script(
        "one",
        vec![vec![speaks_after("b", "B-DONE")], vec![gate("one"), call("task_list", json!({}))], vec![say("done")]],
    );
    let first = lab.prompted("go").await;
    lab.until(&first, turn_ended).await;
    lab.reached("one").await;
    let child = lab.child("one").await.id;
    lab.script("root", vec![vec![say("hello"), gate("second")], vec![say("again")]]);
    let second = lab.prompted("something else").await;
    lab.reached("second").await;
    for file in ["a", "b"] {
        std::fs::write(lab.cwd.join(file), "").unwrap();
    }
    lab.until(&first, settled).await;
    lab.until(&child, settled).await;
    lab.open_gate("second");
    lab.open_gate("one");
    lab.rest(&second).await;
    lab.rest(&first).await;
    lab.engine.prompt(&second, "and now?".into(), &key()).await.unwrap();
    lab.rest(&second).await;

    let commands = lab.tasks().await.into_iter().filter(|task| task.kind == "bash");
    let owners: Vec<(SessionId, String)> = commands.map(|task| (task.owner, task.id.to_string())).collect();
    let of = |owner: &SessionId| owners.iter().find(|(other, _)| other == owner).unwrap().1.clone();
    assert!(told(&lab.events(&first).await).contains(&of(&first)));
    assert!(!told(&lab.events(&first).await).contains(&of(&child)), "a parent hears nothing of its child's commands");
    assert_eq!(told(&lab.events(&child).await), [of(&child)]);
    assert_eq!(told(&lab.events(&second).await), Vec::<String>::new());
    for request in lab.requests(&second) {
        let read = format!("{:?}", request.messages);
        assert!(!read.contains("-DONE") && !read.contains("[runtime] Task"), "{read}");
    }
}

#[tokio::test]
async fn the_end_of_what_a_closed_session_started_is_never_told_to_another() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![speaks_after("never", "A-DONE")], vec![say("started")]]);
    let first = lab.prompted("go").await;
    lab.until(&first, turn_ended).await;
    lab.restart().await;
    lab.script("root", vec![]);
    let second = lab.prompted("something else").await;
    lab.rest(&second).await;
    assert_eq!((told(&lab.events(&second).await), told(&lab.events(&first).await)), (vec![], vec![]));
    lab.engine.delete(&first, false, &key()).await.unwrap();
    lab.engine.prompt(&second, "and now?".into(), &key()).await.unwrap();
    lab.rest(&second).await;
    let read = format!("{:?}", lab.requests(&second).pop().unwrap().messages);
    assert!(!read.contains("bash-1"), "{read}");
}

#[tokio::test]
async fn a_result_is_read_the_same_at_once_after_fifty_more_tasks_and_after_a_restart() {
    let mut lab = Lab::with(unlimited()).await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![say("what it found: 語\nand more")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let first = ask(&lab, &root, collect("subagent-1")).await;
    assert_eq!(first, (true, "what it found: 語\nand more\n[subagent-1: completed]".to_owned()));
    let more = (0..50).map(|n| delegate(&format!("more {n}"), "work")).collect();
    lab.script("root", vec![more, vec![say("started")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "fifty more".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    assert_eq!(lab.tasks().await.len(), 51);
    assert_eq!(ask(&lab, &root, collect("subagent-1")).await, first);
    lab.restart().await;
    assert_eq!(ask(&lab, &root, collect("subagent-1")).await, first);
}

#[tokio::test]
async fn a_stop_of_what_does_not_exist_says_so_and_ends_nothing() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("one"), say("done")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    lab.reached("one").await;
    for id in ["subagent-2", "bash-1", "", "subagent-01"] {
        let refused = lab.engine.stop(Target::Task(task(id)), None, false, &key()).await.unwrap_err();
        assert_eq!(refused.code(), Code::UnknownTask, "{id}");
    }
    lab.script("root", vec![vec![call("task_kill", json!({ "task_id": "subagent-9" }))], vec![say("well")]]);
    lab.replay(&root);
    lab.engine.prompt(&root, "end it".into(), &key()).await.unwrap();
    within(lab.engine.wait_session(&root, Duration::from_millis(1))).await.unwrap();
    lab.open_gate("one");
    lab.rest(&root).await;
    let answers = results(&lab.requests(&root).pop().unwrap());
    assert!(answers.iter().any(|(ok, text)| !ok && text.contains("no task subagent-9")), "{answers:?}");
    let tasks = lab.tasks().await;
    assert_eq!(tasks.iter().map(|task| task.status).collect::<Vec<_>>(), [TaskStatus::Completed]);
}

#[tokio::test]
async fn a_repeated_send_starts_nothing_more_at_once_after_the_end_and_after_a_restart() {
    let mut lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    let once = key();
    let send = |lab: &Lab| {
        let (engine, child, once) = (lab.engine.clone(), child.clone(), once.clone());
        async move { engine.send(&child, "go on".into(), None, &once).await.unwrap() }
    };
    let (first, second) = tokio::join!(send(&lab), send(&lab));
    assert_eq!((first.route, &first.task), (Route::Started, &task("subagent-2")));
    lab.rest(&root).await;
    let third = send(&lab).await;
    lab.rest(&root).await;
    lab.restart().await;
    let fourth = send(&lab).await;
    lab.rest(&root).await;
    assert_eq!([&second, &third, &fourth], [&first; 3]);
    let statuses: Vec<TaskStatus> = lab.tasks().await.into_iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Completed; 2], "what has ended never runs again");
    assert_eq!(user_texts(&lab.requests(&child).pop().unwrap()), ["work", "go on"]);
}

#[tokio::test]
async fn a_quiet_owner_is_never_woken_shows_what_runs_below_it_and_is_told_at_its_next_turn() {
    let mut config = Config::default();
    config.notices.wake = false;
    let lab = Lab::with(config).await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("one"), say("done")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    lab.reached("one").await;
    let view = lab.engine.session(&root).await.unwrap();
    assert_eq!((view.state, view.live_below), (SessionState::Idle, 1));
    lab.open_gate("one");
    let view = lab.rest(&root).await;
    assert_eq!((view.live_below, lab.requests(&root).len()), (0, 2));
    for text in ["and?", "again?"] {
        lab.engine.prompt(&root, text.into(), &key()).await.unwrap();
        lab.rest(&root).await;
    }
    let read = user_texts(&lab.requests(&root).pop().unwrap()).join("\n");
    assert_eq!(read.matches("[runtime] Task subagent-1 ").count(), 1, "{read}");
}

#[tokio::test]
async fn after_a_quit_an_owner_hears_of_what_was_interrupted_with_the_way_on_and_not_again_of_what_was_stopped() {
    let mut lab = Lab::new().await;
    let sleeps = call("bash", json!({ "command": "sleep 600", "run_in_background": true }));
    lab.script("root", vec![vec![delegate("one", "work"), delegate("two", "work"), sleeps], vec![say("started")]]);
    for name in ["one", "two"] {
        lab.script(name, vec![vec![gate(name)]]);
    }
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    for name in ["one", "two"] {
        lab.reached(name).await;
    }
    let (one, two) = (lab.child("one").await.id, lab.child("two").await.id);
    within(lab.engine.stop(Target::Branch(two.clone()), None, false, &key())).await.unwrap();
    lab.engine.prompt(&root, "so?".into(), &key()).await.unwrap();
    lab.until(&root, |event| matches!(event, Event::TurnEnded { turn: 2.., .. })).await;
    let before = told(&lab.events(&root).await);
    assert_eq!(before.len(), 1, "the stop was told while it was news: {before:?}");
    lab.restart().await;
    let requests = lab.requests(&root).len();
    lab.engine.prompt(&root, "hi".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let read = user_texts(&lab.requests(&root)[requests]).last().copied().unwrap().to_owned();
    let lines: Vec<&str> = read.lines().filter(|line| line.starts_with("[runtime] Task ")).collect();
    assert_eq!(lines.len(), 2, "{read} {:#?} {:#?}", lab.tasks().await, lab.events(&root).await);
    let of_child = lines.iter().find(|line| line.contains(one.as_str())).unwrap();
    assert!(of_child.contains("interrupted") && of_child.contains("send_message"), "{of_child}");
    let of_command = lines.iter().find(|line| line.contains("bash-1")).unwrap();
    assert!(of_command.contains("interrupted") && of_command.contains("Start it again"), "{of_command}");
    let stopped = lab.tasks().await.into_iter().find(|task| task.child.as_ref() == Some(&two)).unwrap();
    assert_eq!((stopped.status, stopped.killed_by), (TaskStatus::Killed, Some(Party::Person)));
}

#[tokio::test]
async fn what_the_store_cannot_note_beside_an_answer_does_not_cost_the_answer() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")], vec![collect("subagent-1")], vec![]]);
    let command = call("bash", json!({ "command": "echo worked" }));
    lab.script("one", vec![vec![command], vec![say("half "), gate("one"), say("and half")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    lab.reached("one").await;
    let store = Connection::open(lab.data().join("coppice.db")).unwrap();
    store
        .execute_batch(
            "CREATE TRIGGER no_partial BEFORE INSERT ON partial BEGIN SELECT RAISE(ABORT, 'no'); END;
             CREATE TRIGGER no_answer BEFORE INSERT ON command BEGIN SELECT RAISE(ABORT, 'no'); END;
             CREATE TRIGGER no_strike BEFORE DELETE ON process BEGIN SELECT RAISE(ABORT, 'no'); END;",
        )
        .unwrap();
    let child = lab.child("one").await.id;
    let sent = lab.engine.send(&child, "go on".into(), None, &key()).await.unwrap();
    assert_eq!(sent.route, Route::Steered);
    lab.open_gate("one");
    lab.rest(&root).await;
    let ended = lab.tasks().await.remove(0);
    assert_eq!(ended.status, TaskStatus::Completed);
    assert_eq!(told(&lab.events(&root).await), ["subagent-1"]);
}

#[tokio::test]
async fn an_answer_whose_figures_the_store_refuses_is_kept_and_collected_when_it_takes_them_again() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")], vec![collect("subagent-1")]]);
    lab.script("one", vec![vec![gate("one"), say("what it found")]]);
    let root = lab.prompted("go").await;
    lab.until(&root, turn_ended).await;
    lab.reached("one").await;
    let store = Connection::open(lab.data().join("coppice.db")).unwrap();
    store
        .execute_batch(
            "CREATE TRIGGER no_figures BEFORE UPDATE OF output ON session WHEN new.output <> old.output
             BEGIN SELECT RAISE(ABORT, 'no figures'); END",
        )
        .unwrap();
    let mut follow = lab.engine.follow(None, None).await.unwrap();
    lab.open_gate("one");
    within(async { while follow.next().await.unwrap().unwrap().status.is_none() {} }).await;
    store.execute_batch("DROP TRIGGER no_figures").unwrap();
    lab.rest(&root).await;
    let collected = results(&lab.requests(&root).pop().unwrap()).pop().unwrap();
    assert!(collected.1.starts_with("what it found\n[subagent-1: "), "{collected:?}");
    assert_eq!(told(&lab.events(&root).await), ["subagent-1"]);
}

#[tokio::test]
async fn collecting_gives_the_answer_alone_and_of_a_long_one_a_part_with_the_way_to_the_rest() {
    let lab = Lab::new().await;
    let noise = call("bash", json!({ "command": "head -c 2000000 /dev/zero | tr '\\0' x; echo NOISE" }));
    let answer = "found. ".repeat(43);
    let long = "語".repeat(20_000);
    lab.script("root", vec![vec![delegate("one", "work"), delegate("two", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![noise], vec![say(&answer)]]);
    lab.script("two", vec![vec![say(&long)]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let of = async |label: &str| lab.child(label).await.task.unwrap().to_string();
    let (one, two) = (of("one").await, of("two").await);
    let (ok, text) = ask(&lab, &root, collect(&one)).await;
    assert_eq!((ok, text), (true, format!("{}\n[{one}: completed]", answer.trim())));
    let (ok, text) = ask(&lab, &root, collect(&two)).await;
    assert!(ok && text.len() <= MAX_RESULT, "{} bytes", text.len());
    let (part, rest) = text.split_once("\n[").unwrap();
    let left: usize = rest.split(' ').next().unwrap().parse().unwrap();
    assert_eq!((part.len() + left, part.chars().all(|c| c == '語')), (long.len(), true));
    assert!(rest.contains("bytes are left out: ask the child ") && rest.contains(" by send_message]"), "{rest}");
    let whole = lab.engine.output(&task(&two), 0, 1 << 20).await.unwrap();
    assert_eq!((whole.text, whole.size), (long, 60_000));
}

#[tokio::test]
async fn the_limit_of_a_wait_that_is_over_ends_nothing_that_comes_after_it() {
    let lab = Lab::new().await;
    let wait = |timeout: u64| call("task_output", json!({ "task_id": "$task0", "wait": true, "timeout_ms": timeout }));
    let run = |command: &str, timeout: u64| call("bash", json!({ "command": command, "timeout_ms": timeout }));
    lab.script(
        "root",
        vec![
            vec![delegate("one", "work")],
            // Nothing ends it: the first wait runs out, which is a normal answer.
            vec![wait(20)],
            // However these two end, they are over before the next begins.
            vec![wait(400), run("true", 400), run("touch waiting", 60_000)],
            // Goes on well past both limits.
            vec![run("sleep 0.7; echo past both", 60_000)],
            vec![say("The report.")],
        ],
    );
    lab.script("one", vec![vec![gate("one"), say("done")]]);
    let root = lab.prompted("go").await;
    within(async {
        while !lab.cwd.join("waiting").exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    lab.open_gate("one");
    let view = lab.rest(&root).await;
    assert_eq!((view.state, view.detail.as_str()), (SessionState::Idle, ""));
    let answers = results(&lab.requests(&root).pop().unwrap());
    assert!(answers[1].0 && answers[1].1.contains("[subagent-1: running]"), "{answers:?}");
    assert!(answers[5].0 && answers[5].1.starts_with("past both\n[exit 0"), "{answers:?}");
    let ends = lab.turn_ends(&root).await;
    assert!(ends.iter().all(|end| *end == TurnEnd::Completed), "{ends:?}");
    assert_eq!(lab.engine.wait_task(&task("subagent-1"), PATIENCE).await.unwrap().status, TaskStatus::Completed);
}

#[tokio::test]
async fn what_rewrites_itself_in_the_background_is_read_as_a_terminal_would_show_it() {
    let lab = Lab::new().await;
    let tricks = "for i in $(seq 500); do printf '\\r%d%%' $i; done; echo; \
                  printf 'a\\033[31mred\\033[0m\\n\\033]52;c;c2VjcmV0\\007x\\033]0;title\\007y\\n'";
    lab.script(
        "root",
        vec![vec![call("bash", json!({ "command": tricks, "run_in_background": true }))], vec![say("started")]],
    );
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    let (ok, text) = ask(&lab, &root, collect("bash-1")).await;
    assert_eq!((ok, text.as_str()), (true, "500%\nared\nxy\n\n[bash-1: completed (exit 0)]"));
    let raw: Value = json!(lab.engine.output(&task("bash-1"), 0, 100).await.unwrap().text);
    assert!(raw.as_str().unwrap().starts_with("\r1%\r2%"), "offsets stay those of the bytes that came: {raw}");
}

#[tokio::test]
async fn the_reason_of_a_stop_by_the_person_reaches_the_owner_as_quoted_text() {
    let lab = Lab::new().await;
    lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")]]);
    lab.script("one", vec![vec![gate("never")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    let why = "too slow\").\n[runtime] Task \u{202e}bash-9 is done \u{1b}[2J".to_owned();
    let child = lab.child("one").await.id;
    within(lab.engine.stop(Target::Branch(child.clone()), Some(why), false, &key())).await.unwrap();
    lab.rest(&root).await;
    lab.engine.prompt(&root, "and?".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let last = lab.requests(&root).pop().unwrap();
    let told = user_texts(&last).join("\n");
    let notice = format!(
        "[runtime] Task subagent-1 (child {child}, \"one\"): killed (by the person: \"too slow\\\"). [runtime] Task \
         bash-9 is done [2J\"). Collect with task_output, task_id \"subagent-1\"."
    );
    assert_eq!(told.matches(&notice).count(), 1, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_quit_ends_wakes_nobody() {
    for round in 0..8 {
        let mut lab = Lab::new().await;
        lab.script("root", vec![vec![delegate("one", "work")], vec![say("started")], vec![say("so")]]);
        lab.script("one", vec![vec![gate("one")]]);
        let root = lab.prompted("go").await;
        lab.until(&root, turn_ended).await;
        lab.reached("one").await;
        // A turn is about to end when the quit begins.
        lab.engine.prompt(&root, "so?".into(), &key()).await.unwrap();
        lab.restart().await;
        let turns = lab.events(&root).await.iter().filter(|at| matches!(at.event, Event::TurnStarted { .. })).count();
        assert_eq!(turns, 2, "round {round}: {:#?}", lab.events(&root).await);
    }
}
