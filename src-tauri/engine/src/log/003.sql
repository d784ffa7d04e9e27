-- Whether the session was put out of the way, with all below it.

ALTER TABLE session ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
