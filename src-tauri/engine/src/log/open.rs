//! Opening: what is there is looked at before anything is changed.

use super::fault::{Fault, damaged, refused, unwritable};
use crate::error::{Code, Error, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The changes that made the schema, oldest first. `PRAGMA user_version` counts those that a store has.
const MIGRATIONS: &[&str] = &[
    include_str!("001.sql"),
    include_str!("002.sql"),
    include_str!("003.sql"),
    include_str!("004.sql"),
    include_str!("005.sql"),
    include_str!("006.sql"),
];

/// How long SQLite itself waits for another process before it says that the store is locked.
pub(super) const BUSY: Duration = Duration::from_secs(1);

/// What the write-ahead log is cut back to when it starts over, in bytes.
pub(super) const WAL_KEPT: u64 = 4 * 1024 * 1024;

/// A store file up to this size is checked for damage as a whole when it is opened, in bytes; of a larger one only
/// the projections are, so that the start stays fast. Damage elsewhere is told when it is met.
const CHECKED_WHOLE: u64 = 64 * 1024 * 1024;

/// The file beside `path` that holds what was committed and not yet folded back.
pub(super) fn wal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// A store, open.
pub(super) struct Opened {
    /// The connection that writes.
    pub(super) sql: Connection,
    /// The store's id.
    pub(super) id: String,
    /// What people must know of how it was found.
    pub(super) found: Option<String>,
}

/// Makes the folder and the store where they are absent, refuses what must be left alone, and migrates the rest.
pub(super) fn writer(path: &Path, new_id: &str) -> Result<Opened> {
    if let Some(folder) = path.parent() {
        make_folder(folder).map_err(|error| refused(folder, error))?;
    }
    let size = size(path)?;
    let mut found = None;
    if size > 0 {
        let readable = wal_readable(&wal(path)).map_err(|error| refused(path, error))?;
        let bare = inspect(path, size)?;
        if !readable && bare {
            return Err(damaged(path, "what was written to it last cannot be read"));
        }
        if !readable {
            let copy = set_aside(path).map_err(|error| refused(path, error))?;
            found = Some(format!(
                "What was written last to {} cannot be read. It was kept as {}; all that came before it is here.",
                path.display(),
                copy.display()
            ));
        }
    } else if self::size(&wal(path))? > 0 {
        // SQLite would take the file for a new one and throw the rest away.
        return Err(damaged(path, "it is empty or missing, but what was written to it last is still there"));
    }
    make_file(path).map_err(|error| refused(path, error))?;
    let (sql, id) = prepare(path, new_id).map_err(|fault| fault.told(path))?;
    Ok(Opened { sql, id, found })
}

/// Whether the write-ahead log is one, or holds nothing. SQLite takes one with another beginning for an empty one, and
/// writes over it without a word. The beginning is 32 bytes: a mark that also tells the order of bytes, and at its end
/// two sums over what stands before them (<https://sqlite.org/fileformat2.html#walformat>).
fn wal_readable(wal: &Path) -> std::io::Result<bool> {
    let mut header = [0; 32];
    match fs::File::open(wal).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => return Ok(true),
        Err(error) => return Err(error),
    }
    let mut words = [0_u32; 8];
    let (bytes, _) = header.as_chunks::<4>();
    let mark = u32::from_be_bytes(bytes[0]);
    let big_endian = mark == 0x377f_0683;
    for (at, (word, bytes)) in words.iter_mut().zip(bytes).enumerate() {
        // The sums themselves always stand in the one order.
        *word = if big_endian || at >= 6 { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) };
    }
    let (mut a, mut b) = (0_u32, 0_u32);
    for pair in words[..6].chunks(2) {
        a = a.wrapping_add(pair[0]).wrapping_add(b);
        b = b.wrapping_add(pair[1]).wrapping_add(a);
    }
    Ok((big_endian || mark == 0x377f_0682) && words[6..] == [a, b])
}

/// Copies the write-ahead log to a name beside it that is free, unless an earlier start did, which failed later. The copy
/// is on the disk when this returns: the log itself is written over then.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let wal = wal(path);
    let mut n = 1;
    let copy = loop {
        let mut name = wal.as_os_str().to_owned();
        name.push(if n == 1 { ".unreadable".to_owned() } else { format!(".unreadable-{n}") });
        let copy = PathBuf::from(name);
        if !copy.try_exists()? {
            fs::copy(&wal, &copy)?;
            break copy;
        }
        if same(&wal, &copy)? {
            break copy;
        }
        n += 1;
    };
    fs::OpenOptions::new().write(true).open(&copy)?.sync_all()?;
    #[cfg(unix)]
    if let Some(folder) = copy.parent() {
        // Its name, too.
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(copy)
}

/// Whether two files hold the same bytes.
fn same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let (one, other) = (fs::File::open(one)?, fs::File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (a, b) = (one.fill_buf()?, other.fill_buf()?);
        let count = a.len().min(b.len());
        if a[..count] != b[..count] {
            return Ok(false);
        }
        if count == 0 {
            return Ok(a.len() == b.len());
        }
        one.consume(count);
        other.consume(count);
    }
}

