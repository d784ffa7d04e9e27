//! Taking changes of one file back.

use super::{UndoHow, UndoneFile};
use crate::event::FileChange;
use crate::files::before::Before;
use crate::files::changes::Changes;
use crate::files::handle::{Missed, Spot};
use crate::files::merge::merge;
use crate::files::place::unusable;
use crate::files::{WHOLE, hash};
use crate::id::{ContentHash, SessionId};
use crate::tool::files::{FileMemory, Stamp, Writer};
use std::fs::Metadata;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// What is to be done in one file: the changes to take back, the latest first.
pub struct Work {
    pub path: String,
    pub shown: String,
    pub steps: Vec<Step>,
}

/// One change of a file.
pub struct Step {
    /// For whom its contents are kept.
    pub session: SessionId,
    pub before: Option<ContentHash>,
    pub after: Option<ContentHash>,
    /// Who changed the file later, as far as the log knows.
    pub since: Option<String>,
}

/// Where it is done.
pub struct Disk {
    pub memory: FileMemory,
    pub before: Before,
    /// For whom the contents are kept that this replaces.
    pub session: SessionId,
    pub now_ms: i64,
}

/// What a file is, and what it is to be.
pub struct Looked {
    spot: Option<Spot>,
    metadata: Option<Metadata>,
    now: Option<Vec<u8>>,
    /// Or why it is left alone.
    then: Result<(Option<Vec<u8>>, UndoHow), String>,
}

impl Looked {
    /// For people.
    pub fn told(&self, work: &Work) -> UndoneFile {
        let edits = u32::try_from(work.steps.len()).unwrap_or(u32::MAX);
        let mut file = UndoneFile {
            path: work.path.clone(),
            shown: work.shown.clone(),
            how: UndoHow::Refused,
            why: None,
            edits,
            added: 0,
            removed: 0,
            diff: String::new(),
        };
        match &self.then {
            Err(why) => file.why = Some(why.clone()),
            Ok((then, how)) => {
                file.how = *how;
                let text = |content: &Option<Vec<u8>>| {
                    String::from_utf8_lossy(content.as_deref().unwrap_or_default()).into_owned()
                };
                let Changes { added, removed, diff } = Changes::between(&text(&self.now), &text(then));
                file.added = i64::try_from(added).unwrap_or(i64::MAX);
                file.removed = i64::try_from(removed).unwrap_or(i64::MAX);
                file.diff = diff;
            }
        }
        file
    }
}

impl Disk {
    /// Looks what would become of a file.
    pub fn look(&self, work: &Work) -> Looked {
        let mut looked = Looked { spot: None, metadata: None, now: None, then: Err(String::new()) };
        looked.then = self.open(work, &mut looked).and_then(|()| self.steps(work, &looked));
        looked
    }

    /// Takes the changes of a file back. What it was is kept first.
    pub fn take_back(&self, work: &Work) -> (UndoneFile, Option<FileChange>) {
        let path = Path::new(&work.path);
        let _turn = self.memory.turn(path);
        let mut looked = self.look(work);
        let done = match &looked.then {
            Ok((_, UndoHow::Same)) | Err(_) => Ok(None),
            Ok((then, _)) => self.put(work, &looked, then.as_deref()).map(Some),
        };
        let change = done.unwrap_or_else(|why| {
            looked.then = Err(why);
            None
        });
        (looked.told(work), change)
    }

    fn put(&self, work: &Work, looked: &Looked, then: Option<&[u8]>) -> Result<FileChange, String> {
        let (shown, path) = (&work.shown, Path::new(&work.path));
        let keep = |content: Option<&[u8]>| {
            let kept = content.map(|content| self.before.keep(&self.session, content, self.now_ms)).transpose();
            kept.map_err(|error| format!("{shown} is left alone: what stands in it cannot be kept ({error})."))
        };
        let change = FileChange {
            path: work.path.clone(),
            shown: shown.clone(),
            before: keep(looked.now.as_deref())?,
            after: keep(then)?,
        };
        let missed = |missed| match missed {
            Missed::Changed => format!("{shown} is left alone: it changed in this moment."),
            Missed::Disk(error) => unusable(shown, &error),
        };
        let made;
        let spot = match &looked.spot {
            Some(spot) => spot,
            None => {
                made = Spot::make(path).map_err(|error| unusable(shown, &error))?;
                &made
            }
        };
        match (then, &looked.metadata) {
            (Some(then), over) => {
                let metadata = spot.put(then, over.as_ref()).map_err(missed)?;
                self.memory.undid(path, Stamp::new(&metadata, Some(then)), self.now_ms);
            }
            (None, Some(over)) => spot.remove(over).map_err(missed)?,
            (None, None) => {}
        }
        Ok(change)
    }

