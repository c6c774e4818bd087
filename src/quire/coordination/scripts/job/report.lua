-- Records a page's result from an external dispatcher, which holds no claim. First result wins; it ends the page's unit
-- whether that is queued, delayed or claimed.
-- ARGV  page number, outcome (d done, f failed), packed record, now ms, tokens in, tokens out,
--       epoch it was meant for (0 = the current one)
-- Answers {1, epoch, unit …}: it counts, and these are to be queued | {0, epoch}: too late, only counted
--       | {-1, 0}: there is no such job, or its pages are not known yet
local number, outcome, now = ARGV[1], ARGV[2], tonumber(ARGV[4])
local f = redis.call('HMGET', JOB, 'status', 'epoch', 'split.status')
if not f[1] then return {-1, 0} end
local epoch, meant = tonumber(f[2]), tonumber(ARGV[7])
local old = redis.call('HGET', PAGES, number)
if terminal(f[1]) or (meant ~= 0 and meant ~= epoch) or (old and terminal(cjson.decode(old).st)) then
  count_late(1)
  return {0, epoch}
end
if f[3] ~= 'completed' then return {-1, 0} end
if f[1] == 'queued' then
  -- A retry whose pages only the external dispatcher reads: no worker will claim one.
  redis.call('HSET', JOB, 'status', 'processing')
  redis.call('HSETNX', JOB, 'started_at', now)
  set_deadline()
end
redis.call('HSET', PAGES, number, ARGV[3])
redis.call('ZREM', SLOW, number)
if redis.call('HDEL', WORK, 'p' .. number) == 1 then redis.call('HINCRBY', JOB, 'slow_out', -1) end
redis.call('HINCRBY', JOB, outcome == 'd' and 'done' or 'failed', 1)
if tonumber(ARGV[5]) > 0 then redis.call('HINCRBY', JOB, 'tokens_in', ARGV[5]) end
if tonumber(ARGV[6]) > 0 then redis.call('HINCRBY', JOB, 'tokens_out', ARGV[6]) end
local units = {}
refill(units, epoch, now)
local ttl = redis.call('PTTL', JOB)
redis.call('PEXPIRE', PAGES, ttl)
redis.call('PEXPIRE', WORK, ttl)
local packed = cjson.decode(ARGV[3])
local g = redis.call('HMGET', JOB, 'done', 'failed', 'total')
emit('pages', {pages = {{number = tonumber(number), status = packed.st, source = packed.src}},
  progress = progress(), pages_completed = tonumber(g[1]), pages_failed = tonumber(g[2]),
  total_pages = tonumber(g[3]), at = now / 1000})
return {1, epoch, unpack(units)}
