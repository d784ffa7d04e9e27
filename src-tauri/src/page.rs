//! What the shell knows of the window's page and of the ways back to it, and how the window comes to the front.

use async_trait::async_trait;
use coppice_engine::id::{AskId, SessionId};
use coppice_host::host::Host;
use coppice_host::push::Push;
use coppice_host::stream::{Sink, Stream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tauri::ipc::Channel;
use tauri::{AppHandle, Manager, WebviewWindow};
use tokio::sync::{Notify, oneshot};

/// The window's label.
pub const MAIN: &str = "main";

/// What the shell knows of the page.
#[derive(Default)]
pub struct Page {
    inner: Mutex<Inner>,
    focused: AtomicBool,
    /// The process that shows the page has ended, and nobody has loaded the page again.
    failed: AtomicBool,
    asked: AtomicU64,
    /// Somebody shows notifications.
    told: AtomicBool,
    /// Wakes whoever withdraws notifications of what is looked at.
    pub looked: Notify,
}

#[derive(Default)]
struct Inner {
    stream: Option<Arc<Stream>>,
    /// The number of the request that brought the stream.
    number: u64,
    open: Option<SessionId>,
    /// Whether it shows the asks of all trees.
    inbox: bool,
    /// What the page is to be told when it is there: the last of each kind.
    waiting: Vec<Push>,
}

impl Page {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that the focused window shows; none when it has not the focus.
    pub fn seen(&self) -> Option<SessionId> {
        if self.is_focused() { self.lock().open.clone() } else { None }
    }

    /// Whether the focused window shows the asks of all trees.
    pub fn sees_inbox(&self) -> bool {
        self.is_focused() && self.lock().inbox
    }

    /// Whether the window has the focus.
    pub fn is_focused(&self) -> bool {
        self.focused.load(Ordering::Relaxed)
    }

    /// The window got or lost the focus.
    pub fn focus(&self, focused: bool) {
        self.focused.store(focused, Ordering::Relaxed);
        self.looked.notify_one();
    }

    /// The page is gone, or is loaded anew: its subscription ends.
    pub fn gone(&self) {
        let stream = self.lock().stream.take();
        if let Some(stream) = stream {
            stream.end();
        }
    }

    /// The process that shows the page has ended, and the page is loaded only when the person wants it.
    pub fn fail(&self) {
        self.gone();
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Whether a notification would be seen; false while that is not known.
    pub fn can_tell(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Notes whether a notification service was found that works.
    pub fn found_teller(&self, found: bool) {
        self.told.store(found, Ordering::Relaxed);
    }

    /// Whether a page listens.
    pub fn is_there(&self) -> bool {
        self.lock().stream.is_some()
    }

    /// The number of a request to subscribe, taken when it comes in: requests may be done in another order.
    pub fn number(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a subscription over, in place of the one before, and answers what the page is still to be told. None when
    /// a later request was done first: then that one stands.
    pub fn take(&self, number: u64, stream: Arc<Stream>, open: Option<SessionId>, inbox: bool) -> Option<Vec<Push>> {
        let (before, waiting) = {
            let mut inner = self.lock();
            if number < inner.number {
                return None;
            }
            inner.number = number;
            inner.open = open;
            inner.inbox = inbox;
            (inner.stream.replace(stream), std::mem::take(&mut inner.waiting))
        };
        if let Some(before) = before {
            before.end();
        }
        Some(waiting)
    }

    /// Tells the page, now or when it is there.
    pub async fn tell(&self, push: Push) {
        let stream = self.lock().stream.clone();
        let told = match stream {
            Some(stream) => stream.push(push.clone()).await,
            None => false,
        };
        if !told {
            let waiting = &mut self.lock().waiting;
            waiting.retain(|other| std::mem::discriminant(other) != std::mem::discriminant(&push));
            waiting.push(push);
        }
    }
}

/// Brings the window to the front, at a session and an ask of it if they are named. A page whose process has ended is loaded again.
pub fn raise(app: &AppHandle, session: Option<SessionId>, ask: Option<AskId>) {
    let raised = app.clone();
    let shown = app.run_on_main_thread(move || {
        let Some(window) = raised.get_webview_window(MAIN) else { return };
        if raised.state::<Page>().failed.swap(false, Ordering::Relaxed)
            && let Err(error) = window.reload()
        {
            tracing::error!(%error, "the page could not be loaded again");
        }
        for done in [window.show(), window.unminimize(), window.set_focus()] {
            if let Err(error) = done {
                tracing::warn!(%error, "the window could not be brought to the front");
            }
        }
    });
    if let Err(error) = shown {
        tracing::warn!(%error, "the window could not be brought to the front");
    }
    if let Some(session) = session {
        let app = app.clone();
        let host = app.state::<Host>().inner().clone();
        host.scope.spawn(async move { app.state::<Page>().tell(Push::Show { session, ask }).await });
    }
}

/// Puts a hidden window where minimised ones are, because the notification that was to bring it back is not shown.
pub fn leave_in_sight(app: &AppHandle) {
    let leaving = app.clone();
    let left = app.run_on_main_thread(move || {
        let Some(window) = leaving.get_webview_window(MAIN) else { return };
        if window.is_visible().unwrap_or(true) {
            return;
        }
        for done in [window.minimize(), window.show()] {
            if let Err(error) = done {
                tracing::warn!(%error, "the window could not be minimised");
            }
        }
    });
    if let Err(error) = left {
        tracing::warn!(%error, "the window could not be minimised");
    }
}

/// Pushes to the page of this window.
pub struct ToPage(pub Channel<Push>, pub WebviewWindow);

#[async_trait]
impl Sink for ToPage {
    async fn push(&self, push: Push) -> bool {
        self.0.send(push).is_ok()
    }

    /// A page answers a script in its turn, behind the pushes before it.
    async fn taken(&self) -> bool {
        let (sender, receiver) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let asked = self.1.eval_with_callback("0", move |_| {
            if let Ok(mut sender) = sender.lock()
                && let Some(sender) = sender.take()
            {
                // The subscription may have ended meanwhile.
                let _ = sender.send(());
            }
        });
        if asked.is_err() {
            return false;
        }
        // While a page is being loaded the script waits with the pushes, and who asked is not told.
        let _ = receiver.await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coppice_host::stream::Lines;

    #[tokio::test]
    async fn the_later_of_two_quick_requests_stands_whichever_is_done_first() {
        let page = Page::default();
        let stream = || Arc::new(Stream::new(Lines(tokio::sync::mpsc::channel(1).0)));
        page.focus(true);
        let (first, second) = (page.number(), page.number());
        assert!(page.take(second, stream(), Some("second".into()), false).is_some());
        assert!(page.take(first, stream(), Some("first".into()), true).is_none());
        assert_eq!((page.seen(), page.sees_inbox()), (Some("second".into()), false));
        assert!(page.take(page.number(), stream(), None, true).is_some());
        assert_eq!((page.seen(), page.sees_inbox()), (None, true));
        page.focus(false);
        assert!(!page.sees_inbox(), "nobody looks at it");
    }

    #[tokio::test]
    async fn what_the_page_missed_is_told_later_the_last_of_each_kind() {
        let page = Page::default();
        let show = |id: &str| Push::Show { session: id.into(), ask: None };
        page.tell(show("a")).await;
        page.tell(Push::Quitting(1)).await;
        page.tell(show("b")).await;
        let stream = Arc::new(Stream::new(Lines(tokio::sync::mpsc::channel(1).0)));
        let waiting = page.take(page.number(), stream, None, false).unwrap();
        assert!(
            matches!(&waiting[..], [Push::Quitting(1), Push::Show { session, .. }] if session.as_str() == "b"),
            "{waiting:?}"
        );
    }
}
