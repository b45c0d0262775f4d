"""What a worker provides for its handlers, through their contexts: transactions that complete their tasks, progress, a
logger. Their connections are not the worker's own, and open at the first use.
"""
