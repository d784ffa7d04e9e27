//! Children that begin with what their parent has done.

use crate::lab::{Act, Lab, call, delegate, gate, key, say};
use coppice_engine::config::{Config, SubagentConfig};
use coppice_engine::event::{Block, Event, ToolFilter};
use coppice_engine::llm::{Message, Request};
use coppice_engine::view::RowBody;
use serde_json::json;
use std::collections::BTreeSet;

async fn lab() -> Lab {
    let fork = SubagentConfig {
        provider: "fork".to_owned(),
        run_in_background: true,
        model: None,
        persona: Some("You look twice.".to_owned()),
        tools: ToolFilter { allow: Vec::new(), deny: vec!["bash".to_owned()] },
        max_depth: None,
        agent: None,
    };
    let mut config = Config::default();
    config.subagents.insert("subagent_fork".to_owned(), fork);
    Lab::with(config).await
}

fn forked(label: &str, prompt: &str) -> Act {
    call("subagent_fork", json!({ "description": label, "prompt": prompt, "run_in_background": true }))
}

/// A request as one text a message, with the names of its calls.
fn told(request: &Request) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::User(text) => format!("user: {text}"),
        Message::Tool { call, ok, .. } => format!("result of {call}: {ok}"),
        Message::Assistant(blocks) => {
            let block = |block: &Block| match block {
                Block::Text { text } | Block::Thinking { text } => text.clone(),
                Block::ToolCall { id, name, .. } => format!("{name} {id}"),
            };
            format!("model: {}", blocks.iter().map(block).collect::<Vec<_>>().join(", "))
        }
    };
    request.messages.iter().map(text).collect()
}

const BETWEEN: &str = "[runtime] What stands above was done by the agent that delegated to you, in its finished turns. \
                       You are a child of it: its tasks and children are not yours. Your task follows.";

#[tokio::test]
async fn a_fork_knows_the_finished_turns_and_nothing_of_the_running_one() {
    let lab = lab().await;
    lab.script(
        "root",
        vec![
            vec![call("glob", json!({ "pattern": "*" }))],
            vec![say("There is nothing here.")],
            vec![say("In the running turn."), forked("one", "look again")],
            vec![say("started")],
        ],
    );
    let root = lab.prompted("what is here").await;
    lab.rest(&root).await;
    lab.engine.prompt(&root, "a secret of the running turn".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let child = lab.child("one").await;
    let request = lab.requests(&child.id).pop().unwrap();
    assert_eq!(
        told(&request),
        [
            "user: what is here".to_owned(),
            "model: glob seed-1.1".to_owned(),
            "result of seed-1.1: true".to_owned(),
            "model: There is nothing here.".to_owned(),
            format!("user: {BETWEEN}\n\nlook again"),
        ]
    );
    assert!(request.system.starts_with("You look twice."), "{}", request.system);
    assert!(request.tools.iter().all(|tool| tool.name != "bash"));
    assert_eq!((child.depth, child.provider.as_deref()), (1, Some("fork")));
    // What people see of it is its own, and where the rest stands.
    let rows = lab.engine.page(&child.id, None, None, 10).await.unwrap().rows;
    assert!(matches!(&rows[0].body, RowBody::Seed { from, turns: 1 } if *from == root), "{rows:?}");
    assert_eq!(rows.len(), 3);
}

#[tokio::test]
async fn a_resumed_fork_has_the_history_it_began_with_though_its_parent_went_on() {
    let mut lab = lab().await;
    lab.script(
        "root",
        vec![
            vec![say("first")],
            vec![forked("one", "look")],
            vec![say("started")],
            vec![say("noted")],
            vec![say("later")],
        ],
    );
    lab.script("one", vec![vec![call("glob", json!({ "pattern": "*" }))], vec![say("seen")], vec![say("seen again")]]);
    let root = lab.prompted("begin").await;
    lab.rest(&root).await;
    lab.engine.prompt(&root, "delegate".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    let child = lab.child("one").await.id;
    lab.engine.prompt(&root, "what came later".into(), &key()).await.unwrap();
    lab.rest(&root).await;
    lab.restart().await;
    lab.engine.send(&child, "and now".into(), None, &key()).await.unwrap();
    lab.rest(&root).await;
    let request = lab.requests(&child).pop().unwrap();
    assert_eq!(
        told(&request),
        [
            "user: begin".to_owned(),
            "model: first".to_owned(),
            format!("user: {BETWEEN}\n\nlook"),
            "model: glob 1.1".to_owned(),
            "result of 1.1: true".to_owned(),
            "model: seen".to_owned(),
            "user: and now".to_owned(),
        ]
    );
    assert!(request.system.starts_with("You look twice."), "{}", request.system);
}

#[tokio::test]
async fn a_fork_of_a_fork_knows_what_both_did_and_no_call_is_named_twice() {
    let lab = lab().await;
    let look = || call("glob", json!({ "pattern": "*" }));
    lab.script(
        "root",
        vec![vec![look()], vec![say("root looked")], vec![forked("one", "look")], vec![gate("deep"), say("started")]],
    );
    lab.script(
        "one",
        vec![
            vec![look()],
            vec![say("one looked")],
            vec![call("subagent_fork", json!({ "description": "two", "prompt": "look deeper" }))],
            vec![say("ok")],
        ],
    );
    lab.script("two", vec![vec![look()], vec![say("two looked")]]);
    let root = lab.prompted("begin").await;
    lab.rest(&root).await;
    lab.engine.prompt(&root, "delegate".into(), &key()).await.unwrap();
    let first = lab.until_tasks(1).await.pop().unwrap();
    lab.engine.wait_task(&first.id, crate::lab::PATIENCE).await.unwrap();
    let one = lab.child("one").await.id;
    lab.engine.send(&one, "delegate too".into(), None, &key()).await.unwrap();
    let second = lab.until_tasks(2).await.pop().unwrap();
    lab.engine.wait_task(&second.id, crate::lab::PATIENCE).await.unwrap();
    lab.open_gate("deep");
    lab.rest(&root).await;
    let request = lab.requests(&lab.child("two").await.id).pop().unwrap();
    let told = told(&request).join("\n");
    for words in ["root looked", "one looked", "look deeper"] {
        assert_eq!(told.matches(words).count(), 1, "{told}");
    }
    assert!(!told.contains("delegate too"), "{told}");
    let calls: Vec<&str> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { call, .. } => Some(call.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(calls, ["seed-seed-1.1", "seed-1.1", "1.1"]);
    assert_eq!(calls.len(), calls.iter().collect::<BTreeSet<_>>().len());
}

#[tokio::test]
async fn a_fork_in_the_first_turn_begins_with_its_prompt_alone() {
    let lab = lab().await;
    lab.script("root", vec![vec![forked("one", "look"), delegate("two", "look")], vec![say("started")]]);
    let root = lab.prompted("begin").await;
    lab.rest(&root).await;
    for label in ["one", "two"] {
        let child = lab.child(label).await.id;
        assert_eq!(told(&lab.requests(&child)[0]), ["user: look"]);
        assert!(!lab.events(&child).await.iter().any(|recorded| matches!(recorded.event, Event::Seeded { .. })));
    }
}
