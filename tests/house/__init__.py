"""The rules of this code base, each a function over a path, tested with a planted fault."""
