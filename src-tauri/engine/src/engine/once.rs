//! A command is done once for its key, however often it comes.

use super::Engine;
use crate::error::{Code, Error, Result};
use crate::task::lock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Does `work` once for a key, and answers what it answered then when the key comes again. A refusal that
    /// only the moment made is such an answer: who tries again mints another key. Any other failure is not kept: it did
    /// nothing, so it may be tried again.
    pub(super) async fn once<T: Serialize + serde::de::DeserializeOwned>(
        &self,
        key: &str,
        of: String,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if self.0.closing.load(Ordering::Acquire) {
            return Err(Error::new(Code::ShuttingDown, "Coppice is closing. Nothing was done."));
        }
        self.0.log.check_held()?;
        if key.trim().is_empty() || key.len() > 200 {
            return Err(Error::new(
                Code::BadRequest,
                "The key must have 1 to 200 characters; mint a fresh one for each command.",
            ));
        }
        let turn = lock(&self.0.keys).entry(key.to_owned()).or_default().clone();
        let answer = {
            let _turn = turn.lock().await;
            match self.0.log.answer(key).await? {
                Some(kept) => {
                    let other = || {
                        let message = "This key was used for another command. Mint a fresh one. Nothing was done.";
                        Error::new(Code::BadRequest, message)
                    };
                    let Kept { of: before, answer, refusal } = serde_json::from_value(kept).map_err(|_| other())?;
                    if before != of {
                        return Err(other());
                    }
                    match refusal {
                        Some(Refusal { code, message }) => Err(Error::new(code, message)),
                        None => serde_json::from_value(answer).map_err(|error| other().because(error)),
                    }
                }
                None => match work.await {
                    Ok(answer) => {
                        let kept = serde_json::to_value(&answer)
                            .and_then(|answer| serde_json::to_value(Kept { of, answer, refusal: None }))
                            .map_err(|error| Error::new(Code::Internal, "The answer cannot be kept.").because(error))?;
                        self.keep_answer(key, kept).await;
                        Ok(answer)
                    }
                    Err(error) if matches!(error.code(), Code::NotDelivered | Code::Conflict | Code::Busy) => {
                        let refusal = Refusal { code: error.code(), message: error.message().to_owned() };
                        let kept = Kept { of, answer: Value::Null, refusal: Some(refusal) };
                        match serde_json::to_value(kept) {
                            Ok(kept) => self.keep_answer(key, kept).await,
                            Err(error) => tracing::warn!(%error, "a refusal cannot be kept"),
                        }
                        Err(error)
                    }
                    Err(error) => Err(error),
                },
            }
        };
        let mut keys = lock(&self.0.keys);
        if keys.get(key).is_some_and(|waiting| Arc::strong_count(waiting) <= 2) {
            keys.remove(key);
        }
        drop(keys);
        match answer {
            // The store was lost meanwhile, and that is why everything is being ended.
            Err(error) if error.code() == Code::ShuttingDown => self.0.log.check_held().and(Err(error)),
            answer => answer,
        }
    }

    /// It is done, whether its answer can be kept or not.
    async fn keep_answer(&self, key: &str, answer: Value) {
        let kept = self.0.log.keep_answer(key, answer);
        if let Some(Err(error)) = self.0.log.unless_troubled(kept).await {
            tracing::warn!(%error, "the answer of a command cannot be kept");
        }
    }
}

/// The answer of a command as it is kept under its key, with what the command was: the same key never does two things.
#[derive(Serialize, Deserialize)]
struct Kept {
    of: String,
    answer: Value,
    /// Why nothing was done, when it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
}

#[derive(Serialize, Deserialize)]
struct Refusal {
    code: Code,
    message: String,
}
