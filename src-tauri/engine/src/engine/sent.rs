//! A message that comes again after its answer was lost.

use super::Engine;
use crate::error::{Code, Error, Result};
use crate::event::{Event, Route};
use crate::id::SessionId;
use crate::view::Sent;

impl Engine {
    /// What became of a message that was accepted under this key before its answer could be kept; none when there was
    /// none. It must not wake the child a second time.
    pub(super) async fn sent_before(&self, child: &SessionId, text: &str, key: &str) -> Result<Option<Sent>> {
        let before = self.0.log.written(key).await?;
        let Some(first) = before.first() else { return Ok(None) };
        match &first.event {
            Event::MessageAccepted { text: accepted, task: Some(task), .. }
                if first.session == *child && *accepted == self.0.log.mask().own(text) =>
            {
                let woke = before.iter().any(|recorded| matches!(recorded.event, Event::TurnStarted { .. }));
                let route = if woke { Route::Started } else { Route::Steered };
                Ok(Some(Sent { route, task: task.clone() }))
            }
            _ => {
                let message = "This key was used for another command. Mint a fresh one. Nothing was sent.";
                Err(Error::new(Code::BadRequest, message))
            }
        }
    }
}
