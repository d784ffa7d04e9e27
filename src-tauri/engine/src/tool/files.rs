//! Reading and writing files. Every path is judged by where it really leads; every write is whole; nobody writes over
//! a change that it has not seen.

use crate::action::Action;
use crate::config::bounds::MAX_RESULT;
use crate::files::WHOLE;
use crate::files::changes::Changes;
use crate::files::handle::{Missed, Spot};
use crate::llm::ToolSpec;
use crate::prompt::Given;
use crate::scope::Scope;
use crate::tool::{Call, Outcome, Tool, arguments};
use async_trait::async_trait;
pub(super) use memory::Standing;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::{File, Metadata};
use std::io::{Cursor, Read};
use std::path::PathBuf;

pub(super) mod disk;
mod memory;
mod page;
mod stamp;

pub use memory::{FileMemory, Writer, Written};
pub use stamp::Stamp;

/// How many lines `read_file` shows when it is not told.
const LINES: u64 = 2000;

/// Shows a text file, or a part of it, with line numbers.
pub struct ReadFile {
    memory: FileMemory,
}

/// Makes a file, or replaces one whole.
pub struct WriteFile {
    memory: FileMemory,
}

#[derive(Deserialize)]
struct ReadArgs {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

#[derive(Deserialize)]
struct WriteArgs {
    path: String,
    content: String,
}

impl ReadFile {
    /// The tool. What it shows is remembered in `memory`.
    pub fn new(memory: FileMemory) -> Self {
        Self { memory }
    }
}

impl WriteFile {
    /// The tool. What it may overwrite is looked up in `memory`.
    pub fn new(memory: FileMemory) -> Self {
        Self { memory }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description: "Shows a text file with line numbers: number, tab, line. The number and the tab are not part \
                          of the file. A long file is shown in parts; the last line says how to read on."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, absolute or from the working folder. ~ is not expanded."},
                    "offset": {"type": "integer", "minimum": 1, "description": "The first line to show, from 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": "How many lines to show; 2000 if left out."}
                },
                "required": ["path"]
            }),
        }
    }

    async fn actions(&self, _call: &Call, args: &Value) -> Vec<Action> {
        let read = |args: ReadArgs| Action::Read { path: args.path.into() };
        arguments(args.clone()).map(read).into_iter().collect()
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: ReadArgs = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        if let Err(outcome) = recall(&self.memory, call).await {
            return outcome;
        }
        let (memory, call) = (self.memory.clone(), call.clone());
        let cancel = call.cancel.clone();
        disk::off_thread(&cancel, move || read(&memory, &call, &args).unwrap_or_else(|refused| refused)).await
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self, given: &Given) -> ToolSpec {
        ToolSpec {
            name: "write_file".to_owned(),
            description: format!(
                "Makes a file with this content, and the folders it needs, or replaces an existing file whole. A file \
                 that exists has to be read first.{}",
                given.words("edit_file", "To change a part of a file, use edit_file.")
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, absolute or from the working folder. ~ is not expanded."},
                    "content": {"type": "string", "description": "The whole content."}
                },
                "required": ["path", "content"]
            }),
        }
    }

    async fn actions(&self, call: &Call, args: &Value) -> Vec<Action> {
        let Ok(args) = arguments::<WriteArgs>(args.clone()) else { return Vec::new() };
        let path = PathBuf::from(args.path);
        let target = call.cwd.join(&path);
        // What stands there is shown to the person, not to the session. What cannot be compared counts as nothing.
        let compare = move || {
            let held = std::fs::metadata(&target).is_ok_and(|found| found.is_file() && found.len() <= WHOLE);
            let before = if held { std::fs::read_to_string(&target).unwrap_or_default() } else { String::new() };
            Changes::to_allow(&before, &args.content).diff
        };
        vec![Action::Write { path, diff: Scope::blocking(compare).await }]
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: WriteArgs = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        if let Err(outcome) = recall(&self.memory, call).await {
            return outcome;
        }
        let (memory, call) = (self.memory.clone(), call.clone());
        let cancel = call.cancel.clone();
        disk::off_thread(&cancel, move || write(&memory, &call, &args).unwrap_or_else(|refused| refused)).await
    }
}

