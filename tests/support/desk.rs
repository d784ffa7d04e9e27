//! A desktop of the test's own: a virtual display, a session bus, a notification service that can click, and the real
//! program in it, driven through WebDriver.

use super::page::Page;
use super::tray::Tray;
use super::{PATIENCE, Place, until};
use fantoccini::{Client, ClientBuilder};
use serde_json::json;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use zbus::OwnedVariant;
use zbus::object_server::SignalEmitter;

/// A notification as the service was asked to show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub id: u32,
    pub replaces: u32,
    pub title: String,
    pub body: String,
}

type Board = Arc<Mutex<Vec<Shown>>>;

type Closed = Arc<Mutex<Vec<u32>>>;

struct Service {
    shown: Board,
    closed: Closed,
}

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Service {
    #[expect(clippy::too_many_arguments, reason = "the service's own signature")]
    fn notify(
        &self,
        _app: String,
        replaces: u32,
        _icon: String,
        title: String,
        body: String,
        _actions: Vec<String>,
        _hints: std::collections::HashMap<String, OwnedVariant>,
        _timeout: i32,
    ) -> u32 {
        let mut shown = self.shown.lock().unwrap();
        let id = u32::try_from(shown.len()).unwrap() + 1;
        shown.push(Shown { id, replaces, title, body });
        id
    }

    fn close_notification(&self, id: u32) {
        self.closed.lock().unwrap().push(id);
    }

    fn get_capabilities(&self) -> Vec<String> {
        ["body", "actions"].map(str::to_owned).into()
    }

    fn get_server_information(&self) -> (String, String, String, String) {
        ("test".to_owned(), "test".to_owned(), "1".to_owned(), "1.2".to_owned())
    }

    #[zbus(signal)]
    async fn action_invoked(emitter: &SignalEmitter<'_>, id: u32, action: &str) -> zbus::Result<()>;
}

/// A process of the desktop, ended with it.
struct Part(Child);

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended already. What it started ends with it.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The desktop.
pub struct Desk {
    display: String,
    bus: String,
    shown: Board,
    closed: Closed,
    service: Option<zbus::Connection>,
    pub tray: Option<Tray>,
    _parts: Vec<Part>,
}

/// The program in it.
pub struct Window {
    pub page: Page,
    pub client: Client,
    lock: PathBuf,
    log: PathBuf,
    _driver: Part,
}

fn part(program: &str, args: &[&str]) -> (Part, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(program)
        .args(args)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}. `make test` installs what the tests need."));
    let out = BufReader::new(child.stdout.take().unwrap());
    (Part(child), out)
}

