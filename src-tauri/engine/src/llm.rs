//! The seam to language models. The engine asks; an adapter answers with an ordered reply, streaming as it comes.

use crate::event::{Block, Stop, Usage};
use crate::id::{CallId, SessionId};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

pub mod openai;
pub mod rehearsal;
mod sse;

/// A model that can be asked. Dropping the future of [`Model::ask`] cancels the request at once.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks once. `sink` hears what streams; the reply repeats it whole. A reply that did not finish is an error,
    /// and none of its tool calls may run.
    async fn ask(&self, request: &Request, sink: &dyn Sink) -> Result<Reply, Failure>;

    /// The size of its context in tokens, where it is known.
    fn context(&self) -> Option<u64>;

    /// Whether it answers at all: one cheap look, at most a few seconds. The error is for people.
    async fn check(&self) -> Result<(), Failure>;
}

/// One request: everything the model may see.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The session that asks. Adapters may use it as a cache key.
    pub session: SessionId,
    /// The root of its tree; itself for a root. The rehearsal finds a child's script by it.
    pub root: SessionId,
    /// The label of the session that asks; its title for a root.
    pub label: String,
    /// 0 for a root.
    pub depth: u32,
    /// The folder it works in.
    pub cwd: String,
    /// The instructions.
    pub system: String,
    /// The history, oldest first. User and assistant messages alternate, tool results follow their calls in order.
    pub messages: Vec<Message>,
    /// The tools it may call.
    pub tools: Vec<ToolSpec>,
}

/// One message of a history.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What a person, a parent or the runtime said.
    User(String),
    /// What the model said.
    Assistant(Vec<Block>),
    /// What a tool answered.
    Tool {
        /// The call it answers.
        call: CallId,
        /// The tool's name.
        name: String,
        /// What the model reads.
        text: String,
        /// Whether the tool did what was asked.
        ok: bool,
    },
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// A JSON schema of its arguments; always an object.
    pub parameters: Value,
}

/// Hears a reply while it streams. Blocks are numbered in the order in which they begin; several may be open.
pub trait Sink: Send + Sync {
    /// Something came.
    fn delta(&self, delta: Delta);
}

/// What came of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Prose for block `index`.
    Text {
        /// The block.
        index: usize,
        /// The words.
        text: String,
    },
    /// Reasoning for block `index`.
    Thinking {
        /// The block.
        index: usize,
        /// The words.
        text: String,
    },
    /// A part of a tool call's arguments for block `index`.
    ToolArgs {
        /// The block.
        index: usize,
        /// The tool's name.
        name: String,
        /// The characters.
        text: String,
    },
    /// The request failed before anything was kept and is tried again: what streamed so far is void.
    Retry {
        /// Why, for people.
        reason: String,
        /// How long it waits first.
        wait: Duration,
    },
    /// A sign of life without content.
    Alive,
}

/// A finished reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What it said, in order. The ids of tool calls are empty: the engine names them.
    pub blocks: Vec<Block>,
    /// Why it ended; never [`Stop::CutOff`].
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
}

/// Why a request failed, after all retries.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What happened and what to do, for people; no secrets, at most a few hundred characters.
    pub message: String,
}

/// What kind of failure a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Nobody answers there.
    Unreachable,
    /// The key was refused or is missing.
    Auth,
    /// Too many requests, and the tries are used up.
    RateLimited,
    /// The history does not fit the model's context.
    ContextOverflow,
    /// The server refused the request.
    Rejected,
    /// The reply ended before it was finished.
    Truncated,
    /// No sign of life for too long.
    Silent,
    /// What came was not a reply.
    Nonsense,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// Reads the arguments of a tool call as models write them: nothing at all means none, and an object that was written
/// into a string is taken out of it. The error is in words that the model can act on.
pub fn read_args(args: &str) -> Result<Value, String> {
    let args = args.trim();
    if args.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let wrong = |why: &dyn std::fmt::Display| {
        format!("The arguments are not a JSON object ({why}), so nothing was run. Write them as one and call again.")
    };
    let value = match serde_json::from_str(args).map_err(|error| wrong(&error))? {
        Value::String(inner) => serde_json::from_str(&inner).map_err(|error| wrong(&error))?,
        value => value,
    };
    match value {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(_) => Ok(value),
        _ => Err(wrong(&"they are another kind of value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_read_as_models_write_them() {
        for (args, want) in [
            ("", Some(json!({}))),
            (" ", Some(json!({}))),
            ("null", Some(json!({}))),
            ("{}", Some(json!({}))),
            ("{\"id\": 1}", Some(json!({"id": 1}))),
            ("\"{\\\"id\\\":1}\"", Some(json!({"id": 1}))),
            ("\"\\\"{}\\\"\"", None),
            ("[1]", None),
            ("7", None),
            ("{\"path\": \"a", None),
        ] {
            assert_eq!(read_args(args).ok(), want, "{args}");
        }
    }
}
