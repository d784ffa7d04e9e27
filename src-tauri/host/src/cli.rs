//! What the programs understand, and how they end: `coppice` in the terminal, and the one that opens the window.

mod asking;
mod asks;
mod doctor;
mod keep;
mod key;
mod limits;
mod live;
mod out;
mod run;
mod show;
mod undo;

use crate::client::Client;
use crate::commands::Failed;
use crate::host::{self, Host};
use crate::single::{Folders, Holder};
use crate::text;
use clap::{Args, Parser, Subcommand, ValueEnum};
use coppice_engine::env::{self, Env};
use coppice_engine::error::Code;
use coppice_engine::event::{Decision, Mode};
use directories::ProjectDirs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;

use limits::Limit;
pub use out::Out;

/// How long threads that nobody can interrupt (a read of standard input) may hold up the end of a process.
pub const LINGER: Duration = Duration::from_millis(200);
/// It was stopped: by a signal, by a person at the window, by another process.
const STOPPED: u8 = 130;
/// The reader of standard output is gone, as a shell tells it.
const UNREAD: u8 = 141;

/// What `coppice` understands.
#[derive(Debug, Parser)]
#[command(name = "coppice", version, about = "A desktop app for people who delegate work to AI agents", long_about = None)]
pub struct Cli {
    #[command(flatten)]
    folders: FolderArgs,
    #[command(subcommand)]
    what: Option<What>,
}

/// What the program that opens the window understands.
#[derive(Debug, Parser)]
#[command(
    name = "coppice-window",
    version,
    about = "Opens the window of Coppice. `coppice` does the same, and the rest",
    long_about = None
)]
struct WindowCli {
    #[command(flatten)]
    folders: FolderArgs,
}

#[derive(Debug, Args)]
struct FolderArgs {
    #[arg(long, global = true, value_name = "DIR", help = data_help())]
    data: Option<PathBuf>,
    #[arg(long, global = true, value_name = "FILE", help = config_help())]
    config: Option<PathBuf>,
    /// What is logged to standard error
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    log: Level,
}

fn data_help() -> String {
    let default = dirs().map(|dirs| format!(", else {}", dirs.data_dir().display())).unwrap_or_default();
    format!("The data folder; without it the one that COPPICE_DATA names{default}")
}

fn config_help() -> String {
    let default = dirs().map(|dirs| format!(", else {}", config_file(&dirs).display())).unwrap_or_default();
    format!("The configuration file; without it the one that COPPICE_CONFIG names{default}")
}

/// Where this person's programs keep what they keep.
fn dirs() -> Option<ProjectDirs> {
    ProjectDirs::from("app", "", "coppice")
}

