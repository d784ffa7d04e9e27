//! What the world gives: the time of day, fresh names and a count. Injected, so that tests can script them.

use crate::id::{AgentId, SessionId};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock that tells milliseconds since the Unix epoch.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;

    /// Milliseconds since some moment, on a clock that nobody sets and that stands still while the machine sleeps. The
    /// same as the time of day where that has no such quirks.
    fn uptime_ms(&self) -> i64 {
        self.now_ms()
    }
}

struct SystemClock {
    started: Instant,
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
    fn now_ms(&self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            .unwrap_or(0)
    }

    fn uptime_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// The world as the engine sees it. Cheap to clone; clones share their counters.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    agents: Arc<AtomicU64>,
}

impl Env {
    /// The real world.
    pub fn system() -> Self {
        Self::with_clock(Arc::new(SystemClock { started: Instant::now() }))
    }

    /// A world whose time of day is `clock`'s.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { clock, agents: Arc::new(AtomicU64::new(1)) }
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Milliseconds since some moment, on a clock that stands still while the machine sleeps.
    pub fn uptime_ms(&self) -> i64 {
        self.clock.uptime_ms()
    }

    /// A fresh session name.
    #[expect(clippy::disallowed_methods, reason = "the one place that makes random names")]
    pub fn new_session(&self) -> SessionId {
        SessionId(uuid::Uuid::now_v7().to_string())
    }

    /// A fresh identity for a live agent of this process.
    pub fn new_agent(&self) -> AgentId {
        AgentId(self.agents.fetch_add(1, Ordering::Relaxed))
    }
}

/// The value of an environment variable, when it is set, not empty and valid UTF-8.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The path that an environment variable names, in whatever bytes the system keeps it; none when it is empty.
pub fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// How many bytes are free for this program on the disk that holds `folder`; none where the system does not tell.
pub fn free(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let disk = rustix::fs::statvfs(folder).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}
