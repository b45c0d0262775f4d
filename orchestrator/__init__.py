"""Background jobs on the PostgreSQL that an application already has."""

__version__ = "0.1.0"
