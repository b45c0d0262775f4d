"""The effects when workers, leaders, connections and servers fail, on real processes.

test_*.py              with short settings, as part of `make test`: the outcome and its recorded cause
python -m tests.recovery, `make recovery`
                       with the default settings: the times, compared with the limits; also the five scenarios for the
                       comparison of queues, under 500 tasks/s (--only scenarios --rounds 5)
"""
