"""What a person may do with the whole, seen from outside: looks, and acts."""
