-- Make commits slow in the scratch database, for later sessions. In: its name, in place of {}.
-- commit_siblings: by default the delay applies only while five other transactions are open.
-- name: fsync
SELECT current_setting('fsync')
-- name: delay
ALTER DATABASE {} SET commit_delay = 2000
-- name: siblings
ALTER DATABASE {} SET commit_siblings = 0
-- name: reset
ALTER DATABASE {} RESET ALL
