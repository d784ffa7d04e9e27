//! Scripts: what stands in them, and which acts they come to.

use super::{Act, history};
use crate::event::{Stop, Usage};
use crate::llm::{Failure, FailureKind, Message, Request};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A script, read and checked. The module of the rehearsal tells what may stand in one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    sessions: BTreeMap<String, Part>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    steps: Vec<Vec<Action>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Say(String),
    Think(String),
    Call(Call),
    SayResult(Result_),
    WaitMs(#[serde(deserialize_with = "pause")] u64),
    UntilFile(String),
    Hang(bool),
    Fail(Fail),
    Stop(Reason),
    Usage(Tokens),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default = "no_args")]
    args: Value,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Result_ {
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Of {
    Position(i64),
    Tool(String),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    kind: Kind,
    #[serde(default)]
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Unreachable,
    Auth,
    RateLimited,
    ContextOverflow,
    Rejected,
    Truncated,
    Silent,
    Nonsense,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    MaxTokens,
    Refusal,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    input: u32,
    output: u32,
    #[serde(default)]
    cached: u32,
}

/// The longest pause of a script, in milliseconds: an hour.
const MAX_PAUSE_MS: u64 = 60 * 60 * 1000;

fn pause<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    let ms = u64::deserialize(value)?;
    if ms > MAX_PAUSE_MS {
        return Err(D::Error::custom(format!("`wait_ms` is from 0 to {MAX_PAUSE_MS}, not {ms}")));
    }
    Ok(ms)
}

fn no_args() -> Value {
    Value::Object(serde_json::Map::new())
}

impl Script {
    /// Reads a script. The error names the line and the column, and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| {
            let (line, column, all) = (error.line(), error.column(), error.to_string());
            let what = all.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&all);
            format!("line {line}, column {column}: {what}.")
        })
    }

    /// What a request comes to.
    pub(super) fn acts(&self, request: &Request) -> Result<Vec<Act>, Failure> {
        let name = if request.depth == 0 { "root" } else { &request.label };
        let step = request.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
        let part = self.sessions.get(name).or_else(|| self.sessions.get("*"));
        match part.and_then(|part| part.steps.get(step)) {
            Some(actions) => actions.iter().map(|action| act(action, request)).collect(),
            None => Ok(vec![Act::Say("done".to_owned())]),
        }
    }
}

/// The script in a message, if there is a block of one.
pub fn block(message: &str) -> Option<&str> {
    let mut start = None;
    let mut place = 0;
    for line in message.split_inclusive('\n') {
        match (start, line.trim()) {
            (None, "```rehearsal") => start = Some(place + line.len()),
            (Some(start), "```") => return Some(&message[start..place]),
            _ => {}
        }
        place += line.len();
    }
    None
}

fn act(action: &Action, request: &Request) -> Result<Act, Failure> {
    let fill = |text: &str| fill(text, &request.messages);
    Ok(match action {
        Action::Say(text) => Act::Say(fill(text)?),
        Action::Think(text) => Act::Think(fill(text)?),
        Action::Call(Call { tool, args }) => {
            let args = if let Value::String(raw) = args { fill(raw)? } else { fill_all(args, &fill)?.to_string() };
            Act::Call { tool: tool.clone(), args }
        }
        Action::SayResult(Result_ { of }) => Act::Say(result(of, &request.messages)?.to_owned()),
        Action::WaitMs(ms) => Act::Pause(Duration::from_millis(*ms)),
        Action::UntilFile(path) => Act::UntilFile(Path::new(&request.cwd).join(path)),
        Action::Hang(true) => Act::Hang,
        Action::Hang(false) => Act::Pause(Duration::ZERO),
        Action::Fail(Fail { kind, message }) => Act::Fail(Failure::new(kind.failure(), message.clone())),
        Action::Stop(Reason::MaxTokens) => Act::Stop(Stop::MaxTokens),
        Action::Stop(Reason::Refusal) => Act::Stop(Stop::Refusal),
        Action::Usage(Tokens { input, output, cached }) => Act::Usage(Usage {
            input: (*input).into(),
            output: (*output).into(),
            cached: (*cached).into(),
            estimated: false,
        }),
    })
}

impl Kind {
    fn failure(self) -> FailureKind {
        match self {
            Self::Unreachable => FailureKind::Unreachable,
            Self::Auth => FailureKind::Auth,
            Self::RateLimited => FailureKind::RateLimited,
            Self::ContextOverflow => FailureKind::ContextOverflow,
            Self::Rejected => FailureKind::Rejected,
            Self::Truncated => FailureKind::Truncated,
            Self::Silent => FailureKind::Silent,
            Self::Nonsense => FailureKind::Nonsense,
        }
    }
}

fn cannot(what: &str) -> Failure {
    Failure::new(FailureKind::Rejected, format!("The rehearsal cannot play: {what}."))
}

fn result<'a>(of: &Of, messages: &'a [Message]) -> Result<&'a str, Failure> {
    let results = history::results(messages);
    let found = match of {
        Of::Tool(tool) => results.iter().rfind(|(name, _)| name == tool),
        Of::Position(place) => {
            let back = usize::try_from(place.unsigned_abs()).ok();
            let place = if *place < 0 { back.and_then(|back| results.len().checked_sub(back)) } else { back };
            place.and_then(|place| results.get(place))
        }
    };
    found.map(|(_, text)| *text).ok_or_else(|| cannot(&format!("no tool has answered what say_result names ({of:?})")))
}

/// Puts ids where `{{task:n}}` and `{{child:n}}` stand.
fn fill(text: &str, messages: &[Message]) -> Result<String, Failure> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let inner = &rest[start + 2..];
        let place = inner.find("}}").and_then(|end| {
            let (kind, n) = inner[..end].split_once(':')?;
            Some((kind, n.parse::<usize>().ok()?, end)).filter(|(kind, ..)| matches!(*kind, "task" | "child"))
        });
        let Some((kind, n, end)) = place else {
            out.push_str(&rest[..start + 2]);
            rest = inner;
            continue;
        };
        let results = history::results(messages).into_iter().map(|(_, text)| text);
        let ids: Vec<&str> = match kind {
            "task" => history::distinct(results.flat_map(history::task_ids).map(|(_, id)| id)),
            _ => history::distinct(results.flat_map(history::session_ids)),
        };
        let id = ids
            .get(n)
            .ok_or_else(|| cannot(&format!("{{{{{kind}:{n}}}}} is asked for, and {} are known", ids.len())))?;
        out.push_str(&rest[..start]);
        out.push_str(id);
        rest = &inner[end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

fn fill_all(value: &Value, fill: &impl Fn(&str) -> Result<String, Failure>) -> Result<Value, Failure> {
    Ok(match value {
        Value::String(text) => fill(text)?.into(),
        Value::Array(items) => items.iter().map(|item| fill_all(item, fill)).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Object(fields) => {
            let filled = fields.iter().map(|(name, field)| Ok((name.clone(), fill_all(field, fill)?)));
            Value::Object(filled.collect::<Result<_, Failure>>()?)
        }
        other => other.clone(),
    })
}
