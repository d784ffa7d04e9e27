//! The seam to tools: what the model may ask the engine to do.

use crate::action::Action;
use crate::config::bounds::MAX_RESULT;
use crate::env::Env;
use crate::event::{CUT_OFF, Event, Mode};
use crate::id::{CallId, Owner};
use crate::llm::ToolSpec;
use crate::process::Confinement;
use crate::prompt::Given;
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub mod background;
pub mod bash;
pub mod edit;
pub mod files;
pub mod messages;
pub mod search;
pub mod subagent;
pub mod tasks;

/// Something that the model may ask for. Arguments come as the model wrote them; bad ones are answered, not panicked
/// on. A tool watches `call.cancel` and ends soon after it fires, leaving nothing behind.
#[async_trait]
pub trait Tool: Send + Sync {
    /// How the model of a session that has the tools `given` sees it: it names no others, and offers nothing that
    /// needs another.
    fn spec(&self, given: &Given) -> ToolSpec;

    /// What it is for.
    fn kind(&self) -> Kind {
        Kind::Work
    }

    /// Whether this call starts a background task or a child. Such calls of one reply begin one after another, each when
    /// the one before is sure of its place, so that tasks and children stand in the order in which the model asked for
    /// them.
    fn in_order(&self, args: &Value) -> bool {
        let _ = args;
        false
    }

    /// What this call would do that needs leave, for the gate before [`Tool::run`]. Nothing of it is done here. Arguments
    /// that cannot be read do nothing.
    async fn actions(&self, call: &Call, args: &Value) -> Vec<Action> {
        let _ = (call, args);
        Vec::new()
    }

    /// Does what was asked. A refusal or failure is an [`Outcome`] with `ok: false`, in words the model can act on.
    async fn run(&self, call: &Call, args: Value) -> Outcome;
}

/// What a tool is for, whatever the configuration calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It does a piece of work.
    Work,
    /// It gives a piece of work to a child.
    Delegation,
    /// It speaks to children that are there.
    Children,
}

/// The circumstances of one call.
#[derive(Clone)]
pub struct Call {
    /// The call's id.
    pub id: CallId,
    /// The exact agent that asked.
    pub owner: Owner,
    /// The folder that relative paths start from, absolute.
    pub cwd: PathBuf,
    /// What it was given leave for.
    pub leave: Leave,
    /// The canonical paths that were judged for this call: a tool that opens files opens no other, so that a link which
    /// was put in the way since leads nowhere. None where nothing was judged.
    pub judged: Option<Arc<[PathBuf]>>,
    /// Fires when the call is to end.
    pub cancel: CancellationToken,
    /// Fires when the task or child that the call starts is sure of its place: the next start may begin.
    pub numbered: CancellationToken,
    /// The tools of the session. The outcome names no others.
    pub given: Given,
    /// Takes output while the call runs, for the person who watches.
    pub live: Arc<dyn LiveOutput>,
    /// The world.
    pub env: Env,
}

/// What a call was given leave for.
#[derive(Clone, Debug, Default)]
pub struct Leave {
    /// What a command that it starts can reach.
    pub confinement: Confinement,
}

impl Leave {
    /// What a mode gives to a session that works in the folder `cwd`.
    pub fn of(mode: Mode, cwd: &Path, out_of_reach: &[PathBuf]) -> Self {
        let (folder, out_of_reach) = (cwd.to_owned(), out_of_reach.to_vec());
        let confinement = match mode {
            Mode::ReadOnly => Confinement::ReadOnly { folder, out_of_reach },
            Mode::Ask | Mode::AcceptEdits => Confinement::Folder { folder, out_of_reach },
            Mode::Full => Confinement::Reach { out_of_reach },
        };
        Self { confinement }
    }
}

/// Takes the output of a call while it runs.
pub trait LiveOutput: Send + Sync {
    /// Some output came. Text may be cut anywhere between characters.
    fn write(&self, text: &str);
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether it did what was asked.
    pub ok: bool,
    /// What the model reads, at most [`MAX_RESULT`] bytes.
    pub text: String,
    /// Facts for the window; an object, or null.
    pub detail: Value,
    /// What is to be committed together with the result: that the model learned a task's end by it, for one.
    pub events: Vec<Event>,
}

/// What stands where a failure was cut.
const CUT: &str = "… [cut: too long]";

impl Outcome {
    /// It did what was asked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { ok: true, text: text.into(), detail: Value::Null, events: Vec::new() }
    }

    /// It did not; `text` says why and what to do. It may repeat what the model wrote, which can have any size, and is
    /// cut where it would be too long.
    pub fn fail(text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.len() > MAX_RESULT {
            text.truncate(text.floor_char_boundary(MAX_RESULT - CUT.len()));
            text.push_str(CUT);
        }
        Self { ok: false, text, detail: Value::Null, events: Vec::new() }
    }

    /// It was cut off before it was done: by a stop, or by the end of Coppice. Nothing of its own went wrong.
    #[must_use]
    pub fn cut_off(self) -> Self {
        self.fact(CUT_OFF, true.into())
    }

    /// The same with one more fact for the window.
    #[must_use]
    pub fn fact(mut self, name: &str, fact: Value) -> Self {
        match &mut self.detail {
            Value::Object(facts) => {
                facts.insert(name.to_owned(), fact);
            }
            detail => *detail = serde_json::json!({ name: fact }),
        }
        self
    }

    /// The same with facts for the window.
    #[must_use]
    pub fn with(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }
}

/// Whether arguments ask for a run in the background.
pub fn in_background(args: &Value) -> bool {
    args.get("run_in_background").and_then(Value::as_bool).unwrap_or(false)
}

/// Reads a tool's arguments, or says what is wrong with them in words the model can act on.
pub fn arguments<T: DeserializeOwned>(args: Value) -> Result<T, Outcome> {
    serde_json::from_value(args).map_err(|error| {
        // The error can repeat a value of any size.
        let why = error.to_string();
        Outcome::fail(format!(
            "The arguments do not fit: {}. Correct them and call again.",
            crate::text::cut(&why, 1000)
        ))
    })
}

/// As many of the last lines as a result may have, with a word about those before.
pub fn newest(lines: &[String]) -> String {
    let mut room = MAX_RESULT - 100;
    let fits = |line: &&String| {
        let taken = line.len() + 1;
        let fits = taken <= room;
        room = room.saturating_sub(taken);
        fits
    };
    let shown = lines.iter().rev().take_while(fits).count();
    let kept = lines[lines.len() - shown..].join("\n");
    match lines.len() - shown {
        0 => kept,
        older => format!("[{older} older ones are left out]\n{kept}"),
    }
}
