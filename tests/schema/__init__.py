"""What the database does by itself, asked in plain SQL: no Python of ours takes part, except the migrations."""
