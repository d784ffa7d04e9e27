//! Output logs: true byte offsets, bounded on disk, read by many.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use coppice_engine::error::Code;
use coppice_engine::output::{OutputLog, Slice};
use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;

fn log(bound: u64) -> (TempDir, OutputLog) {
    let dir = tempfile::tempdir().unwrap();
    let log = OutputLog::create(&dir.path().join("log"), bound).unwrap();
    (dir, log)
}

fn slice(text: &str, next: u64, size: u64, done: bool, dropped: u64) -> Slice {
    Slice { text: text.to_owned(), next, size, done, dropped }
}

/// Everything from `offset` on, in slices of `limit` bytes: the text, and what was dropped.
fn everything(log: &OutputLog, mut offset: u64, limit: usize) -> (String, u64) {
    let (mut text, mut dropped) = (String::new(), 0);
    loop {
        let slice = log.read(offset, limit).unwrap();
        if slice.next == offset {
            return (text, dropped);
        }
        assert_eq!(slice.next - offset - slice.dropped, slice.text.len() as u64, "offsets count bytes: {slice:?}");
        text.push_str(&slice.text);
        dropped += slice.dropped;
        offset = slice.next;
    }
}

fn on_disk(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn readers_stand_where_they_like_and_do_not_disturb_one_another() {
    let (_dir, log) = log(1 << 20);
    assert_eq!(log.read(0, 10).unwrap(), slice("", 0, 0, false, 0));
    log.write(b"hello ").unwrap();
    log.write(b"world").unwrap();
    assert_eq!(log.read(0, 6).unwrap(), slice("hello ", 6, 11, false, 0));
    assert_eq!(log.clone().read(6, 100).unwrap(), slice("world", 11, 11, false, 0));
    assert_eq!(log.read(0, 100).unwrap(), slice("hello world", 11, 11, false, 0));
    assert_eq!(log.read(11, 100).unwrap(), slice("", 11, 11, false, 0));
    assert_eq!(log.read(99, 100).unwrap(), slice("", 11, 11, false, 0));
    log.finish();
    assert_eq!(log.read(9, 100).unwrap(), slice("ld", 11, 11, true, 0));
}

#[test]
fn cuts_fall_on_characters() {
    let (_dir, log) = log(1 << 20);
    log.write("aé語🌳".as_bytes()).unwrap();
    // Limits within a character stop before it, but a character always fits.
    assert_eq!(log.read(0, 4).unwrap(), slice("aé", 3, 10, false, 0));
    assert_eq!(log.read(3, 1).unwrap(), slice("語", 6, 10, false, 0));
    assert_eq!(log.read(6, 1).unwrap(), slice("🌳", 10, 10, false, 0));
    // An offset within a character stands for the next one.
    assert_eq!(log.read(4, 100).unwrap(), slice("🌳", 10, 10, false, 0));
    assert_eq!(log.read(9, 100).unwrap(), slice("", 10, 10, false, 0));
    // A character that has not come whole yet is waited for, and replaced when nothing comes any more.
    log.write(&"語".as_bytes()[..2]).unwrap();
    assert_eq!(log.read(6, 100).unwrap(), slice("🌳", 10, 12, false, 0));
    log.finish();
    assert_eq!(log.read(10, 100).unwrap(), slice("\u{fffd}", 12, 12, true, 0));
}

#[test]
fn a_log_past_its_bound_keeps_its_beginning_and_its_end_and_counts_what_it_dropped() {
    let (dir, log) = log(800);
    let text: String = (0..2000).map(|n| format!("{n:09}\n")).collect();
    for piece in text.as_bytes().chunks(77) {
        log.write(piece).unwrap();
        assert!(on_disk(&dir.path().join("log")) <= 800);
    }
    let (kept, dropped) = everything(&log, 0, 64);
    assert_eq!((kept.len() as u64 + dropped, log.size()), (20_000, 20_000));
    assert!(kept.starts_with(&text[..200]) && kept.ends_with(&text[text.len() - 500..]));
    // A reader who stands in the gap learns how much it missed.
    let first = log.read(1000, 10).unwrap();
    assert_eq!(first.text, text[usize::try_from(1000 + first.dropped).unwrap()..][..10]);
    // The same after a restart.
    log.finish();
    let again = OutputLog::open(&dir.path().join("log")).unwrap();
    assert_eq!(everything(&again, 0, 64), (kept, dropped));
    assert!(again.read(0, 1).unwrap().done);
}

#[test]
fn a_log_that_was_never_finished_opens_after_a_crash() {
    let (dir, log) = log(1 << 20);
    log.write("what was written 語".as_bytes()).unwrap();
    let again = OutputLog::open(&dir.path().join("log")).unwrap();
    assert_eq!(again.read(0, 100).unwrap(), slice("what was written 語", 20, 20, true, 0));
    assert_eq!(OutputLog::open(&dir.path().join("none")).err().unwrap().code(), Code::Store);
}

#[test]
fn a_disk_that_takes_no_more_is_told_once_and_shown_where_the_output_breaks_off() {
    let (dir, log) = log(800);
    let folder = dir.path().join("log");
    log.write(&[b'a'; 100]).unwrap();
    // The next segment cannot be made: its name is taken by a folder.
    std::fs::create_dir(folder.join(format!("{:020}", 100))).unwrap();
    assert_eq!(log.write(b"bbb").unwrap_err().code(), Code::Store);
    log.write(b"cc").unwrap();
    assert_eq!((log.size(), log.read(0, 1000).unwrap()), (105, slice(&"a".repeat(100), 100, 105, false, 0)));
    let told = log.read(100, 1000).unwrap();
    assert_eq!((told.next, told.dropped), (105, 5));
    assert!(told.text.starts_with("\n[5 bytes of output were not kept: "), "{told:?}");
    log.finish();
    std::fs::remove_dir(folder.join(format!("{:020}", 100))).unwrap();
    let told = OutputLog::open(&folder).unwrap().read(100, 1000).unwrap();
    assert_eq!((told.next, told.dropped, told.done), (105, 5, true));
}

#[test]
fn a_reader_is_not_disturbed_by_a_writer_that_drops_what_it_reads() {
    let (_dir, log) = log(4096);
    let writer = log.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..20_000 {
                writer.write(format!("{n:07}\n").as_bytes()).unwrap();
            }
            writer.finish();
        });
        let mut offset = 0;
        loop {
            let slice = log.read(offset, 4096).unwrap();
            let start = offset + slice.dropped;
            if !slice.text.is_empty() && start % 8 == 0 {
                assert!(slice.text.starts_with(&format!("{:07}", start / 8)), "{start}: {slice:?}");
            }
            offset = slice.next;
            if slice.done && offset == slice.size {
                break;
            }
        }
    });
}

