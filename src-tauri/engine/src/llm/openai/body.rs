//! What is sent: a history as the strictest chat template takes it.
//!
//! The system message comes first and once, no two messages of one role follow each other, nothing is `null` or an
//! empty list, and the text of earlier calls stays byte for byte, because servers keep what they have computed for it.

use super::Shape;
use crate::event::Block;
use crate::id::CallId;
use crate::llm::{Message, Request, read_args};
use serde_json::{Map, Value, json};

/// The body of a request.
pub fn build(request: &Request, model: &str, shape: &Shape) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("messages".to_owned(), messages(request, shape.reasoning).into());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| json!({"type": "function", "function": tool}));
        body.insert("tools".to_owned(), tools.collect());
    }
    body.insert("stream".to_owned(), true.into());
    if shape.usage {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    body.into()
}

fn messages(request: &Request, reasoning: Option<&'static str>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    // The calls of the last assistant message that wait for their results, with the ids that the server gets.
    let mut waiting: Vec<(&CallId, String)> = Vec::new();
    let mut named = 0;
    let mut name = || {
        named += 1;
        wire_id(named)
    };
    if !request.system.is_empty() {
        out.push(json!({"role": "system", "content": request.system}));
    }
    for message in &request.messages {
        match message {
            Message::User(text) => say(&mut out, "user", text),
            Message::Assistant(blocks) => {
                let text = join(blocks, |block| match block {
                    Block::Text { text } => Some(text),
                    Block::Thinking { .. } | Block::ToolCall { .. } => None,
                });
                waiting.clear();
                let mut calls = Vec::new();
                for block in blocks {
                    if let Block::ToolCall { id, name: tool, args } = block {
                        let wire = name();
                        let function = json!({"name": tool, "arguments": wire_args(args)});
                        calls.push(json!({"id": wire, "type": "function", "function": function}));
                        waiting.push((id, wire));
                    }
                }
                if !text.is_empty() {
                    say(&mut out, "assistant", &text);
                }
                if calls.is_empty() {
                    continue;
                }
                if text.is_empty() {
                    // Templates add to the content without looking whether it is there.
                    out.push(json!({"role": "assistant", "content": ""}));
                }
                let Some(entry) = out.last_mut() else { continue };
                if let Some(field) = reasoning {
                    // Some servers want the field with every call, even when there was nothing to reason about.
                    entry[field] = join(blocks, |block| match block {
                        Block::Thinking { text } => Some(text),
                        Block::Text { .. } | Block::ToolCall { .. } => None,
                    })
                    .into();
                }
                entry["tool_calls"] = calls.into();
            }
            Message::Tool { call, text, .. } => {
                // Results pair with their calls in order, also when ids repeat.
                let place = waiting.iter().position(|(id, _)| *id == call);
                let wire = place.map_or_else(&mut name, |place| waiting.remove(place).1);
                out.push(json!({"role": "tool", "tool_call_id": wire, "content": text}));
            }
        }
    }
    out
}

/// Adds words; to the last message when it is of the same role and takes them.
fn say(out: &mut Vec<Value>, role: &str, text: &str) {
    if let Some(last) = out.last_mut()
        && last["role"] == role
        && last.get("tool_calls").is_none()
        && let Some(before) = last["content"].as_str()
    {
        last["content"] = format!("{before}\n\n{text}").into();
        return;
    }
    out.push(json!({"role": role, "content": text}));
}

fn join<'a>(blocks: &'a [Block], pick: impl Fn(&'a Block) -> Option<&'a String>) -> String {
    blocks.iter().filter_map(pick).map(String::as_str).collect::<Vec<_>>().join("\n\n")
}

/// Nine letters and digits: the narrowest form that any server asks for.
fn wire_id(n: usize) -> String {
    format!("c{n:08}")
}

/// Arguments as they were written, or, where they are no JSON object, the nearest thing that is one: servers parse
/// them again and fail on what they cannot parse.
fn wire_args(args: &str) -> String {
    match read_args(args) {
        Ok(_) if args.trim_start().starts_with('{') => args.to_owned(),
        Ok(object) => object.to_string(),
        Err(_) => json!({"unreadable": args}).to_string(),
    }
}
