"""What a person or a program may do with tasks that exist: find, look at, wait for, requeue, cancel and delete them, or
change their priority, one or a million; see what goes wrong; and let them run in a copied database.

One function an act, over the SQL objects that psql would call; only `search` composes statements, from the filters
that a person gave. Reads and acts in transactions of its own, so a task that its producer has not committed yet is not
there. `doctor` is a room of its own, and is asked for by its name: it knows Alembic, and no application that only
enqueues should load that.
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
