//! A desktop's tray, as far as an icon in it can tell: it takes icons in, and presses what their menus offer.

use super::until;
use gtk::{gio, glib};
use std::sync::{Arc, Mutex};
use zbus::message::Header;

const PATIENCE_MS: i32 = 5_000;

/// Where an icon is: the name of its program on the bus, and its path.
type Icons = Arc<Mutex<Vec<(String, String)>>>;

struct Watcher {
    icons: Icons,
}

#[zbus::interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, service: String, #[zbus(header)] header: Header<'_>) {
        let sender = header.sender().unwrap().to_string();
        let icon = if service.starts_with('/') { (sender, service) } else { (service, "/StatusNotifierItem".into()) };
        self.icons.lock().unwrap().push(icon);
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        self.icons.lock().unwrap().iter().map(|(name, path)| format!("{name}{path}")).collect()
    }
}

/// The tray of a desktop.
pub struct Tray {
    bus: gio::DBusConnection,
    icons: Icons,
    _served: zbus::Connection,
}

impl Tray {
    /// Puts a tray on a bus.
    pub async fn on(bus: &str) -> Self {
        let icons = Icons::default();
        let served = zbus::connection::Builder::address(bus)
            .name("org.kde.StatusNotifierWatcher")
            .serve_at("/StatusNotifierWatcher", Watcher { icons: icons.clone() })
            .build()
            .await
            .unwrap();
        let flags = gio::DBusConnectionFlags::AUTHENTICATION_CLIENT | gio::DBusConnectionFlags::MESSAGE_BUS_CONNECTION;
        let bus = gio::DBusConnection::for_address_sync(bus, flags, None, gio::Cancellable::NONE).unwrap();
        Self { bus, icons, _served: served }
    }

    /// What the menu of the only icon says, with the id of each line that can be pressed.
    pub fn menu(&self) -> Vec<(String, Option<i32>)> {
        let (name, menu) = self.find();
        let layout = self.ask(&name, &menu, "com.canonical.dbusmenu", "GetLayout", Some((0, -1, no_names()).into()));
        let lines = layout.child_value(1).child_value(2);
        lines.iter().filter_map(|line| line.as_variant().and_then(|line| read(&line))).collect()
    }

    /// Presses a line of the menu, as soon as it is there and can be pressed.
    pub fn press(&self, label: &str) {
        let id = until(label, || self.menu().into_iter().find(|(each, _)| each == label).and_then(|(_, id)| id));
        let (name, menu) = self.find();
        let pressed = (id, "clicked", glib::Variant::from_variant(&0.into()), 0_u32).into();
        self.ask(&name, &menu, "com.canonical.dbusmenu", "Event", Some(pressed));
    }

    /// What the only icon is called.
    pub fn title(&self) -> String {
        self.property("Title").1
    }

    fn find(&self) -> (String, String) {
        self.property("Menu")
    }

    /// The name of the program whose icon is there, and a property of the icon.
    fn property(&self, which: &str) -> (String, String) {
        let (name, path) = until("an icon in the tray", || self.icons.lock().unwrap().last().cloned());
        let asked = ("org.kde.StatusNotifierItem", which).into();
        let value = self.ask(&name, &path, "org.freedesktop.DBus.Properties", "Get", Some(asked));
        let value = value.child_value(0).as_variant().and_then(|value| value.str().map(str::to_owned)).unwrap();
        (name, value)
    }

    fn ask(&self, name: &str, path: &str, interface: &str, what: &str, with: Option<glib::Variant>) -> glib::Variant {
        let flags = gio::DBusCallFlags::NONE;
        let asked = self.bus.call_sync(
            Some(name),
            path,
            interface,
            what,
            with.as_ref(),
            None,
            flags,
            PATIENCE_MS,
            gio::Cancellable::NONE,
        );
        asked.unwrap_or_else(|error| panic!("{what}: {error}"))
    }
}

fn no_names() -> Vec<String> {
    Vec::new()
}

/// A line of a menu: what it says, and its id when it can be pressed.
fn read(line: &glib::Variant) -> Option<(String, Option<i32>)> {
    let facts = glib::VariantDict::new(Some(&line.child_value(1)));
    let label = facts.lookup::<String>("label").ok().flatten()?;
    let enabled = facts.lookup::<bool>("enabled").ok().flatten().unwrap_or(true);
    Some((label, if enabled { line.child_value(0).get() } else { None }))
}