#[test]
fn a_finished_log_holds_no_file_open() {
    let open = |dir: &Path| {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path.starts_with(dir))).count()
    };
    let (dir, log) = log(800);
    log.write(&[0; 5000]).unwrap();
    assert_eq!(open(dir.path()), 1);
    log.finish();
    assert_eq!((open(dir.path()), everything_lossy(&log)), (0, log.size()));
}

fn everything_lossy(log: &OutputLog) -> u64 {
    let mut offset = 0;
    loop {
        let slice = log.read(offset, 100).unwrap();
        if slice.next == offset {
            return offset;
        }
        offset = slice.next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_written_reads_back_up_to_the_end_as_valid_text(
        text in "[a語é🌳\n]{0,400}",
        noise in proptest::collection::vec(any::<u8>(), 0..40),
        bound in 1u64..600,
        limit in 0usize..50,
        piece in 1usize..30,
    ) {
        let (_dir, log) = log(bound);
        let bytes = [text.as_bytes(), &noise, text.as_bytes()].concat();
        for piece in bytes.chunks(piece) {
            log.write(piece).unwrap();
            log.read(log.size() / 2, limit).unwrap();
        }
        log.finish();
        let mut offset = 0;
        let mut read = String::new();
        let mut dropped = 0;
        while offset < log.size() {
            let slice = log.read(offset, limit).unwrap();
            prop_assert!(slice.next > offset, "{:?} at {}", slice, offset);
            offset = slice.next;
            dropped += slice.dropped;
            read.push_str(&slice.text);
        }
        prop_assert_eq!(offset, bytes.len() as u64);
        if dropped == 0 && limit > 0 && noise.is_empty() {
            prop_assert_eq!(read, [text.as_str(), text.as_str()].concat());
        }
    }
}
