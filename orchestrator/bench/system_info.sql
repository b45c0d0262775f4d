-- The settings of the server that the figures depend on most. Out: name, value with its unit. Locks: none.
SELECT name, current_setting(name)
FROM pg_settings
WHERE name IN (
    'fsync', 'synchronous_commit', 'full_page_writes', 'wal_level', 'wal_compression', 'wal_sync_method', 'commit_delay',
    'shared_buffers', 'max_wal_size', 'checkpoint_timeout', 'autovacuum', 'jit', 'max_connections',
    'default_toast_compression', 'io_method'
)
ORDER BY name
