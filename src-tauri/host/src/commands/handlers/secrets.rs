//! Keys and diagnostics.

use super::{Answer, key};
use crate::commands::types::{Diagnostics, Keys, KeysArgs, Nothing, RemoveKeyArgs, RemovedKey, SetKeyArgs};
use crate::diagnostics;
use crate::host::Host;

pub async fn keys(host: &Host, args: KeysArgs) -> Answer<Keys> {
    let keyring = match args.probe {
        Some(true) => Some(host.engine.probe_keyring().await.map_or_else(|why| why, |()| "works".to_owned())),
        _ => None,
    };
    Ok(Keys { keys: host.engine.keys().await, keyring })
}

pub async fn set_key(host: &Host, args: SetKeyArgs) -> Answer<Nothing> {
    host.engine.set_key(&args.name, args.secret, args.place, key(&args.key)?).await?;
    Ok(Nothing {})
}

pub async fn remove_key(host: &Host, args: RemoveKeyArgs) -> Answer<RemovedKey> {
    Ok(RemovedKey { from: host.engine.remove_key(&args.name, key(&args.key)?).await? })
}

pub async fn diagnostics(host: &Host, _: Nothing) -> Answer<Diagnostics> {
    Ok(Diagnostics { text: diagnostics::text(host).await? })
}
