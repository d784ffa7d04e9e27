//! A command as a background task: its output log, and a future that settles when the whole tree is gone.

use crate::error::Result;
use crate::output::OutputLog;
use crate::process::{Ended, Exit, Plan, Processes, Tree};
use crate::scope::Scope;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long output is awaited after the last process was seen gone.
const LATE: Duration = Duration::from_secs(1);

/// A command that was started in the background.
#[must_use = "the output is carried only while `done` is polled"]
pub struct Background {
    /// What it writes, as it comes; finished before `done` settles.
    pub output: OutputLog,
    /// Settles when every process of the command was seen gone, by itself or after a cancellation, or when the bound
    /// for ending it is over; `ended` tells which. A command that leaves a server behind runs for as long as that.
    pub done: BoxFuture<'static, BackgroundEnd>,
    /// The pid of its first process.
    pub pid: u32,
}

/// What became of a background command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundEnd {
    /// How the first process ended; none when that could not be observed.
    pub exit: Option<Exit>,
    /// What ending it saw; none when it ended by itself.
    pub ended: Option<Ended>,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// How many secrets were taken out of its output.
    pub masked: u64,
}

/// Starts `plan` with its output in a new log in the folder `dir` that keeps at most `bound` bytes. When `cancel` fires,
/// the whole tree is asked to end, and forced after `grace`. An error means that nothing runs.
pub async fn start_background(
    processes: &Processes,
    plan: Plan,
    dir: &Path,
    bound: u64,
    cancel: CancellationToken,
    grace: Duration,
) -> Result<Background> {
    let dir = dir.to_owned();
    let output = Scope::blocking(move || OutputLog::create(&dir, bound)).await?;
    let tree = processes.start(plan).await?;
    let pid = tree.pid();
    let done = attend(tree, output.clone(), cancel, grace).boxed();
    Ok(Background { output, done, pid })
}

async fn attend(mut tree: Tree, log: OutputLog, cancel: CancellationToken, grace: Duration) -> BackgroundEnd {
    let mut output = tree.take_output();
    let masked = tree.masked();
    let mut open = true;
    let cancelled = {
        let mut gone = pin!(tree.gone());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break true,
                () = &mut gone => break false,
                chunk = output.recv(), if open => match chunk {
                    Some(chunk) => keep(&log, chunk).await,
                    None => open = false,
                },
            }
        }
    };
    let exited = tree.exited();
    let ended = if cancelled {
        let mut ending = pin!(tree.end(grace));
        Some(loop {
            tokio::select! {
                ended = &mut ending => break ended,
                Some(chunk) = output.recv() => keep(&log, chunk).await,
            }
        })
    } else {
        None
    };
    tokio::time::timeout(LATE, drain(&mut output, &log)).await.ok();
    let finished = log.clone();
    Scope::blocking(move || finished.finish()).await;
    let exit = exited.now_or_never().and_then(Result::ok);
    BackgroundEnd { exit, ended, cancelled, masked: masked() }
}

async fn drain(output: &mut mpsc::Receiver<Vec<u8>>, log: &OutputLog) {
    while let Some(chunk) = output.recv().await {
        keep(log, chunk).await;
    }
}

async fn keep(log: &OutputLog, chunk: Vec<u8>) {
    let log = log.clone();
    if let Err(error) = Scope::blocking(move || log.write(&chunk)).await {
        // The log says so where the output breaks off; the command itself goes on.
        tracing::warn!(%error, "the output of a background command is no longer kept");
    }
}
