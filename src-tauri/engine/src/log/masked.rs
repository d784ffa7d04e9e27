//! What is written has no secrets in it: everything that a model, a tool or a server said is masked on its way into the
//! store, and nobody is shown anything of it before. What a person wrote is theirs, but for the keys that Coppice holds.

use crate::action::{Action, Allowed};
use crate::event::{Block, Event, Party};
use crate::mask::Mask;
use serde_json::{Value, json};

/// The fact of a finished call that tells how many secrets were masked in its result.
const MASKED: &str = "masked";

/// The event as it is kept.
pub(super) fn event(mask: &Mask, event: &Event) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::MessageAccepted { from: Party::Person, text, .. } => own(mask, text),
        Event::Decided { note: Some(text), .. } | Event::TaskStopping { by: Party::Person, reason: Some(text), .. } => {
            own(mask, text);
        }
        Event::MessageAccepted { text, .. }
        | Event::MessageDeferred { reason: text, .. }
        | Event::MessageDropped { reason: text, .. }
        | Event::NoticeAdmitted { text, .. }
        | Event::Noted { text }
        | Event::Told { text, .. }
        | Event::ModelRetried { reason: text, .. }
        | Event::TurnEnded { detail: Some(text), .. }
        | Event::TaskStarted { label: text, .. }
        | Event::TaskStopping { reason: Some(text), .. }
        | Event::Withdrawn { reason: text, .. }
        | Event::Renamed { title: text } => clean(mask, text),
        Event::SessionOpened { title, label, .. } => {
            mask.clean(title);
            label.iter_mut().for_each(|label| clean(mask, label));
        }
        Event::Described(descriptor) => {
            mask.clean(&mut descriptor.label);
            descriptor.persona.iter_mut().for_each(|persona| clean(mask, persona));
        }
        Event::Clashed { first_label, later_label, .. } => {
            mask.clean(first_label);
            mask.clean(later_label);
        }
        Event::TaskSettled { detail, output, .. } => {
            detail.iter_mut().chain(output).for_each(|text| clean(mask, text));
        }
        Event::Answered { blocks, .. } => *blocks = self::blocks(mask, blocks),
        Event::ToolFinished { text, detail, .. } => {
            let found = mask.clean(text);
            let facts = mask.value(detail);
            // The facts repeat what the text says; where it says nothing of it they count.
            let told = found > 0 || detail.get(MASKED).is_some();
            note(detail, if told { found } else { facts });
        }
        Event::Asked { action, allows, said, reason, .. } => {
            act(mask, action);
            // What is not kept as it is cannot be allowed again.
            allows.take_if(|allowed| matches!(allowed, Allowed::Command { text } if mask.text(text).1 > 0));
            mask.clean(&mut reason.text);
            said.iter_mut().for_each(|said| clean(mask, said));
        }
        Event::Stopped { receipt } => {
            for label in receipt.ended.iter_mut().chain(&mut receipt.kept).map(|item| &mut item.label) {
                mask.clean(label);
            }
            receipt.unconfirmed.iter_mut().for_each(|text| clean(mask, text));
        }
        // What has no words in it, names of files, and what another version wrote.
        Event::Seeded { .. }
        | Event::MessageAdmitted { .. }
        | Event::TurnStarted { .. }
        | Event::StepStarted { .. }
        | Event::FileChanging { .. }
        | Event::Undone { .. }
        | Event::TurnEnded { detail: None, .. }
        | Event::Warned { .. }
        | Event::Limited { .. }
        | Event::TaskStopping { reason: None, .. }
        | Event::TaskLearned { .. }
        | Event::Decided { note: None, .. }
        | Event::LeaveTaken { .. }
        | Event::ModeSet { .. }
        | Event::Archived { .. }
        | Event::Unknown { .. } => {}
    }
    event
}

/// A reply as it is kept.
pub(super) fn blocks(mask: &Mask, blocks: &[Block]) -> Vec<Block> {
    let mut blocks = blocks.to_vec();
    for block in &mut blocks {
        match block {
            Block::Text { text } | Block::Thinking { text } => clean(mask, text),
            Block::ToolCall { name, args, .. } => {
                mask.clean(name);
                mask.clean(args);
            }
        }
    }
    blocks
}

fn clean(mask: &Mask, text: &mut String) {
    mask.clean(text);
}

fn own(mask: &Mask, text: &mut String) {
    *text = mask.own(text).into_owned();
}

fn act(mask: &Mask, action: &mut Action) {
    match action {
        Action::Command { text, .. } | Action::Write { diff: text, .. } => *text = mask.words(text),
        Action::Read { .. } => {}
    }
}

/// Adds to the number of secrets that were masked before the result came here.
fn note(detail: &mut Value, more: u64) {
    if more == 0 {
        return;
    }
    match detail {
        Value::Object(facts) => {
            let before = facts.get(MASKED).and_then(Value::as_u64).unwrap_or(0);
            facts.insert(MASKED.to_owned(), (before + more).into());
        }
        detail => *detail = json!({ MASKED: more }),
    }
}
