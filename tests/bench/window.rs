//! The real window: how soon the tree is there, how soon an event is on the screen, and what it holds in memory, beside
//! a bare window of the same WebKitGTK.

use crate::measure::{Line, Memory, Process, Sample, memory, ms, rest};
use crate::stock;
use crate::support::desk::{Desk, listens};
use crate::support::{PATIENCE, Place, until};
use fantoccini::{Client, ClientBuilder};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const STARTS: usize = 5;
const EVENTS: usize = 40;
const FRAMES: usize = 120;
/// Between two events: the window is at rest again.
const PAUSE: Duration = Duration::from_millis(150);

pub fn run() {
    tokio::runtime::Runtime::new().unwrap().block_on(measure());
}

async fn measure() {
    let desk = Desk::new(true).await;
    let (stocked, empty) = (Place::new(json!({ "sessions": {} })), Place::new(json!({ "sessions": {} })));
    stock::fill(&stocked.data()).await;
    let (mut starts, mut bare_starts) = (Vec::new(), Vec::new());
    let (mut full, mut bare, mut fresh) = (None, None, None);
    for round in 0..STARTS {
        let last = round + 1 == STARTS;
        if let Some(browser) = bare_browser() {
            let (start, size) = bare_window(&desk, &browser, last).await;
            bare_starts.push(start);
            bare = size.or(bare);
        } else if last {
            fresh = open(&desk, &empty, "document.querySelector('textarea') !== null", last).await.1;
        }
        let there = "document.querySelector('[role=treeitem]') !== null";
        let (start, size) = open(&desk, &stocked, there, last).await;
        starts.push(start);
        full = size.or(full);
    }
    let starts = Sample::from_iter(starts);
    Line {
        what: "window: start to the tree of 200 sessions",
        unit: "ms",
        here: starts.median(),
        there: if bare_starts.is_empty() { 0.0 } else { Sample::from_iter(bare_starts).median() },
        reference: "a bare WebKitGTK window to its empty page, through the same driver",
        rounds: STARTS,
    }
    .print();
    let reference =
        if bare.is_some() { "a bare WebKitGTK window with an empty page" } else { "the window without a session" };
    let (full, reference_size) = (full.unwrap(), bare.or(fresh).unwrap());
    let sizes = [
        ("window: memory at rest, the program, PSS", full.0.pss, reference_size.0.pss),
        ("window: memory at rest, the program, RSS", full.0.rss, reference_size.0.rss),
        ("window: memory at rest, WebKit's own, PSS", full.1.pss, reference_size.1.pss),
        ("window: memory at rest, WebKit's own, RSS", full.1.rss, reference_size.1.rss),
    ];
    for (what, here, there) in sizes {
        Line { what, unit: "MB", here, there, reference, rounds: 1 }.print();
    }
    paint(&desk, &stocked).await;
}

/// The memory of a program, and of WebKit's own processes below it.
type Sizes = (Memory, Memory);

/// Opens the window and answers how long it took until `there` held in its page, in ms, and, if asked, its memory.
async fn open(desk: &Desk, place: &Place, there: &str, weigh: bool) -> (f64, Option<Sizes>) {
    let began = Instant::now();
    let window = desk.open(place).await;
    until_page(&window.client, there).await;
    let took = ms(began);
    let holder = || std::fs::read_to_string(place.data().join("coppice.lock")).unwrap().parse().unwrap();
    let sizes = weigh.then(|| sizes(holder()));
    window.close().await;
    (took, sizes)
}

/// The same of the bare browser.
async fn bare_window(desk: &Desk, browser: &Path, weigh: bool) -> (f64, Option<Sizes>) {
    let began = Instant::now();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let driver = Command::new("WebKitWebDriver")
        .arg(format!("--port={port}"))
        .envs(desk.variables())
        // As the program does where there is no graphics device.
        .env("WEBKIT_DISABLE_DMABUF_RENDERER", "1")
        .env_remove("WAYLAND_DISPLAY")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let driver = Ended(driver);
    until("the driver listens", || listens(&port.to_string()).then_some(()));
    let options = json!({ "binary": browser, "args": ["--automation"] });
    let capabilities = serde_json::Map::from_iter([("webkitgtk:browserOptions".to_owned(), options)]);
    let mut builder = ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
    builder.capabilities(capabilities);
    let client = builder.connect(&format!("http://127.0.0.1:{port}")).await.unwrap();
    until_page(&client, "document.body !== null").await;
    let took = ms(began);
    let browser = browser.canonicalize().unwrap();
    let browsers = |process: &Process| process.program().as_ref() == Some(&browser);
    let sizes = weigh.then(|| sizes(Process::family(driver.0.id()).into_iter().find(browsers).unwrap().pid));
    // The browser is what ends: that its answer is lost is no failure.
    let _ = client.close().await;
    (took, sizes)
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The small browser that comes with WebKitGTK on many systems.
fn bare_browser() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let places = folders.chain([PathBuf::from("/usr/libexec")]).map(|folder| folder.join("webkit2gtk-4.1/MiniBrowser"));
    places.into_iter().find(|place| place.exists())
}