    /// Opens the file, if it is there.
    fn open(&self, work: &Work, looked: &mut Looked) -> Result<(), String> {
        let (shown, path) = (&work.shown, Path::new(&work.path));
        if self.memory.is_closed(path) {
            return Err(format!("{shown} is out of reach."));
        }
        let unusable = |error: &std::io::Error| unusable(shown, error);
        looked.spot = match Spot::at(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            spot => Some(spot.map_err(|error| unusable(&error))?),
        };
        let Some(spot) = &looked.spot else { return Ok(()) };
        let file = match spot.open() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file.map_err(|error| unusable(&error))?,
        };
        let metadata = file.metadata().map_err(|error| unusable(&error))?;
        if !metadata.is_file() || metadata.len() > WHOLE {
            return Err(format!("{shown} is left alone: it is no file any more, or too large to be held."));
        }
        if !spot.may_write(&metadata) {
            return Err(format!("{shown} is left alone: it is write-protected."));
        }
        let mut content = Vec::new();
        file.take(WHOLE + 1).read_to_end(&mut content).map_err(|error| unusable(&error))?;
        looked.metadata = Some(metadata);
        looked.now = Some(content);
        Ok(())
    }

    fn steps(&self, work: &Work, looked: &Looked) -> Result<(Option<Vec<u8>>, UndoHow), String> {
        let shown = &work.shown;
        let mut content = looked.now.clone();
        let mut how = UndoHow::Restored;
        for step in &work.steps {
            let now = content.as_deref().map(hash);
            if now == step.before {
                continue;
            }
            if now == step.after {
                content = self.kept(shown, step, step.before.as_ref())?;
                continue;
            }
            let who = || self.who(work, looked, step);
            let current = match (content, &step.before, &step.after) {
                (None, _, _) => return Err(format!("{shown} is left alone: it is not there any more.")),
                (Some(_), _, None) => {
                    return Err(format!("{shown} is left alone: it is there again, made by {}.", who()));
                }
                (Some(_), None, Some(_)) => {
                    return Err(format!("{shown} is left alone: {} changed it since it was made.", who()));
                }
                (Some(current), Some(_), Some(_)) => current,
            };
            let base = self.kept(shown, step, step.after.as_ref())?.unwrap_or_default();
            let old = self.kept(shown, step, step.before.as_ref())?.unwrap_or_default();
            let texts = (std::str::from_utf8(&base), std::str::from_utf8(&current), std::str::from_utf8(&old));
            let merged = match texts {
                (Ok(base), Ok(current), Ok(old)) => merge(base, current, old),
                _ => None,
            };
            let overlap =
                || format!("{shown} is left alone: {} changed the same lines, or lines beside them, later.", who());
            content = Some(merged.ok_or_else(overlap)?.into_bytes());
            how = UndoHow::Merged;
        }
        let how = match &content {
            same if *same == looked.now => UndoHow::Same,
            None => UndoHow::Removed,
            Some(_) => how,
        };
        Ok((content, how))
    }

    fn kept(&self, shown: &str, step: &Step, name: Option<&ContentHash>) -> Result<Option<Vec<u8>>, String> {
        let Some(name) = name else { return Ok(None) };
        let gone = || format!("{shown} is left alone: what stood in it is not kept any more.");
        let kept = self.before.get(&step.session, name);
        let kept =
            kept.map_err(|error| format!("{shown} is left alone: what stood in it cannot be read ({error})."))?;
        kept.map(Some).ok_or_else(gone)
    }

    /// Who changed the file after this step, for a sentence.
    fn who(&self, work: &Work, looked: &Looked, step: &Step) -> String {
        let stamp = looked.metadata.as_ref().map(|metadata| Stamp::new(metadata, looked.now.as_deref()));
        let writer = stamp.and_then(|stamp| self.memory.writer(Path::new(&work.path), &stamp));
        match (writer, &step.since) {
            (Some(Writer::Session { label, .. }), _) if !label.is_empty() => format!("\u{201c}{label}\u{201d}"),
            (Some(Writer::Session { session, .. }), _) => format!("session {session}"),
            (Some(Writer::Undo), _) => "you, by taking other changes back,".to_owned(),
            (None, Some(label)) => format!("\u{201c}{label}\u{201d}, or something else"),
            (None, None) => "something else, a command or a program,".to_owned(),
        }
    }
}
