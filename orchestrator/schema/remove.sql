-- Remove what migrating made besides the revisions' own objects: the version table, the schema, and the roles. A NOTICE
-- names what is kept and why: a schema that another role made or that holds other objects, and a role used elsewhere.
-- Runs after the downgrade to `base`, in its transaction.
DROP TABLE orchestrator.alembic_version;

DO $$
DECLARE
    role_name text;
    members text;
BEGIN
    IF has_database_privilege(current_database(), 'CREATE') THEN
        BEGIN
            DROP SCHEMA orchestrator;
        EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
            RAISE NOTICE 'the schema orchestrator is kept: %', SQLERRM;
        END;
    ELSE
        RAISE NOTICE 'the schema orchestrator is kept: % could not make it again', current_user;
    END IF;

    FOREACH role_name IN ARRAY ARRAY[
        'orchestrator_producer', 'orchestrator_worker', 'orchestrator_operator', 'orchestrator_reader'
    ] LOOP
        CONTINUE WHEN to_regrole(role_name) IS NULL;
        -- From PostgreSQL 16 on, a role that is not a superuser becomes a member of each role that it creates.
        SELECT string_agg(m.member::regrole::text, ', ' ORDER BY m.member::regrole::text) INTO members
        FROM pg_auth_members AS m
        WHERE m.roleid = to_regrole(role_name) AND m.member <> current_user::regrole;
        IF members IS NOT NULL THEN
            RAISE NOTICE 'the role % is kept: % may act as it', role_name, members;
            CONTINUE;
        END IF;
        BEGIN
            EXECUTE format('DROP ROLE %I', role_name);
        EXCEPTION WHEN dependent_objects_still_exist OR object_in_use OR insufficient_privilege THEN
            RAISE NOTICE 'the role % is kept: %', role_name, SQLERRM;
        END;
    END LOOP;
END
$$;
