//! A terminal of the test's own, and the program in its foreground.

use super::{PATIENCE, Place, until};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A terminal of 80 columns and 24 rows with the program in it. Killed when dropped.
pub struct Terminal {
    pub child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts `coppice` with these arguments in this place.
    pub fn start(place: &Place, args: &[&str]) -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = rustix::termios::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        // It takes the terminal for its own, as the foreground of a session.
        let mut command = place.at_home(Command::new("setsid"));
        command.args(["--ctty", env!("CARGO_BIN_EXE_coppice")]).args(args).env("TERM", "xterm");
        let child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
        drop(command);
        let keyboard = File::from(ours);
        let (mut shown, screen) = (keyboard.try_clone().unwrap(), Arc::<Mutex<String>>::default());
        let seen = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when nobody has the terminal any more.
            while let Ok(read @ 1..) = shown.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, keyboard, screen }
    }

    /// Types.
    pub fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Everything that was written to the terminal so far.
    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until this was written, `times` times.
    #[track_caller]
    pub fn shows(&self, text: &str, times: usize) {
        let end = std::time::Instant::now() + PATIENCE;
        while self.screen().matches(text).count() < times {
            assert!(std::time::Instant::now() < end, "{text:?} is not shown {times} times: {}", self.screen());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub fn ended(&mut self) -> Option<i32> {
        until("the program ends", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
