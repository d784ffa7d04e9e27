//! The pure parts: any prefix of a log folds and can be mended; a turn ends once, whatever comes in which order.

use crate::lab::{Act, Lab, call, delegate, gate, key, say};
use coppice_engine::engine::Target;
use coppice_engine::event::{Block, Event, Party, Recorded, Stop, Usage};
use coppice_engine::id::{CallId, SessionId};
use coppice_engine::llm::{Failure, FailureKind, Message, Reply};
use coppice_engine::prompt::Given;
use coppice_engine::tool::Outcome;
use coppice_engine::transcript::{Transcript, Waiting};
use coppice_engine::turn::{Bounds, Effect, Input, Turn};
use coppice_engine::view::rows::{Context, gives_rows, rows};
use proptest::prelude::*;
use serde_json::json;

/// What model servers demand of a history: no two user messages in a row, every call answered once, in order, at once.
fn check_history(messages: &[Message]) {
    let mut open: Vec<CallId> = Vec::new();
    let mut last_was_user = false;
    for message in messages {
        match message {
            Message::User(_) => {
                assert!(open.is_empty(), "a call without a result before a message: {messages:?}");
                assert!(!last_was_user, "two messages in a row: {messages:?}");
            }
            Message::Assistant(blocks) => {
                assert!(open.is_empty(), "a call without a result before a reply: {messages:?}");
                open = blocks
                    .iter()
                    .filter_map(|block| match block {
                        Block::ToolCall { id, .. } => Some(id.clone()),
                        _ => None,
                    })
                    .collect();
                open.reverse();
            }
            Message::Tool { call, .. } => assert_eq!(open.pop().as_ref(), Some(call), "{messages:?}"),
        }
        last_was_user = matches!(message, Message::User(_));
    }
}

/// Everything that is promised of a log holds for each of its prefixes, after it was mended.
fn check_prefixes(log: &[Recorded]) {
    for end in 0..=log.len() {
        let mut events = log[..end].to_vec();
        let partial = Some((1, vec![Block::Text { text: "half".into() }]));
        for event in Transcript::of(&events).mend(partial) {
            let n = events.len() as i64 + 1;
            events.push(Recorded { seq: n, session: SessionId::from("s"), n, at: 0, event });
        }
        let mended = Transcript::of(&events);
        assert_eq!(mended.mend(None), [], "mending once is enough");
        check_history(&mended.messages());
        let begun = events.iter().filter(|recorded| matches!(recorded.event, Event::TurnStarted { .. })).count();
        let ended = events.iter().filter(|recorded| matches!(recorded.event, Event::TurnEnded { .. })).count();
        assert_eq!(begun, ended, "every turn ends once");
        let context = Context { parent: None, delegates: &|_| false, facts: &|_| None };
        for recorded in &events {
            let made = rows(recorded, &[], &context);
            assert!(made.is_empty() || gives_rows(recorded.event.kind()), "{recorded:?}");
        }
    }
}

#[tokio::test]
async fn every_prefix_of_every_log_folds_mends_and_is_a_valid_history() {
    let lab = Lab::new().await;
    lab.script(
        "root",
        vec![
            vec![
                say("I begin."),
                delegate("one", "work"),
                call("glob", json!({ "pattern": "*" })),
                call("nonsense", json!({})),
            ],
            vec![say("half"), gate("never")],
            vec![call("task_output", json!({ "task_id": "$task0" }))],
            vec![Act::Fail(FailureKind::Unreachable, "away".into())],
            vec![say("At last.")],
        ],
    );
    lab.script("one", vec![vec![call("glob", json!({ "pattern": "*" })), gate("child")], vec![say("done")]]);
    let root = lab.prompted("go").await;
    lab.reached("never").await;
    lab.engine.prompt(&root, "while you are at it".into(), &key()).await.unwrap();
    let child = lab.child("one").await.id;
    lab.engine.send(&child, "and you too".into(), None, &key()).await.unwrap();
    lab.engine.stop(Target::Turn(root.clone()), None, false, &key()).await.unwrap();
    lab.open_gate("child");
    lab.rest(&root).await;
    for text in ["go on", "and on"] {
        lab.engine.prompt(&root, text.into(), &key()).await.unwrap();
        lab.rest(&root).await;
    }
    for session in [&root, &child] {
        check_prefixes(&lab.events(session).await);
    }
}

