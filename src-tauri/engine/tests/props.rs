//! Anything that people and models may do, in any order and at the same instant, with quits and crashes in between,
//! keeps the laws of the log; and in the end only that is owed which was promised.

use crate::lab::{Act, Lab, PATIENCE, call, gate, key, results, say, user_texts, within};
use crate::laws::{laws, owed, wakes};
use coppice_engine::config::Config;
use coppice_engine::engine::{Engine, Target};
use coppice_engine::event::{Event, Stop};
use coppice_engine::id::{SessionId, TaskId};
use coppice_engine::llm::FailureKind;
use coppice_engine::scope::Disorder;
use futures::future::join_all;
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

/// How many stories of each kind are told in one run, unless `COPPICE_STORIES` says otherwise.
const CASES: u32 = 24;

fn cases() -> u32 {
    coppice_engine::env::var("COPPICE_STORIES").map_or(CASES, |value| value.parse().unwrap())
}

const LIVE_TASKS: u32 = 3;
const WAKES: u32 = 2;
const GATES: u8 = 3;

/// What a model does in a step.
#[derive(Clone, Debug)]
enum Move {
    Say,
    Delegate { label: u8, wait: bool },
    Command(u8),
    Collect { task: u8, wait: bool },
    Kill(u8),
    List,
    Send(u8),
    Gate(u8),
    Fail,
    CutOff,
}

/// What a person does. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Deed {
    Prompt(u8),
    /// The same command twice.
    Twice(u8),
    Send(u8),
    StopTurn(u8),
    StopBranch(u8),
    StopTask(u8),
    StopAll,
    Open(u8),
    Wait(u8),
    Read(u8),
    Pass,
}

/// What happens at one instant.
#[derive(Clone, Debug)]
enum Moment {
    Deeds(Vec<Deed>),
    Quit(Vec<Deed>),
    Crash,
}

#[derive(Clone, Debug)]
struct Story {
    root: Vec<Vec<Move>>,
    children: [Vec<Vec<Move>>; 2],
    moments: Vec<Moment>,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        2 => Just(Move::Say),
        6 => (0..2u8, prop::bool::weighted(0.2)).prop_map(|(label, wait)| Move::Delegate { label, wait }),
        2 => (0..3u8).prop_map(Move::Command),
        3 => (0..6u8, any::<bool>()).prop_map(|(task, wait)| Move::Collect { task, wait }),
        3 => (0..6u8).prop_map(Move::Kill),
        1 => Just(Move::List),
        3 => (0..2u8).prop_map(Move::Send),
        4 => (0..GATES).prop_map(Move::Gate),
        1 => Just(Move::Fail),
        1 => Just(Move::CutOff),
    ]
}

fn script() -> impl Strategy<Value = Vec<Vec<Move>>> {
    prop::collection::vec(prop::collection::vec(moves(), 0..4), 0..4)
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        4 => (0..2u8).prop_map(Deed::Prompt),
        1 => (0..2u8).prop_map(Deed::Twice),
        4 => any::<u8>().prop_map(Deed::Send),
        1 => any::<u8>().prop_map(Deed::StopTurn),
        2 => any::<u8>().prop_map(Deed::StopBranch),
        2 => any::<u8>().prop_map(Deed::StopTask),
        1 => Just(Deed::StopAll),
        4 => (0..GATES).prop_map(Deed::Open),
        1 => any::<u8>().prop_map(Deed::Wait),
        1 => any::<u8>().prop_map(Deed::Read),
        3 => Just(Deed::Pass),
    ];
    prop::collection::vec(deed, 1..4)
}

fn story() -> impl Strategy<Value = Story> {
    let moment = prop_oneof![
        12 => deeds().prop_map(Moment::Deeds),
        1 => deeds().prop_map(Moment::Quit),
        1 => Just(Moment::Crash),
    ];
    let root = prop::collection::vec(prop::collection::vec(moves(), 1..4), 1..5);
    (root, [script(), script()], prop::collection::vec(moment, 1..10)).prop_map(|(root, children, moments)| Story {
        root,
        children,
        moments,
    })
}

/// Ids that a model can guess: its own, those of others, and one of nobody.
const TASKS: [&str; 6] = ["subagent-1", "subagent-2", "subagent-3", "bash-1", "bash-2", "subagent-99"];

