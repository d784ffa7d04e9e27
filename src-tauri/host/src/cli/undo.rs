//! `coppice undo`: what agents did to files, taken back.

use super::{Out, Trouble};
use crate::client::Client;
use crate::text;
use coppice_engine::engine::{UndoHow, Undoing, UndoneFile};
use serde_json::Value;

/// Takes changes back, or only tells what would happen. Exit code 1 when a file was left alone.
pub async fn undo(client: &Client, args: Value, preview: bool, json: bool, out: &mut Out) -> Result<u8, Trouble> {
    let session = args["session"].as_str().unwrap_or_default().to_owned();
    let undoing: Undoing = client.ask("undo", args).await?;
    let left = undoing.files.iter().any(|file| file.how == UndoHow::Refused);
    if json {
        let line = serde_json::to_string(&undoing).map_err(std::io::Error::other)?;
        out.line(&text::plain_json(&line))?;
        return Ok(u8::from(left));
    }
    if preview {
        out.line("Would do this:")?;
    }
    for file in &undoing.files {
        out.line(&format!("  {}", told(file)))?;
        for line in file.diff.lines() {
            out.line(&format!("    {}", text::plain(line)))?;
        }
    }
    if let Some(n) = undoing.n {
        out.line(&format!("Taken back. `coppice undo {session} --row {n}` puts it back."))?;
    }
    Ok(u8::from(left))
}

fn told(file: &UndoneFile) -> String {
    let shown = text::line(&file.shown, 200);
    let edits = text::count(file.edits as usize, "change", "changes");
    match file.how {
        UndoHow::Restored => format!("{shown}: restored ({edits}, +{} -{})", file.added, file.removed),
        UndoHow::Removed => format!("{shown}: removed, it was not there before"),
        UndoHow::Merged => {
            format!("{shown}: {edits} taken back, what came later is kept (+{} -{})", file.added, file.removed)
        }
        UndoHow::Same => format!("{shown}: is as it was before already"),
        UndoHow::Refused => text::line(file.why.as_deref().unwrap_or("left alone"), 400),
    }
}
