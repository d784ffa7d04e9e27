//! The part of the desktop that follows the engine: it counts for the tray, and gathers ends to be told.

use crate::page::{MAIN, Page};
use crate::teller::Teller;
use crate::tray::{AskLine, Does, Tray, ask_lines};
use coppice_engine::config::Desktop as Setting;
use coppice_engine::engine::Follow;
use coppice_engine::env::Env;
use coppice_engine::error::{Code, Result};
use coppice_engine::id::{AskId, SessionId};
use coppice_engine::view::Frame;
use coppice_host::board::{Board, Counts};
use coppice_host::desktop;
use coppice_host::host::Host;
use coppice_host::notify::{self, Ends, Note, Said, Seen};
use coppice_host::status::Topic;
use std::sync::OnceLock;
use std::time::Duration;
use tauri::{AppHandle, Manager};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long the tray is looked for before the window goes on without one.
const TRAY: Duration = Duration::from_secs(5);
/// How long to wait before a log that cannot be followed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The desktop as the rest of the shell sees it.
pub struct Shell {
    counts: watch::Sender<Option<Counts>>,
    asks: watch::Sender<Vec<AskLine>>,
    notes: mpsc::UnboundedSender<Said>,
    tray: OnceLock<Tray>,
}

impl Shell {
    /// A desktop, and where what it is to say is waited for.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Said>) {
        let (notes, queue) = mpsc::unbounded_channel();
        let (counts, asks) = (watch::Sender::new(None), watch::Sender::new(Vec::new()));
        (Self { counts, asks, notes, tray: OnceLock::new() }, queue)
    }

    /// What runs now; none while that is not known, which counts as work that runs.
    pub fn counts(&self) -> Option<Counts> {
        *self.counts.borrow()
    }

    /// The session of an ask that waits; none when it waits no more.
    pub fn asker(&self, ask: &AskId) -> Option<SessionId> {
        self.asks.borrow().iter().find(|line| line.ask == *ask).map(|line| line.session.clone())
    }

    /// Whether the window can go into a tray.
    pub fn has_tray(&self) -> bool {
        self.tray.get().is_some()
    }

    /// Shows a notification.
    pub fn say(&self, note: Note) {
        self.tell(Said::Show(note));
    }

    fn tell(&self, said: Said) {
        if self.notes.send(said).is_err() {
            tracing::debug!("nobody shows notifications any more");
        }
    }

    fn count(&self, app: &AppHandle, board: &Board) {
        let (counts, asks) = (board.counts(), ask_lines(board));
        let others = self.asks.send_if_modified(|before| {
            let changed = *before != asks;
            *before = asks;
            changed
        });
        let changed = self.counts.send_if_modified(|before| {
            let changed = *before != Some(counts);
            *before = Some(counts);
            changed
        });
        if !changed && !others {
            return;
        }
        if let Some(tray) = self.tray.get() {
            tray.show(Some(counts), &self.asks.borrow().clone());
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
pub fn start(app: &AppHandle, queue: mpsc::UnboundedReceiver<Said>, does: Does) {
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
        let mut teller = tokio::select! {
            () = leaving.cancelled() => return,
            teller = Teller::new(telling, setting) => teller,
        };
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
                if let Some(tray) = Tray::new(&making, does) {
                    tray.show(shell.counts(), &shell.asks.borrow().clone());
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
    let (mut follow, mut board) = loop {
        match begin(&host).await {
            Ok(begun) => break begun,
            Err(error) if error.code() == Code::ShuttingDown => return,
            Err(error) => {
                tracing::error!(%error, "ends are not told: the log could not be followed");
                host.status.say(Topic::Log, error.message());
                tokio::time::sleep(RETRY).await;
            }
        }
    };
    host.status.clear(Topic::Log);
    let (mut ends, clock) = (Ends::new(setting), Env::system());
    shell.count(app, &board);
    loop {
        let due = ends.due();
        tokio::select! {
            next = follow.next() => match next {
                Some(Ok(frame)) => {
                    let seen = seen(&page, &board, &frame);
                    for said in ends.hear(&board, &frame, &seen, Instant::now()) {
                        shell.tell(said);
                    }
                    board.apply(&frame);
                    shell.count(app, &board);
                }
                Some(Err(error)) => {
                    tracing::error!(%error, "a part of the log could not be followed");
                    tokio::time::sleep(RETRY).await;
                }
                None => return,
            },
            () = until(due) => {
                let seen = seen(&page, &board, &Frame::default());
                for said in ends.take(&board, &seen, Instant::now(), clock.now_ms()) {
                    shell.tell(said);
                }
            }
        }
    }
}

async fn begin(host: &Host) -> Result<(Follow, Board)> {
    let follow = host.engine.follow(None, None).await?;
    let (sessions, tasks) = host.engine.tree(None).await?;
    let mut board = Board::new(sessions, tasks);
    board.apply(&Frame { asks: host.engine.asks(false).await?, ..Frame::default() });
    Ok((follow, board))
}

/// What the focused window shows.
fn seen(page: &Page, board: &Board, frame: &Frame) -> Seen {
    let find = |open: SessionId| {
        frame.sessions.iter().find(|session| session.id == open).or_else(|| board.sessions.get(&open))
    };
    Seen { root: page.seen().and_then(find).map(|session| session.root.clone()), inbox: page.sees_inbox() }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
