//! Which ends are worth a notification, and in what words. Ends of one tree within a few seconds become one; what the
//! focused window shows needs none; nothing is told twice.

use crate::board::{Board, task_word};
use crate::text;
use coppice_engine::config::Desktop as Setting;
use coppice_engine::event::{Party, TaskStatus};
use coppice_engine::id::SessionId;
use coppice_engine::view::{Frame, SessionState, SessionView, TaskView};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long ends of one tree are gathered into one notification.
pub const GATHER: Duration = Duration::from_secs(3);
/// The longest title and body, in characters.
const TITLE: usize = 80;
const BODY: usize = 240;

/// A notification to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The tree it is about; a later one of the same tree takes its place. None for one about Coppice itself.
    pub root: Option<SessionId>,
    /// What a click opens.
    pub open: Option<SessionId>,
    /// The first line; plain text.
    pub title: String,
    /// What there is to add; plain text.
    pub body: String,
    /// Where the window went, for one that holds only while it is away.
    pub away: Option<Gone>,
}

/// Ends that were heard and not told yet.
pub struct Ends {
    setting: Setting,
    gathered: HashMap<SessionId, Gathered>,
}

struct Gathered {
    due: Instant,
    tasks: Vec<TaskView>,
    root: Option<RootEnd>,
    asks: u32,
}

impl Gathered {
    /// What of it still holds; none when nothing does.
    fn by_now(mut self, root: &SessionView) -> Option<Self> {
        self.root = self.root.filter(|_| at_rest(root));
        self.asks = root.needs_you.min(self.asks);
        (self.root.is_some() || self.asks > 0 || !self.tasks.is_empty()).then_some(self)
    }
}

struct RootEnd {
    failed: bool,
    detail: String,
    ms: i64,
}

impl Ends {
    /// Nothing heard yet.
    pub fn new(setting: Setting) -> Self {
        Self { setting, gathered: HashMap::new() }
    }

    /// Hears a frame that `board` has not taken over yet. `seen` is the root of what the focused window shows.
    pub fn hear(&mut self, board: &Board, frame: &Frame, seen: Option<&SessionId>, now: Instant) {
        for id in &frame.removed {
            self.gathered.remove(id);
        }
        for task in &frame.tasks {
            let told = board.tasks.get(&task.id).is_some_and(|before| before.status.is_terminal());
            if told || !task.status.is_terminal() || !self.wants_task(task) {
                continue;
            }
            let root = find(frame, board, &task.owner).map(|owner| owner.root.clone());
            if let Some(root) = root.filter(|root| Some(root) != seen) {
                self.gather(root, now).tasks.push(task.clone());
            }
        }
        for root in frame.sessions.iter().filter(|session| session.depth == 0 && Some(&session.id) != seen) {
            let before = board.sessions.get(&root.id);
            if self.setting != Setting::Off && root.needs_you > before.map_or(0, |before| before.needs_you) {
                self.gather(root.id.clone(), now).asks = root.needs_you;
            }
            if matches!(self.setting, Setting::Tasks | Setting::Roots)
                && before.is_some_and(|before| !at_rest(before))
                && at_rest(root)
                && let Some(end) = root_end(root)
            {
                self.gather(root.id.clone(), now).root = Some(end);
            }
        }
    }

    /// When the next notification is due.
    pub fn due(&self) -> Option<Instant> {
        self.gathered.values().map(|gathered| gathered.due).min()
    }

    /// Takes what is due, as it stands by now: what the focused window shows is not told, nor that a root is done which
    /// runs again, nor an ask that was answered.
    pub fn take(&mut self, board: &Board, seen: Option<&SessionId>, now: Instant) -> Vec<Note> {
        let due: Vec<SessionId> =
            self.gathered.iter().filter(|(_, gathered)| gathered.due <= now).map(|(root, _)| root.clone()).collect();
        let mut notes: Vec<Note> = due
            .into_iter()
            .filter_map(|root| self.gathered.remove(&root).map(|gathered| (root, gathered)))
            .filter(|(root, _)| Some(root) != seen)
            .filter_map(|(root, gathered)| {
                let root = board.sessions.get(&root)?;
                gathered.by_now(root).map(|gathered| note(root, gathered))
            })
            .collect();
        notes.sort_by(|a, b| a.root.cmp(&b.root));
        notes
    }

