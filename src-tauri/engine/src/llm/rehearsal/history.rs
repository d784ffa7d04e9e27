//! What a history tells: calls with their results, and the ids that stand in them.

use crate::event::Block;
use crate::llm::{Message, Request, read_args};
use serde_json::Value;

/// A call and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Done<'a> {
    /// The position of the assistant message that asked.
    pub at: usize,
    /// The tool.
    pub tool: &'a str,
    /// The arguments; null where they are no object.
    pub args: Value,
    /// What the tool answered.
    pub text: &'a str,
    /// Whether it did what was asked.
    pub ok: bool,
}

/// The first message of a history, if somebody said it.
pub fn first_message(request: &Request) -> Option<&str> {
    match request.messages.first()? {
        Message::User(text) => Some(text),
        Message::Assistant(_) | Message::Tool { .. } => None,
    }
}

/// The words of a message that somebody said: without the lines in which Coppice tells how things stand.
pub fn said(message: &str) -> String {
    let said: Vec<&str> = message.lines().filter(|line| !line.starts_with("[runtime]")).collect();
    said.join("\n").trim().to_owned()
}

/// Every call that has a result, in the order of the calls.
pub fn done(messages: &[Message]) -> Vec<Done<'_>> {
    let mut all = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let Message::Assistant(blocks) = message else { continue };
        let mut results: Vec<_> = messages[at + 1..]
            .iter()
            .map_while(|message| match message {
                Message::Tool { call, text, ok, .. } => Some((call, text, *ok)),
                Message::User(_) | Message::Assistant(_) => None,
            })
            .collect();
        for block in blocks {
            let Block::ToolCall { id, name, args } = block else { continue };
            let Some(place) = results.iter().position(|(call, ..)| *call == id) else { continue };
            let (_, text, ok) = results.remove(place);
            all.push(Done { at, tool: name, args: read_args(args).unwrap_or_default(), text, ok });
        }
    }
    all
}

/// Every tool result, in the order in which they stand.
pub fn results(messages: &[Message]) -> Vec<(&str, &str)> {
    messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { name, text, .. } => Some((name.as_str(), text.as_str())),
            Message::User(_) | Message::Assistant(_) => None,
        })
        .collect()
}

/// The ids of background tasks in `text`, with their positions.
pub fn task_ids(text: &str) -> Vec<(usize, &str)> {
    words(text)
        .filter(|(_, word)| {
            let number = word.strip_prefix("subagent-").or_else(|| word.strip_prefix("bash-"));
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .collect()
}

/// The ids of sessions in `text`.
pub fn session_ids(text: &str) -> Vec<&str> {
    let is_id = |word: &str| {
        let mut groups = word.split('-').map(str::len);
        word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
            && [8, 4, 4, 4, 12].iter().all(|length| groups.next() == Some(*length))
            && groups.next().is_none()
    };
    words(text).map(|(_, word)| word).filter(|word| is_id(word)).collect()
}

/// The words of a text, with their positions: letters, digits, `-` and `_`, and `.` within.
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let of_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.split(move |c| !of_word(c)).map(|word| word.trim_matches('.')).filter(|word| !word.is_empty()).map(
        // A piece of a text begins where its bytes do.
        |word| (word.as_ptr().addr() - text.as_ptr().addr(), word),
    )
}

/// What stands only once, in the order of its first place.
pub fn distinct<'a>(items: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_where_they_stand_and_nowhere_else() {
        let text =
            "Started subagent-12 (session 0193b2c4-0000-7000-8000-00000000abcd), \"bash-3\". bash-5.2 utf-8 subagent-x";
        assert_eq!(task_ids(text), [(8, "subagent-12"), (69, "bash-3")]);
        assert_eq!(session_ids(text), ["0193b2c4-0000-7000-8000-00000000abcd"]);
    }
}
