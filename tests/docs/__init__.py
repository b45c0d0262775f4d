"""The documents, run: the blocks of a page run in page order on a real database, and their output is compared.

pages.py      reads a page: its blocks of code, their expected output, which of them do not run and why
session.py    runs the blocks of one page, which share a folder, a database and a Python namespace
terminal.py   runs a command as at a terminal
reference.py  writes the generated parts of docs/reference/; `python -m tests.docs.reference` renews them
"""
