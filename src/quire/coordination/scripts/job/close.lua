-- The external dispatcher sends no more results: pages that wait for one get their local text now, pages that are not
-- read yet get it when they are read. Idempotent.
-- ARGV  now ms
-- Answers {pages that were ended, epoch, unit …} | {-1, 0}: there is no such job, or its pages are not known yet
local now = tonumber(ARGV[1])
local f = redis.call('HMGET', JOB, 'status', 'epoch', 'split.status')
if not f[1] then return {-1, 0} end
local epoch = tonumber(f[2])
if terminal(f[1]) then return {0, epoch} end
if f[3] ~= 'completed' then return {-1, 0} end
if f[1] == 'queued' then
  redis.call('HSET', JOB, 'status', 'processing')
  redis.call('HSETNX', JOB, 'started_at', now)
end
redis.call('HSET', JOB, 'closed', epoch)
local done, failed, seen = 0, 0, {}
local all = redis.call('HGETALL', PAGES)
for i = 1, #all, 2 do
  local packed = cjson.decode(all[i + 1])
  if not terminal(packed.st) and packed.ref then
    local record, outcome = given_up(packed, now)
    redis.call('HSET', PAGES, all[i], record)
    redis.call('ZREM', SLOW, all[i])
    if redis.call('HDEL', WORK, 'p' .. all[i]) == 1 then redis.call('HINCRBY', JOB, 'slow_out', -1) end
    if outcome == 'd' then done = done + 1 else failed = failed + 1 end
    seen[#seen + 1] = {number = tonumber(all[i]), status = packed.st, source = packed.src}
  end
end
redis.call('HINCRBY', JOB, 'done', done)
redis.call('HINCRBY', JOB, 'failed', failed)
local units = {}
refill(units, epoch, now)
redis.call('PEXPIRE', WORK, redis.call('PTTL', JOB))
if #seen > 0 then
  local g = redis.call('HMGET', JOB, 'done', 'failed', 'total')
  emit('pages', {pages = seen, progress = progress(), pages_completed = tonumber(g[1]),
    pages_failed = tonumber(g[2]), total_pages = tonumber(g[3]), at = now / 1000})
end
return {done + failed, epoch, unpack(units)}
