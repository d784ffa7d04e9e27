//! How long outputs are kept: as long as their tasks, and all together up to a bound.

use super::Tasks;
use crate::error::Result;
use crate::id::{SessionId, TaskId};
use crate::scope::Scope;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

impl Tasks {
    /// Removes the output logs of tasks that are no more.
    pub async fn remove_outputs(&self, tasks: Vec<TaskId>) {
        let outputs = self.0.outputs.clone();
        Scope::blocking(move || outputs.remove(&tasks)).await;
    }

    /// Removes the output logs that no task in the store has: of sessions that were deleted when the process ended
    /// before their outputs were gone. A task is in the store before it has an output, so none is taken that lives.
    pub async fn remove_orphans(&self) -> Result<()> {
        let outputs = self.0.outputs.clone();
        let found = Scope::blocking(move || outputs.found()).await?;
        let orphans = self.0.log.missing_tasks(found).await?;
        self.remove_outputs(orphans).await;
        Ok(())
    }

    /// Notes that `more` bytes of output were written, and removes outputs when they are too many.
    pub(super) async fn make_room(&self, more: u64) {
        let kept = self.0.kept.fetch_add(more, Ordering::AcqRel) + more;
        if kept > self.0.outputs.bound()
            && let Err(error) = self.thin_outputs().await
        {
            tracing::warn!(%error, "old outputs stay for now");
        }
    }

    /// Removes the outputs of tasks that have ended, the oldest first, until all outputs together are within their
    /// bound. Those of archived sessions go before any that is shown; what its owner was not told of yet stays.
    pub async fn thin_outputs(&self) -> Result<()> {
        let outputs = self.0.outputs.clone();
        let sizes: HashMap<TaskId, u64> = Scope::blocking(move || outputs.sizes()).await?.into_iter().collect();
        let mut kept: u64 = sizes.values().sum();
        if kept > self.0.outputs.bound() {
            let mut owed: BTreeMap<SessionId, BTreeSet<TaskId>> = BTreeMap::new();
            for (owner, task) in self.ended_with_output(&sizes).await? {
                if kept <= self.0.outputs.bound() {
                    break;
                }
                if !owed.contains_key(&owner) {
                    let notices = self.0.log.owed(&owner).await?;
                    owed.insert(owner.clone(), notices.into_iter().map(|notice| notice.task.id).collect());
                }
                if owed.get(&owner).is_some_and(|owed| owed.contains(&task)) {
                    continue;
                }
                let (outputs, size) = (self.0.outputs.clone(), sizes.get(&task).copied().unwrap_or(0));
                Scope::blocking(move || outputs.thin(&task)).await?;
                kept -= size;
            }
        }
        self.0.kept.store(kept, Ordering::Release);
        Ok(())
    }

    /// The tasks that have ended and have an output, with their owners, in the order in which their outputs may go.
    async fn ended_with_output(&self, sizes: &HashMap<TaskId, u64>) -> Result<Vec<(SessionId, TaskId)>> {
        let sessions = self.0.log.sessions(None).await?;
        let archived: BTreeSet<&SessionId> =
            sessions.iter().filter(|session| session.archived).map(|session| &session.id).collect();
        let hidden: BTreeSet<&SessionId> = sessions
            .iter()
            .filter(|session| archived.contains(&session.id) || archived.contains(&session.root))
            .map(|session| &session.id)
            .collect();
        let mut tasks = self.0.log.tasks(None).await?;
        tasks.retain(|task| sizes.contains_key(&task.id) && task.status.is_terminal() && !self.is_live(&task.id));
        tasks.sort_by_key(|task| (!hidden.contains(&task.owner), task.settled_at));
        Ok(tasks.into_iter().map(|task| (task.owner, task.id)).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Limits;
    use crate::env::Env;
    use crate::event::{Event, Mode, TaskStatus};
    use crate::id::{SessionId, TaskId};
    use crate::log::{Log, TaskDraft};
    use crate::output::{OutputLog, Outputs};
    use crate::task::Tasks;

    async fn open(log: &Log, id: &SessionId) {
        let opened = Event::SessionOpened {
            parent: None,
            root: id.clone(),
            depth: 0,
            title: "t".to_owned(),
            label: None,
            provider: None,
            model: "m".to_owned(),
            mode: Mode::Ask,
            cwd: "/".to_owned(),
        };
        log.append(id, vec![opened]).await.unwrap();
    }

    /// A task of this owner with an output of a thousand bytes.
    async fn task(log: &Log, outputs: &Outputs, owner: &SessionId, ended: bool, owes_notice: bool) -> TaskId {
        let draft =
            TaskDraft { owner: owner.clone(), kind: "bash".to_owned(), label: "l".to_owned(), child: None, call: None };
        let (task, _) = log.start_task(draft).await.unwrap();
        let output = OutputLog::create(&outputs.dir(&task), 1 << 20).unwrap();
        output.write(&[b'x'; 1000]).unwrap();
        if ended {
            output.finish();
            let settled = Event::TaskSettled {
                task: task.clone(),
                status: TaskStatus::Completed,
                detail: None,
                killed_by: None,
                output: None,
                owes_notice,
                last_sign_at: None,
            };
            log.append(owner, vec![settled]).await.unwrap();
        }
        task
    }

    #[tokio::test]
    async fn the_oldest_outputs_go_first_those_of_the_archive_before_and_none_that_lives_or_is_news() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), &Env::system()).unwrap();
        let outputs = Outputs::new(dir.path().join("output")).within(3500);
        let tasks = Tasks::new(log.clone(), Limits::default(), outputs.clone());
        let (shown, archived) = (SessionId::from("shown"), SessionId::from("archived"));
        open(&log, &shown).await;
        open(&log, &archived).await;
        let lives = task(&log, &outputs, &shown, false, false).await;
        let news = task(&log, &outputs, &shown, true, true).await;
        let old = task(&log, &outputs, &shown, true, false).await;
        let new = task(&log, &outputs, &shown, true, false).await;
        let hidden = task(&log, &outputs, &archived, true, false).await;
        log.append(&archived, vec![Event::Archived { archived: true }]).await.unwrap();
        let kept = || {
            let all = [&lives, &news, &old, &new, &hidden];
            all.map(|task| OutputLog::open(&outputs.dir(task)).unwrap().kept())
        };
        tasks.thin_outputs().await.unwrap();
        assert_eq!(kept(), [1000, 1000, 0, 1000, 0]);
        let removed = OutputLog::open(&outputs.dir(&old)).unwrap().read(0, 100).unwrap();
        let told = "\n[output removed to save space: 1000 bytes]\n";
        assert_eq!((removed.text.as_str(), removed.next, removed.size, removed.dropped), (told, 1000, 1000, 1000));
        // Nothing may go that was not told or that lives, however little room there is.
        let tight = Tasks::new(log.clone(), Limits::default(), outputs.clone().within(10));
        tight.thin_outputs().await.unwrap();
        assert_eq!(kept(), [1000, 1000, 0, 0, 0]);
    }
}
