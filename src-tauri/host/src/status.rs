//! What people are to know about this process, for the status line: one line for each topic.

use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// What a line is about. A later line about the same takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// What a crash had left behind.
    Leftovers,
    /// What the end before could not confirm.
    Unconfirmed,
    /// The log cannot be followed.
    Log,
    /// A stop from the tray failed.
    Stop,
    /// Nobody shows notifications.
    Notices,
}

/// The lines that stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<Topic, String>);

/// Lines about this process. Clones share them.
#[derive(Clone)]
pub struct Status(Arc<watch::Sender<Lines>>);

impl Default for Status {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Lines::default())))
    }
}

impl Lines {
    /// All in one line; none when there is nothing to say.
    pub fn text(&self) -> Option<String> {
        let lines: Vec<&str> = self.0.values().map(String::as_str).collect();
        (!lines.is_empty()).then(|| lines.join(" "))
    }
}

impl Status {
    /// Says a line, in place of what was said about the same before.
    pub fn say(&self, topic: Topic, line: impl Into<String>) {
        let line = line.into();
        self.0.send_if_modified(|lines| lines.0.insert(topic, line.clone()).is_none_or(|before| before != line));
    }

    /// Takes back what was said about this.
    pub fn clear(&self, topic: Topic) {
        self.0.send_if_modified(|lines| lines.0.remove(&topic).is_some());
    }

    /// What stands there now.
    pub fn line(&self) -> Option<String> {
        self.0.borrow().text()
    }

    /// Tells when it changes.
    pub fn watch(&self) -> watch::Receiver<Lines> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_topic_has_one_line_and_can_be_taken_back() {
        let status = Status::default();
        status.say(Topic::Log, "One.");
        status.say(Topic::Notices, "Two.");
        status.say(Topic::Log, "Three.");
        assert_eq!(status.line().as_deref(), Some("Three. Two."));
        let mut watch = status.watch();
        status.say(Topic::Notices, "Two.");
        assert!(!watch.has_changed().unwrap(), "said once");
        status.clear(Topic::Log);
        assert!(watch.has_changed().unwrap());
        assert_eq!(watch.borrow_and_update().text().as_deref(), Some("Two."));
        status.clear(Topic::Notices);
        assert_eq!(status.line(), None);
    }
}
