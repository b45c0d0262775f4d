-- Have each prepared statement planned anew when it is next run. PostgreSQL keeps a plan until somebody analyzes its
-- tables, and one made when they were empty may read a whole primary key where it should look up twenty rows.
-- Measured, twenty tasks a batch after a burst of 200,000: 650 tasks/s with plans kept, 18,200 with this once a
-- second, 12,500 with each statement planned each time (plan_cache_mode).
DISCARD PLANS
