//! Process trees: how commands are started, watched and ended, with proof. Only this module starts processes.
//!
//! Every command runs in a group of its own and carries a marker in its environment (`COPPICE_TASK`), unique to the
//! data folder, the session and the call or task. Ending a tree ends the group and everything that carries the
//! marker, also what left the group: politely first, then by force; what was seen gone is told process by process.
//! A ledger keeps pid, start time and boot id, so that the next start can end what a crash left, and nothing else.

use crate::error::Result;
use crate::event::ReceiptProcess;
use crate::id::SessionId;
use async_trait::async_trait;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

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
}

/// All process trees of this engine. Clones share them.
#[derive(Clone)]
pub struct Processes {}

/// A running tree. Dropping it does not end the processes; [`Tree::end`] does.
#[must_use = "a tree runs until it is ended or exits"]
pub struct Tree {
    /// Standard output and error together, as they come; closes when every holder of the pipe is gone.
    pub output: mpsc::Receiver<Vec<u8>>,
}

/// How the first process of a tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it, on Unix.
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

impl Processes {
    /// Process trees of the data folder named `store` (any stable text), written down in `ledger`.
    pub fn new(store: &str, ledger: Arc<dyn Ledger>) -> Self {
        let _ = (store, ledger);
        unimplemented!()
    }

    /// Starts a tree: standard input closed, standard output and error joined in `Tree::output`.
    pub async fn start(&self, plan: Plan) -> Result<Tree> {
        let _ = plan;
        unimplemented!()
    }

    /// The processes that live now on behalf of these sessions.
    pub fn living(&self, sessions: &[SessionId]) -> Vec<ReceiptProcess> {
        let _ = sessions;
        unimplemented!()
    }

    /// Looks again at these processes and tells of each whether it is gone.
    pub fn look(&self, processes: Vec<ReceiptProcess>) -> Vec<ReceiptProcess> {
        let _ = processes;
        unimplemented!()
    }

    /// Ends what an earlier process of this data folder left behind, and only that. Answers what it found.
    pub async fn inquest(&self, grace: Duration) -> Result<Vec<(LedgerEntry, ReceiptProcess)>> {
        let _ = grace;
        unimplemented!()
    }
}

impl Tree {
    /// The pid of the first process.
    pub fn pid(&self) -> u32 {
        unimplemented!()
    }

    /// Waits until the first process has exited. Others of the tree may live on.
    pub async fn exited(&mut self) -> Result<Exit> {
        unimplemented!()
    }

    /// The processes of the tree that live now.
    pub fn living(&self) -> Vec<ReceiptProcess> {
        unimplemented!()
    }

    /// Ends the whole tree: asks politely, waits `grace`, then forces, and looks until every process is seen gone or a
    /// second bound is over. Strikes it out of the ledger when all are gone.
    pub async fn end(self, grace: Duration) -> Ended {
        let _ = grace;
        unimplemented!()
    }
}
