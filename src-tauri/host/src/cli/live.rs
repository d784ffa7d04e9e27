//! The tree in the terminal: drawn in place where that can be done, else a line for each change.

use super::Out;
use crate::board::{Board, task_word, word};
use crate::text;
use coppice_engine::event::TaskStatus;
use coppice_engine::id::SessionId;
use coppice_engine::view::{SessionState, SessionView, TaskView};
use std::collections::HashMap;
use std::io;

/// The longest name and the longest detail of a line, in characters.
const NAME: usize = 60;
const DETAIL: usize = 80;

/// One line of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The session or task.
    pub id: String,
    /// How deep it stands below the root.
    pub depth: usize,
    /// A mark, a name, a state and what there is to add, harmless and in one line.
    pub text: String,
}

/// The lines of one tree, parents before children, each in the order of their start.
pub fn lines(board: &Board, root: &SessionId) -> Vec<Line> {
    let mut out = Vec::new();
    if let Some(root) = board.sessions.get(root) {
        let mut children: HashMap<&SessionId, Vec<&SessionView>> = HashMap::new();
        for session in board.sessions.values() {
            if let Some(parent) = &session.parent {
                children.entry(parent).or_default().push(session);
            }
        }
        let mut commands: HashMap<&SessionId, Vec<&TaskView>> = HashMap::new();
        for task in board.tasks.values().filter(|task| task.child.is_none()) {
            commands.entry(&task.owner).or_default().push(task);
        }
        add(root, 0, &children, &commands, &mut out);
    }
    out
}

fn add(
    session: &SessionView,
    depth: usize,
    children: &HashMap<&SessionId, Vec<&SessionView>>,
    commands: &HashMap<&SessionId, Vec<&TaskView>>,
    out: &mut Vec<Line>,
) {
    out.push(Line { id: session.id.to_string(), depth, text: session_text(session) });
    let mut below: Vec<(i64, &str, Below)> = Vec::new();
    below.extend(
        children
            .get(&session.id)
            .into_iter()
            .flatten()
            .map(|child| (child.created_at, child.id.as_str(), Below::Child(child))),
    );
    below.extend(
        commands
            .get(&session.id)
            .into_iter()
            .flatten()
            .map(|task| (task.started_at, task.id.as_str(), Below::Command(task))),
    );
    below.sort_by_key(|(at, id, _)| (*at, *id));
    for (_, _, item) in below {
        match item {
            Below::Child(child) => add(child, depth + 1, children, commands, out),
            Below::Command(task) => {
                out.push(Line { id: task.id.to_string(), depth: depth + 1, text: task_text(task) });
            }
        }
    }
}

enum Below<'a> {
    Child(&'a SessionView),
    Command(&'a TaskView),
}

fn session_text(session: &SessionView) -> String {
    join(mark(session.state), &session.title, word(session.state), &session.detail)
}

fn task_text(task: &TaskView) -> String {
    let mark = match task.status {
        TaskStatus::Running => "●",
        TaskStatus::Stopping => "◌",
        TaskStatus::Completed => "✓",
        TaskStatus::Failed => "✗",
        TaskStatus::Killed => "■",
        TaskStatus::Interrupted => "!",
    };
    join(mark, &task.label, task_word(task.status), task.detail.as_deref().unwrap_or_default())
}

fn mark(state: SessionState) -> &'static str {
    match state {
        SessionState::Idle => "○",
        SessionState::Starting | SessionState::Stopping => "◌",
        SessionState::Running => "●",
        SessionState::Waiting => "◆",
        SessionState::Completed => "✓",
        SessionState::Failed => "✗",
        SessionState::Killed => "■",
        SessionState::Interrupted => "!",
        SessionState::Unverified => "?",
    }
}

fn join(mark: &str, name: &str, state: &str, detail: &str) -> String {
    let (name, detail) = (text::line(name, NAME), text::line(detail, DETAIL));
    match detail.as_str() {
        "" => format!("{mark} {name}: {state}"),
        detail if detail == state => format!("{mark} {name}: {state}"),
        detail => format!("{mark} {name}: {state} · {detail}"),
    }
}

/// What stands on the terminal.
#[derive(Default)]
pub struct Live {
    /// How many lines stand above the one that the cursor is on.
    up: usize,
    told: HashMap<String, String>,
}

impl Live {
    /// Brings the terminal up to date. `below` stands under a tree that is drawn; the cursor stays at its end.
    pub fn show(&mut self, board: &Board, root: &SessionId, below: &[String], out: &mut Out) -> io::Result<()> {
        let lines = lines(board, root);
        match out.size() {
            Some((columns, rows)) => self.draw(&lines, below, (columns, rows), out),
            None => self.tell(&lines, out),
        }
    }

    /// Says something for good, above what is drawn.
    pub fn above(&mut self, lines: &[String], out: &mut Out) -> io::Result<()> {
        let mut text = self.erased();
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        out.raw(&text)
    }

    /// What takes away all that is drawn.
    fn erased(&mut self) -> String {
        match std::mem::take(&mut self.up) {
            0 => "\r\x1b[J".to_owned(),
            up => format!("\x1b[{up}A\r\x1b[J"),
        }
    }

    fn draw(
        &mut self,
        lines: &[Line],
        below: &[String],
        (columns, rows): (usize, usize),
        out: &mut Out,
    ) -> io::Result<()> {
        let room = rows.saturating_sub(2 + below.len()).max(1);
        let mut text = self.erased();
        // Lines must not wrap, else the next drawing would start too low.
        text.push_str("\x1b[?7l");
        let shown = if lines.len() > room { room - 1 } else { lines.len() };
        for line in &lines[..shown] {
            let indented = format!("{}{}", "  ".repeat(line.depth), line.text);
            text.push_str(&text::cut(&indented, columns));
            text.push('\n');
        }
        if shown < lines.len() {
            text.push_str(&format!("… {} more\n", lines.len() - shown));
        }
        text.push_str(&below.join("\n"));
        text.push_str("\x1b[?7h");
        self.up = shown + usize::from(shown < lines.len()) + below.len().saturating_sub(1);
        out.raw(&text)
    }

    fn tell(&mut self, lines: &[Line], out: &mut Out) -> io::Result<()> {
        for line in lines {
            if self.told.get(&line.id) != Some(&line.text) {
                out.line(&format!("{}{}", "  ".repeat(line.depth), line.text))?;
                self.told.insert(line.id.clone(), line.text.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::{child, session, task};

    #[test]
    fn a_tree_is_told_parents_first_and_without_what_a_terminal_would_obey() {
        let mut nasty = child("c", "r", "r", SessionState::Running);
        nasty.title = "\x1b[2Jwrite\nit".to_owned();
        nasty.detail = "reading \x1b]0;x\x07a.rs".to_owned();
        let board = Board::new(
            vec![session("r"), nasty, child("d", "c", "r", SessionState::Failed)],
            vec![
                task("bash-1", "c", None, TaskStatus::Completed),
                task("subagent-1", "r", Some("c"), TaskStatus::Running),
            ],
        );
        let told: Vec<String> = lines(&board, &"r".into())
            .into_iter()
            .map(|line| format!("{}{}", "  ".repeat(line.depth), line.text))
            .collect();
        assert_eq!(
            told,
            [
                "○ r: idle",
                "  ● write it: running · reading a.rs",
                "    ✓ label of bash-1: completed",
                "    ✗ d: failed",
            ]
        );
    }
}
