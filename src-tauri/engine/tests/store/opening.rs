//! Opening: what must be left alone is left alone, and said.

use super::*;

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_and_left_as_it_is() {
    let dir = tempdir().unwrap();
    let log = open(&dir);
    eventful(&log).await;
    let sql = Connection::open(log.path()).unwrap();
    sql.pragma_update(None, "user_version", 12).unwrap();
    // As another process would leave it that was killed: the version may still stand in the write-ahead log alone.
    let dir = crash(&dir);
    let before = kept_bytes(dir.path());
    assert!(before.values().all(|content| !content.is_empty()) && before.len() == 2, "{:?}", before.keys());
    let told = refusal(dir.path());
    let path = dir.path().join(Log::FILE);
    assert_eq!(
        (told.code(), told.message().to_owned()),
        (
            Code::Store,
            format!(
                "{} was made by a newer Coppice (store version 12, this one reads 6). Update Coppice, or choose another \
                 folder with --data.",
                path.display()
            )
        )
    );
    assert!(kept_bytes(dir.path()) == before);
}

#[tokio::test]
async fn a_damaged_store_is_named_and_left_as_it_is() {
    let source = tempdir().unwrap();
    let log = open(&source);
    eventful(&log).await;
    let large = vec![message(&"x".repeat(3000)); 100];
    put(&log, "root", large).await.unwrap();
    log.close().await.unwrap();
    let whole = bytes(source.path());
    assert_eq!(whole.keys().collect::<Vec<_>>(), [Log::FILE]);
    let whole = &whole[Log::FILE];

    let check = |what: &str, file: Option<Vec<u8>>, wal: Option<&[u8]>| {
        let dir = tempfile::Builder::new().prefix("ä 100% #?&").tempdir().unwrap();
        let path = dir.path().join(Log::FILE);
        file.iter().for_each(|content| fs::write(&path, content).unwrap());
        wal.iter().for_each(|content| fs::write(dir.path().join(format!("{}-wal", Log::FILE)), content).unwrap());
        let before = bytes(dir.path());
        let told = refusal(dir.path());
        assert_eq!(told.code(), Code::Store, "{what}");
        let named = format!("{} is damaged", path.display());
        assert!(told.message().starts_with(&named), "{what}: {}", told.message());
        assert!(bytes(dir.path()) == before, "{what}: {:?}", bytes(dir.path()).keys());
    };
    let with = |at: usize, bytes: &[u8]| {
        let mut content = whole.clone();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        Some(content)
    };
    let middle = whole.len() / 2 / 4096 * 4096;
    check("a page in the middle is overwritten", with(middle, &[0xa5; 4096]), None);
    check("the schema is overwritten", with(100, &[0xff; 2000]), None);
    check("it is another file", Some(b"these are not the bytes of a database, only words ".repeat(100)), None);
    check("it is cut off", Some(whole[..middle].to_vec()), None);
    check("it is empty and the rest is there", Some(Vec::new()), Some(&[1; 5000]));
    check("it is missing and the rest is there", None, Some(&[1; 5000]));
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    let dir = tempdir().unwrap();
    let path = dir.path().join(Log::FILE);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    let before = bytes(dir.path());
    let told = refusal(dir.path());
    assert!(told.message().contains("is a database of another program"), "{told}");
    assert!(bytes(dir.path()) == before);
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    fs::create_dir_all(dir.path().join("taken").join(Log::FILE)).unwrap();
    let check = |folder: &Path, named: &Path| {
        let told = refusal(folder);
        assert_eq!(told.code(), Code::Store);
        assert!(told.message().starts_with(&format!("{} cannot be written (", named.display())), "{told}");
        assert!(told.message().ends_with("or choose another folder with --data."), "{told}");
    };
    check(&dir.path().join("file").join("data"), &dir.path().join("file").join("data"));
    check(&dir.path().join("taken"), &dir.path().join("taken").join(Log::FILE));
    if cfg!(target_os = "linux") {
        check(Path::new("/proc/self"), &Path::new("/proc/self").join(Log::FILE));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_store_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    let data = dir.path().join("a").join("data");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let log = Log::open(&data, &Env::system()).unwrap();
    put(&log, "s", vec![opened(None, "s")]).await.unwrap();
    let modes: Vec<_> = bytes(&data).into_keys().map(|name| mode(&data.join(name))).collect();
    assert_eq!((mode(&data), modes), (0o700, vec![0o600; 3]));
    log.close().await.unwrap();
    fs::set_permissions(log.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let log = Log::open(&data, &Env::system()).unwrap();
    assert_eq!(mode(log.path()), 0o600);
}
