-- Starts a new epoch of a job that has ended. Results of the old epoch no longer count.
-- ARGV  what ('all' from the start | 'pages' | 'merge'), now ms, ttl ms, idempotency key ('' if none),
--       first unit for 'all' (download or split), epoch the caller has seen, then for 'pages': number …
--       The page records must be back in Redis before this is called for 'pages' and 'merge', and for 'pages'
--       every page without a result must be named: no chunks are issued again.
-- Answers {1, epoch, unit …} | {0, status}: still running, or run again since it was seen
--       | {2, epoch}: this key has already been used | {-1}
local what, now, ttl, key, first = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local f = redis.call('HMGET', JOB, 'status', 'epoch', 'retry_key', 'total', 'started_at')
if not f[1] then return {-1} end
if key ~= '' and f[3] == key then return {2, tonumber(f[2])} end
if not terminal(f[1]) or f[2] ~= ARGV[6] then return {0, f[1]} end
local epoch = tonumber(f[2]) + 1
redis.call('DEL', WORK, SLOW)
redis.call('HSET', JOB, 'epoch', epoch, 'status', 'queued', 'error', '', 'retry_key', key, 'timed_out', '0',
  'queued_at', now)
redis.call('HDEL', JOB, 'completed_at', 'started_at', 'deadline_at', 'rereads', 'merge.status', 'merge.started_at',
  'merge.completed_at', 'merge.error')
local units = {}
if what == 'all' then
  redis.call('DEL', PAGES)
  redis.call('HDEL', JOB, 'result', 'split.status', 'split.started_at', 'split.completed_at', 'split.error', 'total',
    'next', 'out', 'slow_out', 'slow_total', 'done', 'failed')
  redis.call('HSET', JOB, first .. '.status', 'queued', first .. '.created_at', now)
  redis.call('HDEL', JOB, first .. '.started_at', first .. '.completed_at', first .. '.error')
  add_unit(units, first, epoch, now)
else
  local done, failed, redo = 0, 0, {}
  for i = 7, #ARGV do
    redo[ARGV[i]] = true
    local old = redis.call('HGET', PAGES, ARGV[i])
    local packed = old and cjson.decode(old) or {}
    redis.call('HSET', PAGES, ARGV[i], cjson.encode({st = 'queued', cls = packed.cls, at = packed.at}))
    redis.call('ZADD', SLOW, ARGV[i], ARGV[i])
  end
  local all = redis.call('HGETALL', PAGES)
  for i = 1, #all, 2 do
    local st = cjson.decode(all[i + 1]).st
    if st == 'completed' then done = done + 1
    elseif st == 'failed' then failed = failed + 1
    elseif not redo[all[i]] then redis.call('ZADD', SLOW, all[i], all[i]) end
  end
  redis.call('HSET', JOB, 'next', f[4] or 0, 'done', done, 'failed', failed, 'out', 0, 'slow_out', 0, 'slow_total',
    redis.call('ZCARD', SLOW), 'split.status', 'completed')
  refill(units, epoch, now)
end
emit_status(now)
for _, k in ipairs(KEYS) do redis.call('PEXPIRE', k, ttl) end
return {1, epoch, unpack(units)}
