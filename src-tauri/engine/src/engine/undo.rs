//! What a person takes back of what agents did to files.
//!
//! A change is taken back by content: where the file holds what the change left, it gets what stood there before; where
//! it changed since, both changes are put together if they do not meet, and else the file is left alone. A file whose
//! changes cannot all be taken back is left alone whole. Taking back is a change itself, and can be taken back.

use super::Engine;
use super::stop::below;
use crate::error::{Code, Error, Result};
use crate::event::{Block, EditRef, Event, FileChange, Recorded};
use crate::id::{CallId, SessionId};
use crate::log::Entry;
use crate::scope::Scope;
use crate::text::plain;
use crate::view::SessionView;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use ts_rs::TS;

mod file;

use file::{Disk, Step, Work};

/// How many files are shown with what would change in them.
const SHOWN: usize = 100;

/// How many files are named in a sentence.
const NAMED: usize = 5;

/// Which changes of files are to be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// Whose changes.
    pub session: SessionId,
    /// Those of all below it, too.
    pub branch: bool,
    /// Only those of this row: of the calls of this `Answered`, or of this `Undone`, which is taken back itself then.
    pub n: Option<i64>,
    /// Only those of this call.
    pub call: Option<CallId>,
}

/// What was taken back, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Undoing {
    /// The files, those that were changed last first.
    pub files: Vec<UndoneFile>,
    /// The `n` of the `Undone`: the row by which it can be taken back. None in a preview.
    pub n: Option<i64>,
}

/// What becomes of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct UndoneFile {
    /// The file, absolute.
    pub path: String,
    /// How it is called.
    pub shown: String,
    /// What becomes of it.
    pub how: UndoHow,
    /// Why it is left alone; none when it is not.
    pub why: Option<String>,
    /// How many changes of it are taken back.
    pub edits: u32,
    /// Lines that come.
    pub added: i64,
    /// Lines that go.
    pub removed: i64,
    /// What would change in it, as a unified diff of at most 4 KiB; only in a preview, for the first 100.
    pub diff: String,
}

/// What becomes of a file whose changes are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum UndoHow {
    /// It gets what stood in it before.
    Restored,
    /// It is removed: it was not there before.
    Removed,
    /// It gets what stood in it before, and keeps what others changed since.
    Merged,
    /// It is as it was before already.
    Same,
    /// It is left alone.
    Refused,
}

/// A change that can be taken back.
struct Edit {
    of: EditRef,
    seq: i64,
    files: Vec<FileChange>,
    /// The changes that it took back itself.
    undid: Vec<EditRef>,
}

/// What is to be taken back: the changes, the latest first, and what is to be done in which file.
struct Plan {
    edits: Vec<Edit>,
    work: Vec<Work>,
    labels: HashMap<SessionId, String>,
    all: HashMap<EditRef, Vec<EditRef>>,
}

impl Engine {
    /// Takes changes of files back, the latest first. With `preview` nothing happens, and the answer says what would.
    /// `conflict` when nothing can be taken back, with the reasons.
    pub async fn undo(&self, undo: Undo, preview: bool, key: &str) -> Result<Undoing> {
        if preview {
            let plan = self.undo_plan(&undo).await?;
            let (disk, work) = (self.disk(&undo.session), plan.work);
            let looked = Scope::blocking(move || work.iter().map(|work| disk.look(work).told(work)).collect());
            let mut files: Vec<UndoneFile> = looked.await;
            files.iter_mut().skip(SHOWN).for_each(|file| file.diff.clear());
            return Ok(Undoing { files, n: None });
        }
        self.once(key, format!("undo {undo:?}"), self.take_back(&undo, key)).await
    }

    fn disk(&self, session: &SessionId) -> Disk {
        let inner = &self.0;
        Disk {
            memory: inner.memory.clone(),
            before: inner.before.clone(),
            session: session.clone(),
            now_ms: inner.env.now_ms(),
        }
    }

