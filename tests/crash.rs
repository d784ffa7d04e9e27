//! What a `kill -9` may not break.

use crate::support::crash;

#[test]
fn nothing_is_lost_doubled_or_left_behind_by_a_crash_at_any_instant() {
    let findings = crash::rounds(12, 0x5eed);
    assert!(findings.faults.is_empty(), "{:#?}", findings.faults);
    // It did see something.
    assert_eq!((findings.rounds, findings.recoveries.len()), (12, 12));
    assert!(findings.messages > 12 && findings.tasks > 12, "{} messages, {} tasks", findings.messages, findings.tasks);
}
