"""`python -m orchestrator` is the command `orchestrator`."""

from orchestrator_command import main

main()
