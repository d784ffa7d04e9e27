//! Process trees: how commands are started, watched and ended, with proof. Only this module starts processes.
//!
//! Every command runs in a session of its own, behind a guard (`process/guard.rs`), and carries a marker in its
//! environment (`COPPICE_TASK`), unique to the data folder, the session and the call or task. Ending a tree ends the
//! group and everything that carries the marker or stands below the guard, also what left the group, shed its environment
//! and lost its parent: politely first, then by force; what was seen gone is told process by process. A ledger keeps pid,
//! start time and boot id, so that the next start can end what a crash left, and nothing else. Guards are no part of what
//! people are told, unless one stays.
//!
//! A guard that is killed takes its tree along, and what still holds the pipe of its output. One limit is known: what has
//! left the group, shed its environment, lost its parent and let go of the output before anybody looked cannot be told
//! from a stranger once its guard was killed; then a stop says so. Outside of Linux only
//! groups are seen.

pub mod confine;
mod end;
mod guard;
mod owned;
mod table;

use crate::error::{Code, Error, Result};
use crate::event::ReceiptProcess;
use crate::id::SessionId;
use crate::mask::{Mask, Stream};
use crate::scope::Scope;
use async_trait::async_trait;
pub use confine::{Confinement, Support};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use table::{Identity, SEES_PROCESSES, Target};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, Take};
use tokio::sync::{Notify, mpsc, watch};

/// Where started processes are written down, durably. The store implements it.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Writes down a process that was started.
    async fn note(&self, entry: LedgerEntry) -> Result<()>;
    /// Strikes out every process of this marker: the tree was seen gone.
    async fn strike(&self, marker: &str) -> Result<()>;
    /// Everything that was never struck out.
    async fn open_entries(&self) -> Result<Vec<LedgerEntry>>;
}

/// A process as the ledger knows it. A pid alone is no identity: pids are reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The marker of its tree.
    pub marker: String,
    /// What it is, for people: the command line.
    pub label: String,
    /// The process id.
    pub pid: u32,
    /// The kernel's start time of the process, in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub started: u64,
    /// The boot it belongs to (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
}

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The session on whose behalf it runs.
    pub session: SessionId,
    /// The task or call on whose behalf it runs; unique within the session.
    pub name: String,
    /// What it is, for people.
    pub label: String,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it starts in.
    pub cwd: PathBuf,
    /// What it can reach.
    pub confinement: Confinement,
}

/// All process trees of this engine. Clones share them.
#[derive(Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

struct Inner {
    /// The data folder's name, fit to stand in a marker.
    store: String,
    boot: String,
    ledger: Arc<dyn Ledger>,
    /// Takes secrets out of output.
    mask: Mask,
    hidden: Mutex<BTreeSet<String>>,
    /// Every tree of which something lives. A tree is started under this lock, so none runs that is not in here.
    live: Mutex<Vec<Arc<Live>>>,
    /// Trees whose guard was killed, until that is told.
    unguarded: Mutex<Vec<Arc<Live>>>,
    scope: Scope,
}

/// A tree from its start until everything in it was seen gone.
struct Live {
    session: SessionId,
    marker: String,
    /// What it is, for people.
    label: String,
    /// The pipe of its output, where the system names it.
    pipe: Option<String>,
    /// Whether its guard was killed by somebody else: what writes into its pipe is looked for then.
    unguarded: AtomicBool,
    /// Whether the guard is ended by force.
    struck: AtomicBool,
    /// The guard; its pid is also the number of its group.
    id: Identity,
    /// The guard's watcher, once the guard has told of it.
    watcher: OnceLock<Identity>,
    seen: Mutex<BTreeMap<Identity, bool>>,
    exit: watch::Sender<Option<Exit>>,
    /// What lived when the first process had exited.
    left: Mutex<Vec<ReceiptProcess>>,
    gone: watch::Sender<bool>,
    /// How many secrets were taken out of its output.
    masked: AtomicU64,
    /// Asks for a look at once: something was ended.
    nudge: Notify,
}

/// A running tree. Dropping it does not end the processes: [`Tree::end`] and [`Processes::end_all`] do. Output that
/// nobody takes any more is read and dropped, so that what lives on does not stall.
#[must_use = "a tree runs until it is ended or exits"]
pub struct Tree {
    /// Standard output and error together, as they come; closes when every holder of the pipe is gone.
    pub output: mpsc::Receiver<Vec<u8>>,
    live: Arc<Live>,
}

