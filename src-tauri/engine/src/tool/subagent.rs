//! The delegation tools, one for each instance of the configuration.

use super::{Call, Kind, Outcome, Tool, arguments};
use crate::agent::Done;
use crate::config::SubagentConfig;
use crate::control::{Control, Delegation};
use crate::event::TurnEnd;
use crate::id::SessionId;
use crate::llm::ToolSpec;
use crate::prompt::Given;
use crate::text::cut;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

/// The longest text of a child that a foreground call answers with, in bytes.
const MAX_FINAL: usize = crate::config::bounds::MAX_RESULT - 8 * 1024;

/// Delegates a piece of work to a child.
pub struct Subagent {
    name: String,
    instance: SubagentConfig,
    control: Control,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    description: String,
    prompt: String,
    #[serde(default)]
    run_in_background: Option<bool>,
}

impl Subagent {
    /// The tool `name` of the configuration.
    pub fn new(name: String, instance: SubagentConfig, control: Control) -> Self {
        Self { name, instance, control }
    }
}

#[async_trait]
impl Tool for Subagent {
    fn spec(&self, given: &Given) -> ToolSpec {
        let knows = match self.instance.provider.as_str() {
            "fork" => "which knows your finished turns and the prompt, but nothing of this turn",
            _ => "which knows only the prompt",
        };
        let mut description = format!("Gives a piece of work to a child agent, {knows}.");
        let mut properties = json!({
            "description": { "type": "string", "description": "A label of three to six words." },
            "prompt": { "type": "string", "description": "Everything that the child needs to know." },
        });
        if self.instance.run_in_background && given.background() {
            description.push_str(
                " With run_in_background it returns a task id and a child id at once, and task_output collects the \
                 result; without it the call waits for the result.",
            );
            properties["run_in_background"] = json!({ "type": "boolean", "description": "Do not wait for it." });
        } else {
            description.push_str(" The call waits for the result.");
        }
        let parameters = json!({ "type": "object", "properties": properties, "required": ["description", "prompt"] });
        ToolSpec { name: self.name.clone(), description, parameters }
    }

    fn kind(&self) -> Kind {
        Kind::Delegation
    }

    fn in_order(&self, _: &Value) -> bool {
        true
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: Args = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        let background = args.run_in_background.unwrap_or(false);
        if background && !(self.instance.run_in_background && call.given.background()) {
            return Outcome::fail(format!(
                "{} does not run in the background here. Call it without run_in_background; nothing was started.",
                self.name
            ));
        }
        if args.description.trim().is_empty() {
            return Outcome::fail("The description is empty. Give a label of three to six words.");
        }
        if call.cancel.is_cancelled() {
            return Outcome::fail("The turn was stopped first. Nothing was started.");
        }
        let ask = Delegation {
            owner: call.owner.clone(),
            call: call.id.clone(),
            numbered: call.numbered.clone(),
            description: args.description,
            prompt: args.prompt,
        };
        if background {
            return match self.control.start_background(&self.instance, ask).await {
                Ok((child, task)) => Outcome::ok(format!(
                    "Started task {task} (child {child}). You are told when it ends; collect with task_output."
                ))
                .with(json!({ "task": task, "child": child })),
                Err(error) => Outcome::fail(error.message()),
            };
        }
        match self.control.run_foreground(&self.instance, ask, call.cancel.clone()).await {
            Ok((child, done)) => answer(&child, done, &call.given).with(json!({ "child": child })),
            Err(error) => Outcome::fail(error.message()),
        }
    }
}

/// What a foreground call answers: the final text only for a plain completion; every other end is an error with its
/// reason and what was said until then. The child can be asked for more in both cases.
fn answer(child: &SessionId, done: Done, given: &Given) -> Outcome {
    let text = cut(&done.text, MAX_FINAL);
    let left = match done.text.len() - text.len() {
        0 => String::new(),
        bytes => format!("\n{}", given.left_out(child, bytes as u64)),
    };
    let (how, why) = match done.end {
        TurnEnd::Completed => return Outcome::ok(format!("{text}{left}")),
        TurnEnd::Stopped => ("The child was stopped", None),
        TurnEnd::Failed => ("The child failed", done.detail),
        TurnEnd::MaxTokens => ("The child reached its output limit", None),
        TurnEnd::Refusal => ("The child's model refused to answer", None),
        TurnEnd::Limit => ("The child was ended by a limit", done.detail),
        TurnEnd::Interrupted => ("The child was interrupted", None),
    };
    let why = why.map(|why| format!(" ({})", cut(&why, 4 * 1024))).unwrap_or_default();
    let said = if text.is_empty() { String::new() } else { format!("\nWhat it had said:\n{text}{left}") };
    let on = match done.end {
        // Whoever stopped it wanted it to end.
        TurnEnd::Stopped => String::new(),
        _ => given.words("send_message", &format!("send_message to {child} goes on with it.")),
    };
    Outcome::fail(format!("{how}{why}.{on}{said}"))
}
