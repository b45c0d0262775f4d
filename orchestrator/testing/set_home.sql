-- Mark a copied database as at home. Otherwise it would count as a copy, and no task would run in it.
SELECT orchestrator.set_home()
