//! The `bash` tool: runs a command in the session's folder, in the foreground or as a background task.

pub mod background;
pub mod terminal;

use crate::action::Action;
use crate::config::bounds::{DEFAULT_COMMAND, MAX_COMMAND, MAX_TASK};
use crate::error::{Code, Result};
use crate::event::ReceiptProcess;
use crate::id::TaskId;
use crate::llm::ToolSpec;
use crate::process::{Confinement, Ended, Exit, Plan, Processes};
use crate::prompt::Given;
use crate::text::cut;
use crate::tool::{Call, LiveOutput, Outcome, Tool, arguments};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use terminal::{Excerpt, Terminal};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

pub use background::{Background, BackgroundEnd, start_background};

/// What of a long output the model reads: this much of its beginning and of its end, in bytes. Together with the notes
/// around it, it stays below [`crate::config::bounds::MAX_RESULT`].
const HEAD: usize = 12 * 1024;
const TAIL: usize = 18 * 1024;

/// How long output is still awaited after the shell has exited: in all, and while a process that was left behind holds
/// the pipe, since the last that came.
const LATE: Duration = Duration::from_millis(600);
const QUIET: Duration = Duration::from_millis(100);

/// How often the person who watches is shown what is new, and how much of its complete lines at most, in bytes: the end.
const SHOW: Duration = Duration::from_millis(50);
const SHOWN: usize = 8 * 1024;

/// How often the person who watches is shown a line that rewrites itself.
const PROGRESS: Duration = Duration::from_millis(500);

/// How many processes that were left behind are named.
const NAMED: usize = 12;

/// The longest label, in bytes.
const LABEL: usize = 200;

/// Starts commands as background tasks. The task runtime implements it.
#[async_trait]
pub trait StartBackground: Send + Sync {
    /// Starts a task that runs `plan`, for as long as `limit` says; the task's id takes the place of the plan's name. An
    /// error means that nothing was started.
    async fn start(&self, call: &Call, plan: Plan, label: String, limit: Option<Duration>) -> Result<TaskId>;
}

/// The `bash` tool.
pub struct Bash {
    processes: Processes,
    background: Option<Arc<dyn StartBackground>>,
    grace: Duration,
    idle: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    command: String,
    description: Option<String>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    run_in_background: bool,
}

/// Why a command in the foreground is over.
enum End {
    Exited(Exit),
    Unobserved(String),
    TimedOut,
    Silent,
    Cancelled,
}

impl Bash {
    /// The tool. Without `background` the model is not offered background tasks, and asking for one is refused. A
    /// command that has to end is asked to, and forced after `grace`; one that is waited for has to when it neither
    /// writes nor works for `idle`.
    pub fn new(
        processes: Processes,
        background: Option<Arc<dyn StartBackground>>,
        grace: Duration,
        idle: Duration,
    ) -> Self {
        Self { processes, background, grace, idle }
    }

