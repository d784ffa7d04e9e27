//! Changing a part of a file: an exact text is replaced by another.

use crate::action::Action;
use crate::files::WHOLE;
use crate::files::changes::Changes;
use crate::llm::ToolSpec;
use crate::prompt::Given;
use crate::scope::Scope;
use crate::text::cut;
use crate::tool::files::{FileMemory, Old, disk, put, recall};
use crate::tool::{Call, Outcome, Tool, arguments};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// How many places are named when a text stands in several.
const MAX_PLACES: usize = 10;

/// How many lines are compared to find the nearest one.
const MAX_COMPARED: usize = 20_000;

/// Replaces an exact text in a file.
pub struct EditFile {
    memory: FileMemory,
}

#[derive(Deserialize)]
struct EditArgs {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

impl EditFile {
    /// The tool. What the session has seen of the file is looked up in `memory`.
    pub fn new(memory: FileMemory) -> Self {
        Self { memory }
    }
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "edit_file".to_owned(),
            description:
                "Replaces `old` by `new` in a text file that you have read. `old` is matched exactly, white space \
                          included, and has to stand in the file once: add lines around it to make it unique, or set \
                          `all` to replace it everywhere. Leave out line numbers: they are not part of the file."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, absolute or from the working folder. ~ is not expanded."},
                    "old": {"type": "string", "description": "The exact text to replace."},
                    "new": {"type": "string", "description": "The text to put in its place."},
                    "all": {"type": "boolean", "description": "Replace it everywhere."}
                },
                "required": ["path", "old", "new"]
            }),
        }
    }

    async fn actions(&self, call: &Call, args: &Value) -> Vec<Action> {
        let Ok(args) = arguments::<EditArgs>(args.clone()) else { return Vec::new() };
        let path = PathBuf::from(&args.path);
        let target = call.cwd.join(&path);
        let compare = move || {
            let held = std::fs::metadata(&target).is_ok_and(|found| found.is_file() && found.len() <= WHOLE);
            let before = if held { std::fs::read_to_string(&target).unwrap_or_default() } else { String::new() };
            let made = if args.old.is_empty() { None } else { replaced(&before, &args, &args.path).ok() };
            match made {
                Some((after, _)) => Changes::to_allow(&before, &after).diff,
                // It will not be done, as things stand.
                None => Changes::to_allow(&args.old, &args.new).diff,
            }
        };
        vec![Action::Write { path, diff: Scope::blocking(compare).await }]
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: EditArgs = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        if let Err(outcome) = recall(&self.memory, call).await {
            return outcome;
        }
        let (memory, call) = (self.memory.clone(), call.clone());
        let cancel = call.cancel.clone();
        disk::off_thread(&cancel, move || edit(&memory, &call, &args).unwrap_or_else(|refused| refused)).await
    }
}

fn edit(memory: &FileMemory, call: &Call, args: &EditArgs) -> Result<Outcome, Outcome> {
    if args.old.is_empty() {
        return Err(Outcome::fail("`old` is empty. Give the text to replace: this tool makes no new files."));
    }
    if args.old == args.new {
        return Err(Outcome::fail("`old` and `new` are the same, so there is nothing to change."));
    }
    let place = disk::resolve(memory, call, &args.path)?;
    let shown = &place.shown;
    memory.tell_clash(call, &place);
    let _turn = memory.turn(&place.real);
    let old = Old::open(memory, call, &place)?;
    let Some(content) = &old.content else {
        return Err(Outcome::fail(format!("{shown} is larger than {WHOLE} bytes. Change it with a command.")));
    };
    let Ok(before) = std::str::from_utf8(content) else {
        return Err(Outcome::fail(format!("{shown} is not UTF-8 text. Change it with a command.")));
    };
    let (after, count) = replaced(before, args, shown)?;
    if call.cancel.is_cancelled() {
        return Err(disk::stopped());
    }
    let (file, can_undo) = put(memory, call, &place, Some(&old), after.as_bytes())?;

    let Changes { added, removed, diff } = Changes::between(before, &after);
    let places = if count == 1 { "in one place".to_owned() } else { format!("in {count} places") };
    let text = format!("Edited {shown} {places}: {added} lines added, {removed} removed.");
    let detail = json!({
        "path": shown, "added": added, "removed": removed, "diff": diff, "file": file, "can_undo": can_undo,
    });
    Ok(Outcome::ok(text).with(detail))
}

/// The text after the change, and in how many places it changed.
fn replaced(before: &str, args: &EditArgs, shown: &str) -> Result<(String, usize), Outcome> {
    let (mut old, mut new) = (args.old.clone(), args.new.clone());
    if !before.contains(&old) && before.contains("\r\n") && !old.contains('\r') {
        // The lines are shown without their carriage returns, so they are asked for without them.
        old = old.replace('\n', "\r\n");
        new = new.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let places = places(before, &old);
    match places.len() {
        0 => Err(Outcome::fail(format!(
            "`old` does not stand in {shown}. Nothing was written.{}",
            nearest(before, &old)
        ))),
        1 => Ok((before.replacen(&old, &new, 1), 1)),
        _ if args.all => Ok((before.replace(&old, &new), before.matches(&old).count())),
        many => {
            let lines: Vec<String> =
                places.iter().take(MAX_PLACES).map(|at| line_of(before, *at).to_string()).collect();
            let more = if many > MAX_PLACES { ", ..." } else { "" };
            Err(Outcome::fail(format!(
                "`old` stands in {shown} {many} times, at the lines {}{more}. Nothing was written. \
                 Add lines around it to make it unique, or set `all`.",
                lines.join(", ")
            )))
        }
    }
}

/// Where `old` begins in `text`, overlapping places included: each would be another change.
fn places(text: &str, old: &str) -> Vec<usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(old) {
        found.push(from + at);
        from += at + step;
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// A sentence that names the line that is most like the first line of `old`; empty when none is like it.
fn nearest(text: &str, old: &str) -> String {
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return " It is white space only: add the lines around it.".to_owned();
    };
    let wanted = cut(wanted, 200);
    let numbered = || text.lines().enumerate().take(MAX_COMPARED).map(|(index, line)| (index + 1, line.trim()));
    if let Some((number, _)) = numbered().find(|(_, line)| cut(line, 200) == wanted) {
        return format!(
            " Its first line stands at line {number}, but with other white space or other lines after it. \
             Read that part again and copy it exactly."
        );
    }
    let wanted_words = words(wanted);
    let likeness = |line: &str| {
        let words = words(cut(line, 200));
        let common = wanted_words.iter().filter(|word| words.contains(word)).count();
        (2 * common * 100).checked_div(words.len() + wanted_words.len()).unwrap_or(0)
    };
    // Of lines that are equally like it, the first.
    let best = numbered()
        .map(|(number, line)| (likeness(line), number, line))
        .max_by_key(|(like, number, _)| (*like, std::cmp::Reverse(*number)));
    match best {
        Some((like, number, line)) if like >= 50 => format!(" The nearest is line {number}: {}", cut(line, 200)),
        _ => " Nothing in it is like it: read the file again.".to_owned(),
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect()
}
