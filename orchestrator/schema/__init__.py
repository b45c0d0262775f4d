"""What the database holds: the tables for Python, the functions, views and triggers as files, and the migrations.

`functions/`, `views/` and `triggers/` hold one object a file, as it is now; `roles.sql` holds the grants. They are
what is read and changed; a migration brings a frozen copy of them, and a test holds both equal.
"""
