//! What a session is offered hangs together: no word names a tool that it does not have.

use crate::lab::{Act, Lab, call, results, say};
use coppice_engine::config::{Config, SubagentConfig};
use coppice_engine::event::ToolFilter;
use coppice_engine::llm::Request;
use serde_json::json;
use std::collections::BTreeSet;

/// The tools whose presence changes what others say or offer.
const FILTERED: [&str; 6] = ["bash", "subagent", "task_output", "task_list", "task_kill", "send_message"];

/// The names that could be said. `bash`, `grep` and `glob` are also words for other things.
const NAMES: [&str; 9] = [
    "read_file",
    "write_file",
    "edit_file",
    "subagent",
    "task_output",
    "task_list",
    "task_kill",
    "send_message",
    "list_agents",
];

/// The names among `NAMES` that a text says.
fn said(text: &str) -> BTreeSet<&str> {
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    NAMES.into_iter().filter(|name| words.contains(name)).collect()
}

fn check(request: &Request) {
    let given: BTreeSet<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    let schemas: Vec<String> =
        request.tools.iter().map(|tool| format!("{} {}", tool.description, tool.parameters)).collect();
    // What a session asked for and does not have is repeated to it.
    let told = results(request).into_iter().map(|(_, text)| text).filter(|text| !text.starts_with("There is no tool"));
    for text in schemas.into_iter().chain([request.system.clone()]).chain(told) {
        let absent: Vec<&str> = said(&text).into_iter().filter(|name| !given.contains(name)).collect();
        assert_eq!(absent, Vec::<&str>::new(), "is named to a session with {given:?}: {text}");
        assert!(given.contains("task_output") || !text.contains("ackground tasks: keep"), "{given:?}: {text}");
    }
    let offered = request.tools.iter().any(|tool| tool.parameters["properties"].get("run_in_background").is_some());
    let wanted = given.contains("task_output") && (given.contains("subagent") || given.contains("bash"));
    assert_eq!(offered, wanted, "{given:?}");
    assert!(!given.contains("send_message") || given.contains("task_output"), "{given:?}");
}

#[tokio::test]
async fn whatever_tools_a_child_is_given_nothing_names_another_or_offers_what_needs_one() {
    let mut config = Config::default();
    config.limits.live_children = 0;
    config.limits.children = 0;
    config.limits.failed_steps = 0;
    let mut filters = Vec::new();
    for set in 0..1u32 << FILTERED.len() {
        let some = FILTERED.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0).map(|(_, name)| *name);
        let allow: Vec<String> = some.chain(["write_file", "list_agents"]).map(str::to_owned).collect();
        let instance = SubagentConfig {
            provider: "spawn".to_owned(),
            run_in_background: true,
            model: None,
            persona: None,
            tools: ToolFilter { allow: allow.clone(), deny: Vec::new() },
            max_depth: None,
            agent: None,
        };
        config.subagents.insert(format!("with_{set}"), instance);
        filters.push((format!("with_{set}"), allow));
    }
    let lab = Lab::with(config).await;
    let start = |(name, _): &(String, Vec<String>)| call(name, json!({ "description": name, "prompt": "look" }));
    lab.script("root", vec![filters.iter().map(start).collect(), vec![say("done")]]);
    // What is not offered is refused, and what fails says how to go on.
    let forced: Vec<Act> = vec![
        call("bash", json!({ "command": "true", "run_in_background": true })),
        call("subagent", json!({ "description": "below", "prompt": "look", "run_in_background": true })),
        call("subagent", json!({ "description": "fails", "prompt": "look" })),
        call("task_output", json!({ "task_id": "bash-0" })),
        call("send_message", json!({ "child_id": "x", "message": "hello" })),
        call("write_file", json!({ "path": ".", "content": "" })),
        call("nothing", json!({})),
    ];
    for (name, _) in &filters {
        lab.script(name, vec![forced.clone(), vec![say("done")]]);
    }
    lab.script("fails", vec![vec![]]);
    let root = lab.prompted("go").await;
    lab.rest(&root).await;
    for (name, allow) in &filters {
        let requests = lab.requests(&lab.child(name).await.id);
        assert_eq!(requests.len(), 2, "{name}");
        requests.iter().for_each(check);
        let has = |tool: &str| allow.iter().any(|name| name == tool);
        let begun: Vec<bool> = results(&requests[1]).into_iter().map(|(ok, _)| ok).take(2).collect();
        let collects = has("task_output");
        assert_eq!(begun, [has("bash") && collects, has("subagent") && collects], "{allow:?}");
    }
}