    async fn background(&self, call: &Call, plan: Plan, args: Args, limit: Option<Duration>) -> Outcome {
        let Some(starter) = self.background.as_ref().filter(|_| call.given.background()) else {
            return Outcome::fail(
                "Background tasks are not available here. Run the command without run_in_background; nothing was started.",
            );
        };
        let label = args.description.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| plan.label.clone());
        match starter.start(call, plan, cut(label.trim(), LABEL).to_owned(), limit).await {
            Ok(task) => Outcome::ok(format!(
                "Started background task {task}. It runs on its own: go on with other work, you are told when it ends. \
                 Collect its output with task_output.{}",
                call.given.words("task_kill", "End it with task_kill when it no longer matters.")
            ))
            .with(json!({ "command": args.command, "task": task })),
            Err(error) if matches!(error.code(), Code::Limit | Code::Conflict) => Outcome::fail(error.message()),
            Err(error) => Outcome::fail(format!("The background task was not started. {error}")),
        }
    }

    async fn foreground(&self, call: &Call, plan: Plan, command: &str, limit: Duration) -> Outcome {
        let begun = Instant::now();
        let confinement = plan.confinement.clone();
        let mut tree = match self.processes.start(plan).await {
            Ok(tree) => tree,
            Err(error) => return Outcome::fail(error.to_string()).with(json!({ "command": command })),
        };
        let mut output = tree.take_output();
        let masked = tree.masked();
        let mut shown = Shown::new(call.live.clone());
        let mut open = true;
        let (mut sign, mut worked) = (begun, Duration::ZERO);
        let end = {
            let mut exited = pin!(tree.exited());
            loop {
                let show_at = shown.due();
                tokio::select! {
                    biased;
                    () = call.cancel.cancelled() => break End::Cancelled,
                    () = tokio::time::sleep_until(begun + limit) => break End::TimedOut,
                    exit = &mut exited => break match exit {
                        Ok(exit) => End::Exited(exit),
                        Err(error) => End::Unobserved(error.to_string()),
                    },
                    chunk = output.recv(), if open => match chunk {
                        Some(chunk) => {
                            sign = Instant::now();
                            shown.take(&chunk);
                        }
                        None => open = false,
                    },
                    () = tokio::time::sleep_until(show_at.unwrap_or(begun)), if show_at.is_some() => shown.show(),
                    () = tokio::time::sleep_until(sign + self.idle) => match tree.worked() {
                        // A hundredth of a processor is work; what only waits uses less.
                        Some(now) if now.saturating_sub(worked) * 100 < self.idle => break End::Silent,
                        // Where nobody can tell, it counts as work.
                        now => (sign, worked) = (Instant::now(), now.unwrap_or(worked)),
                    },
                }
            }
        };
        let mut left = Vec::new();
        let mut ended = Ended::default();
        if let End::Exited(_) = end {
            left = tree.left_behind();
            settle_output(&mut output, &mut shown, left.is_empty()).await;
            // What only took a moment to go is not worth a word.
            left = self.processes.look(left).into_iter().filter(|process| !process.gone).collect();
            if left.is_empty() {
                // Nothing is left: the tree is closed before the model may start the next.
                tokio::time::timeout(LATE, tree.gone()).await.ok();
            }
        } else {
            let mut ending = pin!(tree.end(self.grace));
            ended = loop {
                tokio::select! {
                    ended = &mut ending => break ended,
                    Some(chunk) = output.recv() => shown.take(&chunk),
                }
            };
            settle_output(&mut output, &mut shown, ended.left() == 0).await;
            left.extend(ended.processes.iter().filter(|process| !process.gone).cloned());
        }
        let took = begun.elapsed();
        let outcome = report(command, &end, &ended, &left, shown, &confinement, (took, self.idle));
        match masked() {
            0 => outcome,
            masked => outcome.fact("masked", masked.into()),
        }
    }
}

#[async_trait]
impl Tool for Bash {
    fn spec(&self, given: &Given) -> ToolSpec {
        let background = self.background.is_some() && given.background();
        let mut properties = json!({
            "command": { "type": "string", "description": "The command, as you would type it in a shell." },
            "description": { "type": "string", "description": "What it does, in a few words, for the person who watches." },
            "timeout_ms": {
                "type": "integer",
                "minimum": 1,
                "maximum": millis(if background { MAX_TASK } else { MAX_COMMAND }),
                "description": format!(
                    "How long it may run, in milliseconds: {} without it, {} at most{}.",
                    millis(DEFAULT_COMMAND),
                    millis(MAX_COMMAND),
                    if background { " unless it runs in the background" } else { "" },
                ),
            },
        });
        let mut description = String::from(
            "Runs a command with bash in the session's folder and answers its output, standard output and error together, \
             and how it ended. Each call is a new shell with no input: it does not keep variables or the folder of an \
             earlier call, and nothing can be typed into it. Of long output you see the beginning and the end.",
        );
        if background {
            description.push_str(
                " With run_in_background it starts a task and answers its id at once: for servers, watchers, and work that \
                 takes minutes. There timeout_ms may be up to a day, and without it the task has no time limit.",
            );
            properties["run_in_background"] = json!({ "type": "boolean", "description": "Start it as a background task instead of waiting for its end." });
        }
        let parameters = json!({
            "type": "object",
            "properties": properties,
            "required": ["command"],
            "additionalProperties": false,
        });
        ToolSpec { name: "bash".to_owned(), description, parameters }
    }

    fn in_order(&self, args: &Value) -> bool {
        super::in_background(args)
    }

    async fn actions(&self, _call: &Call, args: &Value) -> Vec<Action> {
        let command = |args: Args| Action::Command { text: args.command, background: args.run_in_background };
        arguments(args.clone()).map(command).into_iter().collect()
    }

