//! Finding files by name and lines by content. What `.gitignore` leaves out is left out, links are not followed, and
//! every search ends: when it is stopped, when it has enough, or when its time is over.

use crate::action::Action;
use crate::config::bounds::MAX_RESULT;
use crate::llm::ToolSpec;
use crate::prompt::Given;
use crate::text::cut;
use crate::tool::files::FileMemory;
use crate::tool::files::disk::{self, Place};
use crate::tool::{Call, Outcome, Tool, arguments};
use async_trait::async_trait;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{DirEntry, WalkBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

mod lines;

/// How long one search may take.
const MAX_TIME: Duration = Duration::from_secs(20);

/// How many names `glob` shows.
const MAX_NAMES: usize = 1000;

/// How many lines `grep` shows when it is not told, and at most.
const HITS: u64 = 200;
const MAX_HITS: u64 = 2000;

/// How many lines around a hit `grep` shows at most.
const MAX_CONTEXT: usize = 5;

/// How much of a pattern is repeated, in bytes.
const MAX_TOLD: usize = 200;

/// Folders that the system makes up on the fly; a search enters one only when it starts there.
const MADE_UP: &[&str] = &["/proc", "/sys", "/dev"];

/// Room in a result for what is said about it.
const ROOM: usize = 1024;

/// Finds files by their names.
pub struct Glob {
    memory: FileMemory,
}

/// Finds lines by their content.
pub struct Grep {
    memory: FileMemory,
}

#[derive(Deserialize)]
struct GlobArgs {
    pattern: String,
    path: Option<String>,
}

#[derive(Deserialize)]
struct GrepArgs {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
    limit: Option<u64>,
}

/// Why a search ended before it had seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was stopped.
    Stopped,
    /// Its time was over.
    Slow,
    /// It has as much as it may show.
    Full,
}

impl Glob {
    /// The tool. What is closed in `memory` is left out.
    pub fn new(memory: FileMemory) -> Self {
        Self { memory }
    }
}

impl Grep {
    /// The tool. What is closed in `memory` is left out.
    pub fn new(memory: FileMemory) -> Self {
        Self { memory }
    }
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            description: "Finds files and folders by name, sorted by path; folders end in /. `*` and `?` stay within \
                          one folder, `**/` goes through all below, {a,b} is either. What .gitignore names and .git \
                          itself are left out."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "For example src/**/*.rs, or * to list a folder."},
                    "path": {"type": "string", "description": "The folder to start in; the working folder if left out."}
                },
                "required": ["pattern"]
            }),
        }
    }

    async fn actions(&self, _call: &Call, args: &Value) -> Vec<Action> {
        let start = |args: GlobArgs| Action::Read { path: args.start().into() };
        arguments(args.clone()).map(start).into_iter().collect()
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: GlobArgs = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        let (memory, call) = (self.memory.clone(), call.clone());
        let cancel = call.cancel.clone();
        disk::off_thread(&cancel, move || glob(&memory, &call, &args).unwrap_or_else(|refused| refused)).await
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self, _given: &Given) -> ToolSpec {
        ToolSpec {
            name: "grep".to_owned(),
            description: "Finds lines that match a regular expression (Rust syntax: no look-around, no back \
                          references; a match stays within one line). Each hit is path:line:text, lines around it \
                          path-line-text. Binary files, what .gitignore names and .git itself are left out."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "The regular expression."},
                    "path": {"type": "string", "description": "The file or folder to search; the working folder if left out."},
                    "glob": {"type": "string", "description": "Only files with such names: *.rs, or src/**/*.ts."},
                    "ignore_case": {"type": "boolean"},
                    "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "description": "Lines to show around each hit."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "description": "How many hits to show; 200 if left out."}
                },
                "required": ["pattern"]
            }),
        }
    }

    async fn actions(&self, _call: &Call, args: &Value) -> Vec<Action> {
        let start = |args: GrepArgs| Action::Read { path: args.path.unwrap_or_else(|| ".".to_owned()).into() };
        arguments(args.clone()).map(start).into_iter().collect()
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: GrepArgs = match arguments(args) {
            Ok(args) => args,
            Err(outcome) => return outcome,
        };
        let (memory, call) = (self.memory.clone(), call.clone());
        let cancel = call.cancel.clone();
        disk::off_thread(&cancel, move || grep(&memory, &call, &args).unwrap_or_else(|refused| refused)).await
    }
}

