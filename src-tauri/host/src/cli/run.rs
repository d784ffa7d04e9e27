//! `coppice run` and `coppice send`: a prompt to the end of its turn and of everything it started.

use super::asking::{Answers, Change, Dialogue, Heard, NOBODY};
use super::limits::{self, given};
use super::live::Live;
use super::{Out, RunArgs, STOPPED, Trouble, asks, current, fresh_key, unknown};
use crate::board::{Board, is_open};
use crate::client::Client;
use crate::commands::Failed;
use crate::host::{Host, asked_to_end};
use crate::text;
use coppice_engine::config::bounds::MAX_MESSAGE;
use coppice_engine::config::{Protocol, REHEARSAL};
use coppice_engine::control::too_large;
use coppice_engine::error::Code;
use coppice_engine::event::{Decision, Mode, Receipt, Route};
use coppice_engine::id::{AskId, SessionId};
use coppice_engine::view::{AskView, Frame, Sent, SessionView, TaskView};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::time::Duration;

/// How many events are asked for at once.
const EVENTS: usize = 500;
/// How long one wait lasts before it is asked again.
const WAIT_MS: u64 = 600_000;
/// The columns of questions on a terminal that is not drawn on.
const COLUMNS: usize = 80;
/// How many lines of a drawn terminal are kept for the keys that answer, and for the tree.
const KEYS: usize = 6;
const TREE: usize = 4;
/// How what nobody could be asked about is allowed.
const HOW: &str = "Run it with --mode full or accept-edits, in a terminal, or answer in the window.";
/// How long a stopped branch may take to come to rest.
const REST: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
struct Forest {
    sessions: Vec<SessionView>,
    tasks: Vec<TaskView>,
}

#[derive(Deserialize)]
struct Waiting {
    asks: Vec<AskView>,
}

/// What makes a session work.
pub enum Act {
    /// It is told something.
    Say(String),
    /// An ask of it is answered.
    Answer {
        /// The ask.
        ask: AskId,
        /// The answer.
        decision: Decision,
        /// A word to the agent.
        note: Option<String>,
    },
}

/// Runs a prompt in a new session, or in one that is there. `ours` is the host when this process holds the data folder.
pub async fn run(client: &Client, ours: Option<&Host>, args: RunArgs, out: &mut Out) -> Result<u8, Trouble> {
    fits(&args.prompt)?;
    let target = match &args.session {
        Some(id) => {
            let target = find(client, id).await?;
            if !args.limits.is_empty() {
                limits::set(client, target.root.as_str(), &args.limits).await?;
            }
            target
        }
        None => open(client, &args).await?,
    };
    if !args.json {
        tell_rehearsal(client, ours, &target, out).await?;
    }
    let answers = Answers::find(ours);
    follow(client, answers, target, args.session.is_some(), Act::Say(args.prompt), args.json, out).await
}

/// Sends to a session that is there. Where another process holds the data folder, that one goes on with it; else this
/// process stays until its whole tree is at rest: the owner of a child reacts when the child ends.
pub async fn send(client: &Client, ours: Option<&Host>, id: &str, words: String, out: &mut Out) -> Result<u8, Trouble> {
    fits(&words)?;
    let target = find(client, id).await?;
    if ours.is_some() {
        tell_rehearsal(client, ours, &target, out).await?;
        return follow(client, Answers::find(ours), target, true, Act::Say(words), false, out).await;
    }
    let said = act(client, Some(&target), Act::Say(words)).await?;
    out.line(&said)?;
    Ok(0)
}

/// Says before anything else that no model is at work, where that is so.
async fn tell_rehearsal(
    client: &Client,
    ours: Option<&Host>,
    target: &SessionView,
    out: &mut Out,
) -> Result<(), Trouble> {
    // The built-in model has its name to itself; what others are called, the holder of the data folder knows.
    let configured = ours.and_then(|host| host.engine.config().models.get(&target.model));
    if configured.map_or(target.model != REHEARSAL, |model| model.protocol != Protocol::Rehearsal) {
        return Ok(());
    }
    let about = client.call("about", json!({})).await?;
    let config = text::line(about["config"].as_str().unwrap_or_default(), 400);
    out.line("This is the rehearsal: a built-in player with real tools, no model. It needs no key and no network.")?;
    Ok(out.line(&format!("Models that do real work are named in {config}."))?)
}

/// Refuses what no session would take, before one is opened for it.
fn fits(words: &str) -> Result<(), Failed> {
    if words.trim().is_empty() {
        return Err(Failed::bad_request("The words are empty. Nothing was sent."));
    }
    if words.len() > MAX_MESSAGE {
        return Err(Failed::bad_request(too_large(words.len()).message()));
    }
    Ok(())
}

