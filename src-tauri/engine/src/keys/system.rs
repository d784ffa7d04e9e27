//! The keyring of the system: Secret Service, Keychain, Credential Manager. Each use connects anew, so that a keyring
//! that comes or is unlocked later is found.

use super::KeyStore;
use keyring_core::{Entry, Error};
use secrecy::{ExposeSecret, SecretString};

/// What keys are kept under.
const SERVICE: &str = "coppice";

/// The keyring that the system offers.
#[derive(Clone, Copy, Debug)]
pub struct SystemKeyring;

impl SystemKeyring {
    fn entry(name: &str) -> Result<Entry, String> {
        #[cfg(all(unix, not(any(target_os = "macos", target_os = "ios", target_os = "android"))))]
        let store = zbus_secret_service_keyring_store::Store::new();
        #[cfg(target_os = "macos")]
        let store = apple_native_keyring_store::keychain::Store::new();
        #[cfg(windows)]
        let store = windows_native_keyring_store::Store::new();
        let store: std::sync::Arc<keyring_core::CredentialStore> = store.map_err(|error| told(&error))?;
        Entry::new_in_store(&store, SERVICE, name).map_err(|error| told(&error))
    }
}

impl KeyStore for SystemKeyring {
    fn read(&self, name: &str) -> Result<Option<SecretString>, String> {
        match Self::entry(name)?.get_password() {
            Ok(key) => Ok(Some(SecretString::from(key))),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(told(&error)),
        }
    }

    fn write(&self, name: &str, key: &SecretString) -> Result<(), String> {
        Self::entry(name)?.set_password(key.expose_secret()).map_err(|error| told(&error))
    }

    fn remove(&self, name: &str) -> Result<bool, String> {
        match Self::entry(name)?.delete_credential() {
            Ok(()) => Ok(true),
            Err(Error::NoEntry) => Ok(false),
            Err(error) => Err(told(&error)),
        }
    }
}

/// What went wrong, in words of our own: those of a keyring could repeat what they were given.
fn told(error: &Error) -> String {
    match error {
        Error::NoStorageAccess(_) => "the keyring is locked, or does not let Coppice in.",
        Error::PlatformFailure(_) | Error::NoDefaultStore => "there is no keyring that answers.",
        Error::TooLong(..) => "the key is longer than the keyring takes.",
        Error::Ambiguous(_) => "the keyring has several keys of this name; remove them there.",
        _ => "the keyring does not work as it should.",
    }
    .to_owned()
}