    async fn run(&self, call: &Call, args: Value) -> Outcome {
        let args: Args = match arguments(args) {
            Ok(args) => args,
            Err(refusal) => return refusal,
        };
        if args.command.trim().is_empty() {
            return Outcome::fail("The command is empty. Give the command to run.");
        }
        let limit = args.timeout_ms.map(Duration::from_millis);
        let most = if args.run_in_background { MAX_TASK } else { MAX_COMMAND };
        if limit.is_some_and(|limit| limit.is_zero() || limit > most) {
            return Outcome::fail(format!(
                "timeout_ms has to lie between 1 and {}. Nothing was started.",
                millis(most)
            ));
        }
        if call.cancel.is_cancelled() {
            return Outcome::fail("The call was cancelled before the command was started.");
        }
        let plan = Plan {
            session: call.owner.session.clone(),
            name: call.id.to_string(),
            label: cut(args.command.trim(), LABEL).to_owned(),
            program: shell(),
            args: vec!["-c".into(), args.command.clone().into()],
            cwd: call.cwd.clone(),
            confinement: call.leave.confinement.clone(),
        };
        if args.run_in_background {
            self.background(call, plan, args, limit).await
        } else {
            self.foreground(call, plan, &args.command, limit.unwrap_or(DEFAULT_COMMAND)).await
        }
    }
}

/// Where bash is, if it is there.
fn bash() -> Option<&'static str> {
    let places = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];
    places.into_iter().find(|place| Path::new(place).exists())
}

/// Whether commands are run by bash, as those who judge them read them.
pub fn is_bash() -> bool {
    bash().is_some()
}

/// Bash where it is, the system's shell where it is not.
fn shell() -> OsString {
    bash().unwrap_or("/bin/sh").into()
}

/// Takes the output that is still on its way. When a process that lives on holds the pipe, its silence is the end.
async fn settle_output(output: &mut mpsc::Receiver<Vec<u8>>, shown: &mut Shown, closes: bool) {
    let until = Instant::now() + LATE;
    loop {
        let patience = if closes { until } else { until.min(Instant::now() + QUIET) };
        match timeout_at(patience, output.recv()).await {
            Ok(Some(chunk)) => shown.take(&chunk),
            Ok(None) | Err(_) => return,
        }
        if Instant::now() >= until {
            return;
        }
    }
}

/// The output of a command on its way to the model and to the person who watches.
struct Shown {
    terminal: Terminal,
    excerpt: Excerpt,
    live: Arc<dyn LiveOutput>,
    bytes: u64,
    /// Complete lines that were not shown yet; when `skipped`, only their end.
    lines: String,
    skipped: bool,
    /// Something came since the last showing.
    fresh: bool,
    shown_at: Option<Instant>,
    /// What of the incomplete line was shown already.
    ahead: String,
    progress_at: Option<Instant>,
}

impl Shown {
    fn new(live: Arc<dyn LiveOutput>) -> Self {
        Self {
            terminal: Terminal::default(),
            excerpt: Excerpt::new(HEAD, TAIL),
            live,
            bytes: 0,
            lines: String::new(),
            skipped: false,
            fresh: false,
            shown_at: None,
            ahead: String::new(),
            progress_at: None,
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        let lines = self.terminal.feed(chunk);
        self.excerpt.push(&lines);
        let end = lines.ceil_char_boundary(lines.len().saturating_sub(SHOWN));
        self.lines.push_str(&lines[end..]);
        let before = self.lines.ceil_char_boundary(self.lines.len().saturating_sub(SHOWN));
        self.lines.drain(..before);
        self.skipped |= end + before > 0;
        self.fresh = true;
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.show();
        }
    }

    /// When what came is to be shown; none when nothing did.
    fn due(&self) -> Option<Instant> {
        self.fresh.then(|| self.shown_at.map_or_else(Instant::now, |at| at + SHOW))
    }

    /// Shows what is new. What was shown cannot be taken back, so a line that rewrites itself is shown as it stands now
    /// and then, each time as a line of its own.
    fn show(&mut self) {
        (self.fresh, self.shown_at) = (false, Some(Instant::now()));
        let mut text = self.new_lines();
        let line = self.terminal.line();
        if !self.terminal.is_progress() {
            if let Some(new) = line.strip_prefix(&self.ahead) {
                text.push_str(new);
                self.ahead = line;
            }
        } else if self.progress_at.is_none_or(|at| at.elapsed() >= PROGRESS) && !line.is_empty() {
            self.progress_at = Some(Instant::now());
            text.push_str(&self.after_ahead(&line));
            text.push('\n');
            self.ahead.clear();
        }
        if !text.is_empty() {
            self.live.write(&text);
        }
    }