async fn open(client: &Client, args: &RunArgs) -> Result<SessionView, Failed> {
    if let Some(named) = args.cwd.as_ref().filter(|named| !named.is_dir()) {
        let told = format!("{} is no folder that can be opened. Nothing was started.", named.display());
        return Err(Failed::bad_request(told));
    }
    let cwd = match &args.cwd {
        Some(named) if named.is_absolute() => named.clone(),
        named => {
            let here = current().map_err(|message| Failed { code: Code::Gone, message })?;
            named.as_ref().map_or_else(|| here.clone(), |named| here.join(named))
        }
    };
    let opened: Value = client
        .call(
            "open",
            json!({
                "cwd": cwd.to_string_lossy(),
                "model": args.model,
                "mode": args.mode.map(Mode::from),
                "limits": given(&args.limits),
                "key": fresh_key(),
            }),
        )
        .await?;
    find(client, opened["session"].as_str().unwrap_or_default()).await
}

/// The session of this id.
pub async fn find(client: &Client, id: &str) -> Result<SessionView, Failed> {
    let forest: Forest = client.ask("tree", json!({})).await?;
    forest.sessions.into_iter().find(|session| session.id.as_str() == id).ok_or_else(|| unknown(id))
}

/// Says it by the way the session takes it, and tells which.
async fn say(client: &Client, target: &SessionView, words: String) -> Result<&'static str, Failed> {
    if target.parent.is_none() {
        client.call("prompt", json!({ "session": target.id, "text": words, "key": fresh_key() })).await?;
        return Ok("Accepted.");
    }
    let sent: Sent = client.ask("send", json!({ "child": target.id, "text": words, "key": fresh_key() })).await?;
    Ok(match sent.route {
        Route::Steered => "Accepted: it joins the running turn at its next step.",
        Route::Started => "Woke this child.",
    })
}

/// Makes a session work, and answers what can be said of it at once.
pub async fn act(client: &Client, target: Option<&SessionView>, act: Act) -> Result<String, Trouble> {
    match (act, target) {
        (Act::Say(words), Some(target)) => Ok(say(client, target, words).await?.to_owned()),
        (Act::Say(_), None) => Err(Failed::bad_request("There is no session to say it to. Nothing was sent.").into()),
        (Act::Answer { ask, decision, note }, _) => asks::decide(client, &ask, decision, note).await,
    }
}

/// Makes a session work and follows what comes of it. What a continued session said before is not told again.
pub async fn follow(
    client: &Client,
    answers: Answers,
    target: SessionView,
    continued: bool,
    deed: Act,
    json: bool,
    out: &mut Out,
) -> Result<u8, Trouble> {
    client.call("subscribe", json!({})).await?;
    let forest: Forest = client.ask("tree", json!({ "root": target.root })).await?;
    let mut watch = Watch {
        client,
        root: target.root.clone(),
        board: Board::new(forest.sessions, forest.tasks),
        live: Live::default(),
        told: HashMap::new(),
        json,
        answers,
        dialogue: Dialogue::default(),
        waits: false,
    };
    if continued {
        watch.told = watch.board.sessions.values().map(|session| (session.id.clone(), session.last_n)).collect();
    }
    let earlier = watch.told.clone();
    let before = earlier.get(&target.id).copied().unwrap_or(0);
    let woken = matches!(deed, Act::Answer { .. });
    let said = act(client, Some(&target), deed).await?;
    if woken {
        watch.say(&[said], out)?;
    }
    let Waiting { asks } = client.ask("asks", json!({})).await?;
    watch.hear(Frame { asks, ..Frame::default() }, out).await?;
    let signal = asked_to_end();
    tokio::pin!(signal);
    let stopped = loop {
        let rest = rest(client, &target.root);
        tokio::pin!(rest);
        let rested = loop {
            tokio::select! {
                rested = &mut rest => break Some(rested?),
                frame = client.frame() => match frame {
                    Some(frame) => watch.hear(frame, out).await?,
                    None => break Some(rest.await?),
                },
                heard = watch.dialogue.heard() => watch.typed(heard, out).await?,
                () = &mut signal => break None,
            }
        };
        match rested {
            Some(true) => break false,
            Some(false) => {}
            None => break true,
        }
    };
    watch.dialogue = Dialogue::default();
    if stopped {
        let args =
            json!({ "what": "branch", "id": target.root, "reason": "stopped from the terminal", "key": fresh_key() });
        let receipt: Receipt = client.ask("stop", args).await?;
        // It has its receipt; that it also comes to rest in time is a courtesy to the last drawing.
        let _ = tokio::time::timeout(REST, rest(client, &target.root)).await;
        watch.finish(out).await?;
        for line in text::receipt(&receipt) {
            if json { Out::stderr().line(&line)? } else { out.line(&line)? }
        }
        return Ok(STOPPED);
    }
    watch.finish(out).await?;
    if answers == Answers::Nobody {
        tell_refused(client, &watch, &earlier).await?;
    }
    end(client, &target.id, before, (json, woken), out).await
}

