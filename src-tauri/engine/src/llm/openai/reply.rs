//! Reads a reply as it comes: a stream of chunks, or one JSON body. Content decides; the reasons and ids that servers
//! give are hints.

use super::fault::{Fault, Place};
use crate::event::{Block, Stop, Usage};
use crate::id::CallId;
use crate::llm::sse::Decoder;
use crate::llm::{Delta, FailureKind, Reply, Sink};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes of what a reply says, all its parts together. A larger one is no answer to anything.
const MAX_REPLY: usize = 4 * 1024 * 1024;
/// What a part counts for beside its text, in bytes: so many empty ones are a flood as well.
const PART: usize = 1024;
/// The most bytes that carry a reply as a stream, where a chunk of a few characters may take hundreds of bytes.
const MAX_STREAM: usize = 256 * 1024 * 1024;
/// The most bytes of a reply in one JSON body, where a character may be escaped.
const MAX_BODY: usize = 6 * MAX_REPLY;
/// How much of a body is kept to show what came instead of a reply.
const PREFIX: usize = 1024;

/// A sink that counts what of the reply has passed.
pub struct Heard<'a> {
    sink: &'a dyn Sink,
    passed: AtomicUsize,
}

impl<'a> Heard<'a> {
    /// Nothing has passed yet.
    pub fn new(sink: &'a dyn Sink) -> Self {
        Self { sink, passed: AtomicUsize::new(0) }
    }

    /// Hands on a part of the reply.
    fn pass(&self, delta: Delta) {
        self.passed.fetch_add(1, Ordering::Relaxed);
        self.sink.delta(delta);
    }

    /// How many parts of a reply were handed on. After the first one, trying again would say it twice.
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }
}

/// A reply in the making.
pub struct Reading<'a> {
    place: &'a Place,
    heard: &'a Heard<'a>,
    form: Form,
    prefix: Vec<u8>,
    size: usize,
    /// How much the parts count for.
    said: usize,
    parts: Vec<Part>,
    finish: Option<String>,
    done: bool,
    refused: bool,
    recognised: bool,
    usage: Option<Value>,
    reasoning: Option<&'static str>,
}

/// A complete reply, and what it taught about the server.
pub struct Finished {
    pub reply: Reply,
    /// The field in which the server gave its reasoning.
    pub reasoning: Option<&'static str>,
}

enum Form {
    /// No byte has told yet.
    Unknown,
    Events(Decoder),
    Whole(Vec<u8>),
}

enum Part {
    Text(String),
    Thinking(String),
    Call(CallPart),
}

#[derive(Default)]
struct CallPart {
    index: Option<i64>,
    id: String,
    name: String,
    args: String,
}

