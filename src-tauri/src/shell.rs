//! The part of the desktop that follows the engine: it counts for the tray, tells ends to the notification service,
//! and hears the clicks.

use crate::board::{Board, Counts};
use crate::desktop::{self, Desktop, Heard};
use crate::host::Host;
use crate::notify::{self, Ends, Note};
use crate::tray::Tray;
use crate::window::{self, MAIN, Page};
use coppice_engine::config::Desktop as Setting;
use coppice_engine::id::SessionId;
use coppice_engine::view::Frame;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;
use tauri::{AppHandle, Manager};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long the tray is looked for before the window goes on without one.
const TRAY: Duration = Duration::from_secs(5);

/// The desktop as the rest of the shell sees it.
pub struct Shell {
    counts: watch::Sender<Counts>,
    notes: mpsc::UnboundedSender<Note>,
    tray: OnceLock<Tray>,
}

impl Shell {
    /// A desktop, and where what it is to say is waited for.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Note>) {
        let (notes, queue) = mpsc::unbounded_channel();
        (Self { counts: watch::Sender::new(Counts::default()), notes, tray: OnceLock::new() }, queue)
    }

    /// What runs now.
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Whether the window can go into a tray.
    pub fn has_tray(&self) -> bool {
        self.tray.get().is_some()
    }

    /// Shows a notification.
    pub fn say(&self, note: Note) {
        if self.notes.send(note).is_err() {
            tracing::debug!("nobody shows notifications any more");
        }
    }

    fn count(&self, app: &AppHandle, counts: Counts) {
        let changed = self.counts.send_if_modified(|before| {
            let changed = *before != counts;
            *before = counts;
            changed
        });
        if !changed {
            return;
        }
        if let Some(tray) = self.tray.get() {
            tray.show(counts);
        }
        if let Some(window) = app.get_webview_window(MAIN) {
            let title = match counts.needs_you {
                0 => "Coppice".to_owned(),
                n => format!("({n}) Coppice"),
            };
            if let Err(error) = window.set_title(&title) {
                tracing::debug!(%error, "the window's title could not be set");
            }
        }
    }
}

/// Starts everything that follows the engine.
pub fn start(app: &AppHandle, queue: mpsc::UnboundedReceiver<Note>) {
    let host = app.state::<Host>().inner().clone();
    let setting = host.engine.config().notices.desktop;
    if let Some(note) = host.engine.leftovers().and_then(|line| notify::leftovers(setting, &line)) {
        app.state::<Shell>().say(note);
    }
    let (following, telling) = (app.clone(), app.clone());
    let leaving = host.leaving.clone();
    host.scope.spawn(async move {
        tokio::select! {
            () = leaving.cancelled() => {}
            () = follow(&following, setting) => {}
        }
    });
    let leaving = host.leaving.clone();
    host.scope.spawn(async move {
        let mut teller = Teller::new(telling, setting).await;
        tokio::select! {
            () = leaving.cancelled() => {}
            () = teller.run(queue) => {}
        }
        teller.withdraw_all().await;
    });
    let app = app.clone();
    host.scope.spawn(async move {
        if tokio::time::timeout(TRAY, desktop::has_tray()).await.unwrap_or(false) {
            let making = app.clone();
            let made = app.run_on_main_thread(move || {
                let shell = making.state::<Shell>();
                if let Some(tray) = Tray::new(&making) {
                    tray.show(shell.counts());
                    // It is made once.
                    let _ = shell.tray.set(tray);
                }
            });
            if let Err(error) = made {
                tracing::warn!(%error, "no tray");
            }
        }
    });
}

/// Keeps the board, the counts and the gathered ends until the engine shuts down.
async fn follow(app: &AppHandle, setting: Setting) {
    let (host, page, shell) = (app.state::<Host>(), app.state::<Page>(), app.state::<Shell>());
    let begun = async {
        let follow = host.engine.follow(None, None).await?;
        let (sessions, tasks) = host.engine.tree(None).await?;
        Ok::<_, coppice_engine::error::Error>((follow, Board::new(sessions, tasks)))
    };
    let (mut follow, mut board) = match begun.await {
        Ok(begun) => begun,
        Err(error) => {
            tracing::error!(%error, "ends are not told: the log could not be followed");
            host.status.say(error.message());
            return;
        }
    };
    let mut ends = Ends::new(setting);
    shell.count(app, board.counts());
    loop {
        let due = ends.due();
        tokio::select! {
            next = follow.next() => match next {
                Some(Ok(frame)) => {
                    let seen = seen(&page, &board, &frame);
                    ends.hear(&board, &frame, seen.as_ref(), Instant::now());
                    board.apply(&frame);
                    shell.count(app, board.counts());
                }
                Some(Err(error)) => tracing::error!(%error, "a part of the log could not be followed"),
                None => return,
            },
            () = until(due) => {
                let seen = seen(&page, &board, &Frame::default());
                for note in ends.take(&board, seen.as_ref(), Instant::now()) {
                    shell.say(note);
                }
            }
        }
    }
}