/// A connection that cannot write.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A connection that leaves no trace: while there is no write-ahead log, SQLite is told that the file does not change,
/// and then makes no files of its own beside it.
fn spectator(path: &Path) -> rusqlite::Result<Connection> {
    if wal(path).exists() {
        return reader(path);
    }
    let mut uri = "file:".to_owned();
    if cfg!(windows) {
        uri.push('/');
    }
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'/' | b':' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Not every path of every system can be told as a URI.
    Connection::open_with_flags(uri, flags).or_else(|_| reader(path))
}

fn size(path: &Path) -> Result<u64> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(metadata.len()),
        Ok(_) => Err(unwritable(path, "it is not a file")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(refused(path, error)),
    }
}

/// Looks at a store that is there, without the power to change it. Answers whether there is nothing in it.
fn inspect(path: &Path, size: u64) -> Result<bool> {
    let look = || -> Result<(usize, bool, Option<String>), Fault> {
        let connection = spectator(path)?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let version = usize::try_from(version).unwrap_or(usize::MAX);
        let bare = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))? == 0;
        if version == 0 || version > MIGRATIONS.len() {
            return Ok((version, bare, None));
        }
        let tables = if size <= CHECKED_WHOLE { &[""][..] } else { &["(session)", "(call)", "(task)", "(notice)"] };
        for table in tables {
            let found: String = connection.query_row(&format!("PRAGMA quick_check{table}"), [], |row| row.get(0))?;
            if found != "ok" {
                // It goes on for many lines; the first that names something is enough for people.
                let first = found.lines().find(|line| !line.starts_with("***")).unwrap_or(&found).to_owned();
                return Ok((version, bare, Some(first)));
            }
        }
        Ok((version, bare, None))
    };
    let (version, bare, damage) = look().map_err(|fault| fault.told(path))?;
    let shown = path.display();
    if version > MIGRATIONS.len() {
        let known = MIGRATIONS.len();
        return Err(Error::new(
            Code::Store,
            format!(
                "{shown} was made by a newer Coppice (store version {version}, this one reads {known}). Update \
                 Coppice, or choose another folder with --data."
            ),
        ));
    }
    if version == 0 && !bare {
        return Err(Error::new(
            Code::Store,
            format!(
                "{shown} is a database of another program. It was left as it is: choose another folder with --data."
            ),
        ));
    }
    match damage {
        Some(what) => Err(damaged(path, &what)),
        None => Ok(bare),
    }
}

fn prepare(path: &Path, new_id: &str) -> Result<(Connection, String), Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What is deleted is overwritten: a deleted conversation does not stay in the file.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    let kept = i64::try_from(WAL_KEPT).unwrap_or(i64::MAX);
    connection.pragma_update_and_check(None, "journal_size_limit", kept, |_| Ok(()))?;
    migrate(&mut connection, new_id)?;
    let id = connection.query_row("SELECT value FROM meta WHERE name = 'id'", [], |row| row.get(0)).optional()?;
    match id {
        Some(id) => Ok((connection, id)),
        None => Err(damaged(path, "its id is gone").into()),
    }
}

fn migrate(connection: &mut Connection, new_id: &str) -> Result<(), Fault> {
    let version = |connection: &Connection| -> rusqlite::Result<usize> {
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        Ok(usize::try_from(version).unwrap_or(usize::MAX))
    };
    if version(connection)? >= MIGRATIONS.len() {
        return Ok(());
    }
    let migration = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Asked again: another process may have migrated while this one waited for its turn.
    let from = version(&migration)?;
    for change in MIGRATIONS.iter().skip(from) {
        migration.execute_batch(change)?;
    }
    if from == 0 {
        migration.execute("INSERT INTO meta (name, value) VALUES ('id', ?1)", [new_id])?;
    }
    migration.pragma_update(None, "user_version", i64::try_from(MIGRATIONS.len().max(from)).unwrap_or(i64::MAX))?;
    migration.commit()?;
    Ok(())
}

#[cfg(unix)]
fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_folder(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}

/// Makes the file for its owner alone; SQLite gives the files beside it the same rights. Opening it for writing finds
/// out whether it can be written: SQLite would quietly open it for reading only.
#[cfg(unix)]
fn make_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_file(path: &Path) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ahead_log_is_set_aside_once_however_often_the_start_fails_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("coppice.db");
        let copies = || {
            let mut names: Vec<String> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .filter(|name| name.contains("unreadable"))
                .collect();
            names.sort();
            names
        };
        fs::write(wal(&path), vec![7; 100_000]).unwrap();
        let first = set_aside(&path).unwrap();
        assert_eq!(
            (set_aside(&path).unwrap(), copies()),
            (first.clone(), vec!["coppice.db-wal.unreadable".to_owned()])
        );
        let mut other = vec![7; 100_000];
        other[99_999] = 8;
        fs::write(wal(&path), &other).unwrap();
        let second = set_aside(&path).unwrap();
        assert_eq!(set_aside(&path).unwrap(), second);
        assert_eq!(copies(), ["coppice.db-wal.unreadable", "coppice.db-wal.unreadable-2"]);
        assert!(fs::read(first).unwrap() == [7; 100_000] && fs::read(second).unwrap() == other);
    }
}
