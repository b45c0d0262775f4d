"""The database's own behaviour, tested in plain SQL: no Python of ours takes part, except the migrations."""