fn read(memory: &FileMemory, call: &Call, args: &ReadArgs) -> Result<Outcome, Outcome> {
    let place = disk::resolve(memory, call, &args.path)?;
    let (mut file, metadata) = disk::open(&place)?;
    let shown = &place.shown;
    let want = page::Want {
        first: args.offset.unwrap_or(1).max(1),
        lines: args.limit.unwrap_or(LINES).max(1),
        // Room for what follows the lines.
        bytes: MAX_RESULT - 1024,
        cancel: call.cancel.clone(),
    };
    let whole = content(&mut file, &metadata).map_err(|error| disk::unusable(shown, &error))?;
    let page = match &whole {
        Ok(content) => page::read(&mut Cursor::new(content), &want, true),
        Err(start) => page::read(&mut std::io::BufReader::new(Cursor::new(start).chain(file)), &want, false),
    };
    let page = page.map_err(|error| match error {
        page::Problem::Stopped => disk::stopped(),
        page::Problem::Slow => Outcome::fail(format!(
            "{shown} has {} bytes, and reaching line {} takes too long. Search it for the part that you need.",
            metadata.len(),
            want.first
        )),
        page::Problem::Binary => Outcome::fail(format!(
            "{shown} is not shown: it is binary, or text in an encoding with NUL bytes ({} bytes).",
            metadata.len()
        )),
        page::Problem::Past { lines } => {
            Outcome::fail(format!("{shown} has {lines} lines, so there is no line {}. Nothing was shown.", want.first))
        }
        page::Problem::Disk(error) => disk::unusable(shown, &error),
    })?;
    let stamp = Stamp::new(&metadata, whole.as_deref().ok());
    memory.saw(&call.owner.session, &place.real, &stamp);
    let bytes = whole.as_ref().map_or(metadata.len(), |content| content.len() as u64);
    let detail = json!({
        "path": shown, "lines": page.count(), "bytes": bytes, "added": 0, "removed": 0,
        "file": stamp.fact(&place.real, false),
    });
    Ok(Outcome::ok(page.into_text(bytes)).with(detail))
}

/// The whole content of a file that is small enough to be held, else the part that was read to find that out.
pub(super) fn content(file: &mut File, metadata: &Metadata) -> std::io::Result<Result<Vec<u8>, Vec<u8>>> {
    if metadata.len() > WHOLE {
        return Ok(Err(Vec::new()));
    }
    // The length is only a hint: the file may grow, and some systems tell 0 for what they make up on the fly.
    let mut content = Vec::new();
    file.take(WHOLE + 1).read_to_end(&mut content)?;
    Ok(if content.len() as u64 > WHOLE { Err(content) } else { Ok(content) })
}

/// Learns what the log says of the call's tree. What cannot be looked up could be written over.
pub(super) async fn recall(memory: &FileMemory, call: &Call) -> Result<(), Outcome> {
    memory.recall(&call.owner.session).await.map_err(|error| {
        let why = error.message();
        Outcome::fail(format!("What this session has seen of files cannot be looked up. {why} Nothing was done."))
    })
}

/// A file that is about to be changed, as it is, in its folder that is held open.
pub(super) struct Old {
    spot: Spot,
    pub(super) metadata: Metadata,
    /// Its content; none when it is too large to be held.
    pub(super) content: Option<Vec<u8>>,
}

impl Old {
    /// Opens a file to change it, if the call's session knows it as it is.
    pub(super) fn open(memory: &FileMemory, call: &Call, place: &disk::Place) -> Result<Self, Outcome> {
        let shown = &place.shown;
        let spot = disk::spot(place)?;
        let (mut file, metadata) = disk::open_at(&spot, place)?;
        if !spot.may_write(&metadata) {
            return Err(Outcome::fail(format!("{shown} is write-protected. Nothing was written.")));
        }
        let content = content(&mut file, &metadata).map_err(|error| disk::unusable(shown, &error))?.ok();
        match memory.standing(&call.owner.session, &place.real, &Stamp::new(&metadata, content.as_deref())) {
            Standing::Same => Ok(Self { spot, metadata, content }),
            Standing::Unread => Err(Outcome::fail(format!(
                "{shown} exists and you have not read it. Nothing was written. Read it first."
            ))),
            Standing::Changed(by) => Err(changed(shown, by.as_ref())),
        }
    }
}

