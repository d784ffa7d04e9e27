//! The tour, as the root plays it: three children are started in the background, and reported on when they have ended.

use super::{Act, facts, history, look, orders};
use crate::event::Block;
use crate::llm::{Message, Request};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The tools that it uses.
const START: &str = "subagent";
const COLLECT: &str = "task_output";
/// What every report begins with, so that an earlier one is known again.
const FOUND: &str = "I am the rehearsal. This is what the children found; I have added nothing.";
/// How many bytes of a child's answer a report repeats.
const QUOTED: usize = 6000;
const BREATH: Duration = Duration::from_millis(700);

/// The three looks: their labels, and what their children are asked to do.
const LOOKS: [(&str, &str); 3] = [
    (
        look::HERE,
        "Say what this folder holds: list it, read what introduces it, count its files by kind and by folder. Look only, \
         change nothing. Answer with what you found.",
    ),
    (
        look::LARGEST,
        "Find the largest files of this folder, look into the largest text among them, and say what changed last. Look \
         only, change nothing. Answer with what you found.",
    ),
    (
        look::OPEN_ENDS,
        "Find what is unfinished in this folder: notes like TODO and FIXME, and changes that are not committed. Look \
         only, change nothing. Answer with what you found.",
    ),
];

/// A look that was started.
struct Start<'a> {
    label: String,
    /// The id of its task; none when it did not start, or ran in the foreground.
    task: Option<&'a str>,
    /// What the tool answered.
    text: &'a str,
    ok: bool,
}

/// What the root has seen since it last started looks.
struct Round<'a> {
    /// The position of the message that started them.
    at: usize,
    starts: Vec<Start<'a>>,
    /// The tasks whose end it was told, with the runtime's word for it.
    ended: BTreeMap<&'a str, &'a str>,
    /// What the children of these tasks are called.
    labels: BTreeMap<&'a str, &'a str>,
    /// What it has collected, by task, with the position of the message that asked for it.
    collected: BTreeMap<String, (usize, &'a str)>,
}

/// What a request to the root comes to.
pub fn acts(request: &Request) -> Vec<Act> {
    let Some(round) = Round::of(&request.messages) else { return begin(request) };
    match request.messages.last() {
        Some(Message::User(text)) if !told(text).is_empty() => woken(request, &round, text),
        Some(Message::User(text))
            if history::words(&history::said(text)).any(|(_, word)| word.eq_ignore_ascii_case("again")) =>
        {
            begin(request)
        }
        Some(Message::User(_)) => explain(&round),
        _ if round.collected.is_empty() => started(request, &round),
        _ => report(request, &round),
    }
}

fn say(text: impl Into<String>) -> Vec<Act> {
    vec![Act::Pause(BREATH), Act::Say(text.into())]
}

/// Starts the looks.
fn begin(request: &Request) -> Vec<Act> {
    let Some(tool) = request.tools.iter().find(|tool| tool.name == START) else {
        return say(
            "I am the rehearsal: no model, but a player that shows how work is delegated here. I would start three children now, but I \
                    was given no tool to start one. There is nothing else that I can show here.",
        );
    };
    let takes_background = tool.parameters.pointer("/properties/run_in_background").is_some();
    let mut acts = say(
        "I am the rehearsal: no model, but a player that shows how work is delegated here. I cannot do what you ask \
         for; what I do is real all the same. I start three children in the background. Each looks at this folder with \
         real tools and changes nothing. You can open each, write to it and stop it while it works.",
    );
    acts.push(Act::Say(format!(" {}", orders::HOW.replace(" to me ", " to one of them "))));
    for (label, prompt) in LOOKS {
        let mut args = Map::new();
        args.insert("description".to_owned(), label.into());
        args.insert("prompt".to_owned(), prompt.into());
        if takes_background {
            args.insert("run_in_background".to_owned(), true.into());
        }
        acts.push(Act::Call { tool: START.to_owned(), args: Value::Object(args).to_string() });
    }
    acts
}

/// The looks were started; the turn ends, so that their ends can wake it.
fn started(request: &Request, round: &Round<'_>) -> Vec<Act> {
    let (running, others): (Vec<_>, Vec<_>) = round.starts.iter().partition(|start| start.ok && start.task.is_some());
    if running.is_empty() && others.iter().any(|start| start.ok) {
        return report(request, round);
    }
    let mut text = "I am the rehearsal: ".to_owned();
    if running.is_empty() {
        text.push_str("no child could be started, so there is nothing to report.");
    } else {
        let names: Vec<&str> = running.iter().map(|start| start.label.as_str()).collect();
        text.push_str(&format!(
            "{} at work: {}. I end my turn here and report when {}.",
            if names.len() == 1 { "one child is".to_owned() } else { format!("{} children are", names.len()) },
            names.join(", "),
            if names.len() == 1 { "it has ended" } else { "all have ended" },
        ));
    }
    for start in others {
        text.push_str(&format!("\n\n{} was not started: {}", start.label, first_line(start.text)));
    }
    say(text)
}

