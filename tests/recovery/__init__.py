"""What happens when workers, leaders, connections and servers fail, seen on real processes.

test_*.py              with short settings, as part of `make test`: the outcome and its cause on record
python -m tests.recovery, `make recovery`
                       with the default settings: how long it takes, against the bars; also the five scenarios by
                       which queues are compared, under 500 tasks a second (--only scenarios --rounds 5)
"""
