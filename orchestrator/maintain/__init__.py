"""The duties that keep the house: one `.py` and one `.sql` each. Bounded per round; no handler code.

Each repeats its predicate in its write, by the database's clock, so that a duty done twice at once equals once.
"""

from orchestrator.maintain.partitions import partitions
from orchestrator.maintain.recover import Recovered, Recovery, recover

__all__ = ["Recovered", "Recovery", "partitions", "recover"]