fn glob(memory: &FileMemory, call: &Call, args: &GlobArgs) -> Result<Outcome, Outcome> {
    let pattern = split(&args.pattern).1;
    let names = matcher(pattern)?;
    let place = start_of(memory, call, &args.start())?;
    if !place.real.is_dir() {
        return Err(Outcome::fail(format!("{} is a file, not a folder. Read it.", place.shown)));
    }
    let (mut text, mut shown, mut hits, mut files) = (String::new(), 0, 0_u64, 0_u64);
    let walked = walk(memory, call, &place, |entry, below| {
        if !names.is_match(below) {
            return None;
        }
        hits += 1;
        let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        files += u64::from(!folder);
        let line = format!("{}{}\n", name(&place, below), if folder { "/" } else { "" });
        if shown == hits - 1 && shown < MAX_NAMES as u64 && text.len() + line.len() <= MAX_RESULT - ROOM {
            text.push_str(&line);
            shown += 1;
        }
        None
    });
    if walked.end == Some(End::Stopped) {
        return Err(disk::stopped());
    }
    if hits == 0 {
        let deeper = if pattern.contains('/') { "" } else { "\n(To look in all folders below, put **/ before it.)" };
        text = format!("Nothing in {} matches {}{deeper}\n", place.called(), cut(&args.pattern, MAX_TOLD));
    } else if shown < hits {
        text.push_str(&format!("(The first {shown} of {hits}. Narrow the pattern to see the others.)\n"));
    }
    text.push_str(&walked.rest(0));
    Ok(Outcome::ok(text).with(json!({"hits": hits, "files": files, "pattern": cut(&args.pattern, MAX_TOLD)})))
}

fn grep(memory: &FileMemory, call: &Call, args: &GrepArgs) -> Result<Outcome, Outcome> {
    let limit = args.limit.unwrap_or(HITS).clamp(1, MAX_HITS);
    let mut search = lines::Search::new(&args.pattern, args.ignore_case, args.context.min(MAX_CONTEXT))?;
    let filter = match args.glob.as_deref().filter(|glob| !glob.is_empty()) {
        Some(glob) if glob.contains('/') => Some(matcher(glob.strip_prefix("./").unwrap_or(glob))?),
        Some(glob) => Some(matcher(&format!("**/{glob}"))?),
        None => None,
    };
    let place = start_of(memory, call, args.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("."))?;
    let watch = Watch::new(call);
    let mut found = lines::Found::new(limit, MAX_RESULT - ROOM);
    let mut unreadable = 0_u64;
    let walked = walk(memory, call, &place, |entry, below| {
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            return None;
        }
        if filter.as_ref().is_some_and(|filter| !filter.is_match(below) && !below.as_os_str().is_empty()) {
            return None;
        }
        match search.file(entry.path(), &name(&place, below), &watch, &mut found) {
            Ok(()) => {}
            Err(_) if watch.over().is_some() => {}
            Err(_) => unreadable += 1,
        }
        watch.over().or(found.full().then_some(End::Full))
    });
    if walked.end == Some(End::Stopped) {
        return Err(disk::stopped());
    }
    let (hits, files) = (found.hits, found.files);
    let mut text = found.text;
    if hits == 0 {
        text = format!("No line in {} matches {}\n", place.called(), cut(&args.pattern, MAX_TOLD));
    } else if walked.end == Some(End::Full) {
        text.push_str(&format!("(Stopped after {hits} hits: there may be more. Narrow the pattern, path or glob.)\n"));
    }
    text.push_str(&walked.rest(unreadable));
    Ok(Outcome::ok(text).with(json!({"hits": hits, "files": files, "pattern": cut(&args.pattern, MAX_TOLD)})))
}

/// How a walk ended.
struct Walked {
    end: Option<End>,
    /// How many folders could not be read.
    unreadable: u64,
}

impl Walked {
    /// What is said about what was not seen; `files` could not be read.
    fn rest(&self, files: u64) -> String {
        let late = match self.end {
            Some(End::Slow) => "(The time was over before everything was seen. Start in a smaller folder.)\n",
            Some(End::Stopped | End::Full) | None => "",
        };
        match files + self.unreadable {
            0 => late.to_owned(),
            count => format!("{late}({count} files or folders could not be read.)\n"),
        }
    }
}

impl GlobArgs {
    /// Where the search starts: in the leading folders of the pattern, so that nothing else is walked through.
    fn start(&self) -> String {
        match (self.path.as_deref().filter(|path| !path.is_empty()), split(&self.pattern).0) {
            (None, "") => ".".to_owned(),
            (None, folder) => folder.to_owned(),
            (Some(path), "") => path.to_owned(),
            (Some(path), folder) => Path::new(path).join(folder).to_string_lossy().into_owned(),
        }
    }
}

/// A pattern's leading folders that hold no special character, and the rest.
fn split(pattern: &str) -> (&str, &str) {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    match pattern[..special].rfind('/') {
        Some(0) => ("/", &pattern[1..]),
        Some(at) => (&pattern[..at], &pattern[at + 1..]),
        None => ("", pattern),
    }
}

