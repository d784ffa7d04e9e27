//! What each session has seen of which file, so that nobody writes over a change that it does not know of.

use crate::id::SessionId;
use std::collections::HashMap;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// How many entries are remembered before the older half is forgotten. Forgetting is safe: the file counts as not
/// read, and reading it again mends that.
const BOUND: usize = 16 * 1024;

/// How many files can be written at the same time. Two files may share a turn; one file never has two.
const TURNS: usize = 64;

/// What the file tools of one engine share. Clones share it too. Paths are canonical throughout.
#[derive(Clone)]
pub struct FileMemory {
    inner: Arc<Inner>,
}

struct Inner {
    closed: Vec<PathBuf>,
    seen: Mutex<Recent<(SessionId, PathBuf), Stamp>>,
    writers: Mutex<Recent<PathBuf, (SessionId, Stamp)>>,
    turns: [Mutex<()>; TURNS],
}

/// The state of a file. Two stamps with a hash are the same when their contents are; others when length and time are.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    hash: Option<u64>,
}

/// How what a session has seen of a file stands to what the file is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has seen the file as it is.
    Same,
    /// It has never seen it.
    Unread,
    /// It has seen it, and the file is another since: through this session, when that is known.
    Changed(Option<SessionId>),
}

impl FileMemory {
    /// A memory of nothing. The folders in `closed` are out of reach of every tool that shares it, whatever link or
    /// spelling leads there.
    pub fn new(closed: Vec<PathBuf>) -> Self {
        let real = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
        Self {
            inner: Arc::new(Inner {
                closed: closed.into_iter().map(real).collect(),
                seen: Mutex::default(),
                writers: Mutex::default(),
                turns: [const { Mutex::new(()) }; TURNS],
            }),
        }
    }

    /// Whether `path` is out of reach: in a closed folder, or a view of a process's memory or environment, which may
    /// hold keys.
    pub fn is_closed(&self, path: &Path) -> bool {
        let process = path.starts_with("/proc") && (path.ends_with("environ") || path.ends_with("mem"));
        process || self.inner.closed.iter().any(|closed| path.starts_with(closed))
    }

    /// Forgets what a session has seen.
    pub fn forget(&self, session: &SessionId) {
        lock(&self.inner.seen).entries.retain(|(owner, _), _| owner != session);
    }

    /// Waits for the turn to write `path`, so that check and write are one. Held on blocking threads only.
    pub(in crate::tool) fn turn(&self, path: &Path) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        lock(&self.inner.turns[hasher.finish() as usize % TURNS])
    }

    /// `session` has seen the file so.
    pub(in crate::tool) fn saw(&self, session: &SessionId, path: &Path, stamp: Stamp) {
        lock(&self.inner.seen).put((session.clone(), path.to_owned()), stamp);
    }

    /// `session` has made the file so. It knows the whole file if it wrote it whole or knew it before.
    pub(in crate::tool) fn wrote(&self, session: &SessionId, path: &Path, stamp: Stamp, whole: bool) {
        let key = (session.clone(), path.to_owned());
        let mut seen = lock(&self.inner.seen);
        if whole || seen.entries.contains_key(&key) {
            seen.put(key, stamp);
        }
        drop(seen);
        lock(&self.inner.writers).put(path.to_owned(), (session.clone(), stamp));
    }

    /// How what `session` has seen of the file stands to `now`.
    pub(in crate::tool) fn standing(&self, session: &SessionId, path: &Path, now: Stamp) -> Standing {
        let seen = lock(&self.inner.seen).entries.get(&(session.clone(), path.to_owned())).map(|(_, stamp)| *stamp);
        match seen {
            None => Standing::Unread,
            Some(seen) if seen.same(now) => Standing::Same,
            Some(_) => {
                let writers = lock(&self.inner.writers);
                let writer = writers.entries.get(path).map(|(_, writer)| writer);
                let writer = writer.filter(|(writer, stamp)| writer != session && stamp.same(now));
                Standing::Changed(writer.map(|(writer, _)| writer.clone()))
            }
        }
    }
}

impl Stamp {
    /// The state that `metadata` tells, with the content where it is known whole.
    pub fn new(metadata: &Metadata, content: Option<&[u8]>) -> Self {
        let hash = content.map(|content| {
            let mut hasher = DefaultHasher::new();
            content.hash(&mut hasher);
            hasher.finish()
        });
        Self { len: metadata.len(), modified: metadata.modified().ok(), hash }
    }

    fn same(self, other: Self) -> bool {
        match (self.hash, other.hash) {
            (Some(one), Some(two)) => one == two,
            (None, None) => (self.len, self.modified) == (other.len, other.modified),
            _ => false,
        }
    }
}

/// A map that forgets its older half when it is full.
struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    tick: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), tick: 0 }
    }
}

impl<K: Eq + Hash, V> Recent<K, V> {
    fn put(&mut self, key: K, value: V) {
        if self.entries.len() >= BOUND {
            let mut ticks: Vec<u64> = self.entries.values().map(|(tick, _)| *tick).collect();
            let (_, middle, _) = ticks.select_nth_unstable(BOUND / 2);
            let middle = *middle;
            self.entries.retain(|_, (tick, _)| *tick > middle);
        }
        self.tick += 1;
        self.entries.insert(key, (self.tick, value));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in itself, so a panic elsewhere leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn a_full_memory_forgets_its_older_half() {
        let mut recent = Recent::default();
        for key in 0..=super::BOUND {
            recent.put(key, ());
        }
        assert!(recent.entries.len() <= super::BOUND / 2 + 1);
        assert!(recent.entries.contains_key(&super::BOUND));
        assert!(!recent.entries.contains_key(&0));
    }
}