/// How the first process of a tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code as a shell tells it: 128 + n after signal n. None when the guard was killed and nobody could tell.
    pub code: Option<i32>,
    /// The signal that the code speaks of, or that killed the guard.
    pub signal: Option<i32>,
}

/// What ending a tree saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Every process that was ever seen in it.
    pub processes: Vec<ReceiptProcess>,
    /// Whether force was needed.
    pub forced: bool,
}

impl Ended {
    /// The processes that were not seen gone.
    pub fn left(&self) -> usize {
        self.processes.iter().filter(|process| !process.gone).count()
    }
}

/// How much output waits for its reader before the command has to wait: chunks, and bytes in each at most.
const CHUNKS: usize = 16;
const CHUNK: usize = 64 * 1024;

/// How long output that may be the beginning of a secret is kept back while nothing more comes.
const HOLD: Duration = Duration::from_millis(50);

/// How often the end of what a command left behind is looked for: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How many trees whose guard was killed are remembered until that is told.
const UNGUARDED: usize = 64;

/// How long a dismissed guard may take to go.
const DISMISSAL: Duration = Duration::from_secs(2);

impl Processes {
    /// Process trees of the data folder named `store` (any stable text), written down in `ledger`.
    pub fn new(store: &str, ledger: Arc<dyn Ledger>) -> Self {
        Self::masked(store, ledger, Mask::default())
    }

