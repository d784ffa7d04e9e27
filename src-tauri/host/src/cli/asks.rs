//! `coppice asks`, `answer`, `mode` and `allowed`: what waits for the person, and what was allowed.

use super::asking::Answers;
use super::run::{self, Act};
use super::{Out, Trouble, fresh_key};
use crate::board::is_open;
use crate::client::Client;
use crate::host::Host;
use crate::notify::what;
use crate::text;
use coppice_engine::action::Allowed;
use coppice_engine::env::Env;
use coppice_engine::event::{Decision, Mode};
use coppice_engine::id::AskId;
use coppice_engine::view::{AllowanceView, AskView};
use serde::Deserialize;
use serde_json::json;

/// The longest title in a lineage, and the longest command or path, in characters.
const TITLE: usize = 40;
const EXACT: usize = 400;

#[derive(Deserialize)]
struct Asks {
    asks: Vec<AskView>,
}

#[derive(Deserialize)]
struct Answered {
    ask: AskView,
}

#[derive(Deserialize)]
struct Allowances {
    allowances: Vec<AllowanceView>,
}

/// Prints what waits for the person, and with `all` what was decided lately.
pub async fn asks(client: &Client, all: bool, json: bool, out: &mut Out) -> Result<u8, Trouble> {
    let answer = client.call("asks", json!({ "all": all })).await?;
    if json {
        out.line(&text::plain_json(&answer.to_string()))?;
        return Ok(0);
    }
    let Asks { asks } = client.fit("asks", answer)?;
    let now = Env::system().now_ms();
    for ask in &asks {
        for line in told(ask, now) {
            out.line(&line)?;
        }
    }
    if !asks.iter().any(is_open) {
        out.line("Nothing needs you.")?;
    }
    Ok(0)
}

fn told(ask: &AskView, now: i64) -> Vec<String> {
    let lineage: Vec<String> = ask.lineage.iter().map(|above| text::line(&above.title, TITLE)).collect();
    let since = text::duration(now - ask.asked_at);
    let mark = if is_open(ask) { "◆" } else { "·" };
    let mut lines = vec![
        format!("{mark} {}  {}: {}, asked {since} ago", ask.id, lineage.join(" › "), ask.state.words()),
        format!("    {}", text::cut(&text::exact(&what_in_full(ask)).replace('\n', "\\n"), EXACT)),
        format!("    in {}. {}", text::exact(&ask.cwd).replace('\n', "\\n"), text::line(&ask.reason.text, 200)),
    ];
    if let Some(said) = &ask.said {
        lines.push(format!("    It says: \"{}\"", text::line(said, 300).replace('"', "'")));
    }
    if let Some(note) = &ask.note {
        lines.push(format!("    {}", text::line(note, 200)));
    }
    lines
}

fn what_in_full(ask: &AskView) -> String {
    let exact = ask.action.exact();
    let first = what(&ask.action);
    format!("{} {exact}", first.split(' ').next().unwrap_or_default())
}

/// Answers an ask. Where its session is woken by that in this process, follows it to the end.
pub async fn answer(
    client: &Client,
    ours: Option<&Host>,
    (id, decision, note): (String, Decision, Option<String>),
    out: &mut Out,
) -> Result<u8, Trouble> {
    let Asks { asks } = client.ask("asks", json!({})).await?;
    let id = AskId(id);
    let woken = asks.into_iter().find(|ask| ask.id == id && ours.is_some() && decision != Decision::Later);
    let act = Act::Answer { ask: id, decision, note };
    match woken {
        Some(ask) => {
            let answers = Answers::find(ours);
            let target = run::find(client, ask.session.as_str()).await?;
            run::follow(client, answers, target, true, act, false, out).await
        }
        None => {
            let said = run::act(client, None, act).await?;
            out.line(&said)?;
            Ok(0)
        }
    }
}

/// Gives the answer, and says what stands then.
pub async fn decide(client: &Client, ask: &AskId, decision: Decision, note: Option<String>) -> Result<String, Trouble> {
    let args = json!({ "ask": ask, "decision": decision, "note": note, "key": fresh_key() });
    let Answered { ask } = client.ask("answer", args).await?;
    Ok(format!("{}: {}", ask.state.words(), what(&ask.action)))
}

/// Tells what a session may do without asking, or sets it.
pub async fn mode(client: &Client, session: &str, mode: Option<Mode>, out: &mut Out) -> Result<u8, Trouble> {
    if let Some(mode) = mode {
        client.call("set_mode", json!({ "session": session, "mode": mode, "key": fresh_key() })).await?;
    }
    let found = run::find(client, session).await?;
    out.line(&format!("{}: {}", text::line(&found.title, TITLE), found.mode.word()))?;
    Ok(0)
}

/// Prints what is allowed for more than one call, or takes one of it back.
pub async fn allowed(client: &Client, remove: Option<String>, json: bool, out: &mut Out) -> Result<u8, Trouble> {
    if let Some(ask) = remove {
        client.call("disallow", json!({ "ask": ask, "key": fresh_key() })).await?;
        out.line("Taken back. It is asked again from the next call on.")?;
        return Ok(0);
    }
    let answer = client.call("allowances", json!({})).await?;
    if json {
        out.line(&text::plain_json(&answer.to_string()))?;
        return Ok(0);
    }
    let Allowances { allowances } = client.fit("allowances", answer)?;
    for allowance in &allowances {
        for line in allowance_lines(allowance) {
            out.line(&line)?;
        }
    }
    if allowances.is_empty() {
        out.line("Nothing is allowed for more than one call.")?;
    }
    Ok(0)
}

fn allowance_lines(allowance: &AllowanceView) -> [String; 2] {
    let what = match &allowance.what {
        Allowed::Read { path } => format!("Read {}", path.display()),
        Allowed::Write { path } => format!("Write {}", path.display()),
        Allowed::Command { text } => format!("Run {text}"),
    };
    let of = match &allowance.session {
        Some(session) => format!("session {session} and all below it"),
        None => "every session".to_owned(),
    };
    let one_line = |text: &str| text::exact(text).replace('\n', "\\n");
    [
        format!("{}  {}", allowance.ask, text::cut(&one_line(&what), EXACT)),
        format!(
            "    in {}, for {of}; used {}",
            one_line(&allowance.cwd),
            text::count(allowance.used as usize, "time", "times")
        ),
    ]
}
