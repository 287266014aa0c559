-- One row for each thing that is looked at. `flaw` is the kind of the error at the start, `Note` if it works and could be improved, and NULL if
-- nothing is wrong. Without a table the rows end with it. What stands in braces is put in by `check.rs`.
SELECT quote_ident(s.nspname) || '.' || quote_ident(c.relname) AS qualified, name, CASE WHEN is_wrong THEN flaw END AS flaw, CASE WHEN is_wrong THEN wrong ELSE good END AS detail
FROM (SELECT to_regclass('{TABLE}')) AS n (oid)
LEFT JOIN pg_class c ON c.oid = n.oid
LEFT JOIN pg_namespace s ON s.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT quote_ident(current_user) AS role,
        (SELECT string_agg(format('`%s` of the type %s', w.name, w.type), ', ') FROM (VALUES {COLUMNS}) w (name, type)
            WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = w.name
                AND format_type(a.atttypid, NULL) = w.type AND a.attnum > 0 AND NOT a.attisdropped)) AS missing,
        -- No insert gives them a value.
        (SELECT string_agg(format('`%s`', a.attname), ', ') FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
            AND NOT a.attisdropped AND a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
            AND NOT EXISTS (SELECT FROM (VALUES {COLUMNS}) w (name, type) WHERE w.name = a.attname)) AS added,
        (SELECT string_agg(p, ', ') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p WHERE NOT has_table_privilege(c.oid, p)) AS denied,
        -- Compared byte by byte.
        EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
            JOIN pg_collation l ON l.oid = a.attcollation AND l.collname = 'C'
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = 'id') AS is_keyed,
        EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
            WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND a.attname = 'expiration') AS is_indexed,
        coalesce((SELECT option_value::int4 FROM pg_options_to_table(c.reloptions) WHERE option_name = 'fillfactor'), 100) AS fill
) f
CROSS JOIN LATERAL (VALUES
    (1, 'server', 'Rejected', current_setting('server_version_num')::int4 < 140000, 'PostgreSQL ' || current_setting('server_version'),
        'the server is older than PostgreSQL 14: use a later one'),
    (2, 'encoding', 'WrongSchema', current_setting('server_encoding') <> 'UTF8', 'UTF8',
        format('the database has the encoding %s, which lacks letters: create one with UTF8', current_setting('server_encoding'))),
    (3, 'writes', 'AccessDenied', pg_is_in_recovery() OR current_setting('transaction_read_only')::bool, 'the server takes them', '{READ_ONLY}'),
    (4, 'commits', 'Rejected', current_setting('synchronous_commit') = 'off', 'safe before they are confirmed',
        format('`synchronous_commit` is off, so a crash can forget a claim: ALTER ROLE %s SET synchronous_commit = on', role)),
    (5, 'table', 'TableMissing', c.oid IS NULL, 'there is one',
        'there is no table `{NAME}` in the search path, or USAGE on its schema is missing: apply the migration of `idempotency-postgres` (`idempotency table create`), or set IDEMPOTENCY_POSTGRES_TABLE'),
    (6, 'storage', 'WrongSchema', c.relkind NOT IN ('r', 'p') OR c.relpersistence <> 'p', 'a plain table',
        'it is a view, or unlogged or temporary, so a crash can empty it: create a plain table'),
    (7, 'columns', 'WrongSchema', missing IS NOT NULL OR added IS NOT NULL, 'those of this version', CASE WHEN missing IS NULL
        THEN format('%s must not be NULL, and no claim sets it: give it a default, or drop it', added)
        ELSE format('there is no column %s: {OTHER_VERSION}', missing) END),
    (8, 'key', 'WrongSchema', NOT is_keyed, '`id`, compared byte by byte',
        '`id` is not its primary key with COLLATE "C", or that is DEFERRABLE: {OTHER_VERSION}'),
    (9, 'rows', 'WrongSchema', row_security_active(c.oid), 'no policy hides them',
        format('row level security hides records from the role `%s`: switch it off for this table', role)),
    (10, 'permissions', 'AccessDenied', denied IS NOT NULL, format('the role `%s` may read and write', role),
        format('GRANT %s ON %s TO %s', denied, n.oid, role)),
    (11, 'index', 'Note', NOT is_indexed, 'on `expiration`',
        'none on `expiration`, so the deletion of expired rows reads the whole table: CREATE INDEX ON ' || n.oid || ' (expiration)'),
    (12, 'fillfactor', 'Note', fill > 80 AND c.relkind = 'r', fill::text,
        format('%s, so an update can need another page: ALTER TABLE %s SET (fillfactor = 80)', fill, n.oid))
) AS v (number, name, flaw, is_wrong, good, wrong)
WHERE c.oid IS NOT NULL OR number <= 5
ORDER BY number
