"""The tests of the documentation: run the code of each page on a real database, and compare its output with the page.

pages.py      reads a page: its blocks of code, their expected output, and the blocks that do not run, with the reason
session.py    runs the blocks of one page in page order, with one folder, one database and one Python namespace
commands.py   runs a command as at a terminal
reference.py  writes the generated parts of docs/reference/; `python -m tests.docs.reference` renews them
"""
