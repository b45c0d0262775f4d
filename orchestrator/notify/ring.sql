-- Wake the sleepers of these queues, from a transaction that writes nothing and so makes nobody wait.
SELECT orchestrator.ring(%(queues)s::text[])
