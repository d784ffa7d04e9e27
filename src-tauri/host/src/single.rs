//! One process holds a data folder. The others reach it through a socket in that folder: a second start raises the
//! first window, the terminal's commands are done by the process that holds it.
//!
//! The engine's lock decides who holds the folder; the socket is only the way to them. A socket file that a process
//! left behind refuses connections, and the next holder replaces it.

use crate::client::Client;
use crate::commands::Failed;
use crate::host::{DEADLINE, Host};
use crate::rpc;
use coppice_engine::Engine;
use coppice_engine::config::Config;
use coppice_engine::error::{Code, Error};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// The socket's name in the data folder.
pub const SOCKET: &str = "coppice.sock";
/// How long a process that holds the data folder and takes connections has to answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long one that takes none is waited for: it is about to end, or to begin.
const ENDING: Duration = DEADLINE.saturating_add(Duration::from_secs(2));
/// How often it is looked whether the socket is still there.
const LOOK: Duration = Duration::from_secs(2);
/// How long to wait before the lock and the socket are tried again.
const RETRY: Duration = Duration::from_millis(50);

/// Where a process works: what it was started with.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The data folder.
    pub data: PathBuf,
    /// The configuration file, which need not exist.
    pub config: PathBuf,
    /// Whether the person named the configuration.
    pub config_named: bool,
    /// The folder it was started in.
    pub cwd: PathBuf,
}

/// Who holds the data folder.
pub enum Holder {
    /// This process, from now on.
    Us(Host),
    /// Another process, which answers.
    Other(Client),
}

