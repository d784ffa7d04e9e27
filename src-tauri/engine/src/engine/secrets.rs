//! The keys of model servers, as a person sees and sets them. The key itself comes in and never goes out.

use super::Engine;
use crate::error::Result;
use crate::keys::{KeyPlace, KeyView};
use secrecy::SecretString;
use std::collections::BTreeMap;

impl Engine {
    /// Where the key of each configured model is. Nothing of a key but its last four characters is told.
    pub async fn keys(&self) -> Vec<KeyView> {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (model, config) in &self.0.config.models {
            if let Some(name) = &config.key_env {
                names.entry(name.clone()).or_default().push(model.clone());
            }
        }
        self.0.secrets.views(names).await
    }

    /// Keeps a key in this place. Whoever asks for it from here on gets it, without a restart. The answer that is kept
    /// for `key` tells nothing of the secret: the same `key` with another secret does nothing.
    pub async fn set_key(&self, name: &str, secret: SecretString, place: KeyPlace, key: &str) -> Result<()> {
        // Before anything else can fail and be told.
        self.0.log.mask().hold(&secret);
        self.once(key, format!("set key in {place:?}"), async {
            self.0.secrets.set(name, &secret, place).await?;
            // It may be the key of no model yet, and it is a key all the same.
            self.0.processes.hide(vec![name.to_owned()]);
            Ok(())
        })
        .await
    }

    /// Removes a key from everywhere but the environment. Answers where it was.
    pub async fn remove_key(&self, name: &str, key: &str) -> Result<Vec<KeyPlace>> {
        self.once(key, "remove key".to_owned(), self.0.secrets.remove(name)).await
    }

    /// Whether the keyring of the system works: something is kept in it, read and removed. The error is for people.
    pub async fn probe_keyring(&self) -> Result<(), String> {
        self.0.secrets.probe().await
    }

    /// A text without the keys that Coppice holds, and without what has the shape of one.
    pub fn masked(&self, text: &str) -> String {
        self.0.log.mask().text(text).0.into_owned()
    }
}
