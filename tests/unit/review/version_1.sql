-- A store of reviews as the first format had it: three texts, two verdicts, of which one was taken back.
-- What was audited, and what people said of it.

PRAGMA application_id = 1768121708;  -- "icel"

CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE classes (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

-- A row for every combination of what lists are filtered by, with what stands of its examples. Progress is
-- told after every verdict and must not count a million rows. `doubt` is the sum of 1 - trust over those
-- without a verdict: how many errors are to be expected among them.
CREATE TABLE tallies (
    number INTEGER PRIMARY KEY,
    label INTEGER NOT NULL REFERENCES classes (code),
    guess INTEGER NOT NULL REFERENCES classes (code),
    kind TEXT NOT NULL,
    is_issue INTEGER NOT NULL CHECK (is_issue IN (0, 1)),
    examples INTEGER NOT NULL,
    keep INTEGER NOT NULL DEFAULT 0,
    relabel INTEGER NOT NULL DEFAULT 0,
    "drop" INTEGER NOT NULL DEFAULT 0,
    unsure INTEGER NOT NULL DEFAULT 0,
    doubt REAL NOT NULL
);

-- `place` is the position in the audit's order, the least trusted first: as the key of the table it makes
-- reading on from any place, with any index, a walk through neighbours.
CREATE TABLE examples (
    place INTEGER PRIMARY KEY,
    "index" INTEGER NOT NULL,
    id TEXT NOT NULL,
    label INTEGER NOT NULL REFERENCES classes (code),
    guess INTEGER NOT NULL REFERENCES classes (code),
    trust REAL NOT NULL,
    confidence REAL,
    p_label REAL,
    p_guess REAL,
    kind TEXT NOT NULL,
    is_issue INTEGER NOT NULL CHECK (is_issue IN (0, 1)),
    tally INTEGER NOT NULL REFERENCES tallies (number)
);
CREATE UNIQUE INDEX examples_index ON examples ("index");
CREATE INDEX examples_label ON examples (label);
CREATE INDEX examples_guess ON examples (guess);
CREATE INDEX examples_label_guess ON examples (label, guess);
CREATE INDEX examples_issue ON examples (is_issue) WHERE is_issue = 1;
CREATE INDEX examples_issue_label ON examples (label) WHERE is_issue = 1;
CREATE INDEX examples_issue_guess ON examples (guess) WHERE is_issue = 1;
CREATE INDEX examples_issue_label_guess ON examples (label, guess) WHERE is_issue = 1;
CREATE INDEX examples_kind ON examples (kind) WHERE is_issue = 1;
CREATE INDEX examples_kind_label ON examples (kind, label) WHERE is_issue = 1;
CREATE INDEX examples_kind_guess ON examples (kind, guess) WHERE is_issue = 1;
CREATE INDEX examples_kind_label_guess ON examples (kind, label, guess) WHERE is_issue = 1;

-- What is shown: texts and cells as JSON, images as a path below the root of the data or as the file itself.
CREATE TABLE contents (
    place INTEGER PRIMARY KEY REFERENCES examples (place),
    shown TEXT,
    path TEXT,
    image BLOB
);

CREATE TABLE evidence (
    place INTEGER PRIMARY KEY REFERENCES examples (place),
    top TEXT NOT NULL,
    near_label TEXT NOT NULL,
    near_guess TEXT NOT NULL
);

CREATE VIRTUAL TABLE search USING fts5 (
    words, facets, content = '', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
);

-- Rows are added and never changed; what counts is the newest of an example that none took back.
CREATE TABLE verdicts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    "index" INTEGER NOT NULL REFERENCES examples ("index"),
    verdict TEXT NOT NULL CHECK (verdict IN ('keep', 'relabel', 'drop', 'unsure', 'undo')),
    label TEXT CHECK ((label IS NOT NULL) = (verdict = 'relabel')),
    takes_back INTEGER UNIQUE REFERENCES verdicts (number)
        CHECK ((takes_back IS NOT NULL) = (verdict = 'undo')),
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE
);
CREATE INDEX verdicts_index ON verdicts ("index", number);
CREATE INDEX verdicts_who ON verdicts (who, number);
CREATE INDEX verdicts_label ON verdicts (label) WHERE label IS NOT NULL;

CREATE TRIGGER verdicts_are_not_changed BEFORE UPDATE ON verdicts
BEGIN
    SELECT RAISE (ABORT, 'verdicts are never changed');
END;

-- REPLACE removes rows without asking the trigger below.
CREATE TRIGGER verdicts_are_not_replaced BEFORE INSERT ON verdicts
WHEN EXISTS (SELECT 1 FROM verdicts WHERE number = NEW.number)
    OR EXISTS (SELECT 1 FROM verdicts WHERE key = NEW.key)
    OR EXISTS (SELECT 1 FROM verdicts WHERE takes_back = NEW.takes_back)
BEGIN
    SELECT RAISE (ABORT, 'verdicts are never changed');
END;

CREATE TRIGGER verdicts_are_not_removed BEFORE DELETE ON verdicts
BEGIN
    SELECT RAISE (ABORT, 'verdicts are never removed');
END;

-- The verdict that counts, of each example that has one: what the rows above come to.
CREATE TABLE standing (
    place INTEGER PRIMARY KEY REFERENCES examples (place),
    number INTEGER NOT NULL REFERENCES verdicts (number),
    verdict TEXT NOT NULL
);
CREATE INDEX standing_verdict ON standing (verdict);

INSERT INTO about VALUES
    ('name', 'pets'), ('kind', 'text'), ('examples', '3'), ('issues', '1'), ('columns', '[]'),
    ('fingerprint', 'abc');
INSERT INTO classes VALUES (0, 'cat'), (1, 'dog');
INSERT INTO tallies (number, label, guess, kind, is_issue, examples, relabel, doubt) VALUES
    (0, 0, 0, '', 0, 2, 0, 0.3), (1, 0, 1, 'mislabelled', 1, 1, 1, 0);
INSERT INTO examples VALUES
    (0, 1, 'b', 0, 1, 0.1, 0.1, 0.1, 0.9, 'mislabelled', 1, 1),
    (1, 0, 'a', 0, 0, 0.8, 0.9, 0.9, 0.9, '', 0, 0),
    (2, 2, 'c', 0, 0, 0.9, 0.9, 0.9, 0.9, '', 0, 0);
INSERT INTO contents (place, shown) VALUES (0, '["woof"]'), (1, '["meow"]'), (2, '["meow meow"]');
INSERT INTO evidence VALUES (0, '[[1, 0.9], [0, 0.1]]', '[0, 2]', '[]');
INSERT INTO search (rowid, words, facets) VALUES
    (0, 'b woof', 'l0 g1 kmislabelled issue'), (1, 'a meow', 'l0 g0'), (2, 'c meow meow', 'l0 g0');
INSERT INTO verdicts ("index", verdict, label, takes_back, who, at, key) VALUES
    (1, 'relabel', 'dog', NULL, 'ann', '2026-01-01T10:00:00.000Z', 'k1'),
    (0, 'drop', NULL, NULL, 'ann', '2026-01-01T10:00:01.000Z', 'k2'),
    (0, 'undo', NULL, 2, 'ann', '2026-01-01T10:00:02.000Z', 'k3');
INSERT INTO standing VALUES (0, 1, 'relabel');
PRAGMA user_version = 1;
