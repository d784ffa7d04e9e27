//! The keys of model servers: where they are found and kept, and that nobody sees them.
//!
//! A key has the name that the configuration gives it (`key_env`). It is looked for in the environment, in the system's
//! keyring, in a file of the data folder that only exists when the person asked for it, and in memory. It is looked for
//! when it is needed, so one that comes later works at once, and what failed once is tried again the next time.

mod file;
mod system;
mod vendors;

use crate::env;
use crate::error::{Code, Error, Result};
use crate::mask::Mask;
use crate::scope::Scope;
use async_trait::async_trait;
use file::KeyFile;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
pub use system::SystemKeyring;
use ts_rs::TS;
pub use vendors::VENDORS;

/// How long a keyring may take: it may ask the person to unlock it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest key, in bytes.
const MAX_KEY: usize = 8 * 1024;

/// The shortest key of which the end is shown: of a shorter one that would be too much.
const SHOWN_FROM: usize = 12;

/// A place that keeps keys by their name. It may block, and wait for the person. Errors are for people and hold nothing of
/// a key.
pub trait KeyStore: Send + Sync {
    /// The key; none when there is none.
    fn read(&self, name: &str) -> Result<Option<SecretString>, String>;
    /// Keeps a key in place of the one before.
    fn write(&self, name: &str, key: &SecretString) -> Result<(), String>;
    /// Removes a key. Answers whether there was one.
    fn remove(&self, name: &str) -> Result<bool, String>;
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum KeyPlace {
    /// In the environment that Coppice was started with. It wins over all others.
    Environment,
    /// In the system's keyring.
    Keyring,
    /// In a file of the data folder that only the person can read, unencrypted.
    File,
    /// In memory, until Coppice ends.
    Memory,
}

impl KeyPlace {
    /// Where that is, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Environment => "the environment",
            Self::Keyring => "the keyring",
            Self::File => "the key file",
            Self::Memory => "memory, until Coppice ends",
        }
    }
}

/// What is told of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct KeyView {
    /// Its name.
    pub name: String,
    /// The models that use it.
    pub models: Vec<String>,
    /// Where it is; none when it is nowhere.
    pub place: Option<KeyPlace>,
    /// Its last four characters; none of a short key.
    pub ending: Option<String>,
    /// Why it could not be looked for everywhere.
    pub problem: Option<String>,
}

/// Where one key comes from, for those who use it.
#[async_trait]
pub trait KeySource: Send + Sync {
    /// The key as it is now; none when there is none. The error is for people.
    async fn key(&self) -> Result<Option<SecretString>, String>;
    /// It was refused: it is looked for again the next time.
    fn refused(&self);
}

/// All keys. Clones share them.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    keyring: Arc<dyn KeyStore>,
    file: Arc<KeyFile>,
    mask: Mask,
    /// What was found, so that not every request asks the keyring; what is kept in memory only stands here, too.
    known: Mutex<BTreeMap<String, (SecretString, KeyPlace)>>,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
}

impl Keys {
    /// Keys that are kept in this keyring, or in a file of the folder `data`. `mask` learns every key that is found.
    pub fn new(data: &Path, keyring: Arc<dyn KeyStore>, mask: Mask) -> Self {
        let file = Arc::new(KeyFile::new(data));
        Self(Arc::new(Inner { keyring, file, mask, known: Mutex::default(), changing: tokio::sync::Mutex::default() }))
    }

    /// The key of this name, where it is needed.
    pub fn source(&self, name: &str) -> Arc<dyn KeySource> {
        Arc::new(Named { keys: self.clone(), name: name.to_owned() })
    }

    /// Lets the mask know what can be known without asking the keyring, which may ask the person.
    pub async fn learn(&self, names: &[String]) {
        let (inner, names) = (self.0.clone(), names.to_vec());
        let learned = Scope::blocking(move || {
            for name in &names {
                inner.environment(name);
                if let Some(key) = inner.file.read(name)? {
                    inner.mask.hold(&key);
                }
            }
            Ok::<_, String>(())
        });
        if let Err(why) = learned.await {
            tracing::warn!(why, "the key file cannot be read");
        }
    }

    /// Finds a key, and where it is. The error tells why it could not be looked for everywhere, when it was not found.
    pub async fn find(&self, name: &str) -> Result<Option<(SecretString, KeyPlace)>, String> {
        let inner = &self.0;
        if let Some(key) = inner.environment(name) {
            return Ok(Some((key, KeyPlace::Environment)));
        }
        if let Some(known) = inner.known().get(name) {
            return Ok(Some(known.clone()));
        }
        let mut trouble = None;
        let places: [(Arc<dyn KeyStore>, KeyPlace); 2] =
            [(inner.keyring.clone(), KeyPlace::Keyring), (inner.file.clone(), KeyPlace::File)];
        for (store, place) in places {
            let wanted = name.to_owned();
            match bounded(move || store.read(&wanted)).await {
                Ok(Some(key)) => {
                    inner.mask.hold(&key);
                    inner.known().insert(name.to_owned(), (key.clone(), place));
                    return Ok(Some((key, place)));
                }
                Ok(None) => {}
                Err(why) => {
                    trouble.get_or_insert(why);
                }
            }
        }
        trouble.map_or(Ok(None), Err)
    }

