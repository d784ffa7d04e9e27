//! The desktop's own services, over one connection: notifications with their clicks, and whether there is a tray.
//!
//! On Linux one connection hears the clicks on every notification: nothing waits for a service that never answers, and
//! no notification holds a thread.

/// Said once when nobody shows notifications.
pub const NO_SERVICE: &str = "No notification service answers on this desktop, so ends are shown only here.";

/// What the desktop says about a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was clicked.
    Clicked(u32),
    /// It is gone.
    Closed(u32),
    /// The right to take the focus, given with a click on this one.
    Token(u32, String),
}

#[cfg(target_os = "linux")]
mod imp {
    use super::Heard;
    use futures::stream::{BoxStream, StreamExt, select_all};
    use std::collections::HashMap;
    use std::time::Duration;
    use zbus::zvariant::Value;

    /// How long a service may take to answer.
    const PATIENCE: Duration = Duration::from_secs(3);

    #[zbus::proxy(
        interface = "org.freedesktop.Notifications",
        default_service = "org.freedesktop.Notifications",
        default_path = "/org/freedesktop/Notifications"
    )]
    trait Notifications {
        #[expect(clippy::too_many_arguments, reason = "the service's own signature")]
        fn notify(
            &self,
            app: &str,
            replaces: u32,
            icon: &str,
            title: &str,
            body: &str,
            actions: &[&str],
            hints: HashMap<&str, Value<'_>>,
            timeout: i32,
        ) -> zbus::Result<u32>;
        fn close_notification(&self, id: u32) -> zbus::Result<()>;
        fn get_capabilities(&self) -> zbus::Result<Vec<String>>;
        fn get_server_information(&self) -> zbus::Result<(String, String, String, String)>;
        #[zbus(signal)]
        fn action_invoked(&self, id: u32, action: String) -> zbus::Result<()>;
        #[zbus(signal)]
        fn notification_closed(&self, id: u32, reason: u32) -> zbus::Result<()>;
        #[zbus(signal)]
        fn activation_token(&self, id: u32, token: String) -> zbus::Result<()>;
    }

    /// The notification service of this desktop.
    pub struct Desktop {
        proxy: NotificationsProxy<'static>,
        name: String,
        markup: bool,
    }

    impl Desktop {
        /// Finds the service. The error says why there is none.
        pub async fn connect() -> zbus::Result<Self> {
            let connection = session().await?;
            let proxy = NotificationsProxy::builder(&connection)
                .cache_properties(zbus::proxy::CacheProperties::No)
                .build()
                .await?;
            let (name, _, version, _) = proxy.get_server_information().await?;
            let markup = proxy.get_capabilities().await?.iter().any(|capability| capability == "body-markup");
            Ok(Self { proxy, name: format!("{name} {version}"), markup })
        }

        /// Its name and version.
        pub fn name(&self) -> &str {
            &self.name
        }

        /// Shows a notification, in place of an earlier one unless `replaces` is 0. Answers its id.
        pub async fn show(&self, replaces: u32, title: &str, body: &str) -> zbus::Result<u32> {
            let body = if self.markup { escape(body) } else { body.to_owned() };
            let hints = HashMap::from([
                ("desktop-entry", Value::from("coppice")),
                ("suppress-sound", Value::from(true)),
                ("urgency", Value::from(1_u8)),
            ]);
            let actions = ["default", "Open"];
            self.proxy.notify("Coppice", replaces, "coppice", title, &body, &actions, hints, -1).await
        }

        /// Takes a notification back.
        pub async fn withdraw(&self, id: u32) -> zbus::Result<()> {
            self.proxy.close_notification(id).await
        }

        /// What is heard from now on.
        pub async fn heard(&self) -> zbus::Result<BoxStream<'static, Heard>> {
            let clicked = self
                .proxy
                .receive_action_invoked()
                .await?
                .filter_map(|signal| async move { signal.args().ok().map(|args| Heard::Clicked(args.id)) });
            let closed = self
                .proxy
                .receive_notification_closed()
                .await?
                .filter_map(|signal| async move { signal.args().ok().map(|args| Heard::Closed(args.id)) });
            let token = self.proxy.receive_activation_token().await?.filter_map(|signal| async move {
                signal.args().ok().map(|args| Heard::Token(args.id, args.token.clone()))
            });
            Ok(select_all([token.boxed(), clicked.boxed(), closed.boxed()]).boxed())
        }
    }

    fn escape(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    }

    async fn session() -> zbus::Result<zbus::Connection> {
        let connecting = zbus::connection::Builder::session()?.method_timeout(PATIENCE).build();
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(zbus::Error::Failure("the session bus does not answer".to_owned())),
        }
    }

    /// Whether an icon in a tray would be seen.
    pub async fn has_tray() -> bool {
        let asked = async {
            let watcher = "org.kde.StatusNotifierWatcher";
            let proxy = zbus::proxy::Builder::<zbus::Proxy<'_>>::new(&session().await?)
                .destination(watcher)?
                .path("/StatusNotifierWatcher")?
                .interface(watcher)?
                .cache_properties(zbus::proxy::CacheProperties::No)
                .build()
                .await?;
            proxy.get_property::<bool>("IsStatusNotifierHostRegistered").await
        };
        asked.await.unwrap_or(false)
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::Heard;
    use coppice_engine::scope::Scope;
    use futures::stream::{BoxStream, StreamExt, pending};

    /// The notification service of this system.
    pub struct Desktop {}

    impl Desktop {
        /// Finds the service.
        pub async fn connect() -> notify_rust::error::Result<Self> {
            Ok(Self {})
        }

        /// Its name.
        pub fn name(&self) -> &str {
            "the system's own"
        }

        /// Shows a notification. Answers its id; 0 where the system gives none.
        pub async fn show(&self, _replaces: u32, title: &str, body: &str) -> notify_rust::error::Result<u32> {
            let mut notification = notify_rust::Notification::new();
            notification.appname("Coppice").summary(title).body(body);
            Scope::blocking(move || notification.show().map(|_| 0)).await
        }

        /// Takes a notification back, where the system can.
        pub async fn withdraw(&self, _id: u32) -> notify_rust::error::Result<()> {
            Ok(())
        }

        /// What is heard from now on: this system tells nothing.
        pub async fn heard(&self) -> notify_rust::error::Result<BoxStream<'static, Heard>> {
            Ok(pending().boxed())
        }
    }

    /// Whether an icon in a tray would be seen.
    pub async fn has_tray() -> bool {
        true
    }
}

pub use imp::{Desktop, has_tray};
