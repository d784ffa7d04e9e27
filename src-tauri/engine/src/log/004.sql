-- What the person was asked, and what was allowed for more than one call.

-- `seq` is that of its Asked, `asked` its n. `state` is open, later, once, branch, always, denied or withdrawn; `owed`
-- holds while a leave for one call waits for that call to be made again.
CREATE TABLE ask (
    seq        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    session    TEXT    NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    call       TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    allows     TEXT,
    reason     TEXT    NOT NULL,
    said       TEXT,
    asked      INTEGER NOT NULL,
    asked_at   INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    note       TEXT,
    decided_at INTEGER,
    owed       INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX ask_session ON ask (session);
CREATE INDEX ask_open ON ask (seq) WHERE state IN ('open', 'later');

-- Kept for its own sake: what holds for good outlives the session that asked, and has no `session`. What was taken back
-- stays as a row, so that no fold brings it back.
CREATE TABLE allowance (
    ask     TEXT    PRIMARY KEY,
    session TEXT,
    cwd     TEXT    NOT NULL,
    allows  TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    used    INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX allowance_cwd ON allowance (cwd);