fn first_line(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Desk {
    /// A desktop, with a notification service if it is to have one.
    pub async fn new(notifications: bool) -> Self {
        let (screen, mut out) = part("Xvfb", &["-displayfd", "1", "-screen", "0", "1400x900x24", "-nolisten", "tcp"]);
        let display = format!(":{}", first_line(&mut out));
        let (daemon, mut out) = part("dbus-daemon", &["--session", "--nofork", "--print-address=1"]);
        let bus = first_line(&mut out);
        let (shown, closed) = (Board::default(), Closed::default());
        let service = if notifications {
            let served = Service { shown: shown.clone(), closed: closed.clone() };
            let address: &str = &bus;
            let connection = zbus::connection::Builder::address(address)
                .name("org.freedesktop.Notifications")
                .serve_at("/org/freedesktop/Notifications", served)
                .build()
                .await
                .unwrap();
            Some(connection)
        } else {
            None
        };
        Self { display, bus, shown, closed, service, tray: None, _parts: vec![screen, daemon] }
    }

    /// A desktop with a notification service and a tray.
    pub async fn with_tray() -> Self {
        let mut desk = Self::new(true).await;
        desk.tray = Some(Tray::on(&desk.bus).await);
        desk
    }

    /// Starts the program once more in this place, as a person does who looks for its window.
    pub fn start_again(&self, place: &Place) {
        let mut command = place.command([""; 0]);
        assert!(command.envs(self.variables()).status().unwrap().success());
    }

    /// What a program has to be told to be shown on it.
    pub fn variables(&self) -> [(&str, &str); 3] {
        [("DISPLAY", &self.display), ("DBUS_SESSION_BUS_ADDRESS", &self.bus), ("NO_AT_BRIDGE", "1")]
    }

    /// Opens the window of the program in this place.
    pub async fn open(&self, place: &Place) -> Window {
        let (driver, port) = self.drive(place);
        let mut capabilities = serde_json::Map::new();
        capabilities.insert(
            "tauri:options".into(),
            json!({ "application": env!("CARGO_BIN_EXE_coppice"), "args": ["--log", "info"] }),
        );
        let mut builder = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
        builder.capabilities(capabilities);
        let address = format!("http://127.0.0.1:{port}");
        let client = tokio::time::timeout(PATIENCE, builder.connect(&address)).await.expect("a window opens").unwrap();
        Window {
            page: Page::new(client.clone()),
            client,
            lock: place.data().join("coppice.lock"),
            log: log_of(place),
            _driver: driver,
        }
    }

    /// A driver that listens, and its port. Somebody else may take a free port first: then others are tried.
    fn drive(&self, place: &Place) -> (Part, String) {
        let program = driver();
        for _ in 0..5 {
            let (port, native) = (free_port().to_string(), free_port().to_string());
            let child = Command::new(&program)
                .args(["--port", &port, "--native-port", &native])
                .envs(self.variables())
                .envs([("COPPICE_DATA", place.data()), ("COPPICE_CONFIG", place.config())])
                .envs([("HOME", place.work()), ("NO_AT_BRIDGE", "1".into())])
                .env_remove("WAYLAND_DISPLAY")
                .current_dir(place.work())
                .process_group(0)
                .stdout(Stdio::null())
                .stderr(std::fs::File::options().create(true).append(true).open(log_of(place)).unwrap())
                .spawn()
                .unwrap_or_else(|error| panic!("{}: {error}. `make test` builds it.", program.display()));
            let mut driver = Part(child);
            let listening = until("the driver listens or ends", || {
                if driver.0.try_wait().unwrap().is_some() {
                    return Some(false);
                }
                (listens(&port) && listens(&native)).then_some(true)
            });
            if listening {
                return (driver, port);
            }
        }
        panic!("{} finds no port to listen on", program.display());
    }

    /// What was shown so far.
    pub fn shown(&self) -> Vec<Shown> {
        self.shown.lock().unwrap().clone()
    }

    /// Clicks on a notification, until the program has heard it: it may have begun to listen only now.
    pub async fn click(&self, id: u32) {
        let emitter = SignalEmitter::new(self.service.as_ref().unwrap(), "/org/freedesktop/Notifications").unwrap();
        let end = std::time::Instant::now() + PATIENCE;
        while !self.closed(id) {
            assert!(std::time::Instant::now() < end, "nobody hears the clicks on notification {id}");
            Service::action_invoked(&emitter, id, "default").await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Whether the program took a notification back.
    pub fn closed(&self, id: u32) -> bool {
        self.closed.lock().unwrap().contains(&id)
    }
}

/// Whether somebody listens on a port. A connection to find out would be taken for a caller.
pub fn listens(port: &str) -> bool {
    let local = format!("{:04X}", port.parse::<u16>().unwrap());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1).zip(line.split_whitespace().nth(3)))
        .any(|(address, state)| state == "0A" && address.ends_with(&format!(":{local}")))
}

/// Where what the program logs is kept.
fn log_of(place: &Place) -> PathBuf {
    place.data().with_file_name("window.log")
}

fn driver() -> PathBuf {
    let built = super::project().join(".cache/bin/tauri-driver");
    if built.exists() { built } else { "tauri-driver".into() }
}

impl Window {
    /// The processes that show the page.
    fn page_processes(&self) -> Vec<u32> {
        let pid: u32 = std::fs::read_to_string(&self.lock).unwrap().trim().parse().unwrap();
        let children = |of: u32| std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
        children(pid)
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .filter(|child| {
                let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
                name.starts_with("WebKitWebProces")
            })
            .collect()
    }

    /// How many lines of the program's log hold this text.
    pub fn logged(&self, text: &str) -> usize {
        std::fs::read_to_string(&self.log).unwrap().lines().filter(|line| line.contains(text)).count()
    }

    /// Kills the only process that shows the page, as soon as there is one.
    pub fn kill_page(&self) {
        let process = until("a process shows the page", || match self.page_processes()[..] {
            [process] => Some(process),
            _ => None,
        });
        assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
        until("it has ended", || (!self.page_processes().contains(&process)).then_some(()));
    }

    /// Waits until the program has ended by itself.
    pub async fn gone(self) {
        until("the data folder is free", || std::fs::File::open(&self.lock).unwrap().try_lock().ok());
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), self.client.close()).await;
    }

    /// Ends the program in order, and waits until it is gone.
    pub async fn close(self) {
        let pid = std::fs::read_to_string(&self.lock).unwrap();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        // A process that has ended and that its parent has not looked at yet is gone too.
        until("the program is gone", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            (!status.contains("State:") || status.contains("State:\tZ")).then_some(())
        });
        until("the data folder is free", || std::fs::File::open(&self.lock).unwrap().try_lock().ok());
        // The program was what the client spoke to.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), self.client.close()).await;
    }
}

/// One journey at a time: windows that are drawn in software side by side are too slow for each other.
static ROAD: Mutex<()> = Mutex::new(());

/// Runs a journey to its end, or gives up.
pub fn journey(walk: impl Future<Output = ()>) {
    // A journey that failed leaves the road free.
    let _alone = ROAD.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE * 10, walk).await.expect("the journey ends") });
}
