//! The output log of a command: addressed by byte offset, read by many without disturbing one another, bounded on disk.
//!
//! A log is a folder of segments, files that are named by the offset of their first byte. The first few hold the
//! beginning and stay; of the rest the oldest goes when the bound is reached. What is in memory does not grow with
//! the output, and no file is open once a log is finished.

use crate::config::bounds::{DISK_RESERVE, MAX_OUTPUTS};
use crate::env;
use crate::error::{Code, Error, Result};
use crate::id::TaskId;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A command's output. Clones share it.
#[derive(Clone)]
pub struct OutputLog {
    inner: Arc<Inner>,
}

/// The folder of all output logs: one folder for each task, by its id.
#[derive(Clone, Debug)]
pub struct Outputs {
    folder: PathBuf,
    bound: u64,
}

impl Outputs {
    /// Logs that stand in this folder, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, bound: MAX_OUTPUTS }
    }

    /// The same, of which at most `bound` bytes are kept.
    #[cfg(test)]
    pub(crate) fn within(self, bound: u64) -> Self {
        Self { bound, ..self }
    }

    /// How many bytes all logs together may hold.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// The logs that stand here, with the bytes that each holds.
    pub fn sizes(&self) -> Result<Vec<(TaskId, u64)>> {
        let mut sizes = Vec::new();
        for task in self.found()? {
            match OutputLog::open(&self.dir(&task)) {
                Ok(log) => sizes.push((task, log.kept())),
                // It went meanwhile, or is no log.
                Err(error) => tracing::debug!(%task, %error, "an output was passed over"),
            }
        }
        Ok(sizes)
    }

    /// Removes what the log of a task that has ended holds. What it was is still told.
    pub fn thin(&self, task: &TaskId) -> Result<()> {
        let dir = self.dir(task);
        let log = OutputLog::open(&dir)?;
        let failed = |error| fault("An old output cannot be removed", &dir, error);
        // First, so that a log that was removed in part is never taken for a whole one.
        fs::write(dir.join(SIZE), format!("{}\n{REMOVED}", log.size())).map_err(failed)?;
        let kept = log.state().kept.clone();
        for range in kept {
            fs::remove_file(log.path(range.start)).map_err(failed)?;
        }
        Ok(())
    }

    /// Where the log of a task stands, if it has one.
    pub fn dir(&self, task: &TaskId) -> PathBuf {
        self.folder.join(task.as_str())
    }

    /// The tasks that a log stands here for. What is named otherwise is not ours.
    pub fn found(&self) -> Result<Vec<TaskId>> {
        let unreadable = |error| fault("The outputs cannot be listed", &self.folder, error);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().into_string().ok().filter(|name| is_task(name));
            if let Some(name) = name
                && entry.file_type().map_err(unreadable)?.is_dir()
            {
                found.push(TaskId(name));
            }
        }
        Ok(found)
    }

    /// Removes the logs of these tasks. What cannot be removed is told; the others go all the same.
    pub fn remove(&self, tasks: &[TaskId]) {
        for task in tasks {
            match fs::remove_dir_all(self.dir(task)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%task, %error, "the output of a task that is no more could not be removed");
                }
                _ => {}
            }
        }
    }
}

