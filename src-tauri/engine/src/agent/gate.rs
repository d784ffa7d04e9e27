//! The gate: what a call would do is judged before it does it, and the person is asked where that is needed.

use crate::action::{Action, Reason, Rule};
use crate::asks::{Answer, Asks};
use crate::budget::{Budgets, Pause};
use crate::error::Error;
use crate::event::{Event, Mode};
use crate::id::SessionId;
use crate::log::{AskDraft, Log};
use crate::permission::{Circumstances, Verdict, allowed, judge_place};
use crate::scope::Scope;
use crate::text::plain;
use crate::tool::files::FileMemory;
use crate::tool::{Call, Leave, Outcome};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest that a model says of what a call is for, in characters.
const SAID: usize = 300;

/// What judges the calls of all sessions.
pub struct Gate {
    log: Log,
    asks: Asks,
    budgets: Budgets,
    memory: FileMemory,
    fence: Arc<Fence>,
}

/// What holds for every session.
#[derive(Clone, Debug)]
pub struct Fence {
    /// The person's own folder.
    pub home: Option<PathBuf>,
    /// What no call may touch.
    pub out_of_reach: Vec<PathBuf>,
    /// Whether a command can be held to reading here.
    pub confined: bool,
}

impl Gate {
    /// A gate that asks by `asks`.
    pub fn new(log: Log, asks: Asks, budgets: Budgets, memory: FileMemory, fence: Fence) -> Self {
        Self { log, asks, budgets, memory, fence: Arc::new(fence) }
    }

    /// Waits until a call may do all of this, and says in the call how it is held to that. Its outcome when it may not,
    /// or was stopped first.
    pub(super) async fn pass(
        &self,
        call: &mut Call,
        tool: &str,
        args: &Value,
        actions: Vec<Action>,
    ) -> Result<(), Outcome> {
        let mode = self.log.mode(&call.owner.session).await.map_err(|error| unjudged(&error))?;
        call.leave = self.leave(mode, call);
        let mut judged = Vec::new();
        for action in actions {
            let (verdict, place, is_shared) =
                self.verdict(mode, call, &action).await.map_err(|error| unjudged(&error))?;
            judged.extend(place);
            match verdict {
                Verdict::Free => {}
                Verdict::FreeConfined => call.leave = self.leave(Mode::ReadOnly, call),
                Verdict::Refuse(reason) => {
                    return Err(Outcome::fail(format!("Not allowed: {} Nothing was done.", reason.text)));
                }
                Verdict::Ask(reason) => {
                    if let Some(why) = self.asks.nobody() {
                        return Err(Outcome::fail(format!("Not allowed: {} {why} Nothing was done.", reason.text)));
                    }
                    // Those after it do not wait for the person.
                    call.numbered.cancel();
                    let _pause = self.pause(&call.owner.session).await.map_err(|error| unjudged(&error))?;
                    let draft = AskDraft {
                        session: call.owner.session.clone(),
                        call: call.id.clone(),
                        tool: tool.to_owned(),
                        // What may undo another's work is looked at each time.
                        allows: allowed(&call.cwd, &action).filter(|_| !is_shared),
                        action,
                        reason,
                        said: args.get("description").and_then(Value::as_str).map(|said| plain(said, SAID)),
                    };
                    match self.asks.ask(draft, &call.cancel).await.map_err(|error| unjudged(&error))? {
                        Some(Answer::Yes) => {}
                        Some(Answer::No(note)) => return Err(denied(note.as_deref())),
                        None => return Err(Outcome::fail("It was stopped while it waited for the person's leave.")),
                    }
                }
            }
        }
        call.judged = Some(judged.into());
        Ok(())
    }

    /// Why a write of this file is asked that would be free, when another session of the tree wrote it lately.
    async fn shared(&self, call: &Call, path: &Path, real: &Path) -> Result<Option<Reason>, Error> {
        let session = &call.owner.session;
        self.memory.recall(session).await?;
        let now = call.env.now_ms();
        Ok(self.memory.clash(session, real, now).map(|other| {
            let minutes = ((now - other.at) / 60_000).max(0);
            let ago = if minutes == 0 { "just now".to_owned() } else { format!("{minutes} min ago") };
            let text = format!(
                "It changes {}, which {} wrote {ago}: it may undo that work.",
                plain(&path.to_string_lossy(), SAID),
                other.label
            );
            Reason { rule: Rule::Shared, text }
        }))
    }

