//! The seam to language models. The engine asks; an adapter answers with an ordered reply, streaming as it comes.

use crate::config::{ModelConfig, Protocol};
use crate::env;
use crate::error::{Code, Error};
use crate::event::{Block, Stop, Usage};
use crate::id::{CallId, SessionId};
use async_trait::async_trait;
use openai::{OpenAi, OpenAiSettings};
use rehearsal::{Rehearsal, Script};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
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

/// Makes the model that the configuration calls `name`. `idle` is how long it may show no sign of life.
///
/// Nothing is sent. A key that is named but not set is no error here: asking says so.
pub fn build(config: &ModelConfig, name: &str, idle: Duration) -> Result<Arc<dyn Model>, Error> {
    let missing = |what: &str| Error::new(Code::BadRequest, format!("models.{name}: {what} is missing. Add it."));
    match config.protocol {
        Protocol::OpenaiChat => {
            let base_url = config.base_url.as_deref().ok_or_else(|| missing("base_url"))?;
            let model = config.model.as_deref().ok_or_else(|| missing("model"))?;
            let settings = OpenAiSettings {
                key: config.key_env.as_deref().and_then(env::var),
                key_name: config.key_env.clone(),
                context: config.context,
                idle,
                ..OpenAiSettings::new(base_url, model)
            };
            Ok(Arc::new(OpenAi::new(settings).map_err(|error| {
                Error::new(error.code(), format!("models.{name}: {}", error.message())).because(error)
            })?))
        }
        Protocol::Rehearsal => {
            let pace = config.pace.unwrap_or(1.0);
            let Some(path) = &config.script else { return Ok(Arc::new(Rehearsal::tour(pace))) };
            let bad = |why: String| Error::new(Code::BadRequest, format!("models.{name}: {}: {why}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()).because(error))?;
            Ok(Arc::new(Rehearsal::script(Script::parse(&text).map_err(bad)?, pace)))
        }
        Protocol::Anthropic | Protocol::OpenaiResponses | Protocol::Gemini => Err(Error::new(
            Code::BadRequest,
            format!("models.{name}: this protocol is not available yet in this version; use openai-chat."),
        )),
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

    fn config(protocol: Protocol) -> ModelConfig {
        ModelConfig { protocol, base_url: None, model: None, key_env: None, context: None, script: None, pace: None }
    }

    fn refusal(config: &ModelConfig) -> Option<String> {
        build(config, "mine", Duration::from_secs(1)).err().map(|error| error.message().to_owned())
    }

    #[test]
    fn a_model_is_built_from_its_configuration_or_the_missing_part_is_named() {
        let chat = config(Protocol::OpenaiChat);
        assert_eq!(refusal(&chat).as_deref(), Some("models.mine: base_url is missing. Add it."));
        let chat = ModelConfig { base_url: Some("http://127.0.0.1:1/v1".to_owned()), ..chat };
        assert_eq!(refusal(&chat).as_deref(), Some("models.mine: model is missing. Add it."));
        let chat = ModelConfig { model: Some("m".to_owned()), key_env: Some("COPPICE_NOT_SET".to_owned()), ..chat };
        assert_eq!(refusal(&chat), None);
        let away = ModelConfig { base_url: Some("127.0.0.1".to_owned()), ..chat };
        assert!(refusal(&away).is_some_and(|why| why.starts_with("models.mine: base_url is no address")));

        assert_eq!(refusal(&config(Protocol::Rehearsal)), None);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script.json");
        let scripted = ModelConfig { script: Some(script.clone()), ..config(Protocol::Rehearsal) };
        let prefix = format!("models.mine: {}: ", script.display());
        assert!(refusal(&scripted).is_some_and(|why| why.starts_with(&prefix)));
        std::fs::write(&script, "{}").unwrap();
        let why = format!("{prefix}the script is not valid: missing field `sessions` at line 1 column 2.");
        assert_eq!(refusal(&scripted), Some(why));
        std::fs::write(&script, "{\"sessions\": {}}").unwrap();
        assert_eq!(refusal(&scripted), None);

        for protocol in [Protocol::Anthropic, Protocol::OpenaiResponses, Protocol::Gemini] {
            let why = "models.mine: this protocol is not available yet in this version; use openai-chat.";
            assert_eq!(refusal(&config(protocol)).as_deref(), Some(why));
        }
    }

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
