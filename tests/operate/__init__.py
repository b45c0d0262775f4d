"""The functions for operators: queries and actions."""