impl Folders {
    /// Takes the data folder, or reaches the process that holds it. `held_elsewhere` when that one does not answer.
    pub async fn reach(&self) -> Result<Holder, Failed> {
        let config = Config::load(&self.config)?;
        let end = Instant::now() + ENDING;
        loop {
            let held = match Engine::open(&self.data, config.clone()).await {
                Ok(engine) => {
                    let host = Host::new(engine, self.config.clone(), self.cwd.clone());
                    if let Err(error) = listen(&host) {
                        tracing::warn!(%error, "no socket: other starts on this data folder cannot reach this process");
                    }
                    return Ok(Holder::Us(host));
                }
                Err(error) if error.code() == Code::HeldElsewhere => error,
                Err(error) => return Err(error.into()),
            };
            if let Some(client) = self.other(held, end, PATIENCE).await? {
                return Ok(Holder::Other(client));
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The process that holds the folder; none when it may have let go since.
    async fn other(&self, held: Error, end: Instant, patience: Duration) -> Result<Option<Client>, Failed> {
        let silent = |pid: Option<u32>| Failed {
            code: Code::HeldElsewhere,
            message: match pid {
                Some(pid) => format!(
                    "Process {pid} holds {} and does not answer. Nothing was started. Wait for it, or end it with \
                     `kill {pid}`.",
                    self.data.display()
                ),
                None => held.message().to_owned(),
            },
        };
        let (client, pid) = match connect(&self.data).await {
            Ok(reached) => reached,
            Err(_) if Instant::now() < end => return Ok(None),
            Err(error) => {
                tracing::debug!(%error, "the holder's socket cannot be reached");
                return Err(silent(None));
            }
        };
        let about = tokio::time::timeout(patience, client.call("about", serde_json::json!({}))).await;
        match about {
            Err(_) => Err(silent(pid)),
            Ok(Err(failed)) if failed.code == Code::ShuttingDown || failed.code == Code::HeldElsewhere => {
                if Instant::now() < end {
                    Ok(None)
                } else {
                    Err(silent(pid))
                }
            }
            Ok(Err(failed)) => Err(failed),
            Ok(Ok(about)) => {
                let theirs = about.get("config").and_then(|config| config.as_str()).unwrap_or_default();
                if self.config_named && Path::new(theirs) != self.config {
                    return Err(Failed::bad_request(format!(
                        "The process that holds {} runs with the configuration {theirs}, not with {}. Leave --config \
                         out, or use another data folder.",
                        self.data.display(),
                        self.config.display()
                    )));
                }
                Ok(Some(client))
            }
        }
    }
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::fs::Permissions;
    use std::io;
    use std::os::unix::fs::PermissionsExt;
    use tokio::io::BufReader;
    use tokio::net::{UnixListener, UnixStream};

    /// The longest path that fits a socket's address everywhere.
    const MAX_ADDRESS: usize = 100;

    const MARKED: &str = "This command is the work of a session of Coppice (COPPICE_TASK is set), and no session may \
                          drive Coppice. Nothing was done.";
    const OWNED: &str = "This command was started by a session of Coppice, and no session may drive Coppice. Nothing \
                         was done.";
    const UNKNOWN: &str = "Who started this command cannot be read from /proc, and no session of Coppice may drive \
                           Coppice. Nothing was done. Run it in a terminal of your own, as the user who runs Coppice.";

    /// The socket's address. A path that is too long for one goes through the opened folder instead; the file must
    /// live as long as the address is used.
    fn address(data: &Path) -> io::Result<(PathBuf, Option<std::fs::File>)> {
        let path = data.join(SOCKET);
        if path.as_os_str().len() <= MAX_ADDRESS || !cfg!(target_os = "linux") {
            return Ok((path, None));
        }
        use std::os::fd::AsRawFd;
        let folder = std::fs::File::open(data)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET);
        Ok((short, Some(folder)))
    }

    fn bind(data: &Path) -> io::Result<UnixListener> {
        let path = data.join(SOCKET);
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (address, folder) = address(data)?;
        let listener = UnixListener::bind(&address)?;
        drop(folder);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// The socket anew, when somebody deleted its file and the folder is still ours.
    fn again(host: &Host) -> io::Result<Option<UnixListener>> {
        let data = host.engine.data();
        let missing =
            std::fs::symlink_metadata(data.join(SOCKET)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if missing && data.is_dir() && host.engine.check_held().is_ok() { bind(data).map(Some) } else { Ok(None) }
    }

    /// Answers on the data folder's socket. Only for the process that holds the folder.
    pub fn listen(host: &Host) -> io::Result<()> {
        let mut listener = bind(host.engine.data())?;
        let serving = host.clone();
        host.scope.spawn(async move {
            let mut look = tokio::time::interval(LOOK);
            loop {
                let accepted = tokio::select! {
                    () = serving.leaving.cancelled() => return,
                    accepted = listener.accept() => accepted,
                    _ = look.tick() => {
                        match again(&serving) {
                            Ok(Some(fresh)) => listener = fresh,
                            Ok(None) => {}
                            Err(error) => tracing::warn!(%error, "the socket is gone and cannot be made again"),
                        }
                        continue;
                    }
                };
                match accepted {
                    Ok((stream, _)) => {
                        let Some(pid) = own_peer(&stream) else {
                            tracing::warn!("a caller of another user was turned away");
                            continue;
                        };
                        let host = serving.clone();
                        let caller = serving.serve_caller();
                        serving.scope.spawn(async move {
                            let _served = caller;
                            let (input, output) = stream.into_split();
                            let input = BufReader::new(input);
                            if let Some(failed) = barred(&host, pid).await {
                                rpc::refuse(input, output, failed).await;
                            } else {
                                // A caller that went away is nobody's trouble here.
                                let _ = rpc::serve(&host, input, output, async {}).await;
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a caller could not be accepted");
                        tokio::time::sleep(RETRY).await;
                    }
                }
            }
        });
        Ok(())
    }

    /// The pid of a caller of the same user, where the system tells it; none for another user's.
    fn own_peer(stream: &UnixStream) -> Option<Option<i32>> {
        let peer = stream.peer_cred().ok()?;
        (peer.uid() == rustix::process::geteuid().as_raw()).then(|| peer.pid())
    }

    /// Why a caller may not drive Coppice: it is the work of a session, or nobody can tell that it is not. A model would
    /// else answer what it asks itself, and leave its mode and its limits. What a session starts carries a variable;
    /// what drops it still stands below its guard.
    pub(super) async fn barred(host: &Host, pid: Option<i32>) -> Option<Failed> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let refused = |message: &str| Some(Failed { code: Code::Conflict, message: message.to_owned() });
        let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        let environ = pid.map(|pid| std::fs::read(format!("/proc/{pid}/environ")));
        let (Some(pid), Some(Ok(environ))) = (pid, environ) else { return refused(UNKNOWN) };
        if environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(b"COPPICE_TASK=")) {
            return refused(MARKED);
        }
        match host.engine.owns(pid).await {
            Some(false) => None,
            Some(true) => refused(OWNED),
            None => refused(UNKNOWN),
        }
    }

    /// Connects to the process that holds the folder, and tells its pid where the system does.
    pub async fn connect(data: &Path) -> io::Result<(Client, Option<u32>)> {
        let (address, folder) = address(data)?;
        let stream = UnixStream::connect(&address).await?;
        drop(folder);
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
        let (input, output) = stream.into_split();
        Ok((Client::new(BufReader::new(input), output), pid))
    }
}

#[cfg(unix)]
pub use unix::{connect, listen};

#[cfg(not(unix))]
fn listen(_: &Host) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

#[cfg(not(unix))]
async fn connect(_: &Path) -> std::io::Result<(Client, Option<u32>)> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    fn folders(data: &Path) -> Folders {
        Folders { data: data.to_owned(), config: data.join("config.toml"), config_named: false, cwd: data.to_owned() }
    }

    fn held() -> Error {
        Error::new(Code::HeldElsewhere, "held")
    }

    #[tokio::test]
    async fn a_holder_that_does_not_answer_is_named_with_its_pid() {
        let dir = tempfile::tempdir().unwrap();
        let _hung = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        let end = Instant::now() + ENDING;
        let failed = folders(dir.path()).other(held(), end, Duration::from_millis(200)).await.err().unwrap();
        assert_eq!(failed.code, Code::HeldElsewhere);
        assert!(failed.message.contains(&format!("Process {} ", std::process::id())), "{}", failed.message);
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_on_is_tried_again_and_then_told() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(dir.path().join(SOCKET)).unwrap());
        let folders = folders(dir.path());
        assert!(folders.other(held(), Instant::now() + ENDING, PATIENCE).await.unwrap().is_none());
        assert_eq!(folders.other(held(), Instant::now(), PATIENCE).await.err().unwrap().message, "held");
    }

    #[tokio::test]
    async fn a_socket_that_was_deleted_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Config::default()).await.unwrap();
        let host = Host::new(engine, dir.path().join("config.toml"), dir.path().to_owned());
        listen(&host).unwrap();
        std::fs::remove_file(dir.path().join(SOCKET)).unwrap();
        let back = async {
            while connect(dir.path()).await.is_err() {
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::time::timeout(LOOK * 5, back).await.unwrap();
        host.leave().await.unwrap();
    }

    #[tokio::test]
    async fn a_data_folder_with_a_long_path_can_be_reached() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let folder = std::fs::File::open(&deep).unwrap();
        use std::os::fd::AsRawFd;
        let short = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
        let _listener = UnixListener::bind(short).unwrap();
        assert_eq!(connect(&deep).await.unwrap().1, Some(std::process::id()));
    }

    #[tokio::test]
    async fn a_caller_is_served_unless_nobody_can_tell_who_started_it() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Config::default()).await.unwrap();
        let host = Host::new(engine, dir.path().join("config.toml"), dir.path().to_owned());
        let mut refused = Vec::new();
        for pid in [Some(std::process::id().cast_signed()), Some(i32::MAX), Some(0), None] {
            refused
                .push(unix::barred(&host, pid).await.is_some_and(|failed| failed.message.contains("cannot be read")));
        }
        assert_eq!(refused, [false, true, true, true]);
        host.leave().await.unwrap();
    }
}
