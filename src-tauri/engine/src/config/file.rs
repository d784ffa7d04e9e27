//! Reading a file that a person named: only a regular one, and only so much of it. A pipe or a device could keep a start
//! waiting, or never end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The bytes of a regular file of at most `most` bytes. The errors are [`ErrorKind::FileTooLarge`], and
/// [`ErrorKind::InvalidInput`] for what is no regular file, beside those of the system.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    // Opening some devices does something, so that is looked at before; what was opened counts.
    regular(&path.metadata()?)?;
    let file = open(path)?;
    regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

fn regular(metadata: &Metadata) -> Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(Error::new(ErrorKind::InvalidInput, "it is no regular file")) }
}

/// Opens the file. A pipe that took its place is not waited for.
fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(FLAGS.bits().cast_signed());
    }
    options.open(path)
}

#[cfg(unix)]
const FLAGS: rustix::fs::OFlags = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY);