/// Waits for the session and everything below it; false when the time of one wait was over first.
async fn rest(client: &Client, session: &SessionId) -> Result<bool, Failed> {
    let session: SessionView = client.ask("wait", json!({ "session": session, "timeout_ms": WAIT_MS })).await?;
    Ok(!session.state.is_live() && session.live_below == 0)
}

/// What is seen while it runs.
struct Watch<'a> {
    client: &'a Client,
    root: SessionId,
    board: Board,
    live: Live,
    /// Up to where each session's events were printed.
    told: HashMap<SessionId, i64>,
    json: bool,
    answers: Answers,
    dialogue: Dialogue,
    /// It was said that an answer is waited for elsewhere.
    waits: bool,
}

impl Watch<'_> {
    async fn hear(&mut self, frame: Frame, out: &mut Out) -> Result<(), Trouble> {
        self.board.apply(&frame);
        match self.answers {
            Answers::Here => {
                let change = self.dialogue.hear(frame.asks);
                self.turn(change, out)?;
            }
            Answers::Elsewhere if !self.waits && frame.asks.iter().any(|ask| self.is_ours(ask)) => {
                self.waits = true;
                self.tell_elsewhere(out).await?;
            }
            Answers::Elsewhere | Answers::Nobody => {}
        }
        self.show(out).await
    }

    fn is_ours(&self, ask: &AskView) -> bool {
        is_open(ask) && ask.waits && ask.lineage.first().is_some_and(|root| root.id == self.root)
    }

    async fn tell_elsewhere(&mut self, out: &mut Out) -> Result<(), Trouble> {
        let about = self.client.call("about", json!({})).await?;
        let line = format!(
            "◆ It waits for your answer in process {}, which holds the data folder. `coppice asks` shows it, `coppice answer` \
             answers it too.",
            about["pid"]
        );
        Ok(self.say(&[line], out)?)
    }

    /// Whether questions stand under the tree, drawn in place.
    fn drawn(&self, out: &Out) -> Option<(usize, usize)> {
        out.size().filter(|_| !self.json)
    }

    /// Says something for good, beside the tree.
    fn say(&mut self, lines: &[String], out: &mut Out) -> io::Result<()> {
        if self.drawn(out).is_some() {
            return self.live.above(lines, out);
        }
        lines.iter().try_for_each(|line| Out::stderr().line(line))
    }

    /// Shows what became of the questions. One that does not fit under the tree is told in full above it.
    fn turn(&mut self, change: Change, out: &mut Out) -> io::Result<()> {
        self.dialogue.listen(self.drawn(out).is_some());
        self.say_all(change.said, out)?;
        if !change.turned {
            return Ok(());
        }
        match self.drawn(out) {
            Some((columns, rows)) => {
                let block = self.dialogue.block(columns);
                if !fits_below(&block, rows) {
                    self.live.above(&block, out)?;
                }
                Ok(())
            }
            None => {
                let mut lines = self.dialogue.block(COLUMNS);
                lines.extend(self.dialogue.prompt(COLUMNS));
                Out::stderr().raw(&lines.join("\n"))
            }
        }
    }

    fn say_all(&mut self, said: Vec<String>, out: &mut Out) -> io::Result<()> {
        if said.is_empty() { Ok(()) } else { self.say(&said, out) }
    }

    /// What stands under the tree.
    fn below(&self, out: &Out) -> Vec<String> {
        let Some((columns, rows)) = self.drawn(out) else { return Vec::new() };
        let mut lines = self.dialogue.block(columns);
        if !fits_below(&lines, rows) {
            lines.truncate(1);
            lines.push("  It is long: all of it stands above.".to_owned());
        }
        lines.extend(self.dialogue.prompt(columns));
        lines
    }

    async fn typed(&mut self, heard: Heard, out: &mut Out) -> Result<(), Trouble> {
        match heard {
            Heard::Keys => {}
            Heard::Line(line) => {
                let change = self.dialogue.answer(self.client, &line, fresh_key()).await?;
                let again = !change.turned && self.drawn(out).is_none();
                self.turn(change, out)?;
                if again && self.dialogue.question().is_some() {
                    Out::stderr().raw(&self.dialogue.prompt(COLUMNS).join("\n"))?;
                }
            }
            Heard::End => {
                let line = "Nothing more can be typed here. `coppice answer` answers what waits.".to_owned();
                self.say(&[line], out)?;
            }
        }
        self.show(out).await
    }

    async fn show(&mut self, out: &mut Out) -> Result<(), Trouble> {
        if !self.json {
            let below = self.below(out);
            return Ok(self.live.show(&self.board, &self.root, &below, out)?);
        }
        let mut grown: Vec<(SessionId, i64)> = self
            .board
            .sessions
            .values()
            .filter(|session| session.root == self.root)
            .filter(|session| session.last_n > self.told.get(&session.id).copied().unwrap_or(0))
            .map(|session| (session.id.clone(), session.last_n))
            .collect();
        grown.sort();
        for (session, last) in grown {
            let after = self.told.get(&session).copied().unwrap_or(0);
            let told = super::show::print_events(self.client, &session, after, Some(last), out).await?;
            self.told.insert(session, told);
        }
        Ok(())
    }

    async fn finish(&mut self, out: &mut Out) -> Result<(), Trouble> {
        let forest: Forest = self.client.ask("tree", json!({ "root": self.root })).await?;
        self.board = Board::new(forest.sessions, forest.tasks);
        self.show(out).await
    }
}

