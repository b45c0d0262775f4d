"""What operators and programs do with existing tasks: find, look at, wait for, requeue, cancel and delete them, or
change their priority, one task or a million; see what fails; and let tasks run in a copied database.

One function for each act, over the SQL objects that psql would call. Only `search` composes statements, from the
filters that the caller gives. Each act has a transaction of its own, so it does not see a task whose producer has not
committed yet. `doctor` is a package of its own, imported by its name: it imports Alembic, and an application that only
enqueues should not load that.
"""

from orchestrator.operate.detail import Attempt, Detail, Moment, Task, detail
from orchestrator.operate.explain import Explanation, explain
from orchestrator.operate.failures import Group
from orchestrator.operate.filters import Search
from orchestrator.operate.find import Found, Number, Page
from orchestrator.operate.restore import Copy, Resumed, copied, resume_after_restore
from orchestrator.operate.search import Action
from orchestrator.operate.single import act
from orchestrator.operate.state import TaskState, acancel, acurrent, cancel, current

__all__ = [
    "Action",
    "Attempt",
    "Copy",
    "Detail",
    "Explanation",
    "Found",
    "Group",
    "Moment",
    "Number",
    "Page",
    "Resumed",
    "Search",
    "Task",
    "TaskState",
    "acancel",
    "act",
    "acurrent",
    "cancel",
    "copied",
    "current",
    "detail",
    "explain",
    "resume_after_restore",
]