/// Puts `content` at a place, over `old` if there is one: keeps what stood there, writes down that it is changed, and
/// changes it in one step. Answers the facts about the file, and whether this can be taken back.
pub(super) fn put(
    memory: &FileMemory,
    call: &Call,
    place: &disk::Place,
    old: Option<&Old>,
    content: &[u8],
) -> Result<(Value, bool), Outcome> {
    let shown = &place.shown;
    let can_undo = old.is_none_or(|old| old.content.is_some());
    if can_undo {
        memory.begin(call, place, old.and_then(|old| old.content.as_deref()), content)?;
        if call.cancel.is_cancelled() {
            // The store may have taken its time: who was stopped has answered by now.
            return Err(disk::stopped());
        }
    }
    let written = match old {
        Some(old) => old.spot.put(content, Some(&old.metadata)),
        None => Spot::make(&place.real).map_err(Missed::Disk).and_then(|spot| spot.put(content, None)),
    };
    let metadata = written.map_err(|missed| match missed {
        Missed::Changed if old.is_none() => {
            Outcome::fail(format!("{shown} came to be while you wrote it. Nothing was written: read it, then redo it."))
        }
        Missed::Changed => changed(shown, None),
        Missed::Disk(error) => {
            Outcome::fail(format!("{shown} could not be written: {error}. What was there is unchanged."))
        }
    })?;
    let stamp = Stamp::new(&metadata, Some(content));
    memory.wrote(call, &place.real, &stamp);
    Ok((stamp.fact(&place.real, true), can_undo))
}

fn write(memory: &FileMemory, call: &Call, args: &WriteArgs) -> Result<Outcome, Outcome> {
    if args.content.len() as u64 > WHOLE {
        return Err(Outcome::fail(format!("The content is larger than {WHOLE} bytes. Nothing was written.")));
    }
    let place = disk::resolve(memory, call, &args.path)?;
    let shown = &place.shown;
    memory.tell_clash(call, &place);
    let _turn = memory.turn(&place.real);
    let old = if place.exists { Some(Old::open(memory, call, &place)?) } else { None };
    if call.cancel.is_cancelled() {
        return Err(disk::stopped());
    }
    let (file, can_undo) = put(memory, call, &place, old.as_ref(), args.content.as_bytes())?;

    let lines = args.content.lines().count();
    let bytes = args.content.len();
    let before = old.as_ref().and_then(|old| old.content.as_deref()).map(String::from_utf8_lossy).unwrap_or_default();
    let Changes { added, removed, diff } = Changes::between(&before, &args.content);
    let verb = if old.is_some() { "Overwrote" } else { "Created" };
    let kept = if can_undo { "" } else { " What stood there was too large to be kept: this cannot be taken back." };
    let detail = json!({
        "path": shown, "lines": lines, "bytes": bytes, "created": old.is_none(),
        "added": added, "removed": removed, "diff": diff, "file": file, "can_undo": can_undo,
    });
    Ok(Outcome::ok(format!("{verb} {shown}: {lines} lines, {bytes} bytes.{kept}")).with(detail))
}

/// What a call answers that would write over a change its session has not seen.
pub(super) fn changed(shown: &str, by: Option<&Writer>) -> Outcome {
    let by = match by {
        Some(Writer::Session { session, label }) if label.is_empty() => format!(" (session {session} wrote it)"),
        Some(Writer::Session { session, label }) => format!(" (\u{201c}{label}\u{201d} wrote it, session {session})"),
        Some(Writer::Undo) => " (the person took changes of it back)".to_owned(),
        None => String::new(),
    };
    Outcome::fail(format!(
        "{shown} has changed since you read it{by}. Nothing was written: read it again, then redo it."
    ))
}
