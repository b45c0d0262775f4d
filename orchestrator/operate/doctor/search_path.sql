-- The schemas of the search_path that may hold functions which replace PostgreSQL's own: another role may create
-- objects in them, and that role is not a superuser and does not own the database or our schema.
-- All names are qualified, because the path under examination may be unsafe.
-- Out: one row: the process that serves this session, the names of these schemas, and the statement that helps.
SELECT
    pg_catalog.pg_backend_pid(),
    ARRAY(
        SELECT n.nspname
        FROM pg_catalog.pg_namespace AS n
        WHERE n.nspname OPERATOR(pg_catalog.=) ANY (pg_catalog.current_schemas(false))
            AND EXISTS (
                SELECT
                FROM pg_catalog.aclexplode(n.nspacl) AS a
                LEFT JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) a.grantee
                WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
                    AND coalesce(r.rolname OPERATOR(pg_catalog.<>) ALL (ARRAY[current_user, 'pg_database_owner']), true)
                    AND NOT coalesce(r.rolsuper, false)
                    AND NOT EXISTS (
                        SELECT
                        FROM pg_catalog.pg_namespace AS o
                        WHERE o.nspname OPERATOR(pg_catalog.=) 'orchestrator' AND o.nspowner OPERATOR(pg_catalog.=) a.grantee
                    )
            )
        ORDER BY n.nspname
    )::pg_catalog.text[],
    pg_catalog.format('ALTER ROLE %%I SET search_path = pg_catalog, pg_temp;', current_user)