fn matcher(pattern: &str) -> Result<GlobSet, Outcome> {
    if pattern.is_empty() {
        return Err(Outcome::fail(
            "The pattern is empty. Use * to list a folder, **/*.rs to find all files of a kind.",
        ));
    }
    // A set of one, because a single matcher panics where a set tells that the pattern is too large.
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.and_then(|glob| GlobSetBuilder::new().add(glob).build()).map_err(|error| {
        let error = error.kind().to_string();
        let what = cut(&error, MAX_TOLD);
        Outcome::fail(format!("The glob pattern cannot be read: {what}. Put [ and {{ in brackets to mean them."))
    })
}

fn start_of(memory: &FileMemory, call: &Call, path: &str) -> Result<Place, Outcome> {
    let place = disk::resolve(memory, call, path)?;
    if place.exists { Ok(place) } else { Err(Outcome::fail(format!("There is nothing called {path} to search in."))) }
}

/// How a found path is named: as the start is named, and the way below it.
fn name(place: &Place, below: &Path) -> String {
    match place.shown.as_str() {
        "." => below.display().to_string(),
        shown if below.as_os_str().is_empty() => shown.to_owned(),
        shown => Path::new(shown).join(below).display().to_string(),
    }
}

/// Tells when a search is to end.
struct Watch {
    cancel: CancellationToken,
    begun: Instant,
}

impl Watch {
    fn new(call: &Call) -> Self {
        Self { cancel: call.cancel.clone(), begun: Instant::now() }
    }

    fn over(&self) -> Option<End> {
        match (self.cancel.is_cancelled(), self.begun.elapsed() > MAX_TIME) {
            (true, _) => Some(End::Stopped),
            (false, true) => Some(End::Slow),
            (false, false) => None,
        }
    }
}

/// Shows everything below `place` to `visit`, sorted by path, with the way below. Ends early when `visit` says so.
fn walk(
    memory: &FileMemory,
    call: &Call,
    place: &Place,
    mut visit: impl FnMut(&DirEntry, &Path) -> Option<End>,
) -> Walked {
    let watch = Watch::new(call);
    let memory = memory.clone();
    // Who may look where keys are kept was judged by where the search starts.
    let among_keys = memory.keeps_keys(&place.real);
    let entries = WalkBuilder::new(&place.real)
        .hidden(false)
        .require_git(false)
        .sort_by_file_name(Ord::cmp)
        .filter_entry(move |entry| {
            let left_out =
                entry.file_name() == ".git" || MADE_UP.iter().any(|folder| entry.path() == Path::new(folder));
            let keys = !among_keys && memory.keeps_keys(entry.path());
            (entry.depth() == 0 || !left_out) && !keys && !memory.is_closed(entry.path())
        })
        .build();
    let mut unreadable = 0;
    for entry in entries {
        let over = watch.over();
        let end = match entry {
            _ if over.is_some() => over,
            Ok(entry) if entry.depth() == 0 && entry.file_type().is_some_and(|kind| kind.is_dir()) => None,
            Ok(entry) => visit(&entry, entry.path().strip_prefix(&place.real).unwrap_or(entry.path())),
            Err(_) => {
                unreadable += 1;
                None
            }
        };
        if end.is_some() {
            return Walked { end, unreadable };
        }
    }
    Walked { end: watch.over(), unreadable }
}

#[cfg(test)]
mod tests {
    use super::{End, walk};
    use crate::env::Env;
    use crate::id::{AgentId, CallId, Owner, SessionId};
    use crate::prompt::Given;
    use crate::tool::files::{FileMemory, disk};
    use crate::tool::{Call, Leave, LiveOutput};
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    struct Silent;

    impl LiveOutput for Silent {
        fn write(&self, _: &str) {}
    }

    #[test]
    fn a_walk_ends_at_the_entry_at_which_it_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let call = Call {
            id: CallId::from("1.0"),
            owner: Owner { session: SessionId::from("one"), agent: AgentId(1) },
            cwd: folder.path().to_owned(),
            leave: Leave::default(),
            judged: None,
            cancel: CancellationToken::new(),
            numbered: CancellationToken::new(),
            given: Given::default(),
            live: Arc::new(Silent),
            env: Env::system(),
        };
        let memory = FileMemory::new(Vec::new());
        let place = disk::resolve(&memory, &call, ".").unwrap();
        let mut seen = Vec::new();
        let walked = walk(&memory, &call, &place, |_, below| {
            seen.push(below.display().to_string());
            call.cancel.cancel();
            None
        });
        assert_eq!((walked.end, seen), (Some(End::Stopped), vec!["a".to_owned()]));
    }
}
