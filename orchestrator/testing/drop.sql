-- Drop a test's database, even if sessions are connected. In: its name.
DROP DATABASE IF EXISTS {} WITH (FORCE)
