//! Shows notifications: one task for each that is open, at most one of each tree, and hears their clicks.

use crate::page::{self, Page};
use coppice_engine::config::Desktop as Setting;
use coppice_engine::id::SessionId;
use coppice_engine::scope::Scope;
use coppice_host::desktop::{self, NoticeService};
use coppice_host::host::Host;
use coppice_host::notify::{Gone, Note, Said};
use coppice_host::status::Topic;
use std::sync::Arc;
use std::time::Duration;
use tauri::{AppHandle, Manager};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many may be open; the oldest goes first. A service that never says what became of one costs no more than that.
const MOST: usize = 16;
/// How long the end takes notifications back, while everything else ends too.
const LAST: Duration = Duration::from_millis(500);

/// Speaks to the notification service.
pub struct Teller {
    app: AppHandle,
    service: Option<Arc<NoticeService>>,
    /// Where notifications live. Nothing but [`Teller::withdraw_all`] waits for them.
    scope: Scope,
    open: Vec<Open>,
    next: u64,
    gone: mpsc::UnboundedSender<u64>,
    gone_queue: mpsc::UnboundedReceiver<u64>,
}

struct Open {
    id: u64,
    root: Option<SessionId>,
    away: bool,
    asks: bool,
    close: CancellationToken,
}

impl Teller {
    /// Looks for the service, and says so when there is none.
    pub async fn new(app: AppHandle, setting: Setting) -> Self {
        let service = match NoticeService::find().await {
            Ok(found) => Some(Arc::new(found)),
            Err(error) => {
                tracing::info!(%error, "no notification service");
                if setting != Setting::Off {
                    app.state::<Host>().status.say(Topic::Notices, desktop::NO_SERVICE);
                }
                None
            }
        };
        app.state::<Page>().found_teller(service.is_some());
        let (gone, gone_queue) = mpsc::unbounded_channel();
        Self { app, service, scope: Scope::new(), open: Vec::new(), next: 0, gone, gone_queue }
    }

    /// Shows what comes, and takes back what the person looks at.
    pub async fn run(&mut self, mut queue: mpsc::UnboundedReceiver<Said>) {
        let app = self.app.clone();
        let page = app.state::<Page>();
        loop {
            tokio::select! {
                said = queue.recv() => match said {
                    Some(Said::Show(note)) => self.show(note),
                    Some(Said::TakeBack(root)) => self.withdraw(|open| open.asks && open.root.as_ref() == Some(&root)),
                    None => return,
                },
                gone = self.gone_queue.recv() => self.open.retain(|open| Some(open.id) != gone),
                () = page.looked.notified() => self.withdraw_seen().await,
            }
        }
    }

    fn show(&mut self, note: Note) {
        let Some(service) = self.service.clone() else { return };
        self.withdraw(|open| open.root == note.root);
        if self.open.len() >= MOST {
            self.open.remove(0).close.cancel();
        }
        self.next += 1;
        let (id, close) = (self.next, self.scope.token().child_token());
        let (root, away, asks) = (note.root.clone(), note.away.is_some(), note.ask.is_some());
        self.open.push(Open { id, root, away, asks, close: close.clone() });
        let (app, gone) = (self.app.clone(), self.gone.clone());
        self.scope.spawn(async move {
            live(&app, &service, note, &close).await;
            // Nobody counts them any more at the end.
            let _ = gone.send(id);
        });
    }

    /// Takes back the notifications of which this holds.
    fn withdraw(&mut self, of: impl Fn(&Open) -> bool) {
        for open in self.open.extract_if(.., |open| of(open)) {
            open.close.cancel();
        }
    }

    /// Takes back the notification of the tree that the person looks at, and what no longer holds with a window there.
    async fn withdraw_seen(&mut self) {
        let (focused, seen, inbox) = {
            let page = self.app.state::<Page>();
            (page.is_focused(), page.seen(), page.sees_inbox())
        };
        if focused {
            self.withdraw(|open| open.away);
        }
        if inbox {
            self.withdraw(|open| open.asks);
        }
        let Some(seen) = seen else { return };
        match self.app.state::<Host>().engine.session(&seen).await {
            Ok(session) => self.withdraw(|open| open.root.as_ref() == Some(&session.root)),
            Err(error) => tracing::debug!(%error, "the open session is unknown"),
        }
    }

    /// At the end: a click could open nothing any more.
    pub async fn withdraw_all(&mut self) {
        if self.scope.close(LAST).await > 0 {
            tracing::debug!("not every notification could be taken back in time");
        }
    }
}

/// The life of a notification: shown, then clicked, gone, or taken back.
async fn live(app: &AppHandle, service: &NoticeService, note: Note, close: &CancellationToken) {
    let status = &app.state::<Host>().status;
    let shown = match service.show(&note.title, &note.body).await {
        Ok(shown) => shown,
        Err(error) => {
            tracing::warn!(%error, "a notification could not be shown");
            status.say(Topic::Notices, desktop::NO_SERVICE);
            app.state::<Page>().found_teller(false);
            if note.away == Some(Gone::Hidden) {
                page::leave_in_sight(app);
            }
            return;
        }
    };
    app.state::<Page>().found_teller(true);
    status.clear(Topic::Notices);
    let clicked = tokio::select! {
        clicked = shown.clicked() => clicked,
        () = close.cancelled() => return shown.close().await,
    };
    if clicked {
        page::raise(app, note.open, note.ask);
        // Not every desktop takes a notification away that was clicked.
        shown.close().await;
    }
}
