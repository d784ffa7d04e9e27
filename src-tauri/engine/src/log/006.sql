-- Since when the branch is at what it was asked last, how long the session's own turns of that took, and who stopped it.

ALTER TABLE session ADD COLUMN asked_at INTEGER;
ALTER TABLE session ADD COLUMN worked_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN stopped_by TEXT;

-- Of what was asked before, the last turn is known.
UPDATE session SET asked_at = started_at, worked_ms = coalesce(ended_at - started_at, 0) WHERE started_at IS NOT NULL;
