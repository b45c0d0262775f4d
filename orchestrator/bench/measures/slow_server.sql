-- Make commits slow in the scratch database, for the sessions to come. In: its name, in place of {}.
-- commit_siblings: else the delay counts only while five other transactions are open.
-- name: fsync
SELECT current_setting('fsync')
-- name: delay
ALTER DATABASE {} SET commit_delay = 2000
-- name: siblings
ALTER DATABASE {} SET commit_siblings = 0
-- name: reset
ALTER DATABASE {} RESET ALL
