//! What each session has seen of which file, so that nobody writes over a change that it does not know of; and who
//! wrote what lately, so that two who write one file are told of.
//!
//! It is folded from the log when the first session of a tree asks, and kept up from there.

use super::stamp::{Fact, Stamp};
use crate::config::bounds::LATELY;
use crate::error::Result;
use crate::event::{Event, FileChange};
use crate::files::before::Before;
use crate::files::place::Place;
use crate::id::SessionId;
use crate::log::{Entry, Log};
use crate::text::plain;
use crate::tool::{Call, Outcome};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many entries are remembered before the older half is forgotten. Forgetting is safe: the file counts as not
/// read, and reading it again mends that.
const BOUND: usize = 16 * 1024;

/// How many writers of one file are remembered.
const WRITERS: usize = 8;

/// How many files can be written at the same time. Two files may share a turn; one file never has two.
const TURNS: usize = 64;

/// What the file tools of one engine share. Clones share it too. Paths are canonical throughout.
#[derive(Clone)]
pub struct FileMemory {
    inner: Arc<Inner>,
}

struct Inner {
    closed: Vec<PathBuf>,
    keys: Vec<PathBuf>,
    seen: Mutex<Recent<(SessionId, Key), Stamp>>,
    writers: Mutex<Recent<PathBuf, Vec<Wrote>>>,
    known: Mutex<Known>,
    turns: [Mutex<()>; TURNS],
    books: Option<Books>,
}

/// Where changes of files are written down, and what stood in the files.
struct Books {
    log: Log,
    before: Before,
}

/// A file by its path, or by which file it is on its device: a hard link is another path of the same file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Path(PathBuf),
    File(u64, u64),
}

#[derive(Default)]
struct Known {
    sessions: HashMap<SessionId, Who>,
    /// The roots whose logs were looked through.
    roots: HashSet<SessionId>,
    /// The clashes that were told: the file, who was first, who came later.
    told: HashSet<(PathBuf, SessionId, SessionId)>,
}

#[derive(Clone)]
struct Who {
    root: SessionId,
    label: String,
}

#[derive(Clone)]
struct Wrote {
    by: Writer,
    stamp: Stamp,
    at: i64,
}

/// Who wrote a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A session.
    Session {
        /// Its id.
        session: SessionId,
        /// Its label or title; empty where it is not known.
        label: String,
    },
    /// A person who took changes back.
    Undo,
}

/// Another session that wrote a file lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Who.
    pub session: SessionId,
    /// Its label or title; empty where it is not known.
    pub label: String,
    /// When, in milliseconds since the Unix epoch.
    pub at: i64,
}

/// How what a session has seen of a file stands to what the file is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has seen the file as it is.
    Same,
    /// It has never seen it.
    Unread,
    /// It has seen it, and the file is another since: through this one, when that is known.
    Changed(Option<Writer>),
}

impl FileMemory {
    /// A memory of nothing, that nothing is kept for. The folders in `closed` are out of reach of every tool that
    /// shares it, whatever link or spelling leads there.
    pub fn new(closed: Vec<PathBuf>) -> Self {
        Self::made(closed, Vec::new(), None)
    }

    /// The same for the sessions of a store: what they saw and wrote is folded from the log; what stood in a file that
    /// they change is kept in `before`, and written down in the log first.
    /// A search passes by the places in `keys`.
    pub fn of(closed: Vec<PathBuf>, keys: Vec<PathBuf>, log: Log, before: Before) -> Self {
        Self::made(closed, keys, Some(Books { log, before }))
    }

    fn made(closed: Vec<PathBuf>, keys: Vec<PathBuf>, books: Option<Books>) -> Self {
        let real = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
        Self {
            inner: Arc::new(Inner {
                closed: closed.into_iter().map(real).collect(),
                keys: keys.into_iter().map(real).collect(),
                seen: Mutex::default(),
                writers: Mutex::default(),
                known: Mutex::default(),
                turns: [const { Mutex::new(()) }; TURNS],
                books,
            }),
        }
    }

    /// Whether `path` is out of reach: in a closed folder, or a view of a process's memory or environment, which may
    /// hold keys.
    pub fn is_closed(&self, path: &Path) -> bool {
        let process = path.starts_with("/proc") && (path.ends_with("environ") || path.ends_with("mem"));
        process || self.inner.closed.iter().any(|closed| path.starts_with(closed))
    }

    /// Whether `path` is where keys and passwords are kept by convention, or in there.
    pub fn keeps_keys(&self, path: &Path) -> bool {
        self.inner.keys.iter().any(|keys| path.starts_with(keys))
    }

    /// Forgets what a session has seen.
    pub fn forget(&self, session: &SessionId) {
        lock(&self.inner.seen).entries.retain(|(owner, _), _| owner != session);
        lock(&self.inner.known).sessions.remove(session);
    }

