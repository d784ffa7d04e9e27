//! Keys and diagnostics on the wire. A key comes in and never goes out.

use coppice_engine::keys::{KeyPlace, KeyView};
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use ts_rs::TS;

/// Arguments of `keys`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct KeysArgs {
    /// Whether to try the keyring: something is kept in it, read and removed. The system may ask the person to unlock it.
    #[ts(optional)]
    pub probe: Option<bool>,
}

/// Answer of `keys`.
#[derive(Debug, Serialize, Deserialize, TS)]
pub struct Keys {
    /// The keys that the configuration names.
    pub keys: Vec<KeyView>,
    /// Whether the keyring works, for people; none when it was not tried.
    pub keyring: Option<String>,
}

/// Arguments of `set_key`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct SetKeyArgs {
    /// The name of the key, as `key_env` gives it.
    pub name: String,
    /// Where it is kept: `keyring`, `file`, which is a yes to a file that holds it unencrypted, or `memory`.
    #[serde(rename = "where")]
    pub place: KeyPlace,
    /// The key itself. It is told to nobody.
    #[serde(deserialize_with = "secret")]
    #[ts(type = "string")]
    pub secret: SecretString,
    /// Minted by the client.
    pub key: String,
}

/// Arguments of `remove_key`.
#[derive(Debug, Deserialize, TS)]
#[serde(deny_unknown_fields)]
pub struct RemoveKeyArgs {
    /// The name of the key.
    pub name: String,
    /// Minted by the client.
    pub key: String,
}

/// Answer of `remove_key`.
#[derive(Debug, Serialize, Deserialize, TS)]
pub struct RemovedKey {
    /// Where it was.
    pub from: Vec<KeyPlace>,
}

/// Answer of `diagnostics`.
#[derive(Debug, Serialize, Deserialize, TS)]
pub struct Diagnostics {
    /// The report, to be shown to others: no keys, no words of sessions, no name of the person.
    pub text: String,
}

/// Reads a secret. Nothing of what came is in the error.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(secret) => Ok(SecretString::from(secret)),
        _ => Err(serde::de::Error::custom("it is no string")),
    }
}
