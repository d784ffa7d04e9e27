//! Which ends and asks are worth a notification, and in what words. Those of one tree within a few seconds become one;
//! what the focused window shows needs none; nothing is told twice, and what was answered is taken back.

use crate::board::{Board, asker, task_word};
use crate::text;
use coppice_engine::action::Action;
use coppice_engine::config::Desktop as Setting;
use coppice_engine::event::{Party, TaskStatus};
use coppice_engine::id::{AskId, SessionId};
use coppice_engine::view::{AskState, AskView, Frame, SessionState, SessionView, TaskView};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long ends of one tree are gathered into one notification.
pub const GATHER: Duration = Duration::from_secs(3);
/// The longest title and body, in characters.
const TITLE: usize = 80;
const BODY: usize = 240;
/// The longest of what is asked for, so that what stands behind it is read too.
const WHAT: usize = 160;

/// What the person has before their eyes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The root of what the focused window shows.
    pub root: Option<SessionId>,
    /// Whether the focused window shows the asks of all trees.
    pub inbox: bool,
}

/// What is to become of the notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// This one is shown, in place of an earlier one of its tree.
    Show(Note),
    /// Nobody in this tree needs the person any more: the one that said so goes.
    TakeBack(SessionId),
}

/// A notification to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The tree it is about; a later one of the same tree takes its place. None for one about Coppice itself.
    pub root: Option<SessionId>,
    /// What a click opens.
    pub open: Option<SessionId>,
    /// The ask of that session that a click shows: it says then that somebody needs the person.
    pub ask: Option<AskId>,
    /// The first line; plain text.
    pub title: String,
    /// What there is to add; plain text.
    pub body: String,
    /// Where the window went, for one that holds only while it is away.
    pub away: Option<Gone>,
}

/// Ends and asks that were heard and not told yet.
pub struct Ends {
    setting: Setting,
    gathered: HashMap<SessionId, Gathered>,
    /// The asks that the notification of a tree told of and that nobody has answered yet.
    told: HashMap<SessionId, Vec<AskId>>,
}

struct Gathered {
    due: Instant,
    tasks: Vec<TaskView>,
    root: Option<RootEnd>,
    /// Whether somebody asked meanwhile.
    asked: bool,
}

struct RootEnd {
    failed: bool,
    detail: String,
    ms: i64,
}

impl Ends {
    /// Nothing heard yet.
    pub fn new(setting: Setting) -> Self {
        Self { setting, gathered: HashMap::new(), told: HashMap::new() }
    }

    /// Hears a frame that `board` has not taken over yet. Answers the trees in which nobody needs the person any more
    /// though a notification says so.
    pub fn hear(&mut self, board: &Board, frame: &Frame, seen: &Seen, now: Instant) -> Vec<Said> {
        let back = self.hear_answers(frame);
        for id in &frame.removed {
            self.gathered.remove(id);
        }
        for ask in frame.asks.iter().filter(|ask| ask.state == AskState::Open) {
            let known = board.asks.contains_key(&ask.id);
            if let Some(root) = root_of(ask)
                && !known
                && !seen.inbox
                && self.setting != Setting::Off
                && Some(root) != seen.root.as_ref()
            {
                self.gather(root.clone(), now).asked = true;
            }
        }
        for task in &frame.tasks {
            let told = board.tasks.get(&task.id).is_some_and(|before| before.status.is_terminal());
            if told || !task.status.is_terminal() || !self.wants_task(task) {
                continue;
            }
            let root = find(frame, board, &task.owner).map(|owner| owner.root.clone());
            if let Some(root) = root.filter(|root| Some(root) != seen.root.as_ref()) {
                self.gather(root, now).tasks.push(task.clone());
            }
        }
        let roots = frame.sessions.iter().filter(|session| session.depth == 0);
        for root in roots.filter(|root| Some(&root.id) != seen.root.as_ref()) {
            let before = board.sessions.get(&root.id);
            if matches!(self.setting, Setting::Tasks | Setting::Roots)
                && before.is_some_and(|before| !at_rest(before))
                && at_rest(root)
                && let Some(end) = root_end(root)
            {
                self.gather(root.id.clone(), now).root = Some(end);
            }
        }
        back
    }

