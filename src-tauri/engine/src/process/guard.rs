//! How a command is started: behind a guard, so that it cannot reach the app and cannot outlive it.
//!
//! The guard is a small shell that leads a session of its own. It is the command's parent, so `kill $PPID` and
//! `kill 0` meet the guard and never the app. On Linux it is also the parent of whatever loses its own below it, so that
//! everything that the command ever made stands below the guard, whatever group, session or environment it has. What a
//! service makes at the command's request stands below that service.
//!
//! A command that is confined has its guard on the same side of the bars, so that the guard can end it.
//!
//! The guard holds one end of a lifeline, a socket whose other end only the app holds: over it the guard tells who its
//! watcher is and then the exit status, and when the app dies, however it dies, the watcher reads the end of the
//! lifeline and kills all that stands below the guard, and both.

use super::Plan;
use super::confine::Bars;
use std::collections::BTreeSet;
use std::io;

/// The variable that names the tree of a process.
pub(super) const MARKER: &str = "COPPICE_TASK";

/// The variable that only the guard carries: it is taken away before the command starts.
pub(super) const GUARD: &str = "COPPICE_GUARD";

/// What was started.
pub(super) struct Started {
    pub child: Child,
    pub pid: u32,
    /// The lifeline. The first line from the guard is the pid of its watcher, the second the exit status. A line to
    /// it dismisses the watcher, the next one the guard.
    pub line: Line,
    /// The output of everything in the tree.
    pub output: Output,
    /// The pipe that the output comes through, as `/proc/<pid>/fd` names it; none where the system names none.
    pub pipe: Option<String>,
}

pub(super) type Child = Box<dyn process_wrap::tokio::ChildWrapper>;
#[cfg(unix)]
pub(super) type Line = tokio::net::UnixStream;
#[cfg(unix)]
pub(super) type Output = tokio::net::unix::pipe::Receiver;
#[cfg(not(unix))]
pub(super) type Line = tokio::io::DuplexStream;
#[cfg(not(unix))]
pub(super) type Output = tokio::io::DuplexStream;

/// The guard. Descriptor 3 is the lifeline, 4 the output; the command gets neither. The traps keep the guard alive
/// when the command signals its parent or its group; the command itself starts with the default for every signal.
/// The subshell that becomes the command keeps the guard's own remarks ("Terminated") out of the output. A shell that
/// waits also reaps the children that it was given.
///
/// The guard stays until it is dismissed itself, also when the command has killed its watcher: what was left behind would
/// be out of sight without it.
///
/// The watcher kills the guard's children, which makes children of the guard of theirs, until it is the only one. What
/// cannot be killed must not hold it for ever, so its rounds are counted. Without a list of children the group is what
/// it can end.
#[cfg(unix)]
const SCRIPT: &str = r#"
exec 3<&0 4>&1 </dev/null >/dev/null 2>&1
unset COPPICE_GUARD
trap : HUP INT QUIT TERM
(
    trap '' HUP INT QUIT TERM
    exec 4>&-
    read -r _ <&3 && exit
    read -r me _ </proc/self/stat
    round=0
    while [ $((round += 1)) -le 20000 ]; do
        children= others=
        read -r children </proc/$$/task/$$/children
        for child in $children; do
            [ "$child" = "$me" ] || others="$others $child"
        done
        [ "$others" ] || break
        kill -9 $others
    done
    kill -9 0
) &
echo "$!" >&3
(exec "$@" 3<&- >&4 2>&4 4>&-)
status=$?
trap '' HUP INT QUIT TERM PIPE
exec 4>&-
echo "$status" >&3
wait
read -r _ <&3
"#;

#[cfg(unix)]
pub(super) fn start(plan: &Plan, marker: &str, hidden: &BTreeSet<String>, bars: Bars) -> io::Result<Started> {
    use process_wrap::tokio::{CommandWrap, ProcessSession};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    let (reader, writer) = io::pipe()?;
    let pipe = std::fs::read_link(format!("/proc/self/fd/{}", reader.as_raw_fd())).ok();
    let pipe = pipe.and_then(|pipe| pipe.into_os_string().into_string().ok());
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let errors = writer.try_clone()?;
    let mut command = CommandWrap::with_new("/bin/sh", |command| {
        command.arg("-c").arg(SCRIPT).arg("sh").arg(&plan.program).args(&plan.args);
        command.current_dir(&plan.cwd).env(MARKER, marker).env(GUARD, "1");
        for name in hidden {
            command.env_remove(name);
        }
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(writer).stderr(errors);
        #[cfg(target_os = "linux")]
        adopt(command, bars);
        #[cfg(not(target_os = "linux"))]
        let Bars = bars;
    });
    // The session's own wrapper waits for every process of the group; the guard alone is what is waited for here.
    let child = command.wrap(ProcessSession).spawn()?.into_inner();
    // The command holds our ends of its pipes until it is dropped; the output would never close.
    drop(command);
    let pid = child.id().ok_or_else(|| io::Error::other("the process ended before it had a pid"))?;
    let output = Output::from_owned_fd(OwnedFd::from(reader))?;
    Ok(Started { child, pid, line: Line::from_std(ours)?, output, pipe })
}

/// Makes the process a parent to every orphan below it, and shuts it in. The kernel keeps that when a program takes the
/// process over, but gives the first to no child, so it is asked for between the two: a program of our own in between
/// would be loaded for every command.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no other way to ask for it before the shell begins")]
fn adopt(command: &mut tokio::process::Command, bars: Bars) {
    use rustix::process::{getpid, set_child_subreaper};
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            set_child_subreaper(Some(getpid()))?;
            shut_in(&bars)
        });
    }
}

/// What an administrator can do past any bars: look into the memory of everything, and change the kernel.
#[cfg(target_os = "linux")]
const POWERS: [rustix::thread::CapabilitySet; 6] = {
    use rustix::thread::CapabilitySet as Power;
    [Power::SYS_ADMIN, Power::PERFMON, Power::BPF, Power::SYS_MODULE, Power::SYS_RAWIO, Power::MKNOD]
};

/// Puts this process, and whatever it becomes and makes, behind bars for good.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the libraries offer these calls only together with what allocates")]
fn shut_in(bars: &Bars) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    if bars.ruleset.is_none() && bars.filter.is_empty() {
        return Ok(());
    }
    // Without it the kernel would let nobody but its administrator put up bars: they could mislead a program that has
    // more rights than who starts it.
    rustix::thread::set_no_new_privs(true)?;
    for power in POWERS {
        match rustix::thread::remove_capability_from_bounding_set(power) {
            // It has nothing to lose; a kernel that is older than a power has none of it to give.
            Ok(()) | Err(rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(ruleset) = &bars.ruleset {
        // SAFETY: the call takes a descriptor, which lives, and no memory.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if !bars.filter.is_empty() {
        let len = u16::try_from(bars.filter.len()).unwrap_or(u16::MAX);
        let program = libc::sock_fprog { len, filter: bars.filter.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program, which outlives the call, and writes nothing into it.
        let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn start(_plan: &Plan, _marker: &str, _hidden: &BTreeSet<String>, _bars: Bars) -> io::Result<Started> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "commands need a Unix system; nothing was started"))
}
