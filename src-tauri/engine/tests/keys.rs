//! Where keys are found and kept.

use coppice_engine::error::Code;
use coppice_engine::keys::{KeyPlace, KeyStore, Keys, SystemKeyring, VENDORS};
use coppice_engine::mask::{MASKED, Mask};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const NAME: &str = "COPPICE_TEST_KEY_THAT_IS_NOT_SET";

/// A keyring that can be locked, and counts who reads it.
#[derive(Default)]
struct Ring {
    keys: Mutex<BTreeMap<String, String>>,
    locked: Mutex<bool>,
    reads: AtomicU32,
}

impl Ring {
    fn open(&self) -> Result<(), String> {
        if *self.locked.lock().unwrap() { Err("the keyring is locked.".to_owned()) } else { Ok(()) }
    }

    fn lock(&self, locked: bool) {
        *self.locked.lock().unwrap() = locked;
    }
}

impl KeyStore for Ring {
    fn read(&self, name: &str) -> Result<Option<SecretString>, String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.open()?;
        Ok(self.keys.lock().unwrap().get(name).cloned().map(SecretString::from))
    }

    fn write(&self, name: &str, key: &SecretString) -> Result<(), String> {
        self.open()?;
        self.keys.lock().unwrap().insert(name.to_owned(), key.expose_secret().to_owned());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<bool, String> {
        self.open()?;
        Ok(self.keys.lock().unwrap().remove(name).is_some())
    }
}

struct Place {
    dir: TempDir,
    ring: Arc<Ring>,
    mask: Mask,
    keys: Keys,
}

fn place() -> Place {
    let (dir, ring, mask) = (tempfile::tempdir().unwrap(), Arc::new(Ring::default()), Mask::default());
    let keys = Keys::new(dir.path(), ring.clone(), mask.clone());
    Place { dir, ring, mask, keys }
}

async fn found(keys: &Keys) -> Result<Option<(String, KeyPlace)>, String> {
    Ok(keys.find(NAME).await?.map(|(key, place)| (key.expose_secret().to_owned(), place)))
}

fn key(text: &str) -> SecretString {
    SecretString::from(text)
}

#[tokio::test]
async fn a_keyring_that_was_locked_is_asked_again_and_what_was_found_is_not() {
    let Place { ring, keys, .. } = place();
    ring.lock(true);
    assert_eq!(found(&keys).await, Err("the keyring is locked.".to_owned()));
    assert_eq!(keys.probe().await, Err("the keyring is locked.".to_owned()));
    ring.lock(false);
    assert_eq!((keys.probe().await, found(&keys).await), (Ok(()), Ok(None)));
    assert_eq!(ring.keys.lock().unwrap().len(), 0, "nothing of the probe is left");
    ring.write(NAME, &key("set-elsewhere-1")).unwrap();
    let want = Ok(Some(("set-elsewhere-1".to_owned(), KeyPlace::Keyring)));
    assert_eq!(found(&keys).await, want);
    let reads = ring.reads.load(Ordering::Relaxed);
    assert_eq!((found(&keys).await, ring.reads.load(Ordering::Relaxed)), (want, reads));
    // The server does not take it any more: it may have been changed.
    ring.write(NAME, &key("set-elsewhere-2")).unwrap();
    keys.source(NAME).refused();
    assert_eq!(found(&keys).await, Ok(Some(("set-elsewhere-2".to_owned(), KeyPlace::Keyring))));
}