    /// The same, and `mask` takes secrets out of all that they put out, before anybody reads it.
    pub fn masked(store: &str, ledger: Arc<dyn Ledger>, mask: Mask) -> Self {
        let inner = Inner {
            store: plain(store),
            boot: table::boot(),
            ledger,
            mask,
            hidden: Mutex::default(),
            live: Mutex::default(),
            unguarded: Mutex::default(),
            scope: Scope::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Keeps these variables out of the environment of every process that is started from now on: they hold keys.
    pub fn hide(&self, names: Vec<String>) {
        lock(&self.inner.hidden).extend(names);
    }

    /// Starts a tree: standard input closed, standard output and error joined in `Tree::output`. A program that cannot
    /// be found shows as exit code 127, as in a shell. An error means that nothing runs.
    pub async fn start(&self, plan: Plan) -> Result<Tree> {
        let inner = &self.inner;
        if !plan.cwd.is_dir() {
            let message = format!("The folder {} is not there; nothing was started.", plan.cwd.display());
            return Err(Error::new(Code::Gone, message));
        }
        let marker = format!("{}{}", inner.prefix(&plan.session), plain(&plan.name));
        let confinement = plan.confinement.clone();
        let bars = Scope::blocking(move || confine::bars(&confinement)).await;
        let bars = bars.map_err(|error| not_started(&plan, error))?;
        let (live, guard::Started { child, line, output, .. }) =
            inner.begin(&plan, &marker, bars).map_err(|error| not_started(&plan, error))?;
        let (sender, receiver) = mpsc::channel(CHUNKS);
        inner.scope.spawn(carry(output, sender, inner.mask.stream(), live.clone()));
        inner.scope.spawn(attend(inner.clone(), live.clone(), child, line));
        let Identity { pid, started } = live.id;
        let tree = Tree { output: receiver, live };
        let entry = LedgerEntry { marker, label: plan.label, pid, started, boot: inner.boot.clone() };
        if let Err(error) = inner.ledger.note(entry).await {
            // What is not written down could outlive a crash unseen.
            tree.end(Duration::ZERO).await;
            return Err(error);
        }
        Ok(tree)
    }

    /// The processes that live now on behalf of these sessions.
    pub fn living(&self, sessions: &[SessionId]) -> Vec<ReceiptProcess> {
        if self.trees(sessions).is_empty() { Vec::new() } else { living(&mut self.target(sessions)) }
    }

    /// The processes that live now on behalf of one task or call of a session: the plan's `name`.
    pub fn living_of(&self, session: &SessionId, name: &str) -> Vec<ReceiptProcess> {
        let end = format!(":{}", plain(name));
        let live =
            lock(&self.inner.live).iter().find(|live| live.session == *session && live.marker.ends_with(&end)).cloned();
        live.map(|live| living(&mut live.target())).unwrap_or_default()
    }

    /// Looks again at these processes and tells of each whether it is gone.
    pub fn look(&self, processes: Vec<ReceiptProcess>) -> Vec<ReceiptProcess> {
        processes.into_iter().map(table::look_again).collect()
    }

    /// Ends every tree of these sessions, also what earlier calls left running, as [`Tree::end`] does.
    pub async fn end_all(&self, sessions: &[SessionId], grace: Duration) -> Ended {
        if self.trees(sessions).is_empty() {
            return Ended::default();
        }
        end::end(self.target(sessions), || self.trees(sessions), grace).await
    }

    /// What a stop of these sessions cannot confirm because somebody killed a guard: a line for each tree, told once.
    pub fn unguarded(&self, sessions: &[SessionId]) -> Vec<String> {
        let mut unguarded = lock(&self.inner.unguarded);
        let told: Vec<String> = unguarded
            .iter()
            .filter(|live| sessions.contains(&live.session))
            .map(|live| format!("The guard of {} was killed, so processes that had left it may live on.", live.label))
            .collect();
        unguarded.retain(|live| !sessions.contains(&live.session));
        told
    }

    /// The sessions on whose behalf something lives.
    pub fn sessions(&self) -> Vec<SessionId> {
        let sessions: BTreeSet<SessionId> = lock(&self.inner.live).iter().map(|live| live.session.clone()).collect();
        sessions.into_iter().collect()
    }

    fn trees(&self, sessions: &[SessionId]) -> Vec<Arc<Live>> {
        lock(&self.inner.live).iter().filter(|live| sessions.contains(&live.session)).cloned().collect()
    }

    /// Everything that runs on behalf of these sessions, and what is begun on it from here on.
    fn target(&self, sessions: &[SessionId]) -> Target {
        let mut target = Target { guards: Some(BTreeSet::new()), ..Target::default() };
        for live in self.trees(sessions) {
            target.prefixes.insert(self.inner.prefix(&live.session));
            target.groups.push(live.id.pid);
            target.seen.extend(lock(&live.seen).iter());
            target.pipes.extend(live.evidence());
            target.guards = target.guards.zip(live.guards()).map(|(guards, more)| &guards | &more);
        }
        target
    }
}

impl Tree {
    /// The pid of the first process.
    pub fn pid(&self) -> u32 {
        self.live.id.pid
    }

    /// Tells, also after the tree was ended, how many secrets were taken out of its output so far.
    pub fn masked(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let live = self.live.clone();
        move || live.masked.load(Ordering::Acquire)
    }

    /// Waits until the first process has exited. Others of the tree may live on.
    pub fn exited(&self) -> impl Future<Output = Result<Exit>> + Send + use<> {
        let live = self.live.clone();
        async move {
            let exit = live.exit.subscribe().wait_for(Option::is_some).await.map(|exit| *exit);
            exit.ok().flatten().ok_or_else(|| Error::new(Code::Internal, "The end of a command was not observed."))
        }
    }

    /// The processes that lived when the first process had just exited; none before.
    pub fn left_behind(&self) -> Vec<ReceiptProcess> {
        lock(&self.live.left).clone()
    }

    /// Takes the output out, so that it can be read while the tree is waited for or ended.
    pub fn take_output(&mut self) -> mpsc::Receiver<Vec<u8>> {
        std::mem::replace(&mut self.output, mpsc::channel(1).1)
    }

    /// Waits until everything in the tree was seen gone and struck out of the ledger.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let live = self.live.clone();
        async move {
            // The sender lives in the tree itself, so the wait cannot fail.
            live.gone.subscribe().wait_for(|gone| *gone).await.ok();
        }
    }

    /// The processes of the tree that live now.
    pub fn living(&self) -> Vec<ReceiptProcess> {
        living(&mut self.live.target())
    }

    /// How long the processes that live now have had a processor, with what they have made and seen end; none where the
    /// system does not tell.
    pub fn worked(&self) -> Option<Duration> {
        let living = self.live.target().look();
        living.into_iter().map(|(id, _)| table::worked(id)).try_fold(Duration::ZERO, |sum, one| Some(sum + one?))
    }

    /// Ends the whole tree: asks politely, waits `grace`, then forces, and looks until every process is seen gone or a
    /// second bound is over. Strikes it out of the ledger when all are gone.
    pub async fn end(self, grace: Duration) -> Ended {
        end::end(self.live.target(), || vec![self.live.clone()], grace).await
    }
}

impl Live {
    /// The guard and its watcher, when both are known.
    fn guards(&self) -> Option<BTreeSet<Identity>> {
        self.watcher.get().map(|watcher| BTreeSet::from([self.id, *watcher]))
    }

