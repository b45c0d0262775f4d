"""The documents, run: what a page prints is done in page order on a real database, and what comes out is compared.

pages.py      reads a page: its blocks of code, what is said to come out of them, which are not run and why
session.py    runs the blocks of one page, which share a folder, a database and a Python namespace
terminal.py   runs a command as at a terminal
reference.py  writes the generated parts of docs/reference/; `python -m tests.docs.reference` renews them
"""