    /// What is to be shown of the lines that were completed.
    fn new_lines(&mut self) -> String {
        let lines = std::mem::take(&mut self.lines);
        if lines.is_empty() {
            return lines;
        }
        let text = if self.skipped { format!("\n{lines}") } else { self.after_ahead(&lines) };
        self.skipped = false;
        self.ahead.clear();
        text
    }

    /// What of a text is to be shown when `ahead` was shown already.
    fn after_ahead(&self, text: &str) -> String {
        text.strip_prefix(&self.ahead).map_or_else(|| format!("\n{text}"), str::to_owned)
    }

    fn finish(mut self) -> (String, u64) {
        let mut new = self.new_lines();
        let rest = self.terminal.finish();
        match rest.strip_prefix(&self.ahead) {
            Some(rest) => new.push_str(rest),
            None => new.push_str(&format!("\n{rest}")),
        }
        if !new.is_empty() {
            self.live.write(&new);
        }
        self.excerpt.push(&rest);
        let text = self.excerpt.text(|left_out| {
            format!(
                "\n… {left_out} bytes left out; to read them, run the command again with its output in a file \
                 (command > FILE 2>&1) and read that in parts, or narrow it with grep, head or tail …\n"
            )
        });
        (text, self.bytes)
    }
}

fn report(
    command: &str,
    end: &End,
    ended: &Ended,
    left: &[ReceiptProcess],
    shown: Shown,
    confinement: &Confinement,
    (took, idle): (Duration, Duration),
) -> Outcome {
    let (mut text, bytes) = shown.finish();
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let seconds = format!("{:.1} s", took.as_secs_f64());
    let gone = match left.len() {
        0 => "every process of it is gone".to_owned(),
        count => format!("{count} of its {} processes could not be ended", ended.processes.len()),
    };
    let status = match end {
        End::Exited(Exit { code: Some(code), signal: Some(signal) }) => {
            format!("exit {code} (128 + signal {signal}) in {seconds}")
        }
        End::Exited(Exit { code: Some(code), signal: None }) => format!("exit {code} in {seconds}"),
        End::Exited(Exit { code: None, signal: Some(signal) }) => format!(
            "its guard was ended by signal {signal} after {seconds}, as `kill -9 $PPID` does: the rest of the command was \
             ended with it, its exit code is not known, and processes that had left it may live on"
        ),
        End::Exited(Exit { code: None, signal: None }) => format!("ended in {seconds}; its exit code is not known"),
        End::Unobserved(reason) => format!("stopped after {seconds}: {reason} Of the command, {gone}"),
        End::TimedOut => format!(
            "stopped after {seconds}, the time limit; {gone}. Give a larger timeout_ms, or start long work in the background"
        ),
        End::Silent => format!(
            "stopped after {seconds}: no sign of life, neither output nor work, for {} s (limits.idle_s); {gone}. Start what \
             only waits in the background",
            idle.as_secs_f64()
        ),
        End::Cancelled => format!("cancelled after {seconds}; {gone}"),
    };
    if let End::Exited(_) = end
        && !left.is_empty()
    {
        let pids: Vec<String> = left.iter().take(NAMED).map(|process| process.pid.to_string()).collect();
        let more = if left.len() > NAMED { ", …" } else { "" };
        text.push_str(&format!(
            "[{} still attached, pid {}{more}: it runs on without its output being read, until `kill` or the end of the session ends it]\n",
            if left.len() == 1 { "1 process is".to_owned() } else { format!("{} processes are", left.len()) },
            pids.join(", "),
        ));
    }
    if !matches!(end, End::Exited(Exit { code: Some(0), .. }))
        && let Some(why) = confinement.explain(&text)
    {
        text.push_str(&format!("[{why}]\n"));
    }
    text.push_str(&format!("[{status}]"));
    let (exit, signal) = match end {
        End::Exited(exit) => (exit.code, exit.signal),
        _ => (None, None),
    };
    let pids: Vec<u32> = left.iter().map(|process| process.pid).collect();
    Outcome { ok: exit == Some(0), ..Outcome::ok(text) }.with(json!({
        "command": command,
        "exit": exit,
        "signal": signal,
        "ms": millis(took),
        "bytes": bytes,
        "processes_left": pids,
    }))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
