"""The commands that bring a server along: `demo`, `dev`, `sql`, as real processes, at a real terminal."""
