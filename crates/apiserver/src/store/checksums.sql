ALTER TABLE log ADD COLUMN checksum INTEGER;
CREATE TABLE quarantine (
    id       INTEGER PRIMARY KEY,
    found_at INTEGER NOT NULL,
    subject  TEXT NOT NULL,
    detail   TEXT NOT NULL,
    content  BLOB
);
INSERT OR REPLACE INTO meta (key, value) VALUES ('layout', 2);
