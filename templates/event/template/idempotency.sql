-- The records of `idempotency-postgres`, one row for each key. Put this file beside your migrations, or apply it with `psql -f`.
-- Another name of the table: change it here, and set IDEMPOTENCY_POSTGRES_TABLE.
CREATE TABLE idempotency (
    -- Compared byte by byte, so that a listing of one operation reads one range of the key.
    id text COLLATE "C" PRIMARY KEY,
    -- When the record expires, in seconds since the epoch.
    expiration bigint,
    -- When the lease of the claim ends, in milliseconds since the epoch.
    in_progress_expiration bigint,
    status text COLLATE "C",
    -- The response, as its JSON text. `jsonb` would change its numbers.
    data text COLLATE "C",
    validation text COLLATE "C",
    owner text COLLATE "C",
    failure text COLLATE "C",
    operation text COLLATE "C",
    decision text COLLATE "C",
    event text COLLATE "C",
    -- A name and a result, a name and a result, ..: the last result of a name counts.
    steps text[],
    undo text COLLATE "C"
)
-- A key is written at least twice: the room keeps both versions in one page. Vacuum comes early, because each run leaves a dead row.
WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- For the deletion of expired rows.
CREATE INDEX ON idempotency (expiration);

-- The role of the function needs no more than this:
-- GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency TO app;
