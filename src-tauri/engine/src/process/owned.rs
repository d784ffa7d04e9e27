//! Whether a process is the work of a session: told from its parents, which it cannot choose, and not from its
//! environment alone, which it can.

use super::table::{self, SEES_PROCESSES};
use super::{Live, Processes, lock};
use crate::scope::Scope;
use std::sync::Arc;

impl Processes {
    /// Whether a process stands in one of these trees: it or one it descends from is a guard, was seen in a tree, or
    /// carries a marker of this data folder. What has lost its parent stands below its guard. None when it cannot be
    /// told: the process is not there. Outside of Linux, where single processes are out of sight, the answer is no.
    ///
    /// What left a tree whose guard was killed, before anybody saw it and without the marker, is a stranger.
    pub async fn owns(&self, pid: u32) -> Option<bool> {
        if !SEES_PROCESSES {
            return Some(false);
        }
        // Before the line is read: a tree that closes meanwhile is still among them.
        let trees: Vec<Arc<Live>> = lock(&self.inner.live).clone();
        let line = Scope::blocking(move || table::line(pid)).await?;
        let store = format!("{}:", self.inner.store);
        Some(line.iter().any(|row| {
            row.marker.as_deref().is_some_and(|marker| marker.starts_with(&store))
                || trees.iter().any(|live| live.id == row.id || lock(&live.seen).contains_key(&row.id))
        }))
    }
}