fn act(step: &Move) -> Act {
    match step {
        Move::Say => say("something"),
        Move::Delegate { label, wait } => {
            let label = ["a", "b"][usize::from(*label)];
            call("subagent", json!({ "description": label, "prompt": "work", "run_in_background": !wait }))
        }
        Move::Command(which) => {
            let command = ["true", "exit 3", "sleep 0.05"][usize::from(*which)];
            call("bash", json!({ "command": command, "run_in_background": true }))
        }
        Move::Collect { task, wait } => {
            call("task_output", json!({ "task_id": TASKS[usize::from(*task)], "wait": wait, "timeout_ms": 20 }))
        }
        Move::Kill(task) => call("task_kill", json!({ "task_id": TASKS[usize::from(*task)] })),
        Move::List => call("task_list", json!({})),
        Move::Send(child) => {
            call("send_message", json!({ "child_id": format!("$child{child}"), "message": "from the parent" }))
        }
        Move::Gate(name) => gate(&format!("gate {name}")),
        Move::Fail => Act::Fail(FailureKind::Unreachable, "away".into()),
        Move::CutOff => Act::End(Stop::MaxTokens),
    }
}

fn steps(script: &[Vec<Move>]) -> Vec<Vec<Act>> {
    script.iter().map(|step| step.iter().map(act).collect()).collect()
}

fn chosen<T: Clone>(among: &[T], number: u8) -> Option<T> {
    (!among.is_empty()).then(|| among[usize::from(number) % among.len()].clone())
}

/// A message of a person, and whether it was accepted.
struct Said {
    session: SessionId,
    text: String,
    accepted: bool,
}

/// Does one deed. Answers what was said by it.
async fn act_out(lab: &Lab, engine: &Engine, roots: &[SessionId], deed: &Deed) -> Vec<Said> {
    let key = key();
    let text = format!("<{key}>");
    let tree = async || engine.tree(None).await.unwrap_or_default();
    let said =
        |session: &SessionId, accepted: bool| vec![Said { session: session.clone(), text: text.clone(), accepted }];
    let task = async |number: u8| -> Option<TaskId> {
        let tasks: Vec<TaskId> = tree().await.1.into_iter().map(|task| task.id).collect();
        chosen(&tasks, number)
    };
    let session = async |number: u8, children: bool| -> Option<SessionId> {
        let sessions = tree().await.0.into_iter().filter(|session| !children || session.depth > 0);
        chosen(&sessions.map(|session| session.id).collect::<Vec<_>>(), number)
    };
    let stop = async |target: Option<Target>| {
        if let Some(target) = target
            && let Ok(receipt) = engine.stop(target, None, false, &key).await
        {
            assert_eq!(receipt.unconfirmed, Vec::<String>::new());
        }
        Vec::new()
    };
    match deed {
        Deed::Prompt(root) => {
            let root = &roots[usize::from(*root)];
            said(root, engine.prompt(root, text.clone(), &key).await.is_ok())
        }
        Deed::Twice(root) => {
            let root = &roots[usize::from(*root)];
            let prompt = || engine.prompt(root, text.clone(), &key);
            let (one, two) = tokio::join!(prompt(), prompt());
            if let (Ok(one), Ok(two)) = (&one, &two) {
                assert_eq!(one, two, "one command is one message");
            }
            said(root, one.is_ok() || two.is_ok())
        }
        Deed::Send(child) => match session(*child, true).await {
            Some(child) => said(&child, engine.send(&child, text.clone(), None, &key).await.is_ok()),
            None => Vec::new(),
        },
        Deed::StopTurn(number) => stop(session(*number, false).await.map(Target::Turn)).await,
        Deed::StopBranch(number) => stop(session(*number, false).await.map(Target::Branch)).await,
        Deed::StopTask(number) => stop(task(*number).await.map(Target::Task)).await,
        Deed::StopAll => stop(Some(Target::Everything)).await,
        Deed::Open(name) => {
            lab.open_gate(&format!("gate {name}"));
            Vec::new()
        }
        Deed::Wait(number) => {
            if let Some(task) = task(*number).await {
                // The store may be closed by now.
                drop(engine.wait_task(&task, Duration::from_millis(10)).await);
            }
            Vec::new()
        }
        Deed::Read(number) => {
            if let Some(task) = task(*number).await {
                drop(engine.output(&task, 0, 1000).await);
            }
            Vec::new()
        }
        Deed::Pass => {
            drop(engine.wait_session(&roots[0], Duration::from_millis(15)).await);
            Vec::new()
        }
    }
}

