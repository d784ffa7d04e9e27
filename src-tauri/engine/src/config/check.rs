//! What a configuration may not say although its types fit. Each finding is named with the line that it is about.

use crate::config::{AgentConfig, Config, Limits, ModelConfig, Protocol, REHEARSAL, SUBAGENT, SubagentConfig};
use crate::error::{Code, Error, Result};
use toml::de::DeTable;

/// What every finding ends with.
pub const ADVICE: &str = "Correct it and start again; nothing was started.";

/// The names that the engine's own tools have, so that no delegation tool can hide one.
const TAKEN: &[&str] = &[
    "bash",
    "read_file",
    "write_file",
    "edit_file",
    "glob",
    "grep",
    "task_output",
    "task_list",
    "task_kill",
    "send_message",
    "list_agents",
];

/// The longest time that a limit may name, in seconds: ten years. More would overflow a clock somewhere.
const MAX_SECONDS: u64 = 10 * 365 * 24 * 60 * 60;

/// The longest that a stop may stay polite, in milliseconds.
const MAX_GRACE_MS: u64 = 10 * 60 * 1000;

/// The largest factor of the rehearsal's pauses. More would outlast everybody who watches.
const MAX_PACE: f64 = 100.0;

/// The longest tool name that every model's server takes.
const MAX_TOOL_NAME: usize = 40;

/// The line of the byte `offset`, counted from 1.
pub fn line(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// What the reader of the text found wrong, with the names of types put into words.
pub fn in_words(found: &str) -> String {
    let words = [("expected u32", "expected a whole number of 0 or more"), ("expected f64", "expected a number")];
    let found = found.replace("expected u64", "expected u32");
    words.iter().fold(found, |found, (name, words)| found.replace(name, words))
}

/// A configuration under check: its text as it stands, to find the lines.
pub struct Check<'a> {
    /// How errors call the file.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// The text, parsed, with places.
    pub table: &'a DeTable<'a>,
}

