//! What a person sees and does in the window: things are found by their role and name.

use super::{PATIENCE, project};
use fantoccini::key::Key;
use fantoccini::{Client, Locator, elements::Element};
use std::time::{Duration, Instant};

/// How long a picture may take.
const PICTURE: Duration = Duration::from_secs(5);

/// The page of the window.
pub struct Page {
    client: Client,
}

impl Page {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The element that this XPath finds, as soon as it is there.
    pub async fn find(&self, xpath: &str) -> Element {
        self.find_within(xpath, PATIENCE).await
    }

    /// The same, for what takes longer.
    pub async fn find_within(&self, xpath: &str, patience: Duration) -> Element {
        let end = Instant::now() + patience;
        loop {
            let looking = self.client.find_all(Locator::XPath(xpath));
            if let Ok(Ok(found)) = tokio::time::timeout(PATIENCE, looking).await
                && let Some(first) = found.into_iter().next()
            {
                return first;
            }
            if Instant::now() > end {
                self.shoot("lost").await;
                panic!("not to be seen: {xpath}\n{}", self.text().await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page says this somewhere.
    pub async fn sees(&self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.text().await.contains(text) {
            if Instant::now() > end {
                self.shoot("lost").await;
                panic!("the page does not say {text:?}:\n{}", self.text().await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// All words of the page.
    pub async fn text(&self) -> String {
        let script = "return document.body.innerText";
        match self.client.execute(script, Vec::new()).await {
            Ok(text) => text.as_str().unwrap_or_default().to_owned(),
            Err(error) => format!("({error})"),
        }
    }

    /// Presses the button of this name.
    pub async fn press(&self, name: &str) {
        let xpath = format!("//button[@aria-label={0} or contains(normalize-space(.), {0})]", quoted(name));
        self.find(&xpath).await.click().await.unwrap();
    }

    /// Presses the button of this name in the dialog that is open.
    pub async fn press_in_dialog(&self, name: &str) {
        self.find(&format!("//dialog//button[normalize-space(.)={}]", quoted(name))).await.click().await.unwrap();
    }

    /// Takes the entry of this name from the menu that is open.
    pub async fn choose(&self, name: &str) {
        self.find(&format!("//*[@role='menuitem'][span[.={}]]", quoted(name))).await.click().await.unwrap();
    }

    /// Types into the box whose name begins like this.
    pub async fn write(&self, name: &str, text: &str) {
        let area = self.find(&format!("//textarea[starts-with(@aria-label, {})]", quoted(name))).await;
        area.click().await.unwrap();
        area.send_keys(text).await.unwrap();
    }

    /// Presses Enter in the box whose name begins like this.
    pub async fn enter(&self, name: &str) {
        let area = self.find(&format!("//textarea[starts-with(@aria-label, {})]", quoted(name))).await;
        area.send_keys(&Key::Enter.to_string()).await.unwrap();
    }

    /// Presses keys together, wherever the focus is. A press that ends the program may have no answer.
    pub async fn keys(&self, modifier: Key, key: char) {
        let chord = format!("{modifier}{key}");
        let _ = self.client.active_element().await.unwrap().send_keys(&chord).await;
    }

    /// Waits until this script answers true.
    pub async fn holds(&self, script: &str) {
        let end = Instant::now() + PATIENCE;
        while self.client.execute(script, Vec::new()).await.ok().and_then(|answer| answer.as_bool()) != Some(true) {
            if Instant::now() > end {
                self.shoot("lost").await;
                panic!("it never holds: {script}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The row of the tree of which a part says exactly this: its name, or its state.
    pub async fn row(&self, text: &str) -> Element {
        self.find(&format!("//*[@role='treeitem'][.//*[normalize-space(text())={}]]", quoted(text))).await
    }

    /// Waits until the session of this title is open.
    pub async fn shows(&self, title: &str) {
        self.find(&format!("//h1[contains(normalize-space(.), {})]", quoted(title))).await;
    }

    /// Keeps a picture of the window in both themes.
    pub async fn shoot(&self, name: &str) {
        let dir =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| project().join("target"), Into::into).join("journeys");
        std::fs::create_dir_all(&dir).unwrap();
        for theme in ["light", "dark"] {
            let script = "document.documentElement.dataset.theme = arguments[0]";
            let themed = self.client.execute(script, vec![theme.into()]).await;
            // A page at rest may present no further frame for the picture to be taken from.
            let picture = tokio::time::timeout(PICTURE, self.client.screenshot()).await;
            // A picture helps whoever looks for the cause; the journey does not hang on it.
            if let (Ok(_), Ok(Ok(picture))) = (themed, picture) {
                std::fs::write(dir.join(format!("{name}-{theme}.png")), picture).unwrap();
            }
        }
    }
}

fn quoted(text: &str) -> String {
    assert!(!text.contains('\''), "no apostrophes in names that are looked for");
    format!("'{text}'")
}
