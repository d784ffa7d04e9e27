//! How far the owners of tasks have read.

use crate::config::bounds::KEPT_CURSORS;
use crate::id::TaskId;
use std::collections::{HashMap, VecDeque};

/// How far the owners of tasks have read. The oldest are forgotten; their tasks are read from the start again.
#[derive(Default)]
pub(super) struct Cursors {
    at: HashMap<TaskId, u64>,
    order: VecDeque<TaskId>,
}

impl Cursors {
    pub(super) fn get(&self, task: &TaskId) -> u64 {
        self.at.get(task).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, task: &TaskId, next: u64) {
        if self.at.insert(task.clone(), next).is_some() {
            return;
        }
        self.order.push_back(task.clone());
        if self.order.len() > KEPT_CURSORS
            && let Some(oldest) = self.order.pop_front()
        {
            self.at.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_was_read_is_remembered_of_a_bounded_number_of_tasks() {
        let mut cursors = Cursors::default();
        let task = |n: usize| TaskId(format!("bash-{n}"));
        for n in 0..=KEPT_CURSORS {
            cursors.set(&task(n), 7);
            cursors.set(&task(n), 8);
        }
        assert_eq!((cursors.at.len(), cursors.order.len()), (KEPT_CURSORS, KEPT_CURSORS));
        assert_eq!([0, 1, KEPT_CURSORS].map(|n| cursors.get(&task(n))), [0, 8, 8]);
    }
}