impl Check<'_> {
    /// Finds the first thing that is wrong.
    pub fn all(&self, config: &Config) -> Result<()> {
        for (name, model) in &config.models {
            self.model(name, model)?;
        }
        let known = |model: &str| model == REHEARSAL || config.models.contains_key(model);
        if !known(&config.default_model) {
            return Err(self.no_model(config, &["default_model"], &config.default_model));
        }
        for (name, agent) in &config.agents {
            self.agent(name, agent)?;
        }
        for (name, subagent) in &config.subagents {
            self.subagent(config, name, subagent)?;
            if let Some(model) = subagent.model.as_deref().filter(|model| !known(model)) {
                return Err(self.no_model(config, &["subagents", name, "model"], model));
            }
        }
        self.limits(&config.limits)
    }

    fn model(&self, name: &str, model: &ModelConfig) -> Result<()> {
        let at = |key| ["models", name, key];
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(self.wrong(&["models", name], "a model needs a name that can be read"));
        }
        let rehearsal = model.protocol == Protocol::Rehearsal;
        if name == REHEARSAL && !rehearsal {
            return Err(self.wrong(
                &at("protocol"),
                format!("the name `{REHEARSAL}` belongs to the built-in model; call this one something else"),
            ));
        }
        let given = [
            ("base_url", model.base_url.is_some(), !rehearsal),
            ("key_env", model.key_env.is_some(), !rehearsal),
            ("script", model.script.is_some(), rehearsal),
            ("pace", model.pace.is_some(), rehearsal),
        ];
        if let Some((key, ..)) = given.iter().find(|(_, given, fits)| *given && !fits) {
            let what = if rehearsal {
                format!("the rehearsal speaks to no server, so `{key}` means nothing for it; remove it")
            } else {
                format!("`{key}` is for the rehearsal only; remove it, or set protocol = \"rehearsal\"")
            };
            return Err(self.wrong(&at(key), what));
        }
        if !rehearsal && model.model.as_deref().is_none_or(|model| model.trim().is_empty()) {
            let what = format!("the model `{name}` needs `model`, the name that its server knows it by");
            return Err(self.wrong(&at("model"), what));
        }
        match &model.base_url {
            None if model.protocol == Protocol::OpenaiChat => {
                let what = format!("the model `{name}` needs `base_url`, for example \"http://127.0.0.1:8080/v1\"");
                return Err(self.wrong(&at("base_url"), what));
            }
            Some(url) if !is_http(url) => {
                return Err(
                    self.wrong(&at("base_url"), "`base_url` has to be an address like \"http://127.0.0.1:8080/v1\"")
                );
            }
            _ => {}
        }
        // The value is not repeated: it may be a key that was put in the wrong place.
        if model.key_env.as_deref().is_some_and(|key| !is_variable(key)) {
            let what = "`key_env` is the name of the environment variable that holds the key, not the key itself";
            return Err(self.wrong(&at("key_env"), what));
        }
        if model.context == Some(0) {
            return Err(
                self.wrong(&at("context"), "a context of 0 tokens holds nothing; give its size or leave it out")
            );
        }
        if model.pace.is_some_and(|pace| !(0.0..=MAX_PACE).contains(&pace)) {
            return Err(self.wrong(&at("pace"), format!("`pace` is a factor from 0 to {MAX_PACE}")));
        }
        Ok(())
    }

    fn agent(&self, name: &str, agent: &AgentConfig) -> Result<()> {
        if agent.command.trim().is_empty() {
            return Err(
                self.wrong(&["agents", name, "command"], format!("the agent `{name}` needs a command to start"))
            );
        }
        match agent.env.keys().find(|key| key.is_empty() || key.contains(['=', '\0'])) {
            Some(key) => Err(self.wrong(&["agents", name, "env", key], "this cannot be the name of a variable")),
            None => Ok(()),
        }
    }

    fn subagent(&self, config: &Config, name: &str, subagent: &SubagentConfig) -> Result<()> {
        let at = |key| ["subagents", name, key];
        if !is_tool(name) {
            return Err(self.wrong(&["subagents", name], tool_name(name)));
        }
        if TAKEN.contains(&name) {
            let what = format!("`{name}` is the name of a tool that is always there; call this one `subagent_{name}`");
            return Err(self.wrong(&["subagents", name], what));
        }
        let acp = match subagent.provider.as_str() {
            "spawn" | "fork" => false,
            "acp" => true,
            other => {
                let what = format!("there is no subagent provider `{other}`; the providers are spawn, fork and acp");
                return Err(self.wrong(&at("provider"), what));
            }
        };
        let known = || names(config.agents.keys());
        match (&subagent.agent, acp) {
            (None, true) => {
                let what = format!("`{name}` is run by acp, so it needs `agent`: the name of a table under [agents]");
                return Err(self.wrong(&at("agent"), what));
            }
            (Some(_), false) => {
                let what =
                    format!("`agent` is for the provider acp only, and `{name}` is run by {}", subagent.provider);
                return Err(self.wrong(&at("agent"), what));
            }
            (Some(agent), true) if !config.agents.contains_key(agent) => {
                let what = format!("there is no agent `{agent}`; the agents are {}", known());
                return Err(self.wrong(&at("agent"), what));
            }
            _ => {}
        }
        for (list, tools) in [("allow", &subagent.tools.allow), ("deny", &subagent.tools.deny)] {
            if let Some(tool) = tools.iter().find(|tool| !is_tool(tool)) {
                return Err(self.wrong(&["subagents", name, "tools", list], tool_name(tool)));
            }
            let known: Vec<&str> = TAKEN.iter().copied().chain(delegating(config)).collect();
            if let Some(tool) = tools.iter().find(|tool| !known.contains(&tool.as_str())) {
                let what = format!("there is no tool `{tool}`; the tools are {}", known.join(", "));
                return Err(self.wrong(&["subagents", name, "tools", list], what));
            }
        }
        if subagent.max_depth == Some(0) {
            let what = "the first child has depth 1, so with a `max_depth` of 0 none could start; give 1 or more";
            return Err(self.wrong(&at("max_depth"), what));
        }
        Ok(())
    }

    fn limits(&self, limits: &Limits) -> Result<()> {
        if !limits.money_usd.is_finite() || limits.money_usd < 0.0 {
            return Err(self.wrong(&["limits", "money_usd"], "`money_usd` is an amount of 0 or more; 0 means no limit"));
        }
        let bounds = [
            ("wall_clock_s", limits.wall_clock_s, MAX_SECONDS),
            ("idle_s", limits.idle_s, MAX_SECONDS),
            ("stop_grace_ms", limits.stop_grace_ms, MAX_GRACE_MS),
        ];
        match bounds.iter().find(|(_, value, most)| value > most) {
            Some((key, _, most)) => Err(self.wrong(&["limits", key], format!("`{key}` is at most {most}"))),
            None => Ok(()),
        }
    }

    fn no_model(&self, config: &Config, path: &[&str], model: &str) -> Error {
        let rehearsal = REHEARSAL.to_owned();
        let mut known: Vec<&String> = config.models.keys().collect();
        if !config.models.contains_key(REHEARSAL) {
            known.push(&rehearsal);
        }
        self.wrong(path, format!("there is no model `{model}`; the models are {}", names(known.into_iter())))
    }

    /// A finding about the key at `path`, or about the nearest table around it when the key is not there.
    fn wrong(&self, path: &[&str], what: impl AsRef<str>) -> Error {
        let mut table = Some(self.table);
        let mut offset = 0;
        for key in path {
            let Some((found, value)) = table.and_then(|table| table.iter().find(|(name, _)| name.get_ref() == key))
            else {
                break;
            };
            offset = found.span().start;
            table = value.get_ref().as_table();
        }
        let (name, line, what) = (self.name, line(self.text, offset), what.as_ref());
        Error::new(Code::BadRequest, format!("{name}, line {line}: {what}. {ADVICE}"))
    }
}

/// The names of the delegation tools: those of the file, and the one that is always there.
fn delegating(config: &Config) -> impl Iterator<Item = &str> {
    let more = Some(SUBAGENT).filter(|name| !config.subagents.contains_key(*name));
    more.into_iter().chain(config.subagents.keys().map(String::as_str))
}

fn is_http(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_tool(name: &str) -> bool {
    (1..=MAX_TOOL_NAME).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn tool_name(name: &str) -> String {
    format!("`{name}` cannot be the name of a tool: use 1 to {MAX_TOOL_NAME} of a-z, 0-9 and _")
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let list: Vec<&str> = names.map(String::as_str).collect();
    if list.is_empty() { "none so far".to_owned() } else { list.join(", ") }
}
