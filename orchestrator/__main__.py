"""`python -m orchestrator` is the command `orchestrator`."""

from orchestrator.cli import main

main()
