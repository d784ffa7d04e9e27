//! The OpenAI-compatible adapter against servers that behave as real ones do.

mod fault;
mod peers;
mod reply;
mod request;

use crate::endpoint::{Endpoint, Play, Seen, delta, finish};
use coppice_engine::event::{Block, Stop, Usage};
use coppice_engine::id::CallId;
use coppice_engine::keys::KeySource;
use coppice_engine::llm::openai::{OpenAi, OpenAiSettings};
use coppice_engine::llm::{Delta, Failure, FailureKind, Message, Model, Reply, Request, Sink, ToolSpec};
use secrecy::SecretString;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A sink that keeps what it hears.
#[derive(Default)]
pub struct Ear(Mutex<Vec<Delta>>);

impl Sink for Ear {
    fn delta(&self, delta: Delta) {
        self.0.lock().unwrap().push(delta);
    }
}

impl Ear {
    /// What it heard.
    pub fn heard(&self) -> Vec<Delta> {
        self.0.lock().unwrap().clone()
    }

    fn content(&self) -> Vec<Delta> {
        self.heard().into_iter().filter(|delta| !matches!(delta, Delta::Alive | Delta::Retry { .. })).collect()
    }

    fn retries(&self) -> Vec<Duration> {
        let retry = |delta| if let Delta::Retry { wait, .. } = delta { Some(wait) } else { None };
        self.heard().into_iter().filter_map(retry).collect()
    }
}

/// A key that is there, or is not.
struct Fixed(Option<&'static str>);

#[async_trait::async_trait]
impl KeySource for Fixed {
    async fn key(&self) -> Result<Option<SecretString>, String> {
        Ok(self.0.map(SecretString::from))
    }

    fn refused(&self) {}
}

fn has_key(key: &'static str) -> Option<Arc<dyn KeySource>> {
    Some(Arc::new(Fixed(Some(key))))
}

fn no_key() -> Option<Arc<dyn KeySource>> {
    Some(Arc::new(Fixed(None)))
}

fn settings(endpoint: &Endpoint) -> OpenAiSettings {
    OpenAiSettings {
        idle: 5000 * MS,
        first_wait: 5 * MS,
        longest_wait: 20 * MS,
        spread: 20 * MS,
        ..OpenAiSettings::new(endpoint.base_url(), "some-model")
    }
}

fn model(endpoint: &Endpoint) -> OpenAi {
    OpenAi::new(settings(endpoint)).unwrap()
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        session: "s".into(),
        root: "s".into(),
        label: "label".to_owned(),
        depth: 0,
        cwd: "/".to_owned(),
        system: "Be brief.".to_owned(),
        messages,
        tools: vec![ToolSpec {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: json!({"type": "object", "properties": {"at": {"type": "string"}}}),
        }],
    }
}

fn hello() -> Request {
    request(vec![Message::User("hello".to_owned())])
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn thinking(text: &str) -> Block {
    Block::Thinking { text: text.to_owned() }
}

fn call(id: &str, name: &str, args: &str) -> Block {
    Block::ToolCall { id: id.into(), name: name.to_owned(), args: args.to_owned() }
}

fn result(id: &str, text: &str) -> Message {
    Message::Tool { call: CallId::from(id), name: "look".to_owned(), text: text.to_owned(), ok: true }
}

/// A history with one finished call, whose assistant message has these blocks before the call.
fn after_a_call(mut blocks: Vec<Block>) -> Request {
    blocks.push(call("1.0", "look", "{\"at\": \"x\"}"));
    request(vec![Message::User("hello".to_owned()), Message::Assistant(blocks), result("1.0", "seen")])
}

async fn reply_to(play: Play) -> (Result<Reply, Failure>, Ear, Endpoint) {
    let endpoint = Endpoint::start(move |_, _| play.clone()).await;
    let ear = Ear::default();
    let reply = model(&endpoint).ask(&hello(), &ear).await;
    (reply, ear, endpoint)
}

/// What comes of a play, in short: the blocks and the stop, or the kind of failure and how many requests it took.
async fn check(name: &str, play: Play, want: Result<(Vec<Block>, Stop), (FailureKind, usize)>) {
    let (reply, ear, endpoint) = reply_to(play).await;
    let got = reply.map(|reply| (reply.blocks, reply.stop)).map_err(|failure| (failure.kind, endpoint.seen().len()));
    assert_eq!(got, want, "{name}: {:?}", ear.heard());
}

fn head(index: u32, id: &str, name: &str, args: &str) -> Value {
    delta(json!({"tool_calls": [
        {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": args}}
    ]}))
}

fn tail(index: u32, args: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": args}}]}))
}

fn bare(call: Value) -> Value {
    delta(json!({"tool_calls": [call]}))
}
