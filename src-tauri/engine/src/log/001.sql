-- The log, and what is folded from it. `session`, `call`, `task` and `notice` are projections: they can be dropped and
-- rebuilt from `event`. The others are kept for their own sake.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- AUTOINCREMENT, so that a deleted session's positions are never given out again and no cursor skips an event.
-- `batch` is the seq of the first event of the same write, `about` the n of the event that this one completes.
CREATE TABLE event (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    v       INTEGER NOT NULL,
    key     TEXT,
    batch   INTEGER NOT NULL,
    about   INTEGER,
    body    TEXT    NOT NULL,
    UNIQUE (session, n)
) STRICT;
CREATE UNIQUE INDEX event_key ON event (key) WHERE key IS NOT NULL;
CREATE INDEX event_about ON event (session, about) WHERE about IS NOT NULL;

-- `seq` is that of its SessionOpened. `turn_open` holds while a turn runs, `asking` is the step that waits for a reply.
CREATE TABLE session (
    seq          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    parent       TEXT,
    root         TEXT    NOT NULL,
    depth        INTEGER NOT NULL,
    title        TEXT    NOT NULL,
    label        TEXT,
    provider     TEXT,
    model        TEXT    NOT NULL,
    mode         TEXT    NOT NULL,
    cwd          TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    detail       TEXT    NOT NULL,
    task         TEXT,
    last_sign_at INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    started_at   INTEGER,
    ended_at     INTEGER,
    step         INTEGER NOT NULL,
    input        INTEGER NOT NULL,
    output       INTEGER NOT NULL,
    cached       INTEGER NOT NULL,
    estimated    INTEGER NOT NULL,
    requests     INTEGER NOT NULL,
    last_n       INTEGER NOT NULL,
    turn_open    INTEGER NOT NULL,
    asking       INTEGER
) STRICT;
CREATE INDEX session_root ON session (root);
CREATE INDEX session_parent ON session (parent);

-- Tool calls that have no result yet.
CREATE TABLE call (
    session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    call    TEXT NOT NULL,
    PRIMARY KEY (session, call)
) STRICT, WITHOUT ROWID;

-- `seq` is that of its TaskStarted, `settled` the n of its TaskSettled in the owner's log.
CREATE TABLE task (
    seq        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    kind       TEXT    NOT NULL,
    label      TEXT    NOT NULL,
    owner      TEXT    NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    child      TEXT,
    status     TEXT    NOT NULL,
    detail     TEXT,
    killed_by  TEXT,
    started_at INTEGER NOT NULL,
    settled_at INTEGER,
    settled    INTEGER
) STRICT;
CREATE INDEX task_owner ON task (owner);
CREATE INDEX task_child ON task (child) WHERE child IS NOT NULL;

-- `state` is owed, told or learned.
CREATE TABLE notice (
    task    TEXT    PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE,
    owner   TEXT    NOT NULL,
    settled INTEGER NOT NULL,
    state   TEXT    NOT NULL
) STRICT;
CREATE INDEX notice_owed ON notice (owner, settled) WHERE state = 'owed';

-- The reply that streams, as it was checkpointed last.
CREATE TABLE partial (
    session TEXT    PRIMARY KEY,
    step    INTEGER NOT NULL,
    blocks  TEXT    NOT NULL
) STRICT;

-- The last number given to a task of each kind.
CREATE TABLE counter (
    kind TEXT    PRIMARY KEY,
    n    INTEGER NOT NULL
) STRICT;

CREATE TABLE command (
    key    TEXT PRIMARY KEY,
    answer TEXT NOT NULL
) STRICT;

-- Processes that were started and not yet seen gone.
CREATE TABLE process (
    marker  TEXT    NOT NULL,
    label   TEXT    NOT NULL,
    pid     INTEGER NOT NULL,
    started INTEGER NOT NULL,
    boot    TEXT    NOT NULL,
    UNIQUE (pid, started, boot)
) STRICT;
CREATE INDEX process_marker ON process (marker);
