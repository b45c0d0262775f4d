"""The system catalogs' description of our schema, in a form in which two databases can be compared."""

from typing import Any

import psycopg
from sqlalchemy import Connection

from orchestrator.schema import tables

COLUMNS = """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
        pg_get_expr(d.adbin, d.adrelid)
    FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname = ANY (%s)
    ORDER BY c.relname, a.attnum
"""
# NOT NULL is a column's, though PostgreSQL 18 keeps a constraint for it.
CONSTRAINTS = """
    SELECT c.relname, n.conname, pg_get_constraintdef(n.oid)
    FROM pg_constraint AS n
    JOIN pg_class AS c ON c.oid = n.conrelid
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND n.contype <> 'n' AND c.relname = ANY (%s)
    ORDER BY 1, 2
"""
INDEXES = """
    SELECT i.tablename, i.indexdef
    FROM pg_indexes AS i
    WHERE i.schemaname = 'orchestrator' AND i.tablename = ANY (%s)
    ORDER BY 1, 2
"""
SEQUENCES = """
    SELECT s.sequencename, s.data_type::text, s.increment_by, s.start_value, s.max_value
    FROM pg_sequences AS s
    WHERE s.schemaname = 'orchestrator' AND NOT s.sequencename LIKE '%%\\_id\\_seq' OR s.sequencename = 'tasks_id_seq'
    ORDER BY 1
"""
FUNCTIONS = """
    SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proacl::text
    FROM pg_proc AS p
    WHERE p.pronamespace = 'orchestrator'::regnamespace
    ORDER BY 1
"""
VIEWS = """
    SELECT c.relname, pg_get_viewdef(c.oid), c.reloptions, c.relacl::text
    FROM pg_class AS c
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND c.relkind = 'v'
    ORDER BY 1
"""
# Of the leaves' copies only that they are there: each row trigger of the root has one on every leaf.
TRIGGERS = """
    SELECT t.tgrelid::regclass::text, t.tgname, pg_get_triggerdef(t.oid), t.tgenabled
    FROM pg_trigger AS t
    JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'orchestrator'::regnamespace AND NOT t.tgisinternal
    ORDER BY 1, 2
"""
GRANTS = """
    SELECT c.relname, c.relacl::text, a.attname, a.attacl::text
    FROM pg_class AS c
    LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attacl IS NOT NULL
    WHERE c.relnamespace = 'orchestrator'::regnamespace
    UNION ALL
    SELECT p.oid::regprocedure::text, p.proacl::text, NULL, NULL
    FROM pg_proc AS p
    WHERE p.pronamespace = 'orchestrator'::regnamespace
    UNION ALL
    SELECT n.nspname, n.nspacl::text, NULL, NULL
    FROM pg_namespace AS n
    WHERE n.nspname = 'orchestrator'
    ORDER BY 1, 3
"""
KINDS = {"functions": FUNCTIONS, "views": VIEWS, "triggers": TRIGGERS}


def catalog(connection: psycopg.Connection | Connection, query: str) -> list[tuple[Any, ...]]:
    """Ask the catalogs about our tables."""
    names = [table.name for table in tables.metadata.sorted_tables]
    if isinstance(connection, psycopg.Connection):
        return connection.execute(query.encode(), [names] if "ANY (%s)" in query else []).fetchall()
    params = ((names,),) if "ANY (%s)" in query else ()
    return [tuple(row) for row in connection.exec_driver_sql(query, *params)]


def everything(connection: psycopg.Connection) -> list[object]:
    """Return what the catalogs say about the whole schema, grants included."""
    return [catalog(connection, query) for query in (COLUMNS, CONSTRAINTS, INDEXES, GRANTS, *KINDS.values())]
