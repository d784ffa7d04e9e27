//! `coppice rename`, `archive` and `delete`: what a person does with sessions themselves.

use super::{Out, Trouble};
use crate::client::Client;
use crate::commands::Deleted;
use crate::text;
use coppice_engine::event::Receipt;
use serde::Serialize;
use serde_json::{Value, json};

/// Gives a session another title.
pub async fn rename(client: &Client, session: &str, title: &str, out: &mut Out) -> Result<u8, Trouble> {
    client.call("rename", json!({ "session": session, "title": title, "key": super::fresh_key() })).await?;
    out.line("Renamed.")?;
    Ok(0)
}

/// Archives, or brings back. Exit code 1 when a part of what was stopped for it could not be confirmed.
pub async fn archive(client: &Client, args: Value, json: bool, out: &mut Out) -> Result<u8, Trouble> {
    let archived = args["archived"] != false;
    let receipt: Receipt = client.ask("archive", args).await?;
    if json {
        print(&receipt, out)?;
    } else {
        stopped(&receipt, out)?;
        out.line(if archived { "Archived. `coppice archive --undo` brings it back." } else { "Brought back." })?;
    }
    Ok(u8::from(!receipt.unconfirmed.is_empty()))
}

/// Deletes, or only tells what would go. Exit code 1 when a part of what was stopped could not be confirmed.
pub async fn delete(client: &Client, args: Value, preview: bool, json: bool, out: &mut Out) -> Result<u8, Trouble> {
    let deleted: Deleted = client.ask("delete", args).await?;
    let goes = format!(
        "{} with {}",
        text::count(deleted.sessions as usize, "session", "sessions"),
        text::count(deleted.messages as usize, "message", "messages")
    );
    if json {
        print(&deleted, out)?;
    } else if preview {
        out.line(&format!("Would delete {goes}."))?;
        if !deleted.receipt.ended.is_empty() {
            out.line("What runs would have to be stopped (--stop):")?;
        }
        for item in &deleted.receipt.ended {
            out.line(&format!("  {} {}", item.kind, text::line(&item.label, 80)))?;
        }
    } else {
        stopped(&deleted.receipt, out)?;
        out.line(&format!("Deleted {goes}."))?;
    }
    Ok(u8::from(!deleted.receipt.unconfirmed.is_empty()))
}

fn print(answer: &impl Serialize, out: &mut Out) -> Result<(), Trouble> {
    let line = serde_json::to_string(answer).map_err(std::io::Error::other)?;
    Ok(out.line(&text::plain_json(&line))?)
}

/// What was stopped, if anything was.
fn stopped(receipt: &Receipt, out: &mut Out) -> Result<(), Trouble> {
    if receipt.ended.is_empty() && receipt.processes.is_empty() {
        return Ok(());
    }
    for line in text::receipt(receipt) {
        out.line(&line)?;
    }
    Ok(())
}