    /// What tells who belongs to it when the guard is gone.
    fn evidence(&self) -> Option<String> {
        self.pipe.clone().filter(|_| self.unguarded.load(Ordering::Acquire))
    }

    fn target(&self) -> Target {
        Target {
            markers: BTreeSet::from([self.marker.clone()]),
            since: self.id.started,
            groups: vec![self.id.pid],
            seen: lock(&self.seen).clone(),
            guards: self.guards(),
            pipes: self.evidence().into_iter().collect(),
            ..Target::default()
        }
    }

    /// What of the tree lives now, the guard apart; remembered for a later end. That nothing does is told when the kernel
    /// says so, and otherwise after several looks: one proves nothing.
    async fn look(self: &Arc<Self>) -> Vec<Identity> {
        let live = self.clone();
        Scope::blocking(move || {
            let mut left = Vec::new();
            for _ in 0..end::LOOKS {
                if live.watcher.get().is_some_and(|watcher| table::has_only(live.id, *watcher)) {
                    break;
                }
                let mut target = live.target();
                left = target.look_for_commands();
                lock(&live.seen).extend(target.seen);
                if !left.is_empty() {
                    break;
                }
            }
            left
        })
        .await
    }

    /// Waits between two looks, longer each time, unless there is reason to look at once.
    async fn rest(&self, pause: &mut Duration) {
        tokio::select! {
            () = tokio::time::sleep(*pause) => *pause = (*pause * 2).min(LAST_PAUSE),
            () = self.nudge.notified() => *pause = FIRST_PAUSE,
        }
    }
}

impl Inner {
    fn prefix(&self, session: &SessionId) -> String {
        format!("{}:{}:", self.store, plain(session.as_str()))
    }

    /// Starts a tree and makes it known in one step: whoever looks for trees waits until it is among them.
    fn begin(&self, plan: &Plan, marker: &str, bars: confine::Bars) -> io::Result<(Arc<Live>, guard::Started)> {
        let hidden = lock(&self.hidden).clone();
        let mut trees = lock(&self.live);
        let started = guard::start(plan, marker, &hidden, bars)?;
        // The child is not waited for yet, so that its pid still is its own.
        let id = table::identify(started.pid).unwrap_or(Identity { started: 0, pid: started.pid });
        let live = Arc::new(Live {
            session: plan.session.clone(),
            marker: marker.to_owned(),
            label: plan.label.clone(),
            pipe: started.pipe.clone(),
            unguarded: AtomicBool::new(false),
            struck: AtomicBool::new(false),
            id,
            watcher: OnceLock::new(),
            seen: Mutex::new(BTreeMap::from([(id, SEES_PROCESSES)])),
            exit: watch::Sender::new(None),
            left: Mutex::default(),
            gone: watch::Sender::new(false),
            masked: AtomicU64::new(0),
            nudge: Notify::new(),
        });
        trees.push(live.clone());
        Ok((live, started))
    }

    /// Closes the books on a tree of which nothing lives, not even the guard. Answers whether it did.
    async fn settle(&self, live: &Arc<Live>) -> bool {
        let mut target = live.target();
        if !Scope::blocking(move || target.look()).await.is_empty() {
            return false;
        }
        lock(&self.live).retain(|other| !Arc::ptr_eq(other, live));
        if let Err(error) = self.ledger.strike(&live.marker).await {
            // The next start finds the entry, sees that its process is gone, and strikes it then.
            tracing::warn!(marker = live.marker, %error, "a process tree could not be struck out of the ledger");
        }
        live.gone.send_replace(true);
        true
    }
}

/// Carries output to whoever reads the tree, without secrets; when nobody does any more, on to nowhere.
async fn carry(mut output: guard::Output, sender: mpsc::Sender<Vec<u8>>, mut stream: Stream, live: Arc<Live>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = async {
            if !stream.waits() {
                return output.read(&mut buffer).await.map(Some);
            }
            // What may be the beginning of a secret is not kept back for ever.
            match tokio::time::timeout(HOLD, output.read(&mut buffer)).await {
                Ok(read) => read.map(Some),
                Err(_) => Ok(None),
            }
        };
        let (piece, over) = match read.await {
            Ok(Some(0)) => (stream.finish(), true),
            Ok(Some(count)) => (stream.push(&buffer[..count]), false),
            Ok(None) => (stream.rest(), false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::warn!(%error, "the output of a command broke off");
                (stream.finish(), true)
            }
        };
        live.masked.store(stream.masked(), Ordering::Release);
        if !piece.is_empty() {
            // A closed channel means that the reader has left; the pipe is drained all the same.
            sender.send(piece).await.ok();
        }
        if over {
            return;
        }
    }
}