    /// Learns from the log what the sessions of this one's tree saw and wrote, unless it is known. Every tool that
    /// looks or writes here waits for it first.
    pub async fn recall(&self, session: &SessionId) -> Result<()> {
        let Some(books) = &self.inner.books else { return Ok(()) };
        if lock(&self.inner.known).sessions.contains_key(session) {
            return Ok(());
        }
        let view = books.log.session(session).await?;
        let who = Who { root: view.root.clone(), label: view.label.unwrap_or(view.title) };
        if !lock(&self.inner.known).roots.contains(&view.root) {
            let facts = books.log.file_facts(&view.root).await?;
            let mut tree = Vec::new();
            for session in books.log.sessions(Some(&view.root)).await? {
                let who = Who { root: session.root, label: session.label.unwrap_or(session.title) };
                tree.push((session.id, who));
            }
            self.fold(facts);
            let mut known = lock(&self.inner.known);
            for (session, who) in tree {
                known.sessions.entry(session).or_insert(who);
            }
            known.roots.insert(view.root);
        }
        lock(&self.inner.known).sessions.insert(session.clone(), who);
        Ok(())
    }

    /// Takes what a log says, oldest first. What this process saw itself is newer, and stays.
    fn fold(&self, facts: Vec<(SessionId, i64, serde_json::Value)>) {
        let (mut saw, mut wrote) = (HashMap::new(), HashMap::<PathBuf, Vec<Wrote>>::new());
        for (session, at, fact) in facts {
            // A fact that another build wrote differently counts as not there: the file has to be read again.
            let Ok(Fact { path, stamp, wrote: written }) = serde_json::from_value(fact) else { continue };
            let path = PathBuf::from(path);
            if written {
                let by = Writer::Session { session: session.clone(), label: String::new() };
                push(wrote.entry(path.clone()).or_default(), Wrote { by, stamp: stamp.clone(), at });
            }
            for key in keys(&path, &stamp) {
                saw.insert((session.clone(), key), stamp.clone());
            }
        }
        let mut seen = lock(&self.inner.seen);
        for (key, stamp) in saw {
            if !seen.entries.contains_key(&key) {
                seen.put(key, stamp);
            }
        }
        drop(seen);
        let mut writers = lock(&self.inner.writers);
        for (path, earlier) in wrote {
            let mut all = earlier;
            let later = writers.entries.get(&path).map(|(_, later)| later.clone()).unwrap_or_default();
            later.into_iter().for_each(|wrote| push(&mut all, wrote));
            writers.put(path, all);
        }
    }