    /// How a mode holds what a call starts.
    fn leave(&self, mode: Mode, call: &Call) -> Leave {
        Leave::of(mode, &call.cwd, &self.fence.out_of_reach)
    }

    /// Stops the clock of the session that asks, and of those above it that wait for it in a call.
    async fn pause(&self, session: &SessionId) -> Result<Pause, Error> {
        let mut record = self.log.session(session).await?;
        let (root, mut waiting) = (record.root.clone(), vec![session.clone()]);
        while let Some(parent) = record.parent.filter(|_| record.task.is_none()) {
            record = self.log.session(&parent).await?;
            waiting.push(parent);
        }
        Ok(self.budgets.pause(&root, waiting))
    }

    /// What is decided about an action, with what the person has allowed before; the place that it holds for; and whether
    /// it is asked because others write there too.
    async fn verdict(
        &self,
        mode: Mode,
        call: &Call,
        action: &Action,
    ) -> Result<(Verdict, Option<PathBuf>, bool), Error> {
        let session = &call.owner.session;
        let (fence, cwd) = (self.fence.clone(), call.cwd.clone());
        let look = {
            let action = action.clone();
            move |allowances: Vec<_>| {
                let Fence { home, out_of_reach, confined } = &*fence;
                let (home, confined) = (home.as_deref(), *confined);
                judge_place(
                    &Circumstances { mode, cwd: &cwd, home, out_of_reach, confined, allowances: &allowances },
                    &action,
                )
            }
        };
        let bare = look.clone();
        let (verdict, place) = Scope::blocking(move || bare(Vec::new())).await;
        let shared = match (action, &place) {
            (Action::Write { path, .. }, Some(real)) if mode != Mode::Full => self.shared(call, path, real).await?,
            _ => None,
        };
        let is_shared = shared.is_some();
        let verdict = match (verdict, shared) {
            (Verdict::Free | Verdict::FreeConfined, Some(shared)) => Verdict::Ask(shared),
            (Verdict::Ask(reason), Some(shared)) => {
                Verdict::Ask(Reason { rule: reason.rule, text: format!("{} {}", reason.text, shared.text) })
            }
            (verdict, _) => verdict,
        };
        let Verdict::Ask(reason) = &verdict else { return Ok((verdict, place, false)) };
        let what = allowed(&call.cwd, action).filter(|_| !is_shared);
        let allowances = self.log.allowances(session, &call.cwd).await?;
        // What was allowed before was allowed without knowing who else writes it.
        if !allowances.is_empty() && !is_shared {
            let given: Vec<_> = allowances.iter().map(|(_, allowance)| allowance.clone()).collect();
            let with = Scope::blocking(move || look(given)).await;
            if !matches!(with.0, Verdict::Ask(_)) {
                let by = allowances.iter().find(|(_, allowance)| what.as_ref() == Some(&allowance.what));
                if let Some((ask, _)) = by {
                    self.log.use_allowance(ask).await?;
                }
                return Ok((with.0, with.1, false));
            }
        }
        // Leave for one call holds for what was asked, where it led then.
        let owed = self.log.owed_leave(session, action).await?;
        match owed.filter(|owed| owed.allows == what && owed.reason.rule == reason.rule) {
            Some(owed) => {
                let taken = Event::LeaveTaken { ask: owed.id, asked: owed.n, call: call.id.clone() };
                self.log.append(session, vec![taken]).await?;
                Ok((Verdict::Free, place, false))
            }
            None => Ok((verdict, place, is_shared)),
        }
    }
}

fn unjudged(error: &Error) -> Outcome {
    Outcome::fail(format!("It could not be told whether this is allowed: {} Nothing was done.", error.message()))
}

/// What the model reads when the person said no.
fn denied(note: Option<&str>) -> Outcome {
    let note = note.map(|note| format!(" The person said: {note}")).unwrap_or_default();
    Outcome::fail(format!(
        "The person did not allow this. Nothing was done; do not try to get the same done in another way.{note}"
    ))
}