    /// Forgets the asks that were answered, put off or taken back. Answers the trees that none is left of.
    fn hear_answers(&mut self, frame: &Frame) -> Vec<Said> {
        let open =
            |id: &AskId| frame.asks.iter().find(|ask| ask.id == *id).is_none_or(|ask| ask.state == AskState::Open);
        let ended = self.told.extract_if(|root, asks| {
            asks.retain(open);
            asks.is_empty() || frame.removed.contains(root)
        });
        let mut ended: Vec<SessionId> = ended.map(|(root, _)| root).collect();
        ended.sort();
        ended.into_iter().map(Said::TakeBack).collect()
    }

    /// When the next notification is due.
    pub fn due(&self) -> Option<Instant> {
        self.gathered.values().map(|gathered| gathered.due).min()
    }

    /// Takes what is due, as it stands by now: what the focused window shows is not told, nor that a root is done which
    /// runs again, nor an ask that was answered. `wall` is the time as the log tells it, in ms.
    pub fn take(&mut self, board: &Board, seen: &Seen, now: Instant, wall: i64) -> Vec<Said> {
        let mut due: Vec<SessionId> =
            self.gathered.iter().filter(|(_, gathered)| gathered.due <= now).map(|(root, _)| root.clone()).collect();
        due.sort();
        let mut said = Vec::new();
        for id in due {
            let Some(mut gathered) = self.gathered.remove(&id) else { continue };
            let Some(root) = board.sessions.get(&id).filter(|_| Some(&id) != seen.root.as_ref()) else { continue };
            gathered.root = gathered.root.filter(|_| at_rest(root));
            let asks: Vec<&AskView> = board
                .waiting()
                .into_iter()
                .filter(|ask| ask.state == AskState::Open && root_of(ask) == Some(&id) && !seen.inbox)
                .collect();
            let news = (gathered.asked && !asks.is_empty()) || gathered.root.is_some() || !gathered.tasks.is_empty();
            if !news {
                continue;
            }
            if asks.is_empty() {
                self.told.remove(&id);
            } else {
                self.told.insert(id, asks.iter().map(|ask| ask.id.clone()).collect());
            }
            said.push(Said::Show(note(root, &gathered, &asks, wall)));
        }
        said
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
            asked: false,
        })
    }
}

