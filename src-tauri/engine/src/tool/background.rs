//! Commands as background tasks: the bridge between the bash tool and the task runtime.

use super::Call;
use super::bash::{StartBackground, background};
use crate::config::bounds::MAX_OUTPUT;
use crate::error::Result;
use crate::event::TaskStatus;
use crate::id::TaskId;
use crate::process::{Plan, Processes};
use crate::task::{DID_NOT_STOP, End, Job, Spec, Start, Tasks};
use async_trait::async_trait;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What is said of a task whose output breaks off.
const NOT_ALL: &str = "not all of its output was kept";

/// Starts commands as tasks of the agent that asks.
pub struct BackgroundCommands {
    tasks: Tasks,
    processes: Processes,
    grace: Duration,
}

impl BackgroundCommands {
    /// Commands that run in `processes` and stay polite for `grace` when they are stopped.
    pub fn new(tasks: Tasks, processes: Processes, grace: Duration) -> Self {
        Self { tasks, processes, grace }
    }
}

#[async_trait]
impl StartBackground for BackgroundCommands {
    async fn start(&self, call: &Call, plan: Plan, label: String, limit: Option<Duration>) -> Result<TaskId> {
        let spec = Spec {
            owner: call.owner.clone(),
            kind: "bash",
            label,
            child: None,
            call: Some(call.id.clone()),
            numbered: call.numbered.clone(),
            levels: 1,
            limit,
        };
        let (processes, grace) = (self.processes.clone(), self.grace);
        let starter = move |start: Start| {
            let output = Arc::new(OnceLock::new());
            let slot = output.clone();
            let done = async move {
                let Start { id, cancel, output_dir } = start;
                let plan = Plan { name: id.to_string(), ..plan };
                match background::start_background(&processes, plan, &output_dir, MAX_OUTPUT, cancel, grace).await {
                    Ok(begun) => {
                        // The slot is filled here and nowhere else.
                        drop(slot.set(begun.output.clone()));
                        let end = begun.done.await;
                        let masked = end.masked;
                        let end = told_masked(end_of(end), masked);
                        match begun.output.broken_off().filter(|_| end.detail.as_deref() != Some(DID_NOT_STOP)) {
                            Some(why) => {
                                End { detail: end.detail.map(|how| format!("{how}; {NOT_ALL}: {why}")), ..end }
                            }
                            None => end,
                        }
                    }
                    Err(error) => End::failed(error.message()),
                }
            };
            Job { done: Box::pin(done), output, after: Box::new(|| {}) }
        };
        self.tasks.start(spec, starter).await
    }
}

/// The end of a command of whose output so many secrets were masked.
fn told_masked(end: End, masked: u64) -> End {
    if masked == 0 || end.detail.as_deref() == Some(DID_NOT_STOP) {
        return end;
    }
    let words = if masked == 1 { "1 secret was masked".to_owned() } else { format!("{masked} secrets were masked") };
    End { detail: Some(end.detail.map_or_else(|| words.clone(), |how| format!("{how}; {words}"))), ..end }
}

fn end_of(end: background::BackgroundEnd) -> End {
    let alive = end.ended.as_ref().map_or(0, |ended| ended.processes.iter().filter(|process| !process.gone).count());
    if alive > 0 {
        return End::failed(DID_NOT_STOP);
    }
    let (status, detail) = match end.exit {
        Some(exit) => match (exit.code, exit.signal) {
            (Some(0), _) => (TaskStatus::Completed, "exit 0".to_owned()),
            (Some(code), _) => (TaskStatus::Failed, format!("exit {code}")),
            (None, Some(signal)) => (
                TaskStatus::Failed,
                format!("its guard was ended by signal {signal}, so processes that had left it may live on"),
            ),
            (None, None) => (TaskStatus::Failed, "ended without an exit status".to_owned()),
        },
        None => (TaskStatus::Failed, "ended without an exit status".to_owned()),
    };
    End { status, detail: Some(detail), output: None }
}
