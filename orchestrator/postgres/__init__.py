"""How we talk to PostgreSQL: connections, the errors worth retrying, statements kept in files, LISTEN.

Nothing outside this room opens a connection. It knows no task and no table; what a statement means is the
business of the station beside which it lies.
"""
