//! The desktop's own services: notifications with their clicks, and whether there is a tray.

/// Said once when nobody shows notifications.
pub const NO_SERVICE: &str = "No notification service answers on this desktop, so ends are shown only here.";

#[cfg(target_os = "linux")]
mod imp {
    use coppice_engine::scope::Scope;
    use notify_rust::{Hint, Notification, NotificationHandle, NotificationResponse, Urgency};
    use std::time::Duration;
    use zbus::fdo::DBusProxy;

    /// How long a service may take to answer.
    const PATIENCE: Duration = Duration::from_secs(3);

    type Answer<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

    async fn in_time<T>(answer: impl Future<Output = Result<T, notify_rust::error::Error>>) -> Answer<T> {
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err("the notification service does not answer".into()),
        }
    }

    /// The notification service of this desktop.
    pub struct NoticeService {
        name: String,
        markup: bool,
    }

    impl NoticeService {
        /// Finds the service. The error says why there is none.
        pub async fn find() -> Answer<Self> {
            let (server, capabilities) = in_time(Scope::blocking(|| {
                Ok((notify_rust::get_server_information()?, notify_rust::get_capabilities()?))
            }))
            .await?;
            let markup = capabilities.iter().any(|capability| capability == "body-markup");
            Ok(Self { name: format!("{} {}", server.name, server.version), markup })
        }

        /// Its name and version.
        pub fn name(&self) -> &str {
            &self.name
        }

        /// Shows a notification.
        pub async fn show(&self, title: &str, body: &str) -> Answer<Shown> {
            let body = if self.markup { escape(body) } else { body.to_owned() };
            let mut notification = Notification::new();
            notification
                .appname("Coppice")
                .icon("coppice")
                .summary(title)
                .body(&body)
                .action("default", "Open")
                .hint(Hint::DesktopEntry("coppice".to_owned()))
                .hint(Hint::SuppressSound(true))
                .urgency(Urgency::Normal);
            in_time(notification.show_async()).await.map(Shown)
        }
    }

    /// A notification that is shown.
    pub struct Shown(NotificationHandle);

    impl Shown {
        /// Waits until it is clicked or gone; true when it was clicked. A service that never tells is waited for
        /// without a thread.
        pub async fn clicked(&self) -> bool {
            let mut clicked = false;
            let hear = |heard: &NotificationResponse| {
                clicked = matches!(heard, NotificationResponse::Default | NotificationResponse::Action(_));
            };
            self.0.wait_for_action_async(hear).await;
            clicked
        }

        /// Takes it back.
        pub async fn close(&self) {
            if tokio::time::timeout(PATIENCE, self.0.close_async()).await.is_err() {
                tracing::debug!("a notification could not be taken back");
            }
        }
    }

    fn escape(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    }

    /// Whether an icon in a tray would be seen.
    pub async fn has_tray() -> bool {
        let asked = async {
            let watcher = "org.kde.StatusNotifierWatcher";
            let bus = zbus::Connection::session().await?;
            // Asking a service that does not run would start it.
            if !DBusProxy::new(&bus).await?.name_has_owner(watcher.try_into()?).await? {
                return Ok(false);
            }
            let tray = zbus::Proxy::new(&bus, watcher, "/StatusNotifierWatcher", watcher).await?;
            tray.get_property::<bool>("IsStatusNotifierHostRegistered").await
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(registered)) => registered,
            Ok(Err(error)) => {
                tracing::debug!(%error, "no tray");
                false
            }
            Err(_) => false,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use coppice_engine::scope::Scope;
    use notify_rust::error::Result;

    /// The notification service of this system.
    pub struct NoticeService {}

    impl NoticeService {
        /// Finds the service.
        pub async fn find() -> Result<Self> {
            Ok(Self {})
        }

        /// Its name.
        pub fn name(&self) -> &str {
            "the system's own"
        }

        /// Shows a notification.
        pub async fn show(&self, title: &str, body: &str) -> Result<Shown> {
            let mut notification = notify_rust::Notification::new();
            notification.appname("Coppice").summary(title).body(body);
            Scope::blocking(move || notification.show().map(|_| Shown {})).await
        }
    }

    /// A notification that is shown.
    pub struct Shown {}

    impl Shown {
        /// Waits until it is clicked, which this system does not tell.
        pub async fn clicked(&self) -> bool {
            std::future::pending().await
        }

        /// This system takes nothing back.
        pub async fn close(&self) {}
    }

    /// Whether an icon in a tray would be seen.
    pub async fn has_tray() -> bool {
        true
    }
}

pub use imp::{NoticeService, Shown, has_tray};