/// What was ended of an earlier process that crashed.
pub fn leftovers(setting: Setting, line: &str) -> Option<Note> {
    (setting != Setting::Off).then(|| Note {
        root: None,
        open: None,
        ask: None,
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
        ask: None,
        title: "Coppice goes on without its window".to_owned(),
        body: format!("{run} {back}"),
        away: Some(gone),
    }
}

fn find<'a>(frame: &'a Frame, board: &'a Board, id: &SessionId) -> Option<&'a SessionView> {
    frame.sessions.iter().find(|session| session.id == *id).or_else(|| board.sessions.get(id))
}

/// The root of the tree that an ask comes from.
fn root_of(ask: &AskView) -> Option<&SessionId> {
    ask.lineage.first().map(|root| &root.id)
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

/// What is told of a tree. Who needs the person comes first; what ended is told beside it.
fn note(root: &SessionView, gathered: &Gathered, asks: &[&AskView], wall: i64) -> Note {
    let name = text::line(&root.title, TITLE / 2);
    let summary = summary(&gathered.tasks);
    let open_root = Some(root.id.clone());
    let (open, title, body) = match (asks, &gathered.root, gathered.tasks.as_slice()) {
        ([ask], _, _) => {
            let title = format!("{} needs you", text::line(asker(ask), TITLE / 2));
            let within = if ask.session == root.id { String::new() } else { format!("In {name}") };
            (Some(ask.session.clone()), title, join(&[&what(&ask.action), &within, &summary]))
        }
        ([oldest, ..], _, _) => {
            let since = format!("Oldest: {}", text::duration(wall - oldest.asked_at));
            let title = format!("{} wait in {name}", text::count(asks.len(), "ask", "asks"));
            (Some(oldest.session.clone()), title, join(&[&since, &summary]))
        }
        ([], Some(end), _) if end.failed => (open_root, format!("{name} failed"), join(&[&end.detail, &summary])),
        ([], Some(end), _) => (open_root, format!("{name} is done"), join(&[&summary, &text::duration(end.ms)])),
        ([], None, [task]) => {
            let what = format!("{} {}", text::line(&task.label, TITLE / 2), task_word(task.status));
            let detail = task.detail.as_deref().filter(|detail| *detail != task_word(task.status)).unwrap_or_default();
            let open = task.child.clone().unwrap_or_else(|| task.owner.clone());
            (Some(open), what, join(&[detail, &format!("In {name}")]))
        }
        ([], None, tasks) => {
            (open_root, format!("{} ended in {name}", text::count(tasks.len(), "task", "tasks")), summary)
        }
    };
    Note {
        root: Some(root.id.clone()),
        open,
        ask: asks.first().map(|ask| ask.id.clone()),
        title: text::line(&title, TITLE),
        body: text::line(&body, BODY),
        away: None,
    }
}

/// What an ask is for, as a notification and the tray say it: "Run cargo publish --dry-run".
pub fn what(action: &Action) -> String {
    let verb = match action {
        Action::Read { .. } => "Read",
        Action::Write { .. } => "Write",
        Action::Command { .. } => "Run",
    };
    text::line(&format!("{verb} {}", action.exact()), WHAT)
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
    use crate::board::tests::{ask, child, session, task};

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

        fn hear(&mut self, frame: Frame, seen: Option<&str>) -> Vec<Said> {
            let seen = Seen { root: seen.map(SessionId::from), inbox: false };
            let said = self.ends.hear(&self.board, &frame, &seen, self.now);
            self.board.apply(&frame);
            said
        }

        fn asks(&mut self, asks: Vec<AskView>) -> Vec<Said> {
            self.hear(Frame { asks, ..Frame::default() }, None)
        }

        fn shown(&mut self, seen: &Seen) -> Vec<Note> {
            self.now += GATHER;
            let said = self.ends.take(&self.board, seen, self.now, 240_000).into_iter();
            said.filter_map(|said| if let Said::Show(note) = said { Some(note) } else { None }).collect()
        }

        fn tasks(&mut self, tasks: Vec<TaskView>, seen: Option<&str>) {
            self.hear(Frame { tasks, ..Frame::default() }, seen);
        }

        fn told(&mut self) -> Vec<(String, String, String)> {
            self.shown(&Seen::default())
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
        assert_eq!(
            desk.ends.take(&desk.board, &Seen::default(), desk.now, 0),
            [],
            "not before the others had time to end too"
        );
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
        let seen = Seen { root: Some("r".into()), inbox: false };
        assert_eq!(desk.shown(&seen), [], "looked at before it was due");
        assert_eq!(desk.told(), []);
    }

    #[test]
    fn an_ask_says_who_needs_the_person_for_what_and_a_click_shows_it() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.asks(vec![ask("dry-run", &["r", "c"])]);
        let note = desk.shown(&Seen::default()).remove(0);
        assert_eq!((note.title.as_str(), note.body.as_str()), ("c needs you", "Run make dry-run. In Ship it"));
        assert_eq!((note.open, note.ask), (Some("c".into()), Some(AskId("dry-run".into()))));
        desk.asks(vec![ask("dry-run", &["r", "c"])]);
        assert_eq!(desk.told(), [], "none again for what was shown");
        let mut desk = Desk::new(Setting::Tasks);
        desk.asks(vec![ask("install", &["r"])]);
        assert_eq!(desk.told(), [told("r needs you", "Run make install", "r")]);
    }

    #[test]
    fn several_asks_of_one_tree_become_one_and_a_click_shows_the_oldest() {
        let mut desk = Desk::new(Setting::Asks);
        desk.asks(vec![AskView { asked_at: 9, ..ask("new", &["r", "c"]) }, ask("old", &["r", "d"])]);
        desk.asks(vec![AskView { state: AskState::Later, ..ask("off", &["r", "e"]) }]);
        let note = desk.shown(&Seen::default()).remove(0);
        assert_eq!((note.title.as_str(), note.body.as_str()), ("2 asks wait in Ship it", "Oldest: 4 min"));
        assert_eq!((note.open, note.ask), (Some("d".into()), Some(AskId("old".into()))));
    }

    #[test]
    fn an_ask_that_waits_is_not_hidden_by_an_end_that_comes_later() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.asks(vec![ask("one", &["r", "c"])]);
        assert_eq!(desk.told().len(), 1);
        desk.tasks(vec![done("bash-1", "c", None)], None);
        assert_eq!(desk.told(), [told("c needs you", "Run make one. In Ship it. 1 completed", "c")]);
    }

    #[test]
    fn what_was_told_of_asks_is_taken_back_when_the_last_of_them_is_answered_or_taken_back() {
        let mut desk = Desk::new(Setting::Tasks);
        desk.asks(vec![ask("one", &["r", "c"]), ask("two", &["r", "c"])]);
        assert_eq!(desk.told().len(), 1);
        let by = |id, state| vec![AskView { state, ..ask(id, &["r", "c"]) }];
        assert_eq!(desk.asks(by("one", AskState::Denied)), []);
        assert_eq!(desk.asks(by("two", AskState::Withdrawn)), [Said::TakeBack("r".into())]);
        assert_eq!(desk.asks(by("two", AskState::Withdrawn)), []);
        desk.asks(vec![ask("three", &["r", "c"])]);
        assert_eq!(desk.told().len(), 1);
        let deleted = Frame { removed: vec!["c".into(), "r".into()], ..Frame::default() };
        assert_eq!(desk.hear(deleted, None), [Said::TakeBack("r".into())]);
    }

    #[test]
    fn an_ask_that_the_focused_window_shows_in_its_tree_or_in_the_inbox_is_not_told() {
        let seen = Seen { root: None, inbox: true };
        let mut desk = Desk::new(Setting::Tasks);
        desk.hear(Frame { asks: vec![ask("one", &["r", "c"])], ..Frame::default() }, Some("r"));
        assert_eq!(desk.told(), []);
        desk.ends.hear(&desk.board, &Frame { asks: vec![ask("two", &["r"])], ..Frame::default() }, &seen, desk.now);
        assert_eq!(desk.ends.due(), None);
        desk.asks(vec![ask("three", &["r", "c"])]);
        assert_eq!(desk.shown(&seen), [], "looked at before it was due");
        desk.tasks(vec![done("bash-1", "c", None)], None);
        let notes = desk.shown(&seen);
        assert_eq!(notes[0].title, "label of bash-1 completed", "ends stand in no inbox");
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
        let root = |state| SessionView { state, title: "Ship it".into(), ..session("r") };
        let frame = |root| Frame { sessions: vec![root], ..Frame::default() };
        let mut desk = Desk::new(Setting::Tasks);
        desk.hear(frame(root(SessionState::Idle)), None);
        desk.hear(frame(root(SessionState::Running)), None);
        assert_eq!(desk.told(), [], "it runs again");
        desk.asks(vec![ask("one", &["r"])]);
        desk.asks(vec![AskView { state: AskState::Once, ..ask("one", &["r"]) }]);
        assert_eq!(desk.told(), [], "the ask was answered");
        desk.hear(frame(root(SessionState::Idle)), None);
        desk.tasks(vec![done("bash-1", "c", None)], None);
        desk.hear(frame(root(SessionState::Running)), None);
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
            desk.asks(vec![ask("one", &["r"])]);
            assert_eq!(!desk.told().is_empty(), asks, "{setting:?}");
            desk.asks(vec![AskView { state: AskState::Denied, ..ask("one", &["r"]) }]);
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
