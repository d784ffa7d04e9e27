//! The tools by which a model collects, lists and ends its background tasks.

use super::bash::terminal::Terminal;
use super::{Call, Outcome, Tool, arguments, newest};
use crate::config::bounds::{DEFAULT_WAIT, MAX_RESULT, MAX_WAIT};
use crate::error::{Code, Error};
use crate::event::{Event, Party};
use crate::id::TaskId;
use crate::llm::ToolSpec;
use crate::prompt;
use crate::prompt::Given;
use crate::task::{Caller, Tasks};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Reads what a task has put out, or its final result.
pub struct TaskOutput(pub Tasks);

/// Lists the tasks of the session.
pub struct TaskList(pub Tasks);

/// Ends a task.
pub struct TaskKill(pub Tasks);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputArgs {
    task_id: TaskId,
    #[serde(default)]
    wait: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KillArgs {
    task_id: TaskId,
    #[serde(default)]
    reason: Option<String>,
}

#[async_trait]
impl Tool for TaskOutput {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "task_output".to_owned(),
            description: "Collects a background task: new output of a command, or the final result of a child, always \
                          followed by its status. With wait it waits until the task has ended or the time is over; \
                          running out of time is not an error."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "task_id": { "type": "string" },
                    "wait": { "type": "boolean", "description": "Wait for its end." },
                    "timeout_ms": { "type": "integer", "description": "How long to wait, in milliseconds: 30000 if not given, 600000 at most." },
                },
                "required": ["task_id"],
            }),
        }
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: OutputArgs = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        let caller = Caller::Session(call.owner.session.clone());
        let read = async {
            if args.wait {
                let timeout = args.timeout_ms.map_or(DEFAULT_WAIT, Duration::from_millis).min(MAX_WAIT);
                tokio::select! {
                    waited = self.0.wait(&caller, &args.task_id, timeout) => drop(waited?),
                    () = call.cancel.cancelled() => {}
                }
            }
            // Room is left for the status line.
            self.0.read_on(&call.owner.session, &args.task_id, MAX_RESULT - 1024).await
        };
        match read.await {
            Ok(reading) => {
                let mut parts = Vec::new();
                if reading.dropped > 0 {
                    parts.push(format!("[{} bytes before this are no longer kept]", reading.dropped));
                }
                let text = if reading.task.child.is_some() { reading.text } else { shown(&reading.text) };
                if !text.trim().is_empty() {
                    parts.push(text);
                }
                match (reading.left, &reading.task.child) {
                    (0, _) => {}
                    (left, Some(child)) => parts.push(call.given.left_out(child, left)),
                    (left, None) => parts.push(format!("[{left} more bytes: call task_output again]")),
                }
                parts.push(format!("[{}: {}]", reading.task.id, prompt::status(&reading.task)));
                let text = parts.join("\n");
                let mut outcome =
                    Outcome::ok(text).with(json!({ "task": reading.task.id, "status": reading.task.status }));
                if reading.task.status.is_terminal() {
                    outcome.events.push(Event::TaskLearned { task: reading.task.id });
                }
                outcome
            }
            Err(error) => failed(&error, &call.given),
        }
    }
}

#[async_trait]
impl Tool for TaskList {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "task_list".to_owned(),
            description: "Lists your background tasks, one line each: id, kind, status, label, and the child's id."
                .to_owned(),
            parameters: json!({ "type": "object", "properties": {} }),
        }
    }

    async fn run(&self, call: &Call, _args: Value) -> Outcome {
        match self.0.list(&call.owner.session).await {
            Ok(tasks) if tasks.is_empty() => Outcome::ok("You own no background tasks."),
            Ok(tasks) => {
                let line = |task: &crate::view::TaskView| {
                    let child = task.child.as_ref().map(|child| format!(" (child {child})")).unwrap_or_default();
                    format!("{}  {}  {}  {:?}{child}", task.id, task.kind, prompt::status(task), task.label)
                };
                let lines: Vec<String> = tasks.iter().map(line).collect();
                Outcome::ok(newest(&lines))
            }
            Err(error) => failed(&error, &call.given),
        }
    }
}

#[async_trait]
impl Tool for TaskKill {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "task_kill".to_owned(),
            description: "Ends a background task with everything that it started. A child's history is kept."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { "task_id": { "type": "string" }, "reason": { "type": "string" } },
                "required": ["task_id"],
            }),
        }
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: KillArgs = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        let caller = Caller::Session(call.owner.session.clone());
        match self.0.kill(&caller, &args.task_id, Party::Owner, args.reason).await {
            Ok(task) if task.status.is_terminal() => Outcome::ok(format!("[{}: {}]", task.id, prompt::status(&task))),
            Ok(task) => {
                let seen = call.given.words("task_output", "task_output shows how it ends.");
                Outcome::ok(format!("Cancellation of {} requested.{seen}", task.id))
            }
            Err(error) => failed(&error, &call.given),
        }
    }
}

/// A command's output as a terminal would have shown it: offsets count the bytes that came, the model reads these words.
fn shown(output: &str) -> String {
    let mut terminal = Terminal::default();
    let mut text = terminal.feed(output.as_bytes());
    text.push_str(&terminal.finish());
    text
}

fn failed(error: &Error, given: &Given) -> Outcome {
    let listed = match error.code() {
        Code::NotYours | Code::UnknownTask => given.words("task_list", "task_list shows yours."),
        _ => String::new(),
    };
    Outcome::fail(format!("{}{listed}", error.message()))
}
