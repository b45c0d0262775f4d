"""The access to PostgreSQL: connections, the list of transient errors, statements loaded from files.

Only this package opens connections. It knows no task and no table. The package that holds a statement's file knows
what the statement means.
"""