/// Waits until this holds in the page.
async fn until_page(client: &Client, holds: &str) {
    let end = Instant::now() + PATIENCE;
    while ask(client, &format!("return {holds}")).await != true {
        assert!(Instant::now() < end, "the page never came to this: {holds}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs a script in the page and answers what it returns.
async fn ask(client: &Client, script: &str) -> Value {
    client.execute(script, Vec::new()).await.unwrap()
}

/// What a program and WebKit's processes below it hold when they are at rest.
fn sizes(pid: u32) -> Sizes {
    rest(pid);
    let below = Process::family(pid).into_iter().filter(|process| process.name.starts_with("WebKit"));
    (memory(pid), below.map(|process| memory(process.pid)).fold(Memory::default(), |sum, size| sum + size))
}

/// From the time that an event is stamped with to the frame that shows it.
async fn paint(desk: &Desk, place: &Place) {
    let window = desk.open(place).await;
    let (page, client) = (&window.page, &window.client);
    until_page(client, "document.querySelector('[role=treeitem]') !== null").await;
    let mut wire = Wire::connect(&place.data());
    let open = json!({ "cwd": place.work(), "mode": "full", "title": "the open one", "key": "open" });
    let session = wire.call("open", open)["session"].clone();
    wire.call("raise", json!({ "session": session }));
    page.shows("the open one").await;
    ask(client, WATCH).await;
    let mut delays = Vec::new();
    for number in 0..EVENTS {
        tokio::time::sleep(PAUSE).await;
        let text = format!("mark-{number}-");
        let prompt = json!({ "session": session, "text": text, "key": format!("prompt {number}") });
        let n = wire.call("prompt", prompt)["n"].as_i64().unwrap();
        let events = wire.call("events", json!({ "session": session, "after": n - 1, "limit": 1 }));
        let event = &events["events"][0];
        assert_eq!(event["body"]["text"], *text);
        until_page(client, &format!("window.painted[{number}] !== undefined")).await;
        let painted = ask(client, &format!("return window.painted[{number}]")).await.as_f64().unwrap();
        delays.push(painted - event["at"].as_f64().unwrap());
        wire.call("wait", json!({ "session": session, "timeout_ms": PATIENCE.as_millis() as u64 }));
    }
    ask(client, COUNT).await;
    until_page(client, &format!("window.frames_seen.length > {FRAMES}")).await;
    let times = ask(client, "return window.frames_seen").await;
    let times: Vec<f64> = times.as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    let frame: Sample = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    window.close().await;
    let delays = Sample::from_iter(delays);
    for (what, here) in
        [("window: event to its paint, p50", delays.median()), ("window: event to its paint, p95", delays.p95())]
    {
        let reference = "one bare frame of the same page";
        Line { what, unit: "ms", here, there: frame.median(), reference, rounds: EVENTS }.print();
    }
}

/// Notes when the frame that first shows a mark has been painted: what is posted in a frame runs after it.
const WATCH: &str = r#"
    const painted = (window.painted = {}), met = new Set();
    const look = (text) => {
        for (const [, number] of text.matchAll(/mark-(\d+)-/g)) {
            if (met.has(number)) continue;
            met.add(number);
            requestAnimationFrame(() => {
                const { port1, port2 } = new MessageChannel();
                port1.onmessage = () => (painted[number] = Date.now());
                port2.postMessage(null);
            });
        }
    };
    new MutationObserver((records) => {
        for (const record of records) {
            if (record.type === "characterData") look(record.target.data);
            for (const node of record.addedNodes) look(node.textContent ?? "");
        }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
"#;

/// Notes the time of one frame after the other.
const COUNT: &str = "
    const seen = (window.frames_seen = []);
    const note = (time) => { seen.push(time); requestAnimationFrame(note); };
    requestAnimationFrame(note);
";

/// The wire of the process that holds the folder.
struct Wire {
    socket: BufReader<UnixStream>,
    next: u64,
}

impl Wire {
    fn connect(data: &Path) -> Self {
        let socket = UnixStream::connect(data.join("coppice.sock")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket: BufReader::new(socket), next: 0 }
    }

    #[track_caller]
    fn call(&mut self, cmd: &str, args: Value) -> Value {
        self.next += 1;
        let request = json!({ "id": self.next, "cmd": cmd, "args": args });
        writeln!(self.socket.get_mut(), "{request}").unwrap();
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer.get("ok").is_some(), "{cmd}: {answer}");
        answer["ok"].take()
    }
}