/// Whether a name is a task's: its kind and its number.
fn is_task(name: &str) -> bool {
    name.rsplit_once('-')
        .is_some_and(|(kind, n)| !kind.is_empty() && !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A part of an output log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The text; invalid UTF-8 is replaced; cuts fall on character boundaries.
    pub text: String,
    /// The offset to read from next.
    pub next: u64,
    /// The size so far, in bytes.
    pub size: u64,
    /// Whether the log is complete: the command has ended and nothing comes any more.
    pub done: bool,
    /// How many bytes between the asked offset and `text` are no longer kept, because the log passed its bound.
    pub dropped: u64,
}

struct Inner {
    dir: PathBuf,
    /// The size of a full segment, in bytes.
    segment: u64,
    state: Mutex<State>,
}

struct State {
    /// What is kept, oldest first; each range is a file. At most [`SEGMENTS`].
    kept: Vec<Range<u64>>,
    /// The last segment, while it is written.
    open: Option<File>,
    size: u64,
    done: bool,
    /// Why nothing is kept any more.
    fault: Option<String>,
}

/// How many segments a log keeps: these many of its beginning, and in all.
const HEAD: usize = 2;
const SEGMENTS: usize = 8;

/// The longest character, in bytes.
const CHAR: usize = 4;

/// Where the size of a log stands whose last bytes could not be kept, and in the next line, why.
const SIZE: &str = "size";

/// Why the output of a task is not kept any longer that ended long ago.
const REMOVED: &str = "output removed to save space";

impl OutputLog {
    /// A new log in the folder `dir`, which it makes. It keeps at most `bound` bytes: its beginning and its end; what
    /// falls between is dropped and counted.
    pub fn create(dir: &Path, bound: u64) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|error| fault("The output of the command cannot be kept", dir, error))?;
        let state = State { kept: Vec::new(), open: None, size: 0, done: false, fault: None };
        Ok(Self::with(dir, (bound / SEGMENTS as u64).max(1), state))
    }

    /// The log of a command that has ended, as an earlier process left it.
    pub fn open(dir: &Path) -> Result<Self> {
        let unreadable = |error| fault("The output of the command cannot be read", dir, error);
        let mut kept = Vec::new();
        let mut size = 0;
        let mut why = "the disk did not take it".to_owned();
        for entry in fs::read_dir(dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if let Some(start) = name.to_str().and_then(|name| name.parse::<u64>().ok()) {
                kept.push(start..start + entry.metadata().map_err(unreadable)?.len());
            } else if name == SIZE {
                let told = fs::read_to_string(entry.path()).map_err(unreadable)?;
                let mut lines = told.lines();
                size = lines.next().and_then(|size| size.parse().ok()).unwrap_or(0);
                why = lines.next().map_or(why, str::to_owned);
            }
        }
        kept.sort_by_key(|range| range.start);
        let end = kept.last().map_or(0, |range| range.end);
        let lost = (size > end).then_some(why);
        let state = State { kept, open: None, size: size.max(end), done: true, fault: lost };
        Ok(Self::with(dir, 1, state))
    }

    fn with(dir: &Path, segment: u64, state: State) -> Self {
        Self { inner: Arc::new(Inner { dir: dir.to_owned(), segment, state: Mutex::new(state) }) }
    }

    /// Appends. An error (a full disk) is told once here and shown in the log; later output is counted, not kept.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut state = self.state();
        let start = state.size;
        state.size += bytes.len() as u64;
        if state.fault.is_some() {
            return Ok(());
        }
        let result = self.append(&mut state, start, bytes);
        if let Err(error) = result {
            state.open = None;
            state.fault = Some(error.to_string());
            return Err(fault("The output of the command is no longer kept", &self.inner.dir, error));
        }
        Ok(())
    }

    /// Reads at most `limit` bytes from `offset`, and one character at least. What was dropped is stepped over; a slice
    /// never spans a gap.
    pub fn read(&self, offset: u64, limit: usize) -> Result<Slice> {
        loop {
            let (kept, size, done, lost) = {
                let state = self.state();
                (state.kept.clone(), state.size, state.done, state.fault.clone())
            };
            let asked = offset.min(size);
            let Some(first) = kept.iter().position(|range| asked < range.end) else {
                let dropped = size - asked;
                let text = match lost {
                    Some(reason) if dropped > 0 && reason == REMOVED => format!("\n[{REMOVED}: {dropped} bytes]\n"),
                    Some(reason) if dropped > 0 => format!("\n[{dropped} bytes of output were not kept: {reason}.]\n"),
                    _ => String::new(),
                };
                return Ok(Slice { text, next: size, size, done, dropped });
            };
            let run = contiguous(&kept[first..]);
            let gap = asked < kept[first].start;
            let start = asked.max(kept[first].start);
            // A little before, to see whether the offset cuts a character; a little more, to end on one.
            let from = start.saturating_sub(CHAR as u64 - 1).max(kept[first].start);
            let until = start.saturating_add(limit.max(CHAR) as u64).min(run.end);
            let bytes = match self.bytes(&kept[first..], from..until) {
                // The oldest segment went while this was read: what is kept now lies further on.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.state().kept != kept => continue,
                result => {
                    result.map_err(|error| fault("The output of the command cannot be read", &self.inner.dir, error))?
                }
            };
            let (before, rest) = bytes.split_at(usize::try_from(start - from).unwrap_or(0).min(bytes.len()));
            let skipped = if gap { leading_continuation(rest) } else { inside(before, rest) };
            let rest = &rest[skipped..];
            let final_cut = until == run.end && (done || until < size);
            let rest = if final_cut { rest } else { &rest[..rest.len() - unfinished(rest)] };
            let start = start + skipped as u64;
            return Ok(Slice {
                text: String::from_utf8_lossy(rest).into_owned(),
                next: start + rest.len() as u64,
                size,
                done,
                dropped: if gap { start - asked } else { 0 },
            });
        }
    }

    /// The size so far, in bytes.
    pub fn size(&self) -> u64 {
        self.state().size
    }

    /// Nothing comes any more.
    pub fn finish(&self) {
        let mut state = self.state();
        state.done = true;
        state.open = None;
        if let Some(why) = &state.fault
            && let Err(error) = fs::write(self.inner.dir.join(SIZE), format!("{}\n{why}", state.size))
        {
            // Most likely the same full disk. Until the next start the size is known all the same.
            tracing::warn!(%error, "the size of an output log could not be written down");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A write that panicked may have left a segment short of its range; readers take what is in the file.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, start: u64) -> PathBuf {
        self.inner.dir.join(format!("{start:020}"))
    }

    /// How many bytes are kept.
    pub fn kept(&self) -> u64 {
        self.state().kept.iter().map(|range| range.end - range.start).sum()
    }

    /// Why not all of it is kept; none when all is, but for what fell out of the middle of a long one.
    pub fn broken_off(&self) -> Option<String> {
        self.state().fault.clone()
    }

    fn append(&self, state: &mut State, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        if env::free(&self.inner.dir).is_some_and(|free| free < DISK_RESERVE) {
            let reserve = DISK_RESERVE / 1024 / 1024;
            return Err(io::Error::other(format!("less than {reserve} MiB are free on the disk")));
        }
        while !bytes.is_empty() {
            let full = state.kept.last().is_none_or(|last| last.end - last.start >= self.inner.segment);
            if full {
                if state.kept.len() == SEGMENTS {
                    fs::remove_file(self.path(state.kept[HEAD].start))?;
                    state.kept.remove(HEAD);
                }
                state.open = Some(File::create_new(self.path(at))?);
                state.kept.push(at..at);
            }
            let (Some(file), Some(last)) = (&mut state.open, state.kept.last_mut()) else {
                return Err(io::Error::other("the log was finished"));
            };
            let room = usize::try_from(self.inner.segment - (last.end - last.start)).unwrap_or(usize::MAX);
            let count = match file.write(&bytes[..bytes.len().min(room)]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            };
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            last.end += count as u64;
            at += count as u64;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// The bytes of `wanted`, which lies within the first segments of `kept`.
    fn bytes(&self, kept: &[Range<u64>], wanted: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for range in kept.iter().take_while(|range| range.start < wanted.end) {
            let (start, end) = (wanted.start.max(range.start), wanted.end.min(range.end));
            if start < end {
                let mut file = File::open(self.path(range.start))?;
                file.seek(SeekFrom::Start(start - range.start))?;
                file.take(end - start).read_to_end(&mut bytes)?;
            }
        }
        Ok(bytes)
    }
}

/// The range that the first of these covers together with those that follow it without a gap.
fn contiguous(kept: &[Range<u64>]) -> Range<u64> {
    let mut run = kept.first().cloned().unwrap_or_default();
    for range in kept.iter().skip(1) {
        if range.start != run.end {
            break;
        }
        run.end = range.end;
    }
    run
}

/// How many bytes at the beginning continue a character whose start is not there.
fn leading_continuation(bytes: &[u8]) -> usize {
    bytes.iter().take(CHAR - 1).take_while(|byte| is_continuation(**byte)).count()
}

/// How many bytes of `rest` belong to a character that begins in `before`.
fn inside(before: &[u8], rest: &[u8]) -> usize {
    let Some(lead) = before.iter().rposition(|byte| !is_continuation(*byte)) else { return 0 };
    let behind = before.len() - lead;
    let missing = length(before[lead]).saturating_sub(behind);
    if leading_continuation(rest) >= missing { missing } else { 0 }
}

/// How many bytes at the end begin a character that goes on behind them.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(CHAR - 1)..];
    let Some(lead) = tail.iter().rposition(|byte| !is_continuation(*byte)) else { return 0 };
    let there = tail.len() - lead;
    if length(tail[lead]) > there { there } else { 0 }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes a character has that begins with this one.
fn length(lead: u8) -> usize {
    match lead {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}

fn fault(what: &str, dir: &Path, error: io::Error) -> Error {
    Error::new(Code::Store, format!("{what} in {}: {error}.", dir.display())).because(error)
}