async fn act_together(lab: &Lab, roots: &[SessionId], deeds: &[Deed]) -> Vec<Said> {
    let engine = lab.engine.clone();
    let said = join_all(deeds.iter().map(|deed| act_out(lab, &engine, roots, deed))).await;
    said.into_iter().flatten().collect()
}

/// Lives through a story and answers which laws were broken by it.
async fn live_through(story: &Story) -> Vec<String> {
    let mut config = Config::default();
    config.limits.depth = 2;
    config.limits.children = 12;
    config.limits.live_children = 6;
    config.limits.live_tasks_per_owner = LIVE_TASKS;
    config.limits.wake_budget = WAKES;
    config.limits.step_limit = 30;
    let mut lab = Lab::with(config).await;
    lab.script("root", steps(&story.root));
    lab.script("a", steps(&story.children[0]));
    lab.script("b", steps(&story.children[1]));
    let roots = [lab.prompted("begin").await, lab.root().await];
    let mut said = Vec::new();
    let mut ended = false;
    for moment in &story.moments {
        match moment {
            Moment::Deeds(deeds) => said.extend(within(act_together(&lab, &roots, deeds)).await),
            Moment::Quit(deeds) => {
                let engine = lab.engine.clone();
                let quit = async { engine.shutdown(PATIENCE).await.unwrap() };
                let (more, receipt) = within(async { tokio::join!(act_together(&lab, &roots, deeds), quit) }).await;
                assert_eq!(receipt.unconfirmed, Vec::<String>::new());
                said.extend(more);
                lab.reopen().await;
                ended = true;
            }
            Moment::Crash => {
                within(lab.crash()).await;
                ended = true;
            }
        }
    }
    (0..GATES).for_each(|name| lab.open_gate(&format!("gate {name}")));
    for root in &roots {
        lab.rest(root).await;
    }
    // From here on the models only do what tells whether all is well: every place can be taken once more.
    let start = || call("bash", json!({ "command": "true", "run_in_background": true }));
    lab.script("root", vec![(0..LIVE_TASKS).map(|_| start()).collect()]);
    let mut broken = Vec::new();
    for root in &roots {
        lab.replay(root);
        // Once for the places, and once for what came of them.
        for text in ["and in the end?", "is that all?"] {
            lab.engine.prompt(root, text.into(), &key()).await.unwrap();
            lab.rest(root).await;
        }
        let last = lab.requests(root).pop().unwrap();
        let taken = results(&last).into_iter().rev().take(LIVE_TASKS as usize);
        if taken.clone().any(|(ok, _)| !ok) {
            broken.push(format!("a place is given back: {:?}", taken.collect::<Vec<_>>()));
        }
        let read = user_texts(&last).join("\n");
        for said in said.iter().filter(|said| said.session == *root) {
            if read.matches(&said.text).count() != usize::from(said.accepted) {
                broken.push(format!("a root reads what was accepted, once: {} in {read}", said.text));
            }
        }
    }
    let events = lab.engine.since(0, usize::MAX >> 1).await.unwrap();
    broken.extend(laws(&events, &lab.tasks().await));
    for root in roots.iter().filter(|root| !owed(&events, root).is_empty()) {
        broken.push(format!("who speaks with the person is told what it is owed: {:?}", owed(&events, root)));
    }
    for said in &said {
        let accepted = |event: &Event| matches!(event, Event::MessageAccepted { text, .. } if *text == said.text);
        let count = events.iter().filter(|event| event.session == said.session && accepted(&event.event)).count();
        if count != usize::from(said.accepted) {
            broken.push(format!("what is accepted is in the log, and nothing else: {count} of {}", said.text));
        }
    }
    // A quit forgets how often a session was woken.
    if !ended && wakes(&events) > WAKES {
        broken.push(format!("notices wake a session {WAKES} times until a person speaks: {}", wakes(&events)));
    }
    lab.engine.shutdown(PATIENCE).await.unwrap();
    broken
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_time: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_in_whatever_order_every_law_holds(story in story()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let broken = runtime.block_on(live_through(&story));
        prop_assert!(broken.is_empty(), "{:#?}", broken);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().div_ceil(3), max_shrink_time: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_between_any_two_steps_every_law_holds(story in story(), seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let broken = runtime.block_on(Disorder::seeded(seed).run(live_through(&story)));
        prop_assert!(broken.is_empty(), "{:#?}", broken);
    }
}