    async fn take_back(&self, undo: &Undo, key: &str) -> Result<Undoing> {
        self.0.agents.check_barred(&undo.session)?;
        let Plan { edits, work, labels, all } = self.undo_plan(undo).await?;
        // What took others back is taken back whole or not at all: a part of it could not be named again.
        let whole = edits.iter().any(|edit| edit.of.call.is_none());
        let disk = self.disk(&undo.session);
        let done = Scope::blocking(move || {
            let refused = |work: &Work| disk.look(work).told(work);
            if whole && work.iter().any(|work| refused(work).how == UndoHow::Refused) {
                return work.iter().map(|work| (refused(work), None)).collect();
            }
            work.iter().map(|work| disk.take_back(work)).collect::<Vec<_>>()
        });
        let done = done.await;
        let taken: HashSet<&str> =
            done.iter().filter(|(file, _)| file.how != UndoHow::Refused).map(|(file, _)| file.path.as_str()).collect();
        let refused = done.iter().any(|(file, _)| file.how == UndoHow::Refused);
        if taken.is_empty() || (whole && refused) {
            let reasons: Vec<&str> = done.iter().filter_map(|(file, _)| file.why.as_deref()).take(NAMED).collect();
            return Err(Error::new(Code::Conflict, format!("Nothing was taken back. {}", reasons.join(" "))));
        }
        let taken_edits: Vec<&Edit> =
            edits.iter().filter(|edit| edit.files.iter().any(|file| taken.contains(file.path.as_str()))).collect();
        let undone = Event::Undone {
            edits: taken_edits.iter().map(|edit| edit.of.clone()).collect(),
            files: done.iter().filter_map(|(_, change)| change.clone()).collect(),
        };
        let mut entries =
            vec![Entry { session: undo.session.clone(), key: Some(key.to_owned()), events: vec![undone] }];
        for (session, text) in notes(&taken_edits, &all, &labels) {
            entries.push(Entry::new(&session, vec![Event::Noted { text }]));
        }
        let recorded = self.0.log.write(entries).await?;
        let mut files: Vec<UndoneFile> = done.into_iter().map(|(file, _)| file).collect();
        files.iter_mut().for_each(|file| file.diff.clear());
        Ok(Undoing { files, n: recorded.first().map(|first| first.n) })
    }

    async fn undo_plan(&self, undo: &Undo) -> Result<Plan> {
        let inner = &self.0;
        let root = inner.log.session(&undo.session).await?.root;
        inner.memory.recall(&undo.session).await?;
        let tree = inner.log.sessions(Some(&root)).await?;
        let recorded = inner.log.file_changes(&root).await?;
        let scope = if undo.branch { below(&tree, &undo.session) } else { BTreeSet::from([undo.session.clone()]) };
        let mut edits = Vec::new();
        let mut rows: HashMap<SessionId, Rows> = HashMap::new();
        for recorded in recorded.iter().rev() {
            let session = &recorded.session;
            if scope.contains(session) && !rows.contains_key(session) {
                rows.insert(session.clone(), Rows::of(&inner.log.events(session, 0, usize::MAX).await?));
            }
            edits.extend(Edit::of(recorded, rows.get(session)));
        }
        let all = edits.iter().map(|edit| (edit.of.clone(), edit.undid.clone())).collect();
        let gone = taken_back(&edits);
        let asked = |edit: &Edit| {
            undo.n.is_none_or(|n| edit.of.n == n)
                && undo.call.as_ref().is_none_or(|call| edit.of.call.as_ref() == Some(call))
        };
        let one = undo.n.is_some() || undo.call.is_some();
        // What a person took back is nobody's change to be named.
        let later = edits
            .iter()
            .filter(|edit| edit.of.call.is_some())
            .flat_map(|edit| edit.files.iter().map(|file| (file.path.clone(), edit.seq, edit.of.session.clone())));
        let later: Vec<(String, i64, SessionId)> = later.collect();
        edits.retain(|edit| match one {
            true => edit.of.session == undo.session && asked(edit),
            false => edit.of.call.is_some() && scope.contains(&edit.of.session),
        });
        let found = edits.len();
        edits.retain(|edit| !gone.contains(&edit.of));
        if edits.is_empty() {
            return Err(nothing(one, found));
        }
        let labels: HashMap<SessionId, String> =
            tree.iter().map(|session| (session.id.clone(), name(session))).collect();
        let work = work(&edits, &later, &labels);
        Ok(Plan { edits, work, labels, all })
    }
}

fn nothing(one: bool, found: usize) -> Error {
    let (code, message) = match (one, found) {
        (true, 0) => (Code::BadRequest, "Nothing there changed a file in a way that can be taken back."),
        (false, 0) => (Code::Conflict, "No file was changed there by a tool that edits files. Nothing was done."),
        (_, _) => (Code::Conflict, "That was taken back already. Nothing was done."),
    };
    Error::new(code, message)
}

fn name(session: &SessionView) -> String {
    plain(session.label.as_ref().unwrap_or(&session.title), 80)
}

/// What a session's log says of its calls.
#[derive(Default)]
struct Rows {
    asked: HashMap<CallId, i64>,
    /// Calls that ended without having changed anything, or have not ended.
    idle: HashSet<CallId>,
}