/// The root was told that tasks have ended.
fn woken(request: &Request, round: &Round<'_>, text: &str) -> Vec<Act> {
    let open: Vec<&Start<'_>> = round.starts.iter().filter(|start| round.is_open(start)).collect();
    if !open.is_empty() {
        let ended: Vec<String> =
            told(text).iter().map(|end| format!("{} {}", round.name(end.task), word(end.status))).collect();
        let open: Vec<&str> = open.into_iter().map(|start| start.label.as_str()).collect();
        return say(format!("I am the rehearsal: {}. Still at work: {}.", ended.join(", "), open.join(", ")));
    }
    let fresh =
        round.ended.iter().filter(|&(task, status)| *status == "completed" && !round.collected.contains_key(*task));
    let fresh: Vec<&str> = fresh.map(|(task, _)| *task).collect();
    if fresh.is_empty() || !request.tools.iter().any(|tool| tool.name == COLLECT) {
        return report(request, round);
    }
    let mut acts = say("I am the rehearsal: all that I waited for has ended. I collect what was found.");
    acts.extend(fresh.iter().map(|task| {
        let args = json!({"task_id": task}).to_string();
        Act::Call { tool: COLLECT.to_owned(), args }
    }));
    acts
}

/// What the children found, and nothing else. What an earlier report told is not told again.
fn report(request: &Request, round: &Round<'_>) -> Vec<Act> {
    let is_report = |message: &Message| match message {
        Message::Assistant(blocks) => {
            blocks.iter().any(|block| matches!(block, Block::Text { text } if text.starts_with(FOUND)))
        }
        Message::User(_) | Message::Tool { .. } => false,
    };
    let reported = request.messages.iter().rposition(is_report).filter(|at| *at > round.at);
    let mut told = Told::default();
    for start in round.starts.iter().filter(|_| reported.is_none()) {
        let collected = start.task.and_then(|task| round.collected.get(task));
        let status = start.task.and_then(|task| round.ended.get(task));
        match (start.task, collected, status) {
            (_, Some((_, found)), _) => told.add(&start.label, &start.label, found),
            (Some(_), None, Some(&"killed")) => {
                told.say(&start.label, "This child was stopped before it could report.");
            }
            (Some(_), None, Some(status)) => {
                told.say(&start.label, &format!("There is no report of this child: it {}.", word(status)));
            }
            (Some(_), None, None) => told.say(&start.label, "This child is still at work."),
            (None, None, _) if start.ok => told.add(&start.label, &start.label, start.text),
            (None, None, _) => {
                told.say(&start.label, &format!("This child was not started: {}", first_line(start.text)));
            }
        }
    }
    // Children that were woken again by a message report under a new task.
    let known = |task: &str| round.starts.iter().any(|start| start.task == Some(task));
    let later = round.collected.iter().filter(|(task, (at, _))| !known(task) && reported.is_none_or(|told| told < *at));
    for (task, (_, found)) in later {
        let label = round.name(task);
        told.add(label, &format!("{label}, once more"), found);
    }
    if told.sections.is_empty() {
        return say("I am the rehearsal: there is nothing new to report.");
    }
    say(told.text())
}

/// What a report tells.
#[derive(Default)]
struct Told {
    /// The facts that matter, by whose they are.
    facts: Vec<(String, String)>,
    /// Whether somebody left commands out.
    no_commands: bool,
    sections: Vec<String>,
}

impl Told {
    fn say(&mut self, title: &str, body: &str) {
        self.sections.push(format!("## {title}\n\n{body}"));
    }

    /// Adds what the child with this label told. What is told of all children at the beginning is taken out of it.
    fn add(&mut self, label: &str, title: &str, found: &str) {
        let mut lines: Vec<&str> = Vec::new();
        let mut left_out = false;
        for line in told_by(found).lines() {
            if let Some(facts) = line.strip_prefix(facts::BEGIN) {
                self.facts.push((label.to_owned(), facts.to_owned()));
            } else if line == look::NO_COMMANDS {
                self.no_commands = true;
            } else {
                // Nor the empty line that stood around it.
                if !(left_out && line.is_empty()) {
                    lines.push(line);
                }
                left_out = false;
                continue;
            }
            left_out = true;
        }
        self.say(title, &quoted(lines.join("\n").trim()));
    }

    fn text(mut self) -> String {
        // How much there is, is told before what it is.
        self.facts.sort_by_key(|(label, _)| label != look::LARGEST);
        let mut opening: Vec<&str> = self.facts.iter().map(|(_, facts)| facts.as_str()).collect();
        if self.no_commands {
            opening.push(look::NO_COMMANDS);
        }
        let mut parts = vec![FOUND.to_owned()];
        parts.extend(Some(opening.join(" ")).filter(|opening| !opening.is_empty()));
        parts.extend(self.sections);
        parts.join("\n\n")
    }
}

