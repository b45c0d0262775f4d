"""The rules of this code base. Each rule is a function over a path, and has a test with a deliberate fault."""
