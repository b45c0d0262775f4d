"""The processes that workers run in: the worker's own, and the parent that keeps several.

loop                 the event loop of a worker that has the process to itself
watchdog             ends a process that can no longer stop by itself
exit_codes           how a worker process ends, for its supervisor
parent               `orchestrator worker --processes N`: keeps N worker processes, and runs no task
worker_process       the parent's side of one of them
parent_connection    that process's side: reports that it serves, sends its metrics, hears when to stop
metrics_sender       sends them
"""
