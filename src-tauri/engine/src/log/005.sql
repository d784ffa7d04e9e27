-- Finds what the model is still to be told, and the changes of files, in stores of any length.

CREATE INDEX event_noted ON event (session, n) WHERE kind = 'noted';
CREATE INDEX event_file_changing ON event (session, n) WHERE kind = 'file_changing';
CREATE INDEX event_undone ON event (session, n) WHERE kind = 'undone';