impl<'a> Reading<'a> {
    /// Nothing has come yet.
    pub fn new(place: &'a Place, heard: &'a Heard<'a>) -> Self {
        Self {
            place,
            heard,
            form: Form::Unknown,
            prefix: Vec::new(),
            size: 0,
            said: 0,
            parts: Vec::new(),
            finish: None,
            done: false,
            refused: false,
            recognised: false,
            usage: None,
            reasoning: None,
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.size += bytes.len();
        let most = if let Form::Whole(_) = self.form { MAX_BODY } else { MAX_STREAM };
        if self.size > most {
            return Err(self.place.too_large(MAX_REPLY));
        }
        let room = PREFIX.saturating_sub(self.prefix.len()).min(bytes.len());
        self.prefix.extend_from_slice(&bytes[..room]);
        if let Form::Unknown = self.form {
            let start = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
            match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                // No line of a stream begins with one of these.
                Some(b'{' | b'[' | b'<') => self.form = Form::Whole(Vec::new()),
                Some(_) => self.form = Form::Events(Decoder::default()),
            }
        }
        match &mut self.form {
            Form::Unknown => {}
            Form::Whole(body) => body.extend_from_slice(bytes),
            Form::Events(decoder) => {
                let Ok(events) = decoder.push(bytes) else { return Err(self.nonsense()) };
                for event in events {
                    self.event(&event)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the server has said that nothing follows.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the reply is whole, so that only figures can follow.
    pub fn is_finished(&self) -> bool {
        self.done || self.finish.is_some()
    }

    /// The input is over. `sent` is the size of the request, from which its cost is estimated if need be.
    pub fn end(mut self, sent: usize) -> Result<Finished, Fault> {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => {}
            Form::Events(decoder) => {
                if let Some(event) = decoder.finish()
                    && !self.is_finished()
                {
                    self.event(&event)?;
                }
            }
            Form::Whole(body) => match serde_json::from_slice(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&body)) {
                Ok(body) => {
                    self.chunk(&body)?;
                    // A body that is whole is finished, whatever reason it gives.
                    self.done = self.recognised;
                }
                Err(error) if error.is_eof() && body.first() != Some(&b'<') => return Err(self.place.truncated()),
                Err(_) => return Err(self.nonsense()),
            },
        }
        if !self.recognised {
            return Err(self.nonsense());
        }
        if !self.is_finished() {
            return Err(self.place.truncated());
        }
        self.reply(sent)
    }

    fn reply(self, sent: usize) -> Result<Finished, Fault> {
        let stop = match self.finish.as_deref() {
            Some("length" | "max_tokens") => Stop::MaxTokens,
            Some("content_filter" | "refusal" | "safety") => Stop::Refusal,
            Some("error") => return Err(self.place.reported(&Value::Null)),
            _ if self.refused => Stop::Refusal,
            Some(reason) if !is_success(reason) && !self.asks_for_calls() => {
                return Err(self.place.unknown_end(reason));
            }
            _ => Stop::Complete,
        };
        let written: usize = self.parts.iter().map(Part::size).sum();
        let usage = usage(self.usage.as_ref(), sent, written);
        let mut blocks = Vec::new();
        for part in self.parts {
            match part {
                Part::Text(text) => blocks.push(Block::Text { text }),
                Part::Thinking(text) => blocks.push(Block::Thinking { text }),
                // A reply that was cut may have been cut within its calls: none of them is handed out.
                Part::Call(_) if stop != Stop::Complete => {}
                Part::Call(call) if call.name.is_empty() => {
                    let message = format!("{} asked for a tool without naming it. Nothing was run.", self.place.host);
                    return Err(Fault::fatal(FailureKind::Nonsense, message));
                }
                Part::Call(call) => {
                    blocks.push(Block::ToolCall { id: CallId(String::new()), name: call.name, args: call.args });
                }
            }
        }
        Ok(Finished { reply: Reply { blocks, stop, usage }, reasoning: self.reasoning })
    }

    fn asks_for_calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call(_)))
    }

    fn nonsense(&self) -> Fault {
        self.place.nonsense(&String::from_utf8_lossy(&self.prefix))
    }

    fn event(&mut self, data: &str) -> Result<(), Fault> {
        let data = data.trim();
        if data.is_empty() || self.done {
            return Ok(());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        match serde_json::from_str::<Value>(data) {
            Ok(chunk @ Value::Object(_)) => self.chunk(&chunk),
            _ if self.recognised => Err(self.place.garbled(data)),
            _ => Err(self.place.nonsense(data)),
        }
    }

    fn chunk(&mut self, chunk: &Value) -> Result<(), Fault> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(self.place.reported(error));
        }
        self.recognised |= chunk.get("choices").is_some() || chunk.get("usage").is_some();
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        let choices = chunk.get("choices").and_then(Value::as_array);
        let first = |choice: &&Value| choice.get("index").and_then(Value::as_i64).unwrap_or(0) == 0;
        let Some(choice) = choices.and_then(|choices| choices.iter().find(first)) else { return Ok(()) };
        if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
            return Err(self.place.reported(error));
        }
        if let Some(said) = choice.get("delta").or_else(|| choice.get("message")) {
            self.take(said);
        }
        if self.said > MAX_REPLY {
            return Err(self.place.too_large(MAX_REPLY));
        }
        // Some servers give an empty reason with every chunk.
        let reason = choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.trim().is_empty());
        if let Some(reason) = reason {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    fn take(&mut self, said: &Value) {
        for field in ["reasoning_content", "reasoning"] {
            if let Some(text) = said.get(field).and_then(Value::as_str) {
                self.reasoning = Some(field);
                self.think(text);
                break;
            }
        }
        match said.get("content") {
            Some(Value::String(text)) => self.say(text),
            Some(Value::Array(parts)) => {
                for part in parts {
                    match (part.get("text"), part.get("thinking")) {
                        (Some(Value::String(text)), _) => self.say(text),
                        (_, Some(Value::String(text))) => self.think(text),
                        (_, Some(Value::Array(inner))) => {
                            inner
                                .iter()
                                .filter_map(|part| part.get("text")?.as_str())
                                .for_each(|text| self.think(text));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if let Some(text) = said.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            self.refused = true;
            self.say(text);
        }
        if let Some(calls) = said.get("tool_calls").and_then(Value::as_array) {
            calls.iter().for_each(|call| self.call(call));
        }
    }

    /// Whether this much more is taken, in a new part or in one that is there. Once it is not, nothing is any more.
    fn takes(&mut self, bytes: usize, new_part: bool) -> bool {
        let before = self.said;
        self.said = self.said.saturating_add(bytes + if new_part { PART } else { 0 });
        before <= MAX_REPLY && self.said <= MAX_REPLY
    }

    fn say(&mut self, text: &str) {
        let new_part = !matches!(self.parts.last(), Some(Part::Text(_)));
        if text.is_empty() || !self.takes(text.len(), new_part) {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
        self.heard.pass(Delta::Text { index: self.parts.len() - 1, text: text.to_owned() });
    }

    fn think(&mut self, text: &str) {
        let new_part = !matches!(self.parts.last(), Some(Part::Thinking(_)));
        if text.is_empty() || !self.takes(text.len(), new_part) {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Thinking(before)) => before.push_str(text),
            _ => self.parts.push(Part::Thinking(text.to_owned())),
        }
        self.heard.pass(Delta::Thinking { index: self.parts.len() - 1, text: text.to_owned() });
    }

    fn call(&mut self, delta: &Value) {
        let function = delta.get("function").unwrap_or(&Value::Null);
        let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let head = CallPart {
            index: delta.get("index").and_then(Value::as_i64),
            id: word(delta.get("id")),
            name: word(function.get("name")),
            args: match function.get("arguments") {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            },
        };
        let known = self.place_of(&head);
        if !self.takes(head.name.len() + head.args.len(), known.is_none()) {
            return;
        }
        let place = known.unwrap_or_else(|| {
            self.parts.push(Part::Call(CallPart { index: head.index, ..CallPart::default() }));
            self.parts.len() - 1
        });
        let Some(Part::Call(call)) = self.parts.get_mut(place) else { return };
        if call.id.is_empty() {
            call.id = head.id;
        }
        if call.name.is_empty() {
            call.name = head.name;
        }
        call.args.push_str(&head.args);
        let delta = Delta::ToolArgs { index: place, name: call.name.clone(), text: head.args };
        self.heard.pass(delta);
    }

    /// The call that a piece belongs to; none when it begins a new one.
    ///
    /// The index tells, where there is one and it can be believed: servers reuse it for another call, leave it out,
    /// or count the pieces of one call on. Ids are no better: some servers give every call the same.
    fn place_of(&self, piece: &CallPart) -> Option<usize> {
        let calls = || {
            self.parts.iter().enumerate().rev().filter_map(|(place, part)| match part {
                Part::Call(call) => Some((place, call)),
                Part::Text(_) | Part::Thinking(_) => None,
            })
        };
        let (latest, _) = calls().next()?;
        let known = match piece.index {
            Some(index) => calls().find(|(_, call)| call.index == Some(index)),
            None if !piece.id.is_empty() => calls().find(|(_, call)| call.id == piece.id),
            None => calls().next(),
        };
        let Some((place, call)) = known else {
            let is_head = !piece.name.is_empty() || (piece.index.is_some() && !piece.id.is_empty());
            return (!is_head).then_some(latest);
        };
        if piece.name.is_empty() || call.name.is_empty() {
            return Some(place);
        }
        let other_id = !piece.id.is_empty() && !call.id.is_empty() && piece.id != call.id;
        // Reading the arguments again with every piece would cost the square of their size.
        let may_be_whole = call.args.trim_end().ends_with('}') && !piece.args.trim().is_empty();
        let begins_again = may_be_whole && serde_json::from_str::<Value>(&call.args).is_ok_and(|args| args.is_object());
        (!other_id && piece.name == call.name && !begins_again).then_some(place)
    }
}

impl Part {
    fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.len(),
            Self::Call(call) => call.name.len() + call.args.len(),
        }
    }
}

/// Whether a server that gives this reason says that the reply is whole: the words of the protocol, and those that
/// servers use in their place.
fn is_success(reason: &str) -> bool {
    let words = ["stop", "tool_calls", "function_call", "tool_use", "end_turn", "stop_sequence", "eos", "eos_token"];
    words.iter().any(|word| reason.eq_ignore_ascii_case(word))
}

/// The server's figures, or an estimate that says so. Figures of nothing but zeros are none.
fn usage(told: Option<&Value>, sent: usize, written: usize) -> Usage {
    let figure = |path: &str| {
        let value = told?.pointer(path)?;
        value.as_i64().or_else(|| value.as_f64().map(|float| float as i64)).filter(|figure| *figure > 0)
    };
    // About four bytes make a token.
    let guess = |bytes: usize| i64::try_from(bytes.div_ceil(4)).unwrap_or(i64::MAX);
    let input = figure("/prompt_tokens");
    let output = figure("/completion_tokens");
    let cached = figure("/prompt_tokens_details/cached_tokens").or_else(|| figure("/prompt_cache_hit_tokens"));
    Usage {
        input: input.unwrap_or_else(|| guess(sent)),
        output: output.unwrap_or_else(|| guess(written)),
        cached: cached.unwrap_or(0),
        estimated: input.is_none() || (output.is_none() && written > 0),
    }
}