fn config_file(dirs: &ProjectDirs) -> PathBuf {
    dirs.config_dir().join("config.toml")
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Level> for tracing::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// One prompt, to the end of its turn and of all it started
    Run(RunArgs),
    /// The wire on standard input and output, as lines of JSON
    #[command(after_help = crate::rpc::help())]
    Rpc,
    /// Sessions and commands, as a tree
    Tree {
        /// Only this session and what is below it
        session: Option<String>,
        /// What is in the archive too
        #[arg(long)]
        archived: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The transcript of a session
    Show {
        /// The session
        session: String,
        /// As JSON, one row a line
        #[arg(long)]
        json: bool,
    },
    /// Says something to a session: a prompt to a root, a message to a child
    Send {
        /// The session
        session: String,
        /// The words
        text: String,
    },
    /// Stops a turn, a branch, a task or everything, with proof
    Stop {
        /// What to stop
        what: StopWhat,
        /// The session or task
        id: Option<String>,
        /// Why, for people and the model
        #[arg(long)]
        reason: Option<String>,
        /// Only tell what would end
        #[arg(long)]
        preview: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// What a tree may spend and has spent; with NAME=NUMBER sets it
    Limits {
        /// The session, for the limits of its tree; setting takes a root
        session: Option<String>,
        /// tokens, wall_clock_s, depth, live_children, children or step_limit, and its size; 0 means none
        #[arg(value_name = "NAME=NUMBER", value_parser = Limit::parse)]
        limits: Vec<Limit>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Gives a session another title
    Rename {
        /// The session
        session: String,
        /// Its new title
        title: String,
    },
    /// Puts a session and all below it out of the way; it can be read and resumed as before
    Archive {
        /// The session
        session: String,
        /// Bring it back instead
        #[arg(long, conflicts_with = "stop")]
        undo: bool,
        /// Stop what runs in it first
        #[arg(long)]
        stop: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Deletes a session and all below it, for good; files that were written stay
    Delete {
        /// The session
        session: String,
        /// Stop what runs in it first
        #[arg(long)]
        stop: bool,
        /// Only tell what would go
        #[arg(long)]
        preview: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Takes back what a session did to files with its file tools, the latest first
    Undo {
        /// The session
        session: String,
        /// Only what one row did, by its `n` in `coppice show --json`; that of an undo puts it back
        #[arg(long, value_name = "N", conflicts_with = "branch")]
        row: Option<i64>,
        /// What all sessions below it did, too
        #[arg(long)]
        branch: bool,
        /// Only tell what would happen
        #[arg(long)]
        preview: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// What waits for your leave
    Asks {
        /// What was decided lately too
        #[arg(long)]
        all: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Answers an ask
    Answer {
        /// The ask
        ask: String,
        /// What you decide
        decision: DecisionArg,
        /// A word to the agent
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Tells what a session may do without asking, or sets it
    Mode {
        /// The session
        session: String,
        /// What it may do from its next call on; a child never more than its parent
        mode: Option<ModeArg>,
    },
    /// What you have allowed for more than one call
    Allowed {
        /// Takes back what the answer to this ask allowed
        #[arg(long, value_name = "ASK", conflicts_with = "json")]
        remove: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The log of a session, one event a line
    Export {
        /// The session
        session: String,
    },
    /// The keys of model servers
    Key {
        #[command(subcommand)]
        what: key::What,
    },
    /// What works on this machine; no secrets
    Doctor,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// What to do
    prompt: String,
    /// The folder to work in; the current one without it
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    cwd: Option<PathBuf>,
    /// A model of the configuration
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    model: Option<String>,
    /// What it may do without asking; `ask` when it is not said
    #[arg(long, value_name = "MODE", conflicts_with = "session")]
    mode: Option<ModeArg>,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// What the tree may spend: tokens, wall_clock_s, depth, live_children, children or step_limit; 0 means none
    #[arg(long = "limit", value_name = "NAME=NUMBER", value_parser = Limit::parse)]
    limits: Vec<Limit>,
    /// Print the committed events instead, one a line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// It only looks: at files in its folder, with commands that only read. All else is refused
    ReadOnly,
    /// It asks before it writes, before a command that may do more than read, and before it looks elsewhere
    Ask,
    /// As `ask`, but it writes files in its folder without asking
    AcceptEdits,
    /// It asks nothing. Only Coppice's own data and keys stay out of its reach
    Full,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::ReadOnly => Self::ReadOnly,
            ModeArg::Ask => Self::Ask,
            ModeArg::AcceptEdits => Self::AcceptEdits,
            ModeArg::Full => Self::Full,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DecisionArg {
    /// This call may
    Once,
    /// Exactly this, in this folder, by the session that asked and all below it
    Branch,
    /// Exactly this, in this folder, by every session
    Always,
    /// It may not
    Deny,
    /// Not now: it goes on waiting
    Later,
}

impl From<DecisionArg> for Decision {
    fn from(decision: DecisionArg) -> Self {
        match decision {
            DecisionArg::Once => Self::Once,
            DecisionArg::Branch => Self::Branch,
            DecisionArg::Always => Self::Always,
            DecisionArg::Deny => Self::Deny,
            DecisionArg::Later => Self::Later,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StopWhat {
    Turn,
    Branch,
    Task,
    Everything,
}

impl StopWhat {
    fn word(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Branch => "branch",
            Self::Task => "task",
            Self::Everything => "everything",
        }
    }
}

/// Why a command of the terminal did not do what was asked.
#[derive(Debug)]
enum Trouble {
    Failed(Failed),
    Output(io::Error),
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<coppice_engine::error::Error> for Trouble {
    fn from(error: coppice_engine::error::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// What the command line asks for.
pub enum Asked {
    /// The window, on this data folder.
    Window(Folders),
    /// Something in the terminal.
    Terminal(Box<Terminal>),
}

/// A command of the terminal, ready to run.
pub struct Terminal {
    folders: Folders,
    what: What,
}

/// Reads the command line of `coppice` and starts the log on standard error. The error is how the process ends: usage
/// was printed.
pub fn parse() -> Result<Asked, ExitCode> {
    let cli: Cli = read()?;
    let folders = begin(cli.folders)?;
    Ok(match cli.what {
        None => Asked::Window(folders),
        Some(what) => Asked::Terminal(Box::new(Terminal { folders, what })),
    })
}

/// The same for the program that opens the window, which does nothing else.
pub fn parse_window() -> Result<Folders, ExitCode> {
    let cli: WindowCli = read()?;
    begin(cli.folders)
}

/// The threads that a program works on. The error is how it ends: why was printed.
pub fn threads() -> Result<Runtime, ExitCode> {
    Runtime::new().map_err(|error| told(&format!("Coppice could not start its threads ({error}).")))
}

/// Says why a program ends without having done what was asked, and answers how it ends.
pub fn told(message: &str) -> ExitCode {
    said(Out::stderr().line(&text::plain(message)), 1)
}

fn read<P: Parser>() -> Result<P, ExitCode> {
    P::try_parse().map_err(|error| {
        // What was typed stands in it, and may have come from elsewhere.
        let told = text::plain(&error.render().to_string());
        let printed = if error.use_stderr() { Out::stderr() } else { Out::stdout() }.raw(&told);
        let code = u8::try_from(error.exit_code()).unwrap_or(2);
        match printed {
            Err(lost) if !error.use_stderr() => unwritten(&lost),
            // Nothing is left to tell it to when the terminal is gone.
            _ => ExitCode::from(code),
        }
    })
}

/// Starts the log, and finds the folders.
fn begin(args: FolderArgs) -> Result<Folders, ExitCode> {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing::Level::from(args.log))
        .with_ansi(false)
        .init();
    folders(args).map_err(|(message, code)| said(Out::stderr().line(&text::plain(&message)), code))
}

/// The exit code, whether or not its message found a reader.
fn said(_: io::Result<()>, code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// How it ends when its output could not be written: quietly when the reader just went away.
fn unwritten(error: &io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return ExitCode::from(UNREAD);
    }
    said(Out::stderr().line(&format!("The output could not be written: {error}.")), 1)
}

/// The error is for people, with the exit code.
fn folders(args: FolderArgs) -> Result<Folders, (String, u8)> {
    // A current folder that was deleted is told to whoever needs it; what needs none works all the same.
    let here = current();
    let cwd = match &here {
        Ok(here) => here.clone(),
        Err(error) => {
            directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()).ok_or_else(|| (error.clone(), 1))?
        }
    };
    let dirs = dirs();
    let (data, config) =
        (args.data.or_else(|| env::path("COPPICE_DATA")), args.config.or_else(|| env::path("COPPICE_CONFIG")));
    let config_named = config.is_some();
    let named = |path: PathBuf| match &here {
        _ if path.is_absolute() => Ok(path),
        Ok(here) => Ok(here.join(path)),
        Err(error) => Err((error.clone(), 1)),
    };
    let data = data.map(named).transpose()?.or_else(|| dirs.as_ref().map(|dirs| dirs.data_dir().to_owned()));
    let config = config.map(named).transpose()?.or_else(|| dirs.as_ref().map(config_file));
    match (data, config) {
        // Only the file that nobody named need not exist. One that cannot be looked for is told when it is read.
        (_, Some(config)) if config_named && matches!(config.try_exists(), Ok(false)) => {
            Err((format!("There is no configuration {}. Nothing was started.", config.display()), 2))
        }
        (Some(data), Some(config)) => Ok(Folders { data, config, config_named, cwd }),
        _ => {
            let message = "There is no home folder to keep data in. Name one with --data, and a file with --config.";
            Err((message.to_owned(), 1))
        }
    }
}

/// The current folder. The error is for people.
fn current() -> Result<PathBuf, String> {
    std::env::current_dir()
        .map_err(|error| format!("The current folder cannot be told ({error}). Change to another and try again."))
}

impl Terminal {
    /// Does it, from the first look at the data folder to the freed lock, and answers how the process ends.
    pub async fn run(self) -> ExitCode {
        match self.work().await {
            Ok(code) => ExitCode::from(code),
            Err(Trouble::Output(error)) => unwritten(&error),
            Err(Trouble::Failed(failed)) => {
                let code = if failed.code == Code::BadRequest { 2 } else { 1 };
                said(Out::stderr().line(&text::plain(&failed.message)), code)
            }
        }
    }

    async fn work(self) -> Result<u8, Trouble> {
        if let What::Doctor = self.what {
            return doctor::run(&self.folders).await;
        }
        if let What::Rpc = self.what {
            return rpc(&self.folders).await;
        }
        let (client, ours) = match self.folders.reach().await? {
            Holder::Us(host) => (Client::of(&host), Some(host)),
            Holder::Other(client) => (client, None),
        };
        let mut out = Out::stdout();
        let done = match self.what {
            What::Run(args) => run::run(&client, ours.as_ref(), args, &mut out).await,
            What::Send { session, text } => run::send(&client, ours.as_ref(), &session, text, &mut out).await,
            What::Tree { session, archived, json } => {
                show::tree(&client, session.as_deref(), archived, json, &mut out).await
            }
            What::Show { session, json } => show::show(&client, &session, json, &mut out).await,
            What::Stop { what, id, reason, preview, json } => {
                let args = serde_json::json!({
                    "what": what.word(), "id": id, "reason": reason, "preview": preview, "key": fresh_key(),
                });
                show::stop(&client, args, preview, json, &mut out).await
            }
            What::Limits { session, limits, json } => {
                limits::limits(&client, session.as_deref(), &limits, json, &mut out).await
            }
            What::Rename { session, title } => keep::rename(&client, &session, &title, &mut out).await,
            What::Archive { session, undo, stop, json } => {
                let args =
                    serde_json::json!({ "session": session, "archived": !undo, "stop": stop, "key": fresh_key() });
                keep::archive(&client, args, json, &mut out).await
            }
            What::Delete { session, stop, preview, json } => {
                let args =
                    serde_json::json!({ "session": session, "stop": stop, "preview": preview, "key": fresh_key() });
                keep::delete(&client, args, preview, json, &mut out).await
            }
            What::Undo { session, row, branch, preview, json } => {
                let args = serde_json::json!({
                    "session": session, "n": row, "branch": branch, "preview": preview, "key": fresh_key(),
                });
                undo::undo(&client, args, preview, json, &mut out).await
            }
            What::Asks { all, json } => asks::asks(&client, all, json, &mut out).await,
            What::Answer { ask, decision, note } => {
                asks::answer(&client, ours.as_ref(), (ask, decision.into(), note), &mut out).await
            }
            What::Mode { session, mode } => asks::mode(&client, &session, mode.map(Mode::from), &mut out).await,
            What::Allowed { remove, json } => asks::allowed(&client, remove, json, &mut out).await,
            What::Key { what } => key::run(&client, what, &mut out).await,
            What::Export { session } => show::export(&client, &session, &mut out).await,
            What::Rpc | What::Doctor => Ok(0),
        };
        drop(client);
        if let Some(host) = ours {
            // What others run in this process meanwhile is theirs to end; a signal ends it all the same.
            tokio::select! {
                () = host.callers_gone() => {}
                () = host::asked_to_end() => {}
            }
            host.leave().await?;
        }
        done
    }
}

async fn rpc(folders: &Folders) -> Result<u8, Trouble> {
    // A script learns on standard output, in the wire's own form, why there is nobody to talk to.
    let refuse = |failed: Failed| -> Trouble {
        let line = serde_json::json!({ "id": null, "error": failed }).to_string();
        match Out::stdout().line(&text::plain_json(&line)) {
            Ok(()) => failed.into(),
            Err(error) => error.into(),
        }
    };
    let host = match open(folders).await {
        Ok(host) => host,
        Err(failed) => return Err(refuse(failed)),
    };
    host::leave_on_signals(&host);
    let (input, output) = (tokio::io::BufReader::new(tokio::io::stdin()), tokio::io::stdout());
    let shut = std::sync::Mutex::new(None);
    let served = crate::rpc::serve(&host, input, output, async {
        let left = host.engine.shutdown(host::DEADLINE).await;
        if let Ok(mut shut) = shut.lock() {
            *shut = Some(left);
        }
    })
    .await;
    host.leave().await?;
    served?;
    match shut.into_inner().ok().flatten() {
        Some(Err(error)) if error.code() != Code::ShuttingDown => Err(error.into()),
        _ => Ok(0),
    }
}

/// Takes the data folder for this process alone.
async fn open(folders: &Folders) -> Result<Host, Failed> {
    match folders.reach().await? {
        Holder::Us(host) => Ok(host),
        Holder::Other(client) => {
            let about = client.call("about", serde_json::json!({})).await?;
            Err(Failed {
                code: Code::HeldElsewhere,
                message: format!(
                    "Process {} holds {}. Nothing was started. End it first, or use another data folder (--data).",
                    about["pid"],
                    folders.data.display()
                ),
            })
        }
    }
}

fn unknown(session: &str) -> Failed {
    Failed {
        code: Code::UnknownSession,
        message: format!("There is no session {session}. `coppice tree` names all there are."),
    }
}

fn fresh_key() -> String {
    format!("terminal-{}", Env::system().new_session())
}
