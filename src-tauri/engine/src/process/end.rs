//! The end of trees: asked for, forced, proven; and the inquest into what a crash left.

use super::table::{self, Identity, SEES_PROCESSES, Signal, Target};
use super::{DISMISSAL, Ended, LedgerEntry, Live, Processes, lock};
use crate::error::Result;
use crate::event::ReceiptProcess;
use crate::scope::Scope;
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How long force is applied and the end is looked for.
const FORCE: Duration = Duration::from_secs(5);

/// The pause between two looks: after one that found something, and after one that did not.
const PAUSE: Duration = Duration::from_millis(15);
const QUIET_PAUSE: Duration = Duration::from_millis(3);

/// How many looks in a row have to find nothing.
pub(super) const LOOKS: usize = 3;

/// How often in a row everything is frozen before it is killed, when new processes keep coming.
const FREEZES: usize = 10;

/// Ends everything in `target`, which is what `trees` consist of; see [`super::Tree::end`]. They are asked for when the
/// commands are gone: one may have begun meanwhile.
pub(super) async fn end(mut target: Target, trees: impl Fn() -> Vec<Arc<Live>>, grace: Duration) -> Ended {
    let polite_until = Instant::now() + grace;
    let mut asked = BTreeSet::new();
    let mut quiet = 0;
    // One look that finds nothing proves nothing: processes are made while the table is read.
    while quiet < LOOKS && (quiet > 0 || Instant::now() < polite_until) {
        let left;
        (target, asked, left) = Scope::blocking(move || ask(target, asked)).await;
        quiet = if left { 0 } else { quiet + 1 };
        let pause = if left { PAUSE } else { QUIET_PAUSE };
        tokio::time::sleep(pause).await;
    }
    let forced;
    (target, forced) = strike_down(target, false).await;
    // The guards still have to tell the exit; then they are dismissed by those who attend the trees.
    let trees = trees();
    let dismissed = trees.iter().map(|tree| async {
        tree.nudge.notify_one();
        tree.gone.subscribe().wait_for(|gone| *gone).await.ok();
    });
    if tokio::time::timeout(DISMISSAL, join_all(dismissed)).await.is_err() {
        tracing::warn!("a guard did not leave when it was dismissed and is ended by force");
    }
    for tree in &trees {
        tree.struck.store(true, Ordering::Release);
    }
    (target, _) = strike_down(target, true).await;
    let (target, left) = Scope::blocking(move || {
        let left: BTreeSet<Identity> = target.look().into_iter().map(|(id, _)| id).collect();
        (target, left)
    })
    .await;
    for tree in &trees {
        tree.nudge.notify_one();
    }
    let told = target.seen.iter().filter(|(id, guard)| !**guard || left.contains(id));
    Ended { processes: told.map(|(id, _)| id.receipt(!left.contains(id))).collect(), forced }
}

/// Asks everything that was not asked yet. Guards are left alone: they report, and go when they are dismissed.
fn ask(mut target: Target, mut asked: BTreeSet<Identity>) -> (Target, BTreeSet<Identity>, bool) {
    let commands = target.look_for_commands();
    for id in &commands {
        if asked.insert(*id) {
            table::signal(*id, Signal::Ask);
        }
    }
    (target, asked, !commands.is_empty())
}

/// Kills every command, and every guard where `guards` says so, until none is seen any more or the bound is over. Answers
/// whether there was any.
async fn strike_down(mut target: Target, guards: bool) -> (Target, bool) {
    let until = Instant::now() + FORCE;
    let mut met = false;
    let mut quiet = 0;
    while quiet < LOOKS && Instant::now() < until {
        let any;
        (target, any) = Scope::blocking(move || blow(target, guards)).await;
        met |= any;
        quiet = if any { 0 } else { quiet + 1 };
        tokio::time::sleep(if any { PAUSE } else { QUIET_PAUSE }).await;
    }
    (target, met)
}

/// Freezes everything until nothing new appears, so that nothing can multiply, then kills it.
fn blow(mut target: Target, guards: bool) -> (Target, bool) {
    let mut frozen = BTreeSet::new();
    for _ in 0..FREEZES {
        let met =
            if guards { target.look().into_iter().map(|(id, _)| id).collect() } else { target.look_for_commands() };
        let fresh: Vec<Identity> = met.into_iter().filter(|id| frozen.insert(*id)).collect();
        if fresh.is_empty() {
            break;
        }
        for id in fresh {
            table::signal(id, Signal::Freeze);
        }
    }
    for id in &frozen {
        table::signal(*id, Signal::Kill);
    }
    (target, !frozen.is_empty())
}

impl Processes {
    /// Ends what an earlier process of this data folder left behind, and only that. Answers what it found: the ledger's
    /// entry, or one made up for a process that carries the folder's marker and was never written down. Trees of this
    /// process are left alone.
    pub async fn inquest(&self, grace: Duration) -> Result<Vec<(LedgerEntry, ReceiptProcess)>> {
        let inner = &self.inner;
        let mut cases: BTreeMap<String, (LedgerEntry, Target)> = BTreeMap::new();
        for entry in inner.ledger.open_entries().await? {
            let id = Identity { started: entry.started, pid: entry.pid };
            let here = entry.boot == inner.boot && table::lives(id);
            let (_, target) = cases.entry(entry.marker.clone()).or_insert_with(|| (entry, Target::default()));
            target.groups.push(id.pid);
            if here {
                target.seen.insert(id, SEES_PROCESSES);
            }
        }
        let store = format!("{}:", inner.store);
        for row in Scope::blocking(|| table::snapshot(&[], 0)).await {
            if let Some(marker) = row.marker.filter(|marker| marker.starts_with(&store)) {
                cases.entry(marker.clone()).or_insert_with(|| {
                    let Identity { pid, started } = row.id;
                    let label = table::command_line(pid);
                    (LedgerEntry { marker, label, pid, started, boot: inner.boot.clone() }, Target::default())
                });
            }
        }
        let ours: BTreeSet<String> = lock(&inner.live).iter().map(|live| live.marker.clone()).collect();
        let mut found = Vec::new();
        for (marker, (entry, mut target)) in cases.into_iter().filter(|(marker, _)| !ours.contains(marker)) {
            target.markers.insert(marker.clone());
            let ended = end(target, Vec::new, grace).await;
            if ended.left() == 0 {
                inner.ledger.strike(&marker).await?;
            }
            found.extend(ended.processes.into_iter().map(|process| (entry.clone(), process)));
        }
        Ok(found)
    }
}
