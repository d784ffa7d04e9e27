//! `coppice run` and `coppice send`: a prompt to the end of its turn and of everything it started.

use super::limits::{self, given};
use super::live::Live;
use super::{Out, RunArgs, STOPPED, Trouble, current, fresh_key, unknown};
use crate::board::Board;
use crate::client::Client;
use crate::commands::Failed;
use crate::host::{Host, asked_to_end};
use crate::text;
use coppice_engine::config::bounds::MAX_MESSAGE;
use coppice_engine::config::{Protocol, REHEARSAL};
use coppice_engine::control::too_large;
use coppice_engine::error::Code;
use coppice_engine::event::{Mode, Receipt, Route};
use coppice_engine::id::SessionId;
use coppice_engine::view::Sent;
use coppice_engine::view::{Frame, SessionView, TaskView};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// How many events are asked for at once.
const EVENTS: usize = 500;
/// How long one wait lasts before it is asked again.
const WAIT_MS: u64 = 600_000;
/// How long a stopped branch may take to come to rest.
const REST: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
struct Forest {
    sessions: Vec<SessionView>,
    tasks: Vec<TaskView>,
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
    follow(client, target, args.session.is_some(), args.prompt, args.json, out).await
}

/// Sends to a session that is there. Where another process holds the data folder, that one goes on with it; else this
/// process stays until its whole tree is at rest: the owner of a child reacts when the child ends.
pub async fn send(client: &Client, ours: Option<&Host>, id: &str, words: String, out: &mut Out) -> Result<u8, Trouble> {
    fits(&words)?;
    let target = find(client, id).await?;
    if ours.is_some() {
        tell_rehearsal(client, ours, &target, out).await?;
        return follow(client, target, true, words, false, out).await;
    }
    out.line(say(client, &target, words).await?)?;
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

async fn find(client: &Client, id: &str) -> Result<SessionView, Failed> {
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

/// Says it and follows what comes of it. What a continued session said before is not told again.
async fn follow(
    client: &Client,
    target: SessionView,
    continued: bool,
    words: String,
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
    };
    if continued {
        watch.told = watch.board.sessions.values().map(|session| (session.id.clone(), session.last_n)).collect();
    }
    let before = watch.told.get(&target.id).copied().unwrap_or(0);
    say(client, &target, words).await?;
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
                () = &mut signal => break None,
            }
        };
        match rested {
            Some(true) => break false,
            Some(false) => {}
            None => break true,
        }
    };
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
    end(client, &target.id, before, json, out).await
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
}

impl Watch<'_> {
    async fn hear(&mut self, frame: Frame, out: &mut Out) -> Result<(), Trouble> {
        self.board.apply(&frame);
        self.show(out).await
    }

    async fn show(&mut self, out: &mut Out) -> Result<(), Trouble> {
        if !self.json {
            return Ok(self.live.show(&self.board, &self.root, out)?);
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

/// Prints the answer and tells how the last turn ended.
async fn end(client: &Client, session: &SessionId, before: i64, json: bool, out: &mut Out) -> Result<u8, Trouble> {
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
