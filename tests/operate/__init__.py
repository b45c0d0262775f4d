"""What a person may do with tasks: find them, act on them, see what goes wrong."""