    /// Keeps a key under this name in this place, and nowhere else. Nothing is kept in another place than was asked for.
    pub async fn set(&self, name: &str, key: &SecretString, place: KeyPlace) -> Result<()> {
        check_name(name)?;
        let text = key.expose_secret().trim();
        let wrong = |why: &str| Error::new(Code::BadRequest, format!("{why} Nothing was kept."));
        if text.is_empty() {
            return Err(wrong("The key is empty."));
        }
        if text.len() > MAX_KEY {
            return Err(wrong("The key is longer than any key is."));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("The key holds spaces, or characters that no key has."));
        }
        let key = SecretString::from(text);
        let _alone = self.0.changing.lock().await;
        // Before it is anywhere, so that no way of failing can show it.
        self.0.mask.hold(&key);
        let store: Option<Arc<dyn KeyStore>> = match place {
            KeyPlace::Environment => {
                return Err(wrong("Coppice cannot set the environment that it was started with."));
            }
            KeyPlace::Keyring => Some(self.0.keyring.clone()),
            KeyPlace::File => Some(self.0.file.clone()),
            KeyPlace::Memory => None,
        };
        if let Some(store) = store {
            let (wanted, kept) = (name.to_owned(), key.clone());
            bounded(move || store.write(&wanted, &kept)).await.map_err(|why| {
                let other = match place {
                    KeyPlace::Keyring => " Keep it in a file with --file, or set the variable in the environment.",
                    _ => "",
                };
                Error::new(Code::Store, format!("The key was not kept: {why}{other}"))
            })?;
        }
        if place != KeyPlace::File {
            // The file is the weaker place: what is there from before goes.
            let (file, wanted) = (self.0.file.clone(), name.to_owned());
            let gone = bounded(move || file.remove(&wanted)).await;
            gone.map_err(|why| Error::new(Code::Store, format!("The key is kept, but an older one is left: {why}")))?;
        }
        self.0.known().insert(name.to_owned(), (key, place));
        Ok(())
    }

    /// Removes a key from everywhere but the environment. Answers where it was.
    pub async fn remove(&self, name: &str) -> Result<Vec<KeyPlace>> {
        check_name(name)?;
        let _alone = self.0.changing.lock().await;
        let known = self.0.known().remove(name);
        let mut from: Vec<KeyPlace> = Vec::new();
        let mut trouble = None;
        let places: [(Arc<dyn KeyStore>, KeyPlace); 2] =
            [(self.0.keyring.clone(), KeyPlace::Keyring), (self.0.file.clone(), KeyPlace::File)];
        for (store, place) in places {
            let wanted = name.to_owned();
            match bounded(move || store.remove(&wanted)).await {
                Ok(true) => from.push(place),
                Ok(false) => {}
                Err(why) => {
                    trouble.get_or_insert(why);
                }
            }
        }
        if known.is_some_and(|(_, place)| place == KeyPlace::Memory) {
            from.push(KeyPlace::Memory);
        }
        match trouble {
            Some(why) if from.is_empty() => Err(Error::new(Code::Store, format!("Nothing was removed: {why}"))),
            _ => Ok(from),
        }
    }

    /// What can be told of these keys, each with the models that use it.
    pub async fn views(&self, names: BTreeMap<String, Vec<String>>) -> Vec<KeyView> {
        let mut views = Vec::new();
        for (name, models) in names {
            let (found, problem) = match self.find(&name).await {
                Ok(found) => (found, None),
                Err(why) => (None, Some(why)),
            };
            let ending = found.as_ref().and_then(|(key, _)| ending(key));
            views.push(KeyView { name, models, place: found.map(|(_, place)| place), ending, problem });
        }
        views
    }

    /// Whether the keyring works, by keeping something in it, reading it and removing it. The error is for people.
    pub async fn probe(&self) -> Result<(), String> {
        let keyring = self.0.keyring.clone();
        bounded(move || {
            // Several may probe at once, each with a name of its own.
            let name = format!("coppice-probe-{}", std::process::id());
            let probe = SecretString::from("works");
            keyring.write(&name, &probe)?;
            let read = keyring.read(&name);
            keyring.remove(&name)?;
            match read? {
                Some(found) if found.expose_secret() == probe.expose_secret() => Ok(()),
                _ => Err("the keyring does not give back what was kept in it.".to_owned()),
            }
        })
        .await
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (SecretString, KeyPlace)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn environment(&self, name: &str) -> Option<SecretString> {
        let key = env::var(name)?;
        let key = SecretString::from(key.trim());
        self.mask.hold(&key);
        (!key.expose_secret().is_empty()).then_some(key)
    }
}

struct Named {
    keys: Keys,
    name: String,
}

#[async_trait]
impl KeySource for Named {
    async fn key(&self) -> Result<Option<SecretString>, String> {
        Ok(self.keys.find(&self.name).await?.map(|(key, _)| key))
    }

    fn refused(&self) {
        // What stands in memory only cannot be found anywhere else.
        let mut known = self.keys.0.known();
        if known.get(&self.name).is_some_and(|(_, place)| *place != KeyPlace::Memory) {
            known.remove(&self.name);
        }
    }
}

/// The last four characters of a key; none of a short one.
pub fn ending(key: &SecretString) -> Option<String> {
    let key = key.expose_secret();
    (key.len() >= SHOWN_FROM && key.is_ascii()).then(|| key[key.len() - 4..].to_owned())
}

/// Whether this may be the name of a key: that of an environment variable. What was given is not repeated: it may be the
/// key itself.
fn check_name(name: &str) -> Result<()> {
    let fits = (1..=200).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let message = "A key is named as an environment variable is: letters, digits and _. Nothing was changed.";
    if fits { Ok(()) } else { Err(Error::new(Code::BadRequest, message)) }
}

async fn bounded<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let late = || format!("the keyring did not answer within {} s.", PATIENCE.as_secs());
    tokio::time::timeout(PATIENCE, Scope::blocking(work)).await.unwrap_or_else(|_| Err(late()))
}
