-- Wake the sleeping workers of these queues, in a transaction that writes nothing and so makes no commit wait.
SELECT orchestrator.ring(%(queues)s::text[])
