//! What a call works on, found in arguments that may be anything.

use serde_json::Value;

/// The arguments that tell most, best first.
const TELLING: &[&str] = &[
    "pattern",
    "path",
    "file_path",
    "command",
    "description",
    "url",
    "query",
    "task_id",
    "child",
    "session",
    "name",
    "message",
    "prompt",
    "text",
];

/// How much of the arguments is looked at, in bytes.
const MAX_LOOK: usize = 64 * 1024;

/// The first line of the telling argument; empty when there is none. Arguments that are not JSON, for example because
/// they were cut off, are searched for what looks like one.
pub fn of(args: &str) -> String {
    let value = serde_json::from_str(args).ok();
    let found = match &value {
        Some(Value::Object(object)) => {
            let text = |key: &&str| object.get(*key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            let any = || object.values().filter_map(Value::as_str).find(|text| !text.trim().is_empty());
            TELLING.iter().find_map(text).or_else(any).map(str::to_owned)
        }
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
        None => {
            let args = &args[..args.floor_char_boundary(MAX_LOOK)];
            TELLING.iter().find_map(|key| broken(args, key))
        }
    };
    let found = found.unwrap_or_default();
    found.trim().lines().next().unwrap_or_default().to_owned()
}

/// The string that follows `"key":` in a text that is not quite JSON.
fn broken(args: &str, key: &str) -> Option<String> {
    let quoted = format!("\"{key}\"");
    args.match_indices(&quoted).find_map(|(at, _)| {
        let rest = args[at + quoted.len()..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        let mut text = String::new();
        let mut chars = rest.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => match chars.next() {
                    Some('n' | 'r') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('u') => text.push(escaped(&mut chars)),
                    Some(c) => text.push(c),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Some(text).filter(|text| !text.trim().is_empty())
    })
}

/// The character of a `\u` escape; a replacement when it is none.
fn escaped(chars: &mut std::str::Chars<'_>) -> char {
    let digits: String = chars.by_ref().take(4).collect();
    let code = u32::from_str_radix(&digits, 16).ok();
    code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}
