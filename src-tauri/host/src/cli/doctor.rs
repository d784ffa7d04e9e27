//! `coppice doctor`: what works on this machine. No secrets: nothing of a key, nothing of a prompt.

use super::{Out, Trouble};
use crate::client::Client;
use crate::commands::Keys;
use crate::diagnostics::{key_text, model_text, row};
use crate::display;
use crate::single::{Folders, Holder};
use coppice_engine::config::Config;
use coppice_engine::engine::ModelView;
use coppice_engine::process::Support;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Models {
    models: Vec<ModelView>,
}

/// Looks, and tells. Exit code 1 when Coppice could not work here, 2 when its configuration is wrong.
pub async fn run(folders: &Folders) -> Result<u8, Trouble> {
    let mut out = Out::stdout();
    let version = env!("CARGO_PKG_VERSION");
    out.line(&row("version", &format!("{version} on {} {}", std::env::consts::OS, std::env::consts::ARCH)))?;
    let path = folders.config.display();
    if let Err(error) = Config::load(&folders.config) {
        // The message names the file. Without a configuration there is nothing to open the data folder with.
        out.line(&row("configuration", error.message()))?;
        out.line(&row("data folder", &format!("{} (not opened)", folders.data.display())))?;
        desktop(&mut out).await?;
        return Ok(2);
    }
    let there = if folders.config.exists() { "" } else { " (not there: the defaults hold)" };
    out.line(&row("configuration", &format!("{path}{there}")))?;
    let (holder, ours) = match folders.reach().await {
        Ok(Holder::Us(host)) => (Ok(Client::of(&host)), Some(host)),
        Ok(Holder::Other(client)) => (Ok(client), None),
        Err(failed) => (Err(failed), None),
    };
    let works = match &holder {
        Ok(client) => {
            let about = client.call("about", json!({})).await?;
            let who = if ours.is_some() { "free".to_owned() } else { format!("held by process {}", about["pid"]) };
            out.line(&row("data folder", &format!("{} ({who})", folders.data.display())))?;
            if let Some(status) = about["status"].as_str() {
                out.line(&row("", status))?;
            }
            let models: Models = client.ask("models", json!({})).await?;
            for model in models.models {
                out.line(&row("model", &model_text(&model)))?;
            }
            let keys: Keys = client.ask("keys", json!({ "probe": true })).await?;
            for key in &keys.keys {
                out.line(&row("key", &key_text(key, false)))?;
            }
            if let Some(keyring) = &keys.keyring {
                out.line(&row("keyring", keyring))?;
            }
            true
        }
        Err(failed) => {
            out.line(&row("data folder", &format!("{}: {}", folders.data.display(), failed.message)))?;
            false
        }
    };
    desktop(&mut out).await?;
    drop(holder);
    if let Some(host) = ours {
        host.leave().await?;
    }
    Ok(u8::from(!works))
}

async fn desktop(out: &mut Out) -> Result<(), Trouble> {
    out.line(&row("confinement", Support::here().sentence()))?;
    for (name, found) in display::findings().await {
        out.line(&row(name, &found))?;
    }
    Ok(())
}
