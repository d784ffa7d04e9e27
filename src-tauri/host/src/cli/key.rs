//! `coppice key`: the keys of model servers. A key is read without being shown, and never printed.

use super::{Out, Trouble, fresh_key};
use crate::client::Client;
use crate::commands::{Failed, Keys, RemovedKey};
use crate::diagnostics::key_text;
use crate::host;
use crate::text;
use clap::Subcommand;
use coppice_engine::scope::Scope;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use std::io::{self, BufRead, IsTerminal, Read};

/// The longest input that is read as a key, in bytes.
const MAX_INPUT: u64 = 64 * 1024;

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Keeps a key, read from the terminal without being shown, or from a pipe
    Set {
        /// Its name: what `key_env` says in the configuration
        name: String,
        /// Keep it in a file of the data folder that only you can read, unencrypted, instead of the keyring
        #[arg(long)]
        file: bool,
    },
    /// Where the key of each configured model is
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes a key from the keyring and the file
    Remove {
        /// Its name
        name: String,
    },
}

/// Does it.
pub async fn run(client: &Client, what: What, out: &mut Out) -> Result<u8, Trouble> {
    match what {
        What::Set { name, file } => {
            let Some(secret) = ask(&name).await? else { return Ok(super::STOPPED) };
            let place = if file { "file" } else { "keyring" };
            let args = json!({ "name": name, "where": place, "secret": secret.expose_secret(), "key": fresh_key() });
            client.call("set_key", args).await?;
            out.line(if file {
                "Kept in the file keys.json of the data folder. Only you can read it, and it is not encrypted: whoever \
                 gets at your files gets the key. No tool of an agent can open it."
            } else {
                "Kept in the keyring."
            })?;
        }
        What::List { json } => {
            let keys: Keys = client.ask("keys", json!({})).await?;
            if json {
                out.line(&serde_json::to_string(&keys.keys).map_err(io::Error::other)?)?;
            } else if keys.keys.is_empty() {
                out.line("The configuration names no keys (`key_env`).")?;
            }
            for key in keys.keys.iter().filter(|_| !json) {
                out.line(&text::line(&key_text(key, true), 400))?;
            }
        }
        What::Remove { name } => {
            let removed: RemovedKey = client.ask("remove_key", json!({ "name": name, "key": fresh_key() })).await?;
            let places: Vec<&str> = removed.from.iter().map(|place| place.words()).collect();
            out.line(&match places.as_slice() {
                [] => "There was no such key. One in the environment is yours to unset.".to_owned(),
                places => format!("Removed from {}.", places.join(" and ")),
            })?;
        }
    }
    Ok(0)
}

/// Reads a key; none when a signal came first. A terminal shows nothing of it meanwhile.
async fn ask(name: &str) -> Result<Option<SecretString>, Trouble> {
    let silence = if io::stdin().is_terminal() {
        Out::stderr().raw(&format!("The key for {} (it is not shown): ", text::line(name, 200)))?;
        Some(Silence::begin()?)
    } else {
        None
    };
    let typed = silence.is_some();
    let read = tokio::select! {
        read = Scope::blocking(move || read(typed)) => Some(read),
        () = host::asked_to_end() => None,
    };
    drop(silence);
    if typed {
        Out::stderr().line("")?;
    }
    Ok(read.transpose()?)
}

/// The first line that was typed, or all that a pipe gives.
fn read(typed: bool) -> Result<SecretString, Failed> {
    let mut input = io::stdin().lock().take(MAX_INPUT);
    let mut text = String::new();
    let read = if typed { input.read_line(&mut text) } else { input.read_to_string(&mut text) };
    match read {
        Ok(_) => Ok(SecretString::from(text.trim())),
        Err(_) => Err(Failed::bad_request("The key could not be read from standard input. Nothing was kept.")),
    }
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Silence {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Silence {
    #[cfg(unix)]
    fn begin() -> Result<Self, Failed> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let failed = |_| Failed::bad_request("This terminal would show the key. Give it through a pipe instead.");
        let before = tcgetattr(io::stdin()).map_err(failed)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent).map_err(failed)?;
        Ok(Self { before })
    }

    #[cfg(not(unix))]
    fn begin() -> Result<Self, Failed> {
        Err(Failed::bad_request("This terminal would show the key. Give it through a pipe instead."))
    }
}

#[cfg(unix)]
impl Drop for Silence {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Now, &self.before) {
            tracing::warn!(%error, "the terminal could not be set back; `stty echo` does");
        }
    }
}