/// What a guard says, line by line.
type Words = Lines<BufReader<Take<ReadHalf<guard::Line>>>>;

/// Attends a tree to its natural end: learns the exit, waits for what was left behind, dismisses the guard.
async fn attend(inner: Arc<Inner>, live: Arc<Live>, mut child: guard::Child, line: guard::Line) {
    let (reader, mut writer) = tokio::io::split(line);
    let mut words = BufReader::new(reader.take(64)).lines();
    let watcher = hear(&mut words, &mut child).await;
    if let Some(id) = watcher.filter(|_| SEES_PROCESSES).and_then(table::identify) {
        live.watcher.set(id).ok();
    }
    let exit = match hear(&mut words, &mut child).await {
        Some(code) => told(code),
        None => {
            let exit = child.wait().await.map_or(Exit { code: None, signal: None }, observed);
            if exit.signal.is_some() && !live.struck.load(Ordering::Acquire) {
                live.unguarded.store(true, Ordering::Release);
                let mut unguarded = lock(&inner.unguarded);
                unguarded.push(live.clone());
                let over = unguarded.len().saturating_sub(UNGUARDED);
                unguarded.drain(..over);
            }
            // Nobody takes in any more what loses its parent: it is ended while it still can be told.
            end::end(live.target(), Vec::new, Duration::ZERO).await;
            exit
        }
    };
    // The look also learns which processes are guards, before any of them goes.
    let mut left = live.look().await;
    lock(&live.left).extend(left.iter().map(|id| id.receipt(false)));
    live.exit.send_replace(Some(exit));
    let mut pause = FIRST_PAUSE;
    while SEES_PROCESSES && !left.is_empty() {
        live.rest(&mut pause).await;
        left = live.look().await;
    }
    // An error means that the guard is gone already, which is what is wanted.
    writer.write_all(b"\n\n").await.ok();
    if tokio::time::timeout(DISMISSAL, child.wait()).await.is_err() {
        end::end(live.target(), Vec::new, Duration::ZERO).await;
    }
    pause = FIRST_PAUSE;
    // The second look, which also sees what was made during the first.
    while !inner.settle(&live).await {
        live.rest(&mut pause).await;
    }
}

/// The number that the guard says next. None when it ends first.
async fn hear<N: FromStr>(words: &mut Words, child: &mut guard::Child) -> Option<N> {
    tokio::select! {
        biased;
        word = words.next_line() => word.ok().flatten()?.trim().parse().ok(),
        _ = child.wait() => None,
    }
}

/// The exit that the guard told of.
fn told(code: i32) -> Exit {
    Exit { code: Some(code), signal: Some(code - 128).filter(|signal| (1..=64).contains(signal)) }
}

/// The exit of the guard itself, when it could not tell.
fn observed(status: ExitStatus) -> Exit {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    Exit { code: status.code(), signal }
}

fn living(target: &mut Target) -> Vec<ReceiptProcess> {
    target.look_for_commands().into_iter().map(|id| id.receipt(false)).collect()
}

fn not_started(plan: &Plan, error: io::Error) -> Error {
    let message = format!("\u{201c}{}\u{201d} could not be started: {error}.", crate::text::cut(&plan.label, 200));
    Error::new(Code::Internal, message).because(error)
}

/// A part of a marker: the colon separates, and a zero byte ends an environment variable.
fn plain(part: &str) -> String {
    part.replace('%', "%25").replace(':', "%3A").replace('\0', "%00")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is a single step, so a panic elsewhere leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
