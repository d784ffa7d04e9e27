//! Making models of what the configuration says.

use crate::config::{ModelConfig, Protocol, file};
use crate::error::{Code, Error};
use crate::keys::Keys;
use crate::llm::Model;
use crate::llm::openai::{OpenAi, OpenAiSettings};
use crate::llm::rehearsal::{Rehearsal, Script};
use std::sync::Arc;
use std::time::Duration;

/// The largest script of a rehearsal that is read, in bytes.
const MAX_SCRIPT: u64 = 8 * 1024 * 1024;

/// Makes the model that the configuration calls `name`. `idle` is how long it may show no sign of life.
///
/// Nothing is sent. A key that is named is looked for when the model is asked.
pub fn build(config: &ModelConfig, name: &str, idle: Duration, keys: &Keys) -> Result<Arc<dyn Model>, Error> {
    let missing = |what: &str| Error::new(Code::BadRequest, format!("models.{name}: {what} is missing. Add it."));
    match config.protocol {
        Protocol::OpenaiChat => {
            let base_url = config.base_url.as_deref().ok_or_else(|| missing("base_url"))?;
            let model = config.model.as_deref().ok_or_else(|| missing("model"))?;
            let settings = OpenAiSettings {
                key: config.key_env.as_deref().map(|key| keys.source(key)),
                key_name: config.key_env.clone(),
                context: config.context,
                idle,
                ..OpenAiSettings::new(base_url, model)
            };
            Ok(Arc::new(OpenAi::new(settings).map_err(|error| {
                Error::new(error.code(), format!("models.{name}: {}", error.message())).because(error)
            })?))
        }
        Protocol::Rehearsal => {
            let pace = config.pace.unwrap_or(1.0);
            let Some(path) = &config.script else { return Ok(Arc::new(Rehearsal::tour(pace))) };
            let bad = |why: String| Error::new(Code::BadRequest, format!("models.{name}: {}{why}", path.display()));
            let bytes = file::read(path, MAX_SCRIPT)
                .map_err(|error| bad(format!(" cannot be read ({error}).")).because(error))?;
            let text = String::from_utf8(bytes).map_err(|error| bad(" is not UTF-8.".to_owned()).because(error))?;
            let script = Script::parse(&text).map_err(|why| bad(format!(", {why} Correct it and start again.")))?;
            Ok(Arc::new(Rehearsal::script(script, pace)))
        }
        Protocol::Anthropic | Protocol::OpenaiResponses | Protocol::Gemini => Err(Error::new(
            Code::BadRequest,
            format!("models.{name}: this protocol is not available yet in this version; use openai-chat."),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SystemKeyring;
    use crate::mask::Mask;
    use std::path::Path;

    fn config(protocol: Protocol) -> ModelConfig {
        ModelConfig { protocol, base_url: None, model: None, key_env: None, context: None, script: None, pace: None }
    }

    fn refusal(config: &ModelConfig) -> Option<String> {
        let keys = Keys::new(Path::new("/"), Arc::new(SystemKeyring), Mask::default());
        build(config, "mine", Duration::from_secs(1), &keys).err().map(|error| error.message().to_owned())
    }

    #[test]
    fn a_model_is_built_from_its_configuration_or_the_missing_part_is_named() {
        let chat = config(Protocol::OpenaiChat);
        assert_eq!(refusal(&chat).as_deref(), Some("models.mine: base_url is missing. Add it."));
        let chat = ModelConfig { base_url: Some("http://127.0.0.1:1/v1".to_owned()), ..chat };
        assert_eq!(refusal(&chat).as_deref(), Some("models.mine: model is missing. Add it."));
        let chat = ModelConfig { model: Some("m".to_owned()), key_env: Some("COPPICE_NOT_SET".to_owned()), ..chat };
        assert_eq!(refusal(&chat), None);
        let away = ModelConfig { base_url: Some("127.0.0.1".to_owned()), ..chat };
        assert!(refusal(&away).is_some_and(|why| why.starts_with("models.mine: base_url is no address")));

        assert_eq!(refusal(&config(Protocol::Rehearsal)), None);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script.json");
        let scripted = ModelConfig { script: Some(script.clone()), ..config(Protocol::Rehearsal) };
        let prefix = format!("models.mine: {}", script.display());
        assert!(refusal(&scripted).is_some_and(|why| why.starts_with(&prefix)));
        std::fs::write(&script, "{}").unwrap();
        let why = format!("{prefix}, line 1, column 2: missing field `sessions`. Correct it and start again.");
        assert_eq!(refusal(&scripted), Some(why));
        std::fs::write(&script, "{\"sessions\": {}}").unwrap();
        assert_eq!(refusal(&scripted), None);
        std::fs::write(&script, " ".repeat(9 * 1024 * 1024)).unwrap();
        let why = format!("{prefix} cannot be read (it is larger than 8388608 bytes).");
        assert_eq!(refusal(&scripted), Some(why));
        #[cfg(unix)]
        for endless in ["/dev/zero", "/dev/tty"] {
            let scripted = ModelConfig { script: Some(endless.into()), ..config(Protocol::Rehearsal) };
            let why = refusal(&scripted).unwrap();
            assert!(why.starts_with(&format!("models.mine: {endless} cannot be read (")), "{why}");
        }

        for protocol in [Protocol::Anthropic, Protocol::OpenaiResponses, Protocol::Gemini] {
            let why = "models.mine: this protocol is not available yet in this version; use openai-chat.";
            assert_eq!(refusal(&config(protocol)).as_deref(), Some(why));
        }
    }
}
