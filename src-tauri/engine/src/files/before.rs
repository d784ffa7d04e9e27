//! What stood in files before they were changed, kept so that a change can be taken back.
//!
//! One folder for each session that changed something, named by its id; in it one file for each content, named by its
//! hash. What is too old or too much goes, the oldest first; what it belonged to cannot be taken back any more, and
//! says so.

use crate::config::bounds::{KEPT_BEFORE, MAX_BEFORE};
use crate::files::hash;
use crate::id::{ContentHash, SessionId};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The contents that are kept. Clones share them.
#[derive(Clone, Debug)]
pub struct Before(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    bound: u64,
    /// How many bytes are kept, as far as this process knows.
    bytes: AtomicU64,
}

impl Before {
    /// Contents that stand in this folder, which need not exist; at most [`MAX_BEFORE`] bytes of them.
    pub fn new(folder: PathBuf) -> Self {
        Self::bounded(folder, MAX_BEFORE)
    }

    fn bounded(folder: PathBuf, bound: u64) -> Self {
        Self(Arc::new(Inner { folder, bound, bytes: AtomicU64::new(0) }))
    }

    /// Keeps a content for a session, and answers its name. It outlasts a power cut when this returns.
    pub fn keep(&self, session: &SessionId, content: &[u8], now_ms: i64) -> io::Result<ContentHash> {
        let name = hash(content);
        let folder = self.0.folder.join(session.as_str());
        let path = folder.join(name.as_str());
        match File::options().append(true).open(&path) {
            Ok(kept) if kept.metadata()?.len() == content.len() as u64 => {
                // It is needed from now on again.
                kept.set_modified(time(now_ms))?;
                return Ok(name);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        make_folder(&folder)?;
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let scratch = folder.join(format!("{name}.{}.tmp", COUNT.fetch_add(1, Ordering::Relaxed)));
        let written = private(&scratch).and_then(|mut file| {
            file.write_all(content)?;
            file.set_modified(time(now_ms))?;
            file.sync_all()?;
            fs::rename(&scratch, &path)?;
            sync_folder(&folder)
        });
        if let Err(error) = written {
            // The first error is the one to tell.
            let _ = fs::remove_file(&scratch);
            return Err(error);
        }
        let bytes = self.0.bytes.fetch_add(content.len() as u64, Ordering::Relaxed) + content.len() as u64;
        if bytes > self.0.bound {
            self.trim(now_ms)?;
        }
        Ok(name)
    }

    /// A content that was kept for a session; none when it is not kept any more, or is not what its name says.
    pub fn get(&self, session: &SessionId, name: &ContentHash) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.0.folder.join(session.as_str()).join(name.as_str())) {
            Ok(content) => Ok(Some(content).filter(|content| hash(content) == *name)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets go of what is older than [`KEPT_BEFORE`], and of the oldest beyond the bound.
    pub fn trim(&self, now_ms: i64) -> io::Result<()> {
        let mut kept = Vec::new();
        for session in self.found()? {
            for entry in listed(&self.0.folder.join(session.as_str()))? {
                match entry.metadata() {
                    Ok(metadata) => kept.push((metadata.modified()?, metadata.len(), entry.path())),
                    // It was removed in this moment.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        kept.sort_unstable_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
        let oldest = time(now_ms).checked_sub(KEPT_BEFORE).unwrap_or(UNIX_EPOCH);
        // Room for a while: each look goes through all of them.
        let room = self.0.bound - self.0.bound / 8;
        let mut bytes = 0;
        for (modified, len, path) in kept {
            if modified < oldest || bytes + len > room {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            } else {
                bytes += len;
            }
        }
        self.0.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The sessions that something is kept for. What is named otherwise is not ours.
    pub fn found(&self) -> io::Result<Vec<SessionId>> {
        let mut found = Vec::new();
        for entry in listed(&self.0.folder)? {
            let name = entry.file_name().into_string().ok().filter(|name| uuid::Uuid::parse_str(name).is_ok());
            if let Some(name) = name
                && entry.file_type()?.is_dir()
            {
                found.push(SessionId(name));
            }
        }
        Ok(found)
    }

    /// Removes all that is kept for these sessions. What cannot be removed is told; the others go all the same.
    pub fn remove(&self, sessions: &[SessionId]) {
        for session in sessions {
            match fs::remove_dir_all(self.0.folder.join(session.as_str())) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!(%session, %error, "what was kept for a session that is no more could not be removed");
                }
                _ => {}
            }
        }
    }
}

fn time(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn listed(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

/// Files of other programs can hold what nobody else on this machine may read, and so can these.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn session(number: u8) -> SessionId {
        SessionId(format!("00000000-0000-7000-8000-0000000000{number:02}"))
    }

    #[test]
    fn what_is_kept_comes_back_and_what_was_tampered_with_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let before = Before::new(folder.path().join("before"));
        let (one, other) = (session(1), session(2));
        let name = before.keep(&one, b"text", NOW).unwrap();
        assert_eq!(before.keep(&one, b"text", NOW).unwrap(), name);
        assert_eq!(before.get(&one, &name).unwrap().unwrap(), b"text");
        assert_eq!(before.get(&other, &name).unwrap(), None);
        fs::write(folder.path().join("before").join(one.as_str()).join(name.as_str()), "tex!").unwrap();
        assert_eq!(before.get(&one, &name).unwrap(), None);
        fs::create_dir(folder.path().join("before/notes")).unwrap();
        assert_eq!(before.found().unwrap(), std::slice::from_ref(&one));
        before.remove(&[one, other]);
        assert_eq!(before.found().unwrap(), []);
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much_and_when_they_are_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let before = Before::bounded(folder.path().join("before"), 4000);
        let names: Vec<_> = (0..5_u8)
            .map(|number| before.keep(&session(number % 2), &[number; 1000], NOW + i64::from(number)).unwrap())
            .collect();
        let there = |now: &Before| -> Vec<bool> {
            let kept = |(number, name)| now.get(&session(number % 2), name).unwrap().is_some();
            (0..5_u8).zip(&names).map(kept).collect()
        };
        assert_eq!(there(&before), [false, false, true, true, true]);
        let later = NOW + 3 + i64::try_from(KEPT_BEFORE.as_millis()).unwrap();
        before.trim(later).unwrap();
        assert_eq!(there(&before), [false, false, false, true, true]);
    }
}