#[tokio::test]
async fn a_key_is_kept_where_it_was_asked_for_and_nowhere_else() {
    let Place { dir, ring, keys, mask } = place();
    let file = dir.path().join("keys.json");
    ring.lock(true);
    let refused = keys.set(NAME, &key("the-key-0123"), KeyPlace::Keyring).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (
            Code::Store,
            "The key was not kept: the keyring is locked. Keep it in a file with --file, or set the variable in the \
             environment."
        )
    );
    assert!(!file.exists(), "the file is only made when it is asked for");
    assert_eq!(mask.text("it is the-key-0123").0, format!("it is {MASKED}"), "it is masked all the same");

    keys.set(NAME, &key(" the-key-0123\n"), KeyPlace::File).await.unwrap();
    assert_eq!(found(&keys).await, Ok(Some(("the-key-0123".to_owned(), KeyPlace::File))));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    // Another start finds it, also while the keyring is locked.
    let again = Keys::new(dir.path(), ring.clone(), Mask::default());
    assert_eq!(found(&again).await, Ok(Some(("the-key-0123".to_owned(), KeyPlace::File))));

    ring.lock(false);
    keys.set(NAME, &key("the-key-4567"), KeyPlace::Keyring).await.unwrap();
    assert!(!file.exists(), "the weaker place is emptied");
    assert_eq!(found(&keys).await, Ok(Some(("the-key-4567".to_owned(), KeyPlace::Keyring))));

    assert_eq!(keys.remove(NAME).await.unwrap(), [KeyPlace::Keyring]);
    assert_eq!((found(&keys).await, keys.remove(NAME).await.unwrap()), (Ok(None), vec![]));
    keys.set(NAME, &key("the-key-89ab"), KeyPlace::Memory).await.unwrap();
    keys.source(NAME).refused();
    assert_eq!(found(&keys).await, Ok(Some(("the-key-89ab".to_owned(), KeyPlace::Memory))));
    assert_eq!(found(&Keys::new(dir.path(), ring, mask)).await, Ok(None));
    assert_eq!(keys.remove(NAME).await.unwrap(), [KeyPlace::Memory]);
}

#[tokio::test]
async fn what_is_no_key_is_refused_without_being_repeated() {
    let Place { keys, .. } = place();
    for (name, text, place) in [
        ("sk-given-as-the-name", "k-0123456789", KeyPlace::Memory),
        (NAME, "", KeyPlace::Memory),
        (NAME, "two words-of-a-key", KeyPlace::Memory),
        (NAME, "no-key-0123456789-\u{e9}", KeyPlace::File),
        (NAME, "k-0123456789", KeyPlace::Environment),
    ] {
        let refused = keys.set(name, &key(text), place).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadRequest);
        assert!(!refused.message().contains("given") && !refused.message().contains("0123"), "{refused}");
        assert!(!format!("{refused:?}").contains("0123"));
    }
    assert_eq!(format!("{:?}", key("sk-0123")), "SecretBox<str>([REDACTED])");
}

#[tokio::test]
async fn a_damaged_key_file_is_told_and_not_repeated() {
    let Place { dir, keys, .. } = place();
    std::fs::write(dir.path().join("keys.json"), "{\"A\": sk-0123456789").unwrap();
    let why = found(&keys).await.unwrap_err();
    assert!(why.contains("it is damaged; remove it") && !why.contains("0123"), "{why}");
    assert_eq!(keys.set(NAME, &key("k-0123456789"), KeyPlace::File).await.unwrap_err().code(), Code::Store);
}

#[test]
fn the_keys_of_vendors_are_known_and_what_builds_need_is_not_among_them() {
    assert!(VENDORS.contains(&"OPENAI_API_KEY") && VENDORS.contains(&"ANTHROPIC_API_KEY"));
    for needed in ["GITHUB_TOKEN", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN", "CARGO_REGISTRY_TOKEN"] {
        assert!(!VENDORS.contains(&needed), "{needed}");
    }
    assert!(VENDORS.is_sorted());
}

/// `dbus-run-session -- bash -c 'printf pw | gnome-keyring-daemon --unlock --components=secrets; cargo test ... --ignored'`
#[tokio::test]
#[ignore = "needs a keyring that is unlocked"]
async fn the_keyring_of_the_system_keeps_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let keys = Keys::new(dir.path(), Arc::new(SystemKeyring), Mask::default());
    assert_eq!(keys.probe().await, Ok(()));
    keys.set(NAME, &key("the-key-0123"), KeyPlace::Keyring).await.unwrap();
    let again = Keys::new(dir.path(), Arc::new(SystemKeyring), Mask::default());
    assert_eq!(found(&again).await, Ok(Some(("the-key-0123".to_owned(), KeyPlace::Keyring))));
    assert_eq!(keys.remove(NAME).await.unwrap(), [KeyPlace::Keyring]);
    assert_eq!(found(&again.clone()).await.map(|key| key.is_some()), Ok(true), "it is remembered until it is refused");
}
