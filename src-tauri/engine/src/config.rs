//! The configuration file, `config.toml`: what it may say, what it means when it says nothing.
//!
//! An unknown key, a wrong type or an impossible value is named with its line, and nothing starts half-configured.

use crate::error::{Code, Error, Result};
use crate::event::ToolFilter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ts_rs::TS;

pub mod bounds;
mod check;
pub(crate) mod file;

/// The largest configuration file that is read, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// The name of the model that is always there.
pub const REHEARSAL: &str = "rehearsal";

/// The name of the delegation tool that is always there.
const SUBAGENT: &str = "subagent";

/// The configuration, complete and checked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model of a session that names none. Without one it is the rehearsal.
    pub default_model: String,
    /// The models, by name. The rehearsal is always among them.
    pub models: BTreeMap<String, ModelConfig>,
    /// The delegation tools, by the name that the model sees.
    pub subagents: BTreeMap<String, SubagentConfig>,
    /// External agents, by name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Limits, per tree unless said otherwise.
    pub limits: Limits,
    /// When an owner is woken and a person is notified.
    pub notices: Notices,
}

/// How a model is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, and what is compatible with it.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Google Gemini.
    Gemini,
    /// The built-in interpreter that plays a model.
    Rehearsal,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Where it is, without the last path segment of the protocol: `http://127.0.0.1:8080/v1`.
    pub base_url: Option<String>,
    /// The name that the server knows it by.
    pub model: Option<String>,
    /// The environment variable that holds its key.
    pub key_env: Option<String>,
    /// The size of its context, in tokens.
    pub context: Option<u64>,
    /// Rehearsal only: the script it plays; without one it plays the tour. A relative one starts from the folder of the
    /// configuration file.
    pub script: Option<PathBuf>,
    /// Rehearsal only: how long its pauses are, as a factor; 1 without one, 0 for none.
    pub pace: Option<f64>,
}

/// One delegation tool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubagentConfig {
    /// `spawn`, `fork` or `acp`.
    pub provider: String,
    /// Whether the model may run it in the background.
    #[serde(default = "yes")]
    pub run_in_background: bool,
    /// The model of its children; their parent's without one.
    pub model: Option<String>,
    /// Instructions of their own for its children.
    pub persona: Option<String>,
    /// Which tools its children are given.
    #[serde(default)]
    pub tools: ToolFilter,
    /// The deepest child it may start; the limit of the tree without one.
    pub max_depth: Option<u32>,
    /// For `acp`: the external agent's name.
    pub agent: Option<String>,
}

/// One external agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables added to its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The mode it is started in.
    pub mode: Option<String>,
}

/// Limits, per tree unless said otherwise; 0 means none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The deepest child; a root is 0.
    pub depth: u32,
    /// Live tasks of one owner.
    pub live_tasks_per_owner: u32,
    /// Children alive at once.
    pub live_children: u32,
    /// Children in all.
    pub children: u32,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Money, in US dollars.
    pub money_usd: f64,
    /// Wall clock, in seconds.
    pub wall_clock_s: u64,
    /// Model requests in one turn.
    pub step_limit: u32,
    /// Steps of one turn in a row that make the same calls and get the same results.
    pub same_calls: u32,
    /// Steps of one turn in a row in which every call fails.
    pub failed_steps: u32,
    /// How long something may show no sign of life, in seconds.
    pub idle_s: u64,
    /// How long a stop stays polite, in milliseconds.
    pub stop_grace_ms: u64,
    /// How often in a row an idle owner is woken until a person speaks.
    pub wake_budget: u32,
}

/// When an owner is woken and a person is notified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(default, deny_unknown_fields)]
pub struct Notices {
    /// Whether a task's end wakes an idle owner.
    pub wake: bool,
    /// Which ends reach the desktop.
    pub desktop: Desktop,
}

/// Which ends reach the desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Desktop {
    /// Every task's end.
    Tasks,
    /// Only when a root ends or someone needs the person.
    Roots,
    /// Only when someone needs the person.
    Asks,
    /// Nothing.
    Off,
}

fn yes() -> bool {
    true
}

impl Default for Config {
    fn default() -> Self {
        let rehearsal = ModelConfig {
            protocol: Protocol::Rehearsal,
            base_url: None,
            model: None,
            key_env: None,
            context: None,
            script: None,
            pace: None,
        };
        let subagent = |provider: &str| SubagentConfig {
            provider: provider.to_owned(),
            run_in_background: true,
            model: None,
            persona: None,
            tools: ToolFilter::default(),
            max_depth: None,
            agent: None,
        };
        Self {
            default_model: REHEARSAL.to_owned(),
            models: BTreeMap::from([(REHEARSAL.to_owned(), rehearsal)]),
            subagents: BTreeMap::from([(SUBAGENT.to_owned(), subagent("spawn"))]),
            agents: BTreeMap::new(),
            limits: Limits::default(),
            notices: Notices::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 3,
            live_tasks_per_owner: 10,
            live_children: 16,
            children: 200,
            tokens: 0,
            money_usd: 0.0,
            wall_clock_s: 0,
            step_limit: 200,
            same_calls: 20,
            failed_steps: 20,
            idle_s: 300,
            stop_grace_ms: 2000,
            wake_budget: 3,
        }
    }
}

impl Limits {
    /// How long something may show no sign of life.
    pub fn idle(&self) -> Duration {
        match self.idle_s {
            // None was asked for; a bound there is all the same.
            0 => Duration::from_secs(24 * 60 * 60),
            seconds => Duration::from_secs(seconds),
        }
    }

    /// How long a stop stays polite.
    pub fn stop_grace(&self) -> Duration {
        Duration::from_millis(self.stop_grace_ms)
    }
}

impl Default for Notices {
    fn default() -> Self {
        Self { wake: true, desktop: Desktop::Tasks }
    }
}

impl Config {
    /// Reads the file. An absent file is an empty one. A relative `script` starts from the folder of the file.
    /// Everything that is wrong with it is [`Code::BadRequest`], with the file, the line and what to do.
    pub fn load(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = match file::read(path, MAX_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                let message =
                    format!("{name} is larger than {MAX_FILE} bytes, so it is no configuration. Name another file.");
                return Err(Error::new(Code::BadRequest, message));
            }
            Err(error) => {
                let message = format!("{name} cannot be read ({error}). Make it readable or name another file.");
                return Err(Error::new(Code::BadRequest, message).because(error));
            }
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            Error::new(Code::BadRequest, format!("{name}, line {line}: this is not UTF-8. Save the file as UTF-8."))
        })?;
        let mut config = Self::parse(&name, &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for script in config.models.values_mut().filter_map(|model| model.script.as_mut()) {
            *script = folder.join(&*script);
        }
        Ok(config)
    }

    /// Reads the text of a configuration; `name` is how errors call it. What the text gives stands beside the
    /// defaults: the rehearsal and the delegation tool `subagent` are there unless they are given anew.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let bad = |error: toml::de::Error| {
            let place = error.span().map_or(String::new(), |span| format!(", line {}", check::line(text, span.start)));
            let what = check::in_words(error.message());
            Error::new(Code::BadRequest, format!("{name}{place}: {what}. {}", check::ADVICE))
        };
        let given: Self = toml::from_str(text).map_err(bad)?;
        let table = toml::de::DeTable::parse(text).map_err(bad)?;
        check::Check { name, text, table: table.get_ref() }.all(&given)?;
        let mut config = Self::default();
        config.models.extend(given.models);
        config.subagents.extend(given.subagents);
        Ok(Self { models: config.models, subagents: config.subagents, ..given })
    }
}
