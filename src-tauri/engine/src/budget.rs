//! What a tree may spend, and what it has spent: looked at before each request to a model leaves.
//!
//! Tokens are counted by the log. Time at work is counted by a clock that stands still while the machine sleeps: from
//! the moment in which the first turn of the tree begins to the moment in which the last one ends, without the
//! time in which all of them wait for the person. Every turn's end carries the time until then, so that the count goes on after a restart.

use crate::config::Limits;
use crate::env::Env;
use crate::error::Result;
use crate::event::TreeLimits;
use crate::id::SessionId;
use crate::log::Log;
use crate::task::lock;
use crate::view;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use ts_rs::TS;

/// The part of a limit, in hundredths, at which a tree is told to wrap up.
const NEAR: u64 = 80;

/// The budgets of all trees. Clones share them.
#[derive(Clone)]
pub struct Budgets(Arc<Inner>);

struct Inner {
    env: Env,
    log: Log,
    limits: Limits,
    trees: Mutex<HashMap<SessionId, Tree>>,
}

struct Tree {
    limits: Limits,
    /// Milliseconds at work before `since`.
    worked: i64,
    since: i64,
    /// The sessions whose turns run now, and how many of their calls wait for the person.
    turns: HashMap<SessionId, u32>,
}

/// How far a limit of a tree is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
#[ts(rename = "LimitUse")]
pub struct Spent {
    /// Its name in the configuration.
    pub limit: &'static str,
    /// What was used, in its unit.
    pub used: u64,
    /// What may be used; never 0.
    pub most: u64,
}

impl Spent {
    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.used >= self.most
    }

    /// Whether little is left.
    pub fn is_near(&self) -> bool {
        self.used.saturating_mul(100) >= self.most.saturating_mul(NEAR)
    }

    /// For people and models.
    pub fn words(&self) -> String {
        view::spent(self.limit, self.used, self.most)
    }
}

/// The limits `base` with those that a tree was given in their place.
fn over(given: &TreeLimits, base: &Limits) -> Limits {
    Limits {
        depth: given.depth.unwrap_or(base.depth),
        live_children: given.live_children.unwrap_or(base.live_children),
        children: given.children.unwrap_or(base.children),
        tokens: given.tokens.unwrap_or(base.tokens),
        wall_clock_s: given.wall_clock_s.unwrap_or(base.wall_clock_s),
        step_limit: given.step_limit.unwrap_or(base.step_limit),
        ..base.clone()
    }
}

impl Budgets {
    /// Budgets of the trees in `log`; `limits` hold for those that have none of their own.
    pub fn new(env: Env, log: Log, limits: Limits) -> Self {
        Self(Arc::new(Inner { env, log, limits, trees: Mutex::default() }))
    }

    /// The limits in force for a tree.
    pub async fn limits(&self, root: &SessionId) -> Result<Limits> {
        self.known(root).await?;
        Ok(self.with(root, |tree| tree.limits.clone()))
    }

    /// What a tree has used of what it may spend. Empty when it may spend without a limit.
    pub async fn spent(&self, root: &SessionId) -> Result<Vec<Spent>> {
        self.known(root).await?;
        let now = self.0.env.uptime_ms();
        let (limits, worked) = self.with(root, |tree| (tree.limits.clone(), tree.worked(now)));
        let mut spent = Vec::new();
        if limits.tokens > 0 {
            let (_, tokens) = self.0.log.usage(root).await?;
            let used = u64::try_from(tokens.input.saturating_add(tokens.output)).unwrap_or(0);
            spent.push(Spent { limit: "tokens", used, most: limits.tokens });
        }
        if limits.wall_clock_s > 0 {
            let used = u64::try_from(worked / 1000).unwrap_or(0);
            spent.push(Spent { limit: "wall_clock_s", used, most: limits.wall_clock_s });
        }
        Ok(spent)
    }

    /// Notes that a turn of a session of the tree runs, until what this answers is dropped.
    pub fn begin(&self, root: &SessionId, session: &SessionId) -> Working {
        self.change(root, |turns| {
            turns.insert(session.clone(), 0);
        });
        Working { budgets: self.clone(), root: root.clone(), session: session.clone() }
    }

    /// Notes that these sessions of a tree wait for the person, until what this answers is dropped: that is no work.
    pub fn pause(&self, root: &SessionId, sessions: Vec<SessionId>) -> Pause {
        self.change(root, |turns| {
            sessions.iter().for_each(|session| turns.get_mut(session).into_iter().for_each(|waits| *waits += 1));
        });
        Pause { budgets: self.clone(), root: root.clone(), sessions }
    }

    /// Takes over the limits that a tree was given.
    pub async fn set(&self, root: &SessionId, given: &TreeLimits) -> Result<()> {
        self.known(root).await?;
        self.with(root, |tree| tree.limits = over(given, &tree.limits));
        Ok(())
    }

    /// Forgets a tree that is no more.
    pub fn forget(&self, root: &SessionId) {
        lock(&self.0.trees).remove(root);
    }

    /// Reads what the log knows of a tree, once.
    async fn known(&self, root: &SessionId) -> Result<()> {
        if lock(&self.0.trees).contains_key(root) {
            return Ok(());
        }
        let (given, worked) = self.0.log.budget(root).await?;
        let limits = given.iter().fold(self.0.limits.clone(), |limits, given| over(given, &limits));
        // Whoever was faster has read the same.
        lock(&self.0.trees).entry(root.clone()).or_insert(Tree::new(limits, worked));
        Ok(())
    }

    fn with<T>(&self, root: &SessionId, look: impl FnOnce(&mut Tree) -> T) -> T {
        let mut trees = lock(&self.0.trees);
        look(trees.entry(root.clone()).or_insert_with(|| Tree::new(self.0.limits.clone(), 0)))
    }

    /// Changes who is at work in a tree, and counts the time until then.
    fn change(&self, root: &SessionId, change: impl FnOnce(&mut HashMap<SessionId, u32>)) {
        let now = self.0.env.uptime_ms();
        self.with(root, |tree| {
            tree.worked = tree.worked(now);
            tree.since = now;
            change(&mut tree.turns);
        });
    }
}

impl Tree {
    fn new(limits: Limits, worked: i64) -> Self {
        Self { limits, worked, since: 0, turns: HashMap::new() }
    }

    fn worked(&self, now: i64) -> i64 {
        let at_work = self.turns.values().any(|waits| *waits == 0);
        self.worked + if at_work { (now - self.since).max(0) } else { 0 }
    }
}

/// A turn that runs; dropping it ends it.
#[must_use = "the turn counts until this is dropped"]
pub struct Working {
    budgets: Budgets,
    root: SessionId,
    session: SessionId,
}

impl Working {
    /// How long the tree has been at work until now, in milliseconds.
    pub fn worked_ms(&self) -> i64 {
        let now = self.budgets.0.env.uptime_ms();
        self.budgets.with(&self.root, |tree| tree.worked(now))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.budgets.change(&self.root, |turns| {
            turns.remove(&self.session);
        });
    }
}

/// A wait for the person; dropping it ends it.
#[must_use = "the clock stands still until this is dropped"]
pub struct Pause {
    budgets: Budgets,
    root: SessionId,
    sessions: Vec<SessionId>,
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.budgets.change(&self.root, |turns| {
            // A turn that has ended meanwhile waits for nobody.
            for session in &self.sessions {
                turns.get_mut(session).into_iter().for_each(|waits| *waits = waits.saturating_sub(1));
            }
        });
    }
}
