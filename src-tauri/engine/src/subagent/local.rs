//! Children inside this process: a session of their own, driven by an agent for one turn at a time.

use super::{Message, Provider, Resume, Resumes, Run, Start};
use crate::agent::{Activation, Agent, Agents, Done, Drive, Letter, Role};
use crate::error::{Code, Error, Result};
use crate::event::{Descriptor, Event, Party, TurnEnd};
use crate::id::{SessionId, TaskId};
use crate::log::{Entry, Log};
use crate::task::{Cause, lock};
use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The providers of children that live among the agents of this process.
pub struct Local {
    begins: Begins,
    log: Log,
    agents: Agents,
}

/// What a child knows when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// Only its prompt.
    Fresh,
    /// The turns that its parent has ended, and its prompt.
    WithHistory,
}

impl Local {
    /// The provider `spawn`: a fresh child.
    pub fn spawn(log: Log, agents: Agents) -> Self {
        Self { begins: Begins::Fresh, log, agents }
    }

    /// The provider `fork`: a child that begins with the turns that its parent has ended. Of the turn in which it is
    /// delegated it knows nothing.
    pub fn fork(log: Log, agents: Agents) -> Self {
        Self { begins: Begins::WithHistory, log, agents }
    }

    async fn activate(
        &self,
        child: &SessionId,
        descriptor: &Descriptor,
        task: Option<TaskId>,
        cancel: CancellationToken,
        first: Option<Letter>,
    ) -> Result<Arc<LocalRun>> {
        let role = Role {
            persona: descriptor.persona.clone(),
            tools: descriptor.tools.clone(),
            drive: Drive::Activation(Activation { task, cancel }),
        };
        let (agent, done) = self.agents.activate(child, role, first).await?;
        Ok(Arc::new(LocalRun { agents: self.agents.clone(), agent, done: Mutex::new(Some(done)) }))
    }
}

#[async_trait]
impl Provider for Local {
    fn name(&self) -> &'static str {
        match self.begins {
            Begins::Fresh => "spawn",
            Begins::WithHistory => "fork",
        }
    }

    async fn start(&self, start: Start) -> Result<Arc<dyn Run>> {
        let Start { child, parent, descriptor, prompt, task, cancel, next } = start;
        if cancel.is_cancelled() {
            return Err(Error::new(Code::Conflict, "It was stopped before it began."));
        }
        let seed = match self.begins {
            Begins::Fresh => None,
            Begins::WithHistory => {
                let (turns, upto) = self.log.ended_turns(&parent.session).await?;
                (turns > 0).then(|| Event::Seeded { from: parent.session.clone(), upto, turns })
            }
        };
        let opened = Event::SessionOpened {
            parent: Some(parent.session),
            root: parent.root,
            depth: parent.depth + 1,
            title: descriptor.label.clone(),
            label: Some(descriptor.label.clone()),
            provider: Some(descriptor.provider.clone()),
            model: descriptor.model.clone(),
            mode: parent.mode,
            cwd: parent.cwd,
        };
        let asked = Event::MessageAccepted { from: Party::Parent, text: prompt, task: task.clone() };
        let mut events = vec![opened, Event::Described(descriptor.clone())];
        events.extend(seed);
        events.push(asked);
        let opened = self.log.write(vec![Entry::new(&child, events)]);
        drop(next);
        opened.await?;
        Ok(self.activate(&child, &descriptor, task, cancel, None).await?)
    }

    fn resumes(&self) -> Option<&dyn Resumes> {
        Some(self)
    }
}

#[async_trait]
impl Resumes for Local {
    async fn resume(&self, resume: Resume) -> Result<Arc<dyn Run>> {
        let Resume { child, descriptor, message, task, cancel } = resume;
        let (letter, accepted) = Letter::new(message.from, message.text, message.key);
        let run = self.activate(&child, &descriptor, Some(task), cancel, Some(letter)).await?;
        let ended = || Error::new(Code::NotDelivered, "it ended before it could read the message");
        match accepted.await.map_err(|_| ended()).flatten() {
            Ok(_) => Ok(run),
            Err(error) => {
                run.dispose(Cause::OwnerEnded).await;
                Err(error)
            }
        }
    }
}

struct LocalRun {
    agents: Agents,
    agent: Arc<Agent>,
    done: Mutex<Option<oneshot::Receiver<Done>>>,
}

#[async_trait]
impl Run for LocalRun {
    async fn result(&self) -> Done {
        let ended =
            || Done { end: TurnEnd::Failed, detail: Some("it ended without a word".to_owned()), text: String::new() };
        let done = lock(&self.done).take();
        match done {
            Some(done) => done.await.unwrap_or_else(|_| ended()),
            None => ended(),
        }
    }

    async fn steer(&self, message: Message) -> Result<i64> {
        self.agent.post(message.from, message.text, message.key).await
    }

    async fn dispose(&self, cause: Cause) {
        self.agents.dispose(&self.agent, cause).await;
    }
}
