"""The database's schema: the tables for Python, the functions, views and triggers as files, and the migrations.

`functions/`, `views/` and `triggers/` hold one object per file, in its current form; `roles.sql` holds the grants. Read
and change these files. A migration has a frozen copy of them, and a test compares both.
"""
