"""The commands that start a server: `demo`, `dev`, `sql`, as real processes, at a real terminal."""
