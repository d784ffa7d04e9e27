//! The disk as the tools see it: what is out of reach, files that cannot hang a reader, and how all that is said.

use super::memory::FileMemory;
use crate::files::handle::{self, Spot};
pub use crate::files::place::Place;
use crate::files::place::{self, unusable as why};
use crate::scope::Scope;
use crate::tool::{Call, Outcome};
use std::fs::{File, Metadata};
use std::io;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a cancelled call waits for its work to notice. Longer means that the disk hangs.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// Runs `work` on a blocking thread. Work watches the token; if the disk hangs, the call ends without it.
pub async fn off_thread(cancel: &CancellationToken, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    let work = Scope::blocking(work);
    tokio::pin!(work);
    tokio::select! {
        biased;
        outcome = &mut work => return outcome,
        () = cancel.cancelled() => {}
    }
    match tokio::time::timeout(STOP_WAIT, work).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::fail("Stopped. The disk does not answer, so it is not known whether anything was done."),
    }
}

/// What a call answers that was stopped before it did anything.
pub fn stopped() -> Outcome {
    Outcome::fail("Stopped before anything was done.")
}

/// Finds where `path` leads, from the call's folder. What cannot be a file and a closed folder are refused.
pub fn resolve(memory: &FileMemory, call: &Call, path: &str) -> Result<Place, Outcome> {
    let place = place::resolve(&call.cwd, path).map_err(Outcome::fail)?;
    if memory.is_closed(&place.real) {
        return Err(Outcome::fail(format!("{path} is out of reach of every tool. Nothing was done.")));
    }
    if call.judged.as_ref().is_some_and(|judged| !judged.contains(&place.real)) {
        let what = "leads elsewhere now than when it was judged. Nothing was done: try again.";
        return Err(Outcome::fail(format!("{path} {what}")));
    }
    Ok(place)
}

/// What a call answers when the system refuses a path.
pub fn unusable(path: &str, error: &io::Error) -> Outcome {
    Outcome::fail(why(path, error))
}

/// Opens a regular file to read. Everything else is refused before it can hang or never end.
pub fn open(place: &Place) -> Result<(File, Metadata), Outcome> {
    regular(place, handle::open(&place.real))
}

/// The same, in the folder that is held open.
pub fn open_at(spot: &Spot, place: &Place) -> Result<(File, Metadata), Outcome> {
    regular(place, spot.open())
}

/// The folder of a file that is there, held open.
pub fn spot(place: &Place) -> Result<Spot, Outcome> {
    missing(place)?;
    Spot::at(&place.real).map_err(|error| match std::fs::symlink_metadata(&place.real) {
        // The root has no folder around it.
        Ok(metadata) if metadata.is_dir() => no_file(&place.shown, &metadata),
        _ => unusable(&place.shown, &error),
    })
}

fn missing(place: &Place) -> Result<(), Outcome> {
    if place.exists {
        return Ok(());
    }
    let shown = &place.shown;
    let home = if shown.starts_with('~') { " `~` is not expanded: give the absolute path." } else { "" };
    Err(Outcome::fail(format!("There is no file {shown}.{home} Look for it by a pattern.")))
}

fn regular(place: &Place, opened: io::Result<File>) -> Result<(File, Metadata), Outcome> {
    missing(place)?;
    let shown = &place.shown;
    let (file, metadata) = match opened.and_then(|file| file.metadata().map(|metadata| (file, metadata))) {
        Ok(opened) => opened,
        // Windows opens no folder; a socket cannot be opened anywhere.
        Err(error) => match std::fs::symlink_metadata(&place.real) {
            Ok(metadata) if !metadata.is_file() && !metadata.is_symlink() => return Err(no_file(shown, &metadata)),
            _ => return Err(unusable(shown, &error)),
        },
    };
    if metadata.is_file() { Ok((file, metadata)) } else { Err(no_file(shown, &metadata)) }
}

fn no_file(shown: &str, metadata: &Metadata) -> Outcome {
    if metadata.is_dir() {
        let below = if shown == "." { String::new() } else { format!("{}/", shown.trim_end_matches('/')) };
        let shown = if shown == "." { "This path" } else { shown };
        return Outcome::fail(format!("{shown} is a folder. List it by the pattern \"{below}*\"."));
    }
    Outcome::fail(format!("{shown} is a pipe, a socket or a device, not a file. It was left alone."))
}
