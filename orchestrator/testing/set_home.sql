-- A copy is not at home, and nothing would run in it: this one is no copy but a place of its own.
SELECT orchestrator.set_home()
