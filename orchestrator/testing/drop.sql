-- The end of a test's database, whoever is connected still. In: its name.
DROP DATABASE IF EXISTS {} WITH (FORCE)