    fn wants_task(&self, task: &TaskView) -> bool {
        // What the person stopped, or Coppice when it quits, is no news.
        self.setting == Setting::Tasks && !matches!(task.killed_by, Some(Party::Person | Party::Runtime))
    }

    fn gather(&mut self, root: SessionId, now: Instant) -> &mut Gathered {
        self.gathered.entry(root).or_insert_with(|| Gathered {
            due: now + GATHER,
            tasks: Vec::new(),
            root: None,
            asks: 0,
        })
    }
}

/// What was ended of an earlier process that crashed.
pub fn leftovers(setting: Setting, line: &str) -> Option<Note> {
    (setting != Setting::Off).then(|| Note {
        root: None,
        open: None,
        title: "Coppice ended what a crash had left".to_owned(),
        body: text::line(line, BODY),
        away: None,
    })
}

/// Where a window went that left work behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Into the tray.
    Tray,
    /// To where minimised windows go.
    Minimised,
    /// Out of sight: only a notification or another start brings it back.
    Hidden,
}

/// The window went and work goes on: how much, and how the window comes back.
pub fn goes_on(run: Option<u32>, gone: Gone) -> Note {
    let back = match gone {
        Gone::Tray => "Its icon in the tray brings the window back, and quits.",
        Gone::Minimised => "The window is minimised. Quit there to stop.",
        Gone::Hidden => "Click here, or start Coppice again, to bring the window back.",
    };
    let run = match run.map(|run| usize::try_from(run).unwrap_or(usize::MAX)) {
        Some(run) => format!("{} still at work.", text::count(run, "run is", "runs are")),
        None => "Work may go on.".to_owned(),
    };
    Note {
        root: None,
        open: None,
        title: "Coppice goes on without its window".to_owned(),
        body: format!("{run} {back}"),
        away: Some(gone),
    }
}

fn find<'a>(frame: &'a Frame, board: &'a Board, id: &SessionId) -> Option<&'a SessionView> {
    frame.sessions.iter().find(|session| session.id == *id).or_else(|| board.sessions.get(id))
}

fn at_rest(root: &SessionView) -> bool {
    !root.state.is_live() && root.live_below == 0
}

/// How a root at rest ended; none when it was stopped or lost, which its person did or is told otherwise.
fn root_end(root: &SessionView) -> Option<RootEnd> {
    let failed = match root.state {
        SessionState::Idle | SessionState::Completed if root.stopped_by.is_none() => false,
        SessionState::Failed => true,
        _ => return None,
    };
    let ms = root.asked_at.zip(root.rested_at).map_or(0, |(asked, rested)| (rested - asked).max(0));
    Some(RootEnd { failed, detail: root.detail.clone(), ms })
}

fn note(root: &SessionView, gathered: Gathered) -> Note {
    let name = text::line(&root.title, TITLE / 2);
    let summary = summary(&gathered.tasks);
    let open_root = Some(root.id.clone());
    let (open, title, body) = match (&gathered.root, gathered.asks, gathered.tasks.as_slice()) {
        (_, 1.., _) => (open_root, format!("{name} needs you"), summary),
        (Some(end), _, _) if end.failed => (open_root, format!("{name} failed"), join(&[&end.detail, &summary])),
        (Some(end), _, _) => (open_root, format!("{name} is done"), join(&[&summary, &text::duration(end.ms)])),
        (None, _, [task]) => {
            let what = format!("{} {}", text::line(&task.label, TITLE / 2), task_word(task.status));
            let detail = task.detail.as_deref().filter(|detail| *detail != task_word(task.status)).unwrap_or_default();
            let open = task.child.clone().unwrap_or_else(|| task.owner.clone());
            (Some(open), what, join(&[detail, &format!("In {name}")]))
        }
        (None, _, tasks) => {
            (open_root, format!("{} ended in {name}", text::count(tasks.len(), "task", "tasks")), summary)
        }
    };
    Note {
        root: Some(root.id.clone()),
        open,
        title: text::line(&title, TITLE),
        body: text::line(&body, BODY),
        away: None,
    }
}

