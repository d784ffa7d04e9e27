//! `coppice limits`, and `--limit`: what a tree may spend.

use super::{Out, Trouble, fresh_key};
use crate::client::Client;
use crate::commands::Failed;
use coppice_engine::view::spent;
use serde_json::{Map, Value, json};

/// The limits that a tree can have of its own.
const NAMES: &[&str] = &["depth", "live_children", "children", "tokens", "wall_clock_s", "step_limit"];

/// A limit and its new size; 0 means none.
#[derive(Clone, Debug)]
pub struct Limit {
    name: &'static str,
    size: u64,
}

impl Limit {
    /// Reads `tokens=150000`. The error is for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, size) = text.split_once('=').ok_or_else(|| "give it as NAME=NUMBER".to_owned())?;
        let name = NAMES.iter().find(|known| **known == name);
        let name = name.ok_or_else(|| format!("there are {}", NAMES.join(", ")))?;
        let size = size.parse().map_err(|_| "the size is a whole number; 0 means none".to_owned())?;
        Ok(Self { name, size })
    }
}

/// The limits as the wire takes them.
pub fn given(limits: &[Limit]) -> Value {
    let field = |limit: &Limit| (limit.name.to_owned(), Value::from(limit.size));
    Value::Object(limits.iter().map(field).collect::<Map<_, _>>())
}

/// Gives the tree of a session limits of its own.
pub async fn set(client: &Client, session: &str, limits: &[Limit]) -> Result<(), Failed> {
    let args = json!({ "session": session, "limits": given(limits), "key": fresh_key() });
    client.call("set_limits", args).await.map(|_| ())
}

/// Prints the limits in force, and how far they are used; sets those that are given first.
pub async fn limits(
    client: &Client,
    session: Option<&str>,
    limits: &[Limit],
    json: bool,
    out: &mut Out,
) -> Result<u8, Trouble> {
    match session {
        Some(session) if !limits.is_empty() => set(client, session, limits).await?,
        None if !limits.is_empty() => {
            let message = "Name the session whose tree is to have these limits; config.toml has those of all others.";
            return Err(Failed::bad_request(message).into());
        }
        _ => {}
    }
    let answer = client.call("limits", json!({ "session": session })).await?;
    if json {
        out.line(&answer.to_string())?;
        return Ok(0);
    }
    for (name, size) in answer["limits"].as_object().into_iter().flatten() {
        let used = answer["spent"].as_array().into_iter().flatten().find(|spent| spent["limit"] == *name);
        let words = match used.and_then(|used| Some((used["used"].as_u64()?, used["most"].as_u64()?))) {
            Some((used, most)) => spent(name, used, most),
            None if size.as_f64() == Some(0.0) => "none".to_owned(),
            None => size.to_string(),
        };
        out.line(&format!("{name:<22}{words}"))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_known_name_and_a_whole_number() {
        let read = |text: &str| Limit::parse(text).map(|limit| (limit.name, limit.size));
        assert_eq!(read("tokens=150000"), Ok(("tokens", 150_000)));
        assert_eq!(read("children=0"), Ok(("children", 0)));
        for (text, said) in [("tokens", "NAME=NUMBER"), ("token=1", "there are depth"), ("tokens=-1", "whole number")] {
            assert!(read(text).unwrap_err().contains(said), "{text}");
        }
    }
}
