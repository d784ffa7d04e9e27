//! The tools by which a model talks to its children.

use super::{Call, Kind, Outcome, Tool, arguments, newest};
use crate::control::{Control, stopped_by_person};
use crate::error::Result;
use crate::event::{Party, Route};
use crate::id::SessionId;
use crate::llm::ToolSpec;
use crate::log::Log;
use crate::prompt::Given;
use crate::subagent::Message;
use crate::view::SessionState;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

/// Sends a message to a child.
pub struct SendMessage(pub Control);

/// Lists the children of the session.
pub struct ListAgents(pub Log);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    child_id: SessionId,
    message: String,
}

#[async_trait]
impl Tool for SendMessage {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "send_message".to_owned(),
            description: "Sends a message to one of your children. It joins the running turn of a child in the \
                          background (steered), or wakes one that has ended, with its whole history, as a new task \
                          (started). A failure means that nothing was delivered."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "child_id": { "type": "string", "description": "The child's id." },
                    "message": { "type": "string", "description": "What it is to read." },
                },
                "required": ["child_id", "message"],
            }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Children
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: Args = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        let message = Message { from: Party::Parent, text: args.message, key: None, expect: None };
        match self.0.send(&call.owner, &args.child_id, message).await {
            Ok(sent) => {
                let text = match sent.route {
                    Route::Steered => format!("steered: it joins the running turn of task {}.", sent.task),
                    Route::Started => format!(
                        "started: it woke the child as task {}. You are told when it ends; collect with task_output.",
                        sent.task
                    ),
                };
                Outcome::ok(text).with(json!({ "task": sent.task, "child": args.child_id, "route": sent.route }))
            }
            Err(error) => Outcome::fail(error.message()),
        }
    }
}

#[async_trait]
impl Tool for ListAgents {
    fn spec(&self, given: &Given) -> ToolSpec {
        ToolSpec {
            name: "list_agents".to_owned(),
            description: format!(
                "Lists your children, one line each: id, status, label. A running child is at work; a ready one has \
                 ended and keeps its history.{}",
                given.words("send_message", "send_message steers the one and wakes the other.")
            ),
            parameters: json!({ "type": "object", "properties": {} }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Children
    }

    async fn run(&self, call: &Call, _args: Value) -> Outcome {
        match self.lines(&call.owner.session).await {
            Ok(lines) if lines.is_empty() => Outcome::ok("You have no children."),
            Ok(lines) => Outcome::ok(newest(&lines)),
            Err(error) => Outcome::fail(error.message()),
        }
    }
}

impl ListAgents {
    async fn lines(&self, parent: &SessionId) -> Result<Vec<String>> {
        let root = self.0.session(parent).await?.root;
        let tree = self.0.sessions(Some(&root)).await?;
        let children = tree.into_iter().filter(|session| session.parent.as_ref() == Some(parent));
        let mut lines = Vec::new();
        for session in children {
            let status = match session.state {
                SessionState::Idle => "idle",
                state if state.is_live() => "running",
                SessionState::Killed if stopped_by_person(&self.0, &session).await? => "stopped by the person",
                _ => "ready",
            };
            lines.push(format!("{}  {status}  {:?}", session.id, session.title));
        }
        Ok(lines)
    }
}
