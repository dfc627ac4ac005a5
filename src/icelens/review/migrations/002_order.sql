-- The order that the verdicts lead to: of the first places of the list, `ranks` (int32) says where each now
-- stands and `trust` (float64) how far its label is trusted. One row, so that it costs one small write.
CREATE TABLE orders (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    ranks BLOB NOT NULL,
    trust BLOB NOT NULL
);
