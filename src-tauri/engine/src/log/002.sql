-- Finds what was accepted and not yet read, in stores of any length.

CREATE INDEX event_accepted ON event (session, n) WHERE kind = 'message_accepted';