/// Random inputs for the turn machine, in random order, most of them out of place.
fn inputs() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..12, 0..60)
}

fn reply(calls: usize, stop: Stop, text: &str) -> Reply {
    let mut blocks = vec![Block::Text { text: text.into() }];
    blocks.extend((0..calls).map(|_| Block::ToolCall {
        id: CallId("same".into()),
        name: "tool".into(),
        args: String::new(),
    }));
    Reply { blocks, stop, usage: Usage::default() }
}

proptest! {
    #[test]
    fn a_turn_ends_exactly_once_and_never_leaves_a_call_without_a_result(choices in inputs()) {
        let mut turn = Turn::new(1, None, 0, Bounds { steps: 20, ..Bounds::default() }, Given::default());
        let mut log: Vec<Event> = vec![turn.started()];
        let mut open: Vec<CallId> = Vec::new();
        let mut n = 0;
        let step = |turn: &mut Turn, input: Input, open: &mut Vec<CallId>, log: &mut Vec<Event>| {
            for effect in turn.on(input) {
                match effect {
                    Effect::Record(events) => log.extend(events),
                    Effect::Run(calls) => open.extend(calls.into_iter().map(|call| call.id)),
                    Effect::Ask | Effect::Continue | Effect::End(_) => {}
                }
            }
        };
        for choice in choices {
            n += 1;
            let input = match choice {
                0 | 1 => Input::Ready { waiting: vec![], owed: vec![], noted: vec![], spent: vec![] },
                2 => {
                    let waiting = Waiting { n, from: Party::Person, text: "x".into(), deferred: false };
                    Input::Ready { waiting: vec![waiting], owed: vec![], noted: vec![], spent: vec![] }
                }
                3 => Input::Replied(reply(2, Stop::Complete, "a")),
                4 => Input::Replied(reply(0, Stop::Complete, "b")),
                5 => Input::Replied(reply(1, Stop::MaxTokens, "c")),
                6 => Input::Replied(reply(0, Stop::Complete, "")),
                7 => Input::ModelFailed { failure: Failure::new(FailureKind::Silent, "x"), partial: vec![] },
                8 => Input::AnswerRecorded(n),
                9 => Input::CallEnded { call: CallId("9.9".into()), outcome: Outcome::ok(""), ms: 0 },
                10 => match open.first().cloned() {
                    Some(call) => {
                        open.remove(0);
                        step(&mut turn, Input::AnswerRecorded(n), &mut open, &mut log);
                        Input::CallEnded { call, outcome: Outcome::ok("r"), ms: 0 }
                    }
                    None => continue,
                },
                _ => {
                    // The driver reports what ran before it says that the turn was stopped.
                    step(&mut turn, Input::AnswerRecorded(n), &mut open, &mut log);
                    for call in std::mem::take(&mut open) {
                        step(&mut turn, Input::CallEnded { call, outcome: Outcome::fail("stopped"), ms: 0 }, &mut Vec::new(), &mut log);
                    }
                    Input::Stopped { by: Party::Person, partial: vec![] }
                }
            };
            step(&mut turn, input, &mut open, &mut log);
        }
        let ended = log.iter().filter(|event| matches!(event, Event::TurnEnded { .. })).count();
        prop_assert_eq!(ended, usize::from(turn.ended()));
        if turn.ended() {
            prop_assert!(matches!(log.last(), Some(Event::TurnEnded { .. })), "nothing is recorded after the end");
            let recorded: Vec<Recorded> = log
                .into_iter()
                .enumerate()
                .map(|(at, event)| Recorded { seq: 0, session: SessionId::from("s"), n: at as i64, at: 0, event })
                .collect();
            let asked = recorded.iter().flat_map(|recorded| match &recorded.event {
                Event::Answered { blocks, .. } => blocks.clone(),
                _ => vec![],
            });
            let asked = asked.filter(|block| matches!(block, Block::ToolCall { .. })).count();
            let answered = recorded.iter().filter(|r| matches!(r.event, Event::ToolFinished { .. })).count();
            prop_assert_eq!(asked, answered);
        }
    }
}