impl Rows {
    fn of(events: &[Recorded]) -> Self {
        let mut rows = Self::default();
        for recorded in events {
            match &recorded.event {
                Event::Answered { blocks, .. } => {
                    for block in blocks {
                        if let Block::ToolCall { id, .. } = block {
                            rows.asked.insert(id.clone(), recorded.n);
                            rows.idle.insert(id.clone());
                        }
                    }
                }
                // A call that was cut off may have changed the file; the file itself tells.
                Event::ToolFinished { call, ok, detail, .. } if *ok || detail.get(crate::event::CUT_OFF).is_some() => {
                    rows.idle.remove(call);
                }
                _ => {}
            }
        }
        rows
    }
}

impl Edit {
    /// The change that an event tells of; none when it came to nothing. Where `rows` are not known it is another's,
    /// which is only named.
    fn of(recorded: &Recorded, rows: Option<&Rows>) -> Option<Self> {
        let (session, seq) = (recorded.session.clone(), recorded.seq);
        match &recorded.event {
            Event::FileChanging { call, change } => {
                let n = match rows {
                    Some(rows) if rows.idle.contains(call) => return None,
                    Some(rows) => *rows.asked.get(call)?,
                    None => 0,
                };
                let of = EditRef { session, n, call: Some(call.clone()) };
                Some(Self { of, seq, files: vec![change.clone()], undid: Vec::new() })
            }
            Event::Undone { edits, files } => {
                let of = EditRef { session, n: recorded.n, call: None };
                Some(Self { of, seq, files: files.clone(), undid: edits.clone() })
            }
            _ => None,
        }
    }
}

/// The changes that are taken back and not put back again. `edits` come the latest first.
fn taken_back(edits: &[Edit]) -> HashSet<EditRef> {
    let mut gone = HashSet::new();
    for edit in edits {
        if !gone.contains(&edit.of) {
            gone.extend(edit.undid.iter().cloned());
        }
    }
    gone
}

/// What is to be done in each file. `edits` come the latest first; `later` are all changes there were, to name who
/// changed a file since.
fn work(edits: &[Edit], later: &[(String, i64, SessionId)], labels: &HashMap<SessionId, String>) -> Vec<Work> {
    let ours: HashSet<i64> = edits.iter().map(|edit| edit.seq).collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut all: Vec<Work> = Vec::new();
    for edit in edits {
        for change in &edit.files {
            let place = *places.entry(change.path.clone()).or_insert_with(|| {
                all.push(Work { path: change.path.clone(), shown: change.shown.clone(), steps: Vec::new() });
                all.len() - 1
            });
            let since =
                later.iter().find(|(path, seq, _)| *path == change.path && *seq > edit.seq && !ours.contains(seq));
            let step = Step {
                session: edit.of.session.clone(),
                before: change.before.clone(),
                after: change.after.clone(),
                since: since.and_then(|(_, _, session)| labels.get(session).cloned()),
            };
            if let Some(work) = all.get_mut(place) {
                work.steps.push(step);
            }
        }
    }
    all
}

/// What each session whose changes were taken back, or put back again, is told.
fn notes(
    taken: &[&Edit],
    all: &HashMap<EditRef, Vec<EditRef>>,
    labels: &HashMap<SessionId, String>,
) -> Vec<(SessionId, String)> {
    let mut told: BTreeMap<(SessionId, bool), BTreeSet<&str>> = BTreeMap::new();
    for edit in taken {
        let mut whose = BTreeSet::new();
        leaves(&edit.of, all, false, &mut whose);
        for (session, back) in whose {
            let files = told.entry((session, back)).or_default();
            files.extend(edit.files.iter().map(|file| file.shown.as_str()));
        }
    }
    let note = |((session, back), files): ((SessionId, bool), BTreeSet<&str>)| {
        let named: Vec<&str> = files.iter().take(NAMED).copied().collect();
        let more = match files.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what =
            if back { "put changes of yours back that had been taken back" } else { "took changes of yours back" };
        let text = format!(
            "[runtime] The person {what}, in {}{more}. Read a file again before you change it.",
            named.join(", ")
        );
        (session, text)
    };
    told.into_iter().filter(|((session, _), _)| labels.contains_key(session)).map(note).collect()
}

/// The sessions whose own changes this one comes down to, and whether it puts them back.
fn leaves(of: &EditRef, all: &HashMap<EditRef, Vec<EditRef>>, back: bool, found: &mut BTreeSet<(SessionId, bool)>) {
    if of.call.is_some() {
        found.insert((of.session.clone(), back));
        return;
    }
    // Each took back only what stood before it, so this ends.
    for below in all.get(of).into_iter().flatten() {
        leaves(below, all, !back, found);
    }
}