    /// Waits for the turn to write `path`, so that check and write are one. Held on blocking threads only.
    pub(crate) fn turn(&self, path: &Path) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        lock(&self.inner.turns[hasher.finish() as usize % TURNS])
    }

    /// `session` has seen the file so.
    pub(in crate::tool) fn saw(&self, session: &SessionId, path: &Path, stamp: &Stamp) {
        let mut seen = lock(&self.inner.seen);
        for key in keys(path, stamp) {
            seen.put((session.clone(), key), stamp.clone());
        }
    }

    /// The call's session has made the file so, and knows it whole.
    pub(in crate::tool) fn wrote(&self, call: &Call, path: &Path, stamp: &Stamp) {
        self.saw(&call.owner.session, path, stamp);
        let by = Writer::Session { session: call.owner.session.clone(), label: String::new() };
        self.note(path, Wrote { by, stamp: stamp.clone(), at: call.env.now_ms() });
    }

    /// A person took changes of this file back, which made it so.
    pub(crate) fn undid(&self, path: &Path, stamp: Stamp, at: i64) {
        self.note(path, Wrote { by: Writer::Undo, stamp, at });
    }

    fn note(&self, path: &Path, wrote: Wrote) {
        let mut writers = lock(&self.inner.writers);
        let mut all = writers.entries.get(path).map(|(_, all)| all.clone()).unwrap_or_default();
        push(&mut all, wrote);
        writers.put(path.to_owned(), all);
    }

    /// How what `session` has seen of the file stands to `now`.
    pub(in crate::tool) fn standing(&self, session: &SessionId, path: &Path, now: &Stamp) -> Standing {
        let seen = {
            let seen = lock(&self.inner.seen);
            let of = |key| seen.entries.get(&(session.clone(), key)).map(|(_, stamp)| stamp.clone());
            keys(path, now).into_iter().find_map(of)
        };
        match seen {
            None => Standing::Unread,
            Some(seen) if seen.same(now) => Standing::Same,
            Some(_) => {
                let me = |writer: &Writer| matches!(writer, Writer::Session { session: one, .. } if one == session);
                Standing::Changed(self.writer(path, now).filter(|writer| !me(writer)))
            }
        }
    }

    /// Who made the file what it is `now`, if that was one of ours.
    pub(crate) fn writer(&self, path: &Path, now: &Stamp) -> Option<Writer> {
        let last = lock(&self.inner.writers).entries.get(path).and_then(|(_, all)| all.last().cloned());
        let by = last.filter(|last| last.stamp.same(now))?.by;
        Some(match by {
            Writer::Session { session, .. } => Writer::Session { label: self.label(&session), session },
            Writer::Undo => Writer::Undo,
        })
    }

    /// The other sessions that wrote this file lately, the latest first: in the tree of this one, or in all trees.
    /// Wait for [`FileMemory::recall`] first.
    pub fn others(&self, session: &SessionId, path: &Path, now_ms: i64, in_tree: bool) -> Vec<Written> {
        let wrote = lock(&self.inner.writers).entries.get(path).map(|(_, all)| all.clone()).unwrap_or_default();
        let root = |session: &SessionId| lock(&self.inner.known).sessions.get(session).map(|who| who.root.clone());
        let since = now_ms - i64::try_from(LATELY.as_millis()).unwrap_or(i64::MAX);
        let mut others: Vec<Written> = Vec::new();
        for Wrote { by, at, .. } in wrote.into_iter().rev().filter(|wrote| wrote.at >= since) {
            let Writer::Session { session: other, .. } = by else { continue };
            let known = others.iter().any(|known| known.session == other);
            if other != *session && !known && (!in_tree || root(&other) == root(session)) {
                others.push(Written { path: path.to_owned(), label: self.label(&other), session: other, at });
            }
        }
        others
    }

    /// Another session of its tree that wrote this file lately, and after this one did: whose work a write of this one may
    /// undo. Wait for [`FileMemory::recall`] first.
    pub fn clash(&self, session: &SessionId, path: &Path, now_ms: i64) -> Option<Written> {
        let own = lock(&self.inner.writers).entries.get(path).and_then(|(_, all)| {
            let own = |wrote: &&Wrote| matches!(&wrote.by, Writer::Session { session: by, .. } if by == session);
            all.iter().rev().find(own).map(|wrote| wrote.at)
        });
        let others = self.others(session, path, now_ms, true);
        others.into_iter().find(|other| own.is_none_or(|own| other.at >= own))
    }

    fn label(&self, session: &SessionId) -> String {
        lock(&self.inner.known).sessions.get(session).map(|who| plain(&who.label, 80)).unwrap_or_default()
    }

    /// Tells in the log, once, that the call's session comes to write a file that others wrote lately. On blocking
    /// threads only.
    pub(in crate::tool) fn tell_clash(&self, call: &Call, place: &Place) {
        let Some(books) = &self.inner.books else { return };
        let later = &call.owner.session;
        for other in self.others(later, &place.real, call.env.now_ms(), false) {
            let roots = {
                let mut known = lock(&self.inner.known);
                if known.told.len() >= BOUND {
                    known.told.clear();
                }
                if !known.told.insert((place.real.clone(), other.session.clone(), later.clone())) {
                    continue;
                }
                let root = |session: &SessionId| known.sessions.get(session).map(|who| who.root.clone());
                [root(&other.session), root(later)].into_iter().flatten().collect::<HashSet<_>>()
            };
            let clashed = Event::Clashed {
                path: place.real.display().to_string(),
                first: other.session,
                first_label: other.label,
                later: later.clone(),
                later_label: self.label(later),
            };
            let entries = roots.iter().map(|root| Entry::new(root, vec![clashed.clone()])).collect();
            if let Err(error) = wait(books.log.write(entries)) {
                tracing::warn!(%error, "that two sessions write one file could not be told");
            }
        }
    }

    /// Keeps what stands in a file and what is to stand there, and writes down that the call is about to change it;
    /// only then may it be changed. On blocking threads only.
    pub(in crate::tool) fn begin(
        &self,
        call: &Call,
        place: &Place,
        before: Option<&[u8]>,
        after: &[u8],
    ) -> Result<(), Outcome> {
        let Some(Books { log, before: kept }) = &self.inner.books else { return Ok(()) };
        let (session, shown) = (&call.owner.session, &place.shown);
        let keep = |content: &[u8]| {
            kept.keep(session, content, call.env.now_ms()).map_err(|error| {
                Outcome::fail(format!(
                    "{shown} was not changed: what stands in it cannot be kept, so that the change could not be taken \
                     back ({error}). Make room on the disk, then redo it."
                ))
            })
        };
        let change = FileChange {
            path: place.real.display().to_string(),
            shown: shown.clone(),
            before: before.map(keep).transpose()?,
            after: Some(keep(after)?),
        };
        let changing = Event::FileChanging { call: call.id.clone(), change };
        wait(log.append(session, vec![changing])).map(drop).map_err(|error| {
            Outcome::fail(format!("{shown} was not changed: that could not be written down first. {}", error.message()))
        })
    }
}

/// Waits on a blocking thread. The log answers each write within its own bound.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(work)
}

/// The newest writers, oldest first.
fn push(writers: &mut Vec<Wrote>, wrote: Wrote) {
    // One entry for each, at its last place.
    writers.retain(|other| other.by != wrote.by);
    writers.push(wrote);
    if writers.len() > WRITERS {
        writers.remove(0);
    }
}

fn keys(path: &Path, stamp: &Stamp) -> Vec<Key> {
    let file = stamp.id.map(|(device, number)| Key::File(device, number));
    std::iter::once(Key::Path(path.to_owned())).chain(file).collect()
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
