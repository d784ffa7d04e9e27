//! A place of its own for each test, and the real program at work in it.
#![allow(clippy::disallowed_methods, reason = "tests start the program, and threads that read what it says")]

#[cfg(target_os = "linux")]
pub mod crash;
#[cfg(target_os = "linux")]
pub mod desk;
#[cfg(target_os = "linux")]
pub mod page;
#[cfg(target_os = "linux")]
pub mod pty;
#[cfg(target_os = "linux")]
pub mod tray;

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The safety net under every wait.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a condition.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A data folder, a configuration whose model plays a script, and a folder to work in.
pub struct Place {
    dir: TempDir,
}

impl Place {
    /// With a rehearsal that plays `script`.
    pub fn new(script: Value) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.work()).unwrap();
        std::fs::write(place.work().join("read.me"), "hello\n").unwrap();
        place.play(script);
        place.configure("");
        place
    }

    /// Plays another script from the next start on.
    pub fn play(&self, script: Value) {
        std::fs::write(self.dir.path().join("script.json"), script.to_string()).unwrap();
    }

    /// Adds to the configuration.
    pub fn configure(&self, more: &str) {
        let script = self.dir.path().join("script.json");
        let config = format!(
            "default_model = \"rehearsal\"\n[models.rehearsal]\nprotocol = \"rehearsal\"\nscript = {script:?}\npace = 0.0\n{more}"
        );
        self.write_config(&config);
    }

    /// Replaces the configuration.
    pub fn write_config(&self, config: &str) {
        std::fs::write(self.config(), config).unwrap();
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Opens the gate that a script waits at.
    pub fn open_gate(&self, name: &str) {
        std::fs::write(self.work().join(name), "").unwrap();
    }

    /// The program, in this place.
    pub fn command<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coppice"));
        command.args(args);
        self.at_home(command)
    }

    /// A line for a shell in this place; `$0` is the program.
    pub fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line, env!("CARGO_BIN_EXE_coppice")]);
        self.at_home(command)
    }

    /// Lets a command run in this place.
    pub fn at_home(&self, mut command: Command) -> Command {
        command
            .current_dir(self.work())
            .env("COPPICE_DATA", self.data())
            .env("COPPICE_CONFIG", self.config())
            .env("HOME", self.dir.path())
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:");
        command
    }

    /// Runs the program to its end.
    pub fn run<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Ran {
        self.command(args).output().unwrap().into()
    }

    /// Starts `coppice rpc`.
    pub fn rpc(&self) -> Rpc {
        Rpc::start(self.command(["rpc"]))
    }
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A program whose lines are read as they come. Killed when dropped.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// With nobody who reads what it says; what it complains of is to be taken from `child`.
    pub fn unread(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        Self { child, lines: channel().1 }
    }

    /// The next line; none at the end.
    #[track_caller]
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line within {PATIENCE:?}"),
        }
    }

    /// Lines up to the first that `is` wanted.
    #[track_caller]
    pub fn lines_to(&self, mut is: impl FnMut(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().unwrap_or_else(|| panic!("it ended before that: {lines:#?}"));
            let found = is(&line);
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(&mut self) -> Option<i32> {
        until("the program ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A caller of `coppice rpc`.
pub struct Rpc {
    pub running: Running,
    input: Option<ChildStdin>,
    next: u64,
    frames: VecDeque<Value>,
    answers: Vec<Value>,
}

impl Rpc {
    pub fn start(mut command: Command) -> Self {
        let mut running = Running::start({
            command.stdin(Stdio::piped());
            command
        });
        let input = running.child.stdin.take();
        Self { running, input, next: 1, frames: VecDeque::new(), answers: Vec::new() }
    }

    /// Writes a line as it stands.
    pub fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).unwrap();
    }

    /// Asks and does not wait. Answers the id.
    pub fn ask(&mut self, cmd: &str, args: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.write(&json!({ "id": id, "cmd": cmd, "args": args }).to_string());
        id
    }

    /// The answer to a question.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            if let Some(at) = self.answers.iter().position(|answer| answer["id"] == id) {
                let mut answer = self.answers.remove(at);
                return match answer.get_mut("ok") {
                    Some(ok) => Ok(ok.take()),
                    None => Err(answer["error"].take()),
                };
            }
            let message = self.message();
            if message.get("frame").is_some() { self.frames.push_back(message) } else { self.answers.push(message) }
        }
    }

    /// Asks and waits for what is to be a success.
    #[track_caller]
    pub fn call(&mut self, cmd: &str, args: Value) -> Value {
        let id = self.ask(cmd, args);
        self.answer(id).unwrap_or_else(|error| panic!("{cmd}: {error}"))
    }

    /// Asks and waits for what is to be a failure. Answers its code.
    #[track_caller]
    pub fn refused(&mut self, cmd: &str, args: Value) -> Value {
        let id = self.ask(cmd, args);
        self.answer(id).expect_err(cmd)
    }

    /// The next message of any kind. Every line of standard output is one.
    #[track_caller]
    pub fn message(&mut self) -> Value {
        let line = self.running.line().expect("the program has ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next frame.
    #[track_caller]
    pub fn frame(&mut self) -> Value {
        loop {
            if let Some(mut frame) = self.frames.pop_front() {
                return frame["frame"].take();
            }
            let message = self.message();
            if message.get("frame").is_some() { self.frames.push_back(message) } else { self.answers.push(message) }
        }
    }

    /// Opens a session in the folder to work in, with leave to do everything.
    #[track_caller]
    pub fn open(&mut self, place: &Place) -> String {
        let args = json!({ "cwd": place.work(), "mode": "full", "key": "open" });
        self.call("open", args)["session"].as_str().unwrap().to_owned()
    }

    /// Waits until the session and all below it are at rest.
    #[track_caller]
    pub fn rest(&mut self, session: &str) -> Value {
        self.call("wait", json!({ "session": session, "timeout_ms": PATIENCE.as_millis() as u64 }))
    }

    /// Looks at the tree until something is there.
    #[track_caller]
    pub fn until<T>(&mut self, what: &str, mut find: impl FnMut(&Value) -> Option<T>) -> T {
        until(what, || find(&self.call("tree", json!({}))))
    }

    /// Ends the input and waits for the end of the program.
    #[track_caller]
    pub fn end(&mut self) -> Option<i32> {
        drop(self.input.take());
        self.running.ended()
    }
}

/// The child of this label in a tree.
pub fn child<'a>(tree: &'a Value, label: &str) -> Option<&'a Value> {
    tree["sessions"].as_array()?.iter().find(|session| session["label"] == label)
}

/// A length of sleep, in seconds, that no other run of the tests sleeps: by it a test knows its own processes.
pub fn mark(n: u32) -> String {
    format!("864{n:02}.{}", std::process::id())
}

/// Processes whose command line holds this text.
pub fn processes_with(needle: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let mut line = Vec::new();
        let read = std::fs::File::open(entry.path().join("cmdline")).and_then(|mut file| file.read_to_end(&mut line));
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if read.is_ok() && line.contains(needle) {
            found.push(line);
        }
    }
    found
}

/// How many sleep for this long: the sleeps themselves, not the shells that started them.
pub fn sleepers(mark: &str) -> usize {
    processes_with(mark).iter().filter(|line| line.starts_with("sleep ")).count()
}

/// The top of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program of the system at the top of the project.
pub fn output(program: &str, args: &[&str]) -> Ran {
    Command::new(program).args(args).current_dir(project()).output().unwrap().into()
}