/// Whether a question fits under a tree of which something is seen.
fn fits_below(block: &[String], rows: usize) -> bool {
    block.len() + KEYS + TREE <= rows
}

/// Tells what was refused because nobody could be asked.
async fn tell_refused(client: &Client, watch: &Watch<'_>, before: &HashMap<SessionId, i64>) -> Result<(), Trouble> {
    let (mut refused, mut first) = (0, None);
    for session in watch.board.sessions.values().filter(|session| session.root == watch.root) {
        let mut after = before.get(&session.id).copied().unwrap_or(0);
        loop {
            let args = json!({ "session": session.id, "after": after, "limit": EVENTS });
            let page = client.call("events", args).await?;
            let events = page["events"].as_array().map(Vec::as_slice).unwrap_or_default();
            let Some(last) = events.last().and_then(|event| event["n"].as_i64()) else { break };
            after = last;
            let results = events.iter().filter(|event| event["kind"] == "tool_finished");
            for why in results.filter_map(|event| refusal(&event["body"])) {
                refused += 1;
                first.get_or_insert(why);
            }
        }
    }
    if let Some(why) = first {
        let calls = text::count(refused, "call was", "calls were");
        let line = format!("{calls} refused, because nobody could be asked: {why} {HOW}");
        Out::stderr().line(&text::line(&line, 600))?;
    }
    Ok(())
}

/// Why a call was refused, when it was because nobody could be asked.
fn refusal(body: &Value) -> Option<String> {
    let why = body["text"].as_str()?.strip_prefix("Not allowed: ")?;
    Some(why.split_once(NOBODY)?.0.trim().to_owned())
}

/// Prints the answer and tells how the last turn ended. A session that an answer was to wake need not have had one.
async fn end(
    client: &Client,
    session: &SessionId,
    before: i64,
    (json, woken): (bool, bool),
    out: &mut Out,
) -> Result<u8, Trouble> {
    let (mut answer, mut ended, mut after) = (None, None, before);
    loop {
        let page = client.call("events", json!({ "session": session, "after": after, "limit": EVENTS })).await?;
        let events = page["events"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(last) = events.last().and_then(|event| event["n"].as_i64()) else { break };
        after = last;
        for event in events {
            match event["kind"].as_str() {
                Some("answered") => answer = prose(&event["body"]).or(answer),
                Some("turn_ended") => ended = Some(event["body"].clone()),
                _ => {}
            }
        }
    }
    if !json && let Some(answer) = answer {
        out.line(&format!("\n{}", text::plain(answer.trim_end())))?;
    }
    if woken && ended.is_none() {
        return Ok(0);
    }
    let ended = ended.unwrap_or_default();
    let detail = text::line(ended["detail"].as_str().unwrap_or_default(), 400);
    let (code, word) = match ended["end"].as_str() {
        Some("completed") => return Ok(0),
        Some("stopped") => (STOPPED, "was stopped"),
        Some("interrupted") => (1, "was interrupted"),
        Some("max_tokens") => (1, "reached the model's output limit"),
        Some("refusal") => (1, "was refused by the model"),
        Some("limit") => (1, "reached a limit"),
        _ => (1, "failed"),
    };
    let line = if detail.is_empty() { format!("The turn {word}.") } else { format!("The turn {word}: {detail}") };
    Out::stderr().line(&line)?;
    Ok(code)
}

/// The prose of an answer; none when it only asked for tools.
fn prose(body: &Value) -> Option<String> {
    let blocks = body["blocks"].as_array()?.iter();
    let texts: Vec<&str> = blocks
        .filter(|block| block["type"] == "text")
        .filter_map(|block| block["text"].as_str())
        .filter(|text| !text.trim().is_empty())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
