-- The merge found that texts of pages are gone: those pages are read again, one by one, and the merge starts after them.
-- ARGV  epoch, token of the merge's claim, now ms, page number …
-- Answers {1, unit …}: the units to queue; {0} if this came late; {-1} if this run has read pages again too often.
local MOST_REREADS = 3
local epoch, now = tonumber(ARGV[1]), tonumber(ARGV[3])
local entry = wanted('merge', epoch)
if redis.call('HGET', JOB, 'status') ~= 'processing' or not entry or entry.tk ~= ARGV[2] then return {0} end
if redis.call('HINCRBY', JOB, 'rereads', 1) > MOST_REREADS then return {-1} end
local counted = {completed = 'done', failed = 'failed'}
for i = 4, #ARGV do
  local old = redis.call('HGET', PAGES, ARGV[i])
  local packed = old and cjson.decode(old) or {}
  if counted[packed.st] then redis.call('HINCRBY', JOB, counted[packed.st], -1) end
  redis.call('HSET', PAGES, ARGV[i], cjson.encode({st = 'queued', cls = packed.cls, at = packed.at}))
  redis.call('ZADD', SLOW, ARGV[i], ARGV[i])
end
redis.call('HDEL', WORK, 'merge')
redis.call('HDEL', JOB, 'merge.status', 'merge.created_at', 'merge.started_at')
-- The document has as much time again as it had: the pages were read in time before.
local f = redis.call('HMGET', JOB, 'deadline_at', 'started_at')
if f[1] and f[2] then redis.call('HSET', JOB, 'deadline_at', now + tonumber(f[1]) - tonumber(f[2])) end
local units, ttl = {}, redis.call('PTTL', JOB)
refill(units, epoch, now)
for _, key in ipairs({PAGES, WORK, SLOW}) do redis.call('PEXPIRE', key, ttl) end
emit_status(now)
return {1, unpack(units)}