/// What a child told, without how it begins every time and without the status behind it.
fn told_by(found: &str) -> &str {
    let mut found = found.trim();
    if let Some((before, last)) = found.rsplit_once('\n')
        && last.starts_with('[')
        && last.ends_with(']')
        && last.find(": ").is_some_and(|end| !history::task_ids(&last[1..end]).is_empty())
    {
        found = before.trim_end();
    }
    found.strip_prefix(look::REPORT).unwrap_or(found).trim_start_matches('\n')
}

/// As much of it as a report repeats, up to the end of a line.
fn quoted(found: &str) -> String {
    let cut = crate::text::cut(found, QUOTED);
    if cut.len() == found.len() {
        return found.to_owned();
    }
    let cut = cut.rsplit_once('\n').map_or(cut, |(lines, _)| lines);
    format!(
        "{cut}\n\n(The first {} of {} lines. The rest stands in its own session.)",
        cut.lines().count(),
        found.lines().count()
    )
}

/// An answer to whatever a person says that no part was written for.
fn explain(round: &Round<'_>) -> Vec<Act> {
    let states: Vec<String> = round
        .starts
        .iter()
        .map(|start| {
            let state = match start.task {
                Some(task) => round.ended.get(task).map_or("at work, as far as I was told", |status| word(status)),
                None if start.ok => "completed",
                None => "not started",
            };
            format!("- {}: {state}", start.label)
        })
        .collect();
    say(format!(
        "I am the rehearsal: no model, so I cannot answer that. I can show the tour once more; say `again`. To have real \
         work done, choose another model in the configuration.\n\n{}",
        states.join("\n")
    ))
}

impl<'a> Round<'a> {
    /// What happened since looks were last started; none if none ever were.
    fn of(messages: &'a [Message]) -> Option<Self> {
        let is_start = |block: &Block| matches!(block, Block::ToolCall { name, .. } if name == START);
        let at = messages.iter().rposition(|message| match message {
            Message::Assistant(blocks) => blocks.iter().any(is_start),
            Message::User(_) | Message::Tool { .. } => false,
        })?;
        let mut round = Self {
            at,
            starts: Vec::new(),
            ended: BTreeMap::new(),
            labels: BTreeMap::new(),
            collected: BTreeMap::new(),
        };
        for done in history::done(messages).into_iter().filter(|done| done.at >= at) {
            let word = |name: &str| done.args[name].as_str().unwrap_or_default().to_owned();
            if done.tool == START {
                let task = history::task_ids(done.text).first().map(|(_, task)| *task).filter(|_| done.ok);
                round.starts.push(Start { label: word("description"), task, text: done.text, ok: done.ok });
            } else if done.tool == COLLECT {
                round.collected.insert(word("task_id"), (done.at, done.text));
            }
        }
        for message in &messages[at..] {
            if let Message::User(text) = message {
                for end in told(text) {
                    round.ended.insert(end.task, end.status);
                    round.labels.extend(end.label.map(|label| (end.task, label)));
                }
            }
        }
        Some(round)
    }

    fn is_open(&self, start: &Start<'_>) -> bool {
        start.task.is_some_and(|task| !self.ended.contains_key(task) && !self.collected.contains_key(task))
    }

    /// What people call the child of a task.
    fn name(&self, task: &str) -> &str {
        let start = self.starts.iter().find(|start| start.task == Some(task)).map(|start| start.label.as_str());
        start.or_else(|| self.labels.get(task).copied()).unwrap_or("A child")
    }
}

/// A task that has ended, as the runtime told it.
struct Ended<'a> {
    task: &'a str,
    status: &'a str,
    /// What the child is called.
    label: Option<&'a str>,
}

/// The tasks that a message says have ended.
fn told(text: &str) -> Vec<Ended<'_>> {
    let ids = history::task_ids(text);
    let mut told: Vec<Ended<'_>> = Vec::new();
    for (place, &(start, task)) in ids.iter().enumerate() {
        let end = ids.get(place + 1).map_or(text.len(), |(next, _)| *next);
        let part = &text[start..end];
        let status = history::words(part)
            .map(|(_, word)| word)
            .find(|word| matches!(*word, "completed" | "failed" | "killed" | "interrupted"));
        if let Some(status) = status
            && !told.iter().any(|known| known.task == task)
        {
            told.push(Ended { task, status, label: part.split('"').nth(1).filter(|label| !label.is_empty()) });
        }
    }
    told
}

/// The runtime's word for how a task ended, as people read it.
fn word(status: &str) -> &str {
    match status {
        "killed" => "was stopped",
        "interrupted" => "was interrupted",
        other => other,
    }
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}