/// "2 completed, 1 failed"; nothing for no tasks.
fn summary(tasks: &[TaskView]) -> String {
    let of = |status: TaskStatus| {
        let n = tasks.iter().filter(|task| task.status == status).count();
        (n > 0).then(|| format!("{n} {}", task_word(status)))
    };
    let all = [TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Killed, TaskStatus::Interrupted];
    all.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

fn join(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(". ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::{child, session, task};

    struct Desk {
        ends: Ends,
        board: Board,
        now: Instant,
    }

    impl Desk {
        fn new(setting: Setting) -> Self {
            let root =
                SessionView { state: SessionState::Running, live_below: 1, title: "Ship it".into(), ..session("r") };
            let board = Board::new(
                vec![root, child("c", "r", "r", SessionState::Running)],
                vec![
                    task("subagent-1", "r", Some("c"), TaskStatus::Running),
                    task("bash-1", "c", None, TaskStatus::Running),
                ],
            );
            Self { ends: Ends::new(setting), board, now: Instant::now() }
        }

        fn hear(&mut self, frame: Frame, seen: Option<&str>) {
            let seen = seen.map(SessionId::from);
            self.ends.hear(&self.board, &frame, seen.as_ref(), self.now);
            self.board.apply(&frame);
        }

        fn tasks(&mut self, tasks: Vec<TaskView>, seen: Option<&str>) {
            self.hear(Frame { tasks, ..Frame::default() }, seen);
        }

        fn told(&mut self) -> Vec<(String, String, String)> {
            self.now += GATHER;
            let notes = self.ends.take(&self.board, None, self.now);
            notes
                .into_iter()
                .map(|note| (note.title, note.body, note.open.map(|open| open.to_string()).unwrap_or_default()))
                .collect()
        }
    }

    fn told(title: &str, body: &str, open: &str) -> (String, String, String) {
        (title.to_owned(), body.to_owned(), open.to_owned())
    }

    fn done(id: &str, owner: &str, child: Option<&str>) -> TaskView {
        task(id, owner, child, TaskStatus::Completed)
    }

    #[test]
    fn a_tasks_end_is_told_once_and_a_click_opens_its_child() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.tasks(vec![done("subagent-1", "r", Some("c"))], None);
        assert_eq!(desk.ends.take(&desk.board, None, desk.now), [], "not before the others had time to end too");
        assert_eq!(desk.told(), [told("label of subagent-1 completed", "In Ship it", "c")]);
        desk.tasks(vec![done("subagent-1", "r", Some("c"))], None);
        assert_eq!(desk.told(), []);
    }

    #[test]
    fn a_task_that_began_and_ended_between_two_frames_is_told_too() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.tasks(vec![task("bash-9", "c", None, TaskStatus::Failed)], None);
        assert_eq!(desk.told(), [told("label of bash-9 failed", "In Ship it", "c")]);
    }

    #[test]
    fn ends_of_one_tree_within_a_few_seconds_become_one() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.tasks(vec![done("subagent-1", "r", Some("c"))], None);
        desk.now += Duration::from_secs(1);
        desk.tasks(vec![done("bash-1", "c", None), task("bash-2", "c", None, TaskStatus::Failed)], None);
        assert_eq!(desk.told(), [told("3 tasks ended in Ship it", "2 completed, 1 failed", "r")]);
    }

    #[test]
    fn a_root_that_comes_to_rest_takes_its_tasks_with_it() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.tasks(vec![done("subagent-1", "r", Some("c"))], None);
        let root = |state, live_below| SessionView {
            state,
            live_below,
            title: "Ship it".into(),
            asked_at: Some(0),
            started_at: Some(118_000),
            ended_at: Some(119_000),
            rested_at: (live_below == 0).then_some(120_000),
            ..session("r")
        };
        desk.hear(Frame { sessions: vec![root(SessionState::Idle, 1)], ..Frame::default() }, None);
        desk.hear(Frame { sessions: vec![root(SessionState::Idle, 0)], ..Frame::default() }, None);
        assert_eq!(desk.told(), [told("Ship it is done", "1 completed. 2 min", "r")]);
    }

    #[test]
    fn what_the_focused_window_shows_is_not_told() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.tasks(vec![done("subagent-1", "r", Some("c"))], Some("r"));
        assert_eq!(desk.told(), []);
        desk.tasks(vec![done("bash-1", "c", None)], Some("other"));
        let seen = SessionId::from("r");
        assert_eq!(desk.ends.take(&desk.board, Some(&seen), desk.now + GATHER), [], "looked at before it was due");
        assert_eq!(desk.told(), []);
    }

    #[test]
    fn a_stop_by_the_person_is_no_news() {
        let mut desk = Desk::new(Setting::Tasks);
        let killed = |by| TaskView { killed_by: Some(by), ..task("bash-1", "c", None, TaskStatus::Killed) };
        desk.tasks(vec![killed(Party::Person)], None);
        assert_eq!(desk.told(), []);
        let mut desk = Desk::new(Setting::Tasks);
        desk.tasks(vec![killed(Party::Limit)], None);
        assert_eq!(desk.told(), [told("label of bash-1 stopped", "In Ship it", "c")]);
    }

    #[test]
    fn a_root_that_was_stopped_is_not_done() {
        let mut desk = Desk::new(Setting::Tasks);
        let stopped = SessionView { state: SessionState::Idle, stopped_by: Some(Party::Person), ..session("r") };
        desk.hear(Frame { sessions: vec![stopped], ..Frame::default() }, None);
        assert_eq!(desk.told(), []);
    }

    #[test]
    fn what_no_longer_holds_when_it_is_due_is_not_told() {
        let root = |state, needs_you| SessionView { state, needs_you, title: "Ship it".into(), ..session("r") };
        let frame = |root| Frame { sessions: vec![root], ..Frame::default() };
        let mut desk = Desk::new(Setting::Tasks);
        desk.hear(frame(root(SessionState::Idle, 0)), None);
        desk.hear(frame(root(SessionState::Running, 0)), None);
        assert_eq!(desk.told(), [], "it runs again");
        desk.hear(frame(root(SessionState::Waiting, 1)), None);
        desk.hear(frame(root(SessionState::Running, 0)), None);
        assert_eq!(desk.told(), [], "the ask was answered");
        desk.hear(frame(root(SessionState::Idle, 0)), None);
        desk.tasks(vec![done("bash-1", "c", None)], None);
        desk.hear(frame(root(SessionState::Running, 0)), None);
        assert_eq!(desk.told(), [told("label of bash-1 completed", "In Ship it", "c")], "the task has ended for good");
    }

    #[test]
    fn the_setting_chooses_what_is_told() {
        for (setting, tasks, root, asks) in [
            (Setting::Tasks, true, true, true),
            (Setting::Roots, false, true, true),
            (Setting::Asks, false, false, true),
            (Setting::Off, false, false, false),
        ] {
            let mut desk = Desk::new(setting);
            desk.tasks(vec![done("bash-1", "c", None)], None);
            assert_eq!(!desk.told().is_empty(), tasks, "{setting:?}");
            let waits = SessionView { state: SessionState::Waiting, needs_you: 1, ..session("r") };
            desk.hear(Frame { sessions: vec![waits], ..Frame::default() }, None);
            assert_eq!(!desk.told().is_empty(), asks, "{setting:?}");
            let failed = SessionView { state: SessionState::Failed, detail: "no model".into(), ..session("r") };
            desk.hear(Frame { sessions: vec![failed], ..Frame::default() }, None);
            let expected = if root { vec![told("r failed", "no model", "r")] } else { vec![] };
            assert_eq!(desk.told(), expected, "{setting:?}");
            assert_eq!(leftovers(setting, "x").is_some(), setting != Setting::Off);
        }
    }

    #[test]
    fn a_window_that_went_says_how_it_comes_back() {
        for (run, gone, body) in [
            (Some(1), Gone::Tray, "1 run is still at work. Its icon in the tray brings the window back, and quits."),
            (Some(3), Gone::Minimised, "3 runs are still at work. The window is minimised. Quit there to stop."),
            (None, Gone::Hidden, "Work may go on. Click here, or start Coppice again, to bring the window back."),
        ] {
            let note = goes_on(run, gone);
            assert_eq!((note.open, note.root, note.body.as_str(), note.away), (None, None, body, Some(gone)));
        }
    }

    #[test]
    fn words_of_models_are_harmless_and_short() {
        let mut desk = Desk::new(Setting::Tasks);
        let mut nasty = task("bash-1", "c", None, TaskStatus::Failed);
        nasty.label = format!("\x1b[2J<b>{}", "x\n".repeat(500));
        nasty.detail = Some("y".repeat(1000));
        desk.tasks(vec![nasty], None);
        let (title, body, _) = desk.told().remove(0);
        assert!(title.starts_with("<b>x x") && title.chars().count() <= TITLE, "{title}");
        assert!(body.chars().count() <= BODY, "{body}");
        assert!(!title.contains('\u{1b}') && !title.contains('\n'));
    }
}