/// The root of what the focused window shows.
fn seen(page: &Page, board: &Board, frame: &Frame) -> Option<SessionId> {
    let open = page.seen()?;
    let session = frame.sessions.iter().find(|session| session.id == open).or_else(|| board.sessions.get(&open));
    session.map(|session| session.root.clone())
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Speaks to the notification service.
struct Teller {
    app: AppHandle,
    desktop: Option<(Desktop, BoxStream<'static, Heard>)>,
    /// What is shown: the notification of each tree, and what a click on it opens.
    shown: HashMap<Option<SessionId>, u32>,
    opens: HashMap<u32, Option<SessionId>>,
    tokens: HashMap<u32, String>,
}

impl Teller {
    async fn new(app: AppHandle, setting: Setting) -> Self {
        let found = async {
            let desktop = Desktop::connect().await?;
            let heard = desktop.heard().await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((desktop, heard))
        };
        let desktop = match found.await {
            Ok(found) => Some(found),
            Err(error) => {
                tracing::info!(%error, "no notification service");
                if setting != Setting::Off {
                    app.state::<Host>().status.say(desktop::NO_SERVICE);
                }
                None
            }
        };
        Self { app, desktop, shown: HashMap::new(), opens: HashMap::new(), tokens: HashMap::new() }
    }

    async fn run(&mut self, mut queue: mpsc::UnboundedReceiver<Note>) {
        enum Came {
            Note(Note),
            Heard(Heard),
            Looked,
        }
        loop {
            let came = {
                let page = self.app.state::<Page>();
                let heard = async {
                    match &mut self.desktop {
                        Some((_, heard)) => heard.next().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    note = queue.recv() => match note {
                        Some(note) => Came::Note(note),
                        None => return,
                    },
                    heard = heard => match heard {
                        Some(heard) => Came::Heard(heard),
                        None => {
                            tracing::info!("the notification service is gone");
                            self.desktop = None;
                            continue;
                        }
                    },
                    () = page.looked.notified() => Came::Looked,
                }
            };
            match came {
                Came::Note(note) => self.show(note).await,
                Came::Heard(Heard::Clicked(id)) => {
                    if let Some(open) = self.opens.get(&id).cloned() {
                        let token = self.tokens.remove(&id);
                        window::raise(&self.app, open, token);
                    }
                }
                Came::Heard(Heard::Token(id, token)) => {
                    if self.opens.contains_key(&id) {
                        self.tokens.insert(id, token);
                    }
                }
                Came::Heard(Heard::Closed(id)) => self.forget(id),
                Came::Looked => self.withdraw_seen().await,
            }
        }
    }

    async fn show(&mut self, note: Note) {
        let Some((desktop, _)) = &self.desktop else { return };
        let replaces = self.shown.get(&note.root).copied().unwrap_or(0);
        match desktop.show(replaces, &note.title, &note.body).await {
            Ok(id) => {
                self.forget(replaces);
                self.shown.insert(note.root, id);
                self.opens.insert(id, note.open);
            }
            Err(error) => {
                tracing::warn!(%error, "a notification could not be shown");
                self.app.state::<Host>().status.say(desktop::NO_SERVICE);
            }
        }
    }

    fn forget(&mut self, id: u32) {
        self.shown.retain(|_, shown| *shown != id);
        self.opens.remove(&id);
        self.tokens.remove(&id);
    }

    /// Takes back the notification of the tree that the person looks at.
    async fn withdraw_seen(&mut self) {
        let Some(open) = self.app.state::<Page>().seen() else { return };
        let root = match self.app.state::<Host>().engine.session(&open).await {
            Ok(session) => session.root,
            Err(error) => {
                tracing::debug!(%error, "the open session is unknown");
                return;
            }
        };
        if let Some(id) = self.shown.get(&Some(root)).copied() {
            self.withdraw(id).await;
        }
    }

    async fn withdraw(&mut self, id: u32) {
        self.forget(id);
        if let Some((desktop, _)) = &self.desktop
            && let Err(error) = desktop.withdraw(id).await
        {
            tracing::debug!(%error, "a notification could not be taken back");
        }
    }

    /// At the end: a click could open nothing any more.
    async fn withdraw_all(&mut self) {
        let shown: Vec<u32> = self.shown.values().copied().collect();
        let all = async {
            for id in shown {
                self.withdraw(id).await;
            }
        };
        if tokio::time::timeout(Duration::from_millis(500), all).await.is_err() {
            tracing::debug!("not every notification could be taken back in time");
        }
    }
}
